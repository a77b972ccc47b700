"""Strategies: which implementation of an operator a target takes."""

from ..implementation import OpImplementation, OpSpecialization, OpStrategy
from .generic import *
from .native import strategy_named as __getattr__
