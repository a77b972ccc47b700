"""Operators of quantized networks."""

from . import qnn
from .qnn import *
