"""Strategies: which implementation of an operator a target takes."""

from ..implementation import OpImplementation, OpSpecialization, OpStrategy
from .generic import wrap_topi_compute, wrap_topi_schedule
