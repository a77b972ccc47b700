"""Strategies: the implementations of operators for a target."""

from ..implementation import OpImplementation, OpSpecialization, OpStrategy
from .generic import *
from .native import strategy_named as __getattr__
