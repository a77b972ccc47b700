"""QNN: quantized operators on integers with a scale and a zero point."""

from . import op, transform
from .op.qnn import *
