"""Quantization of float models: ``quantize`` and what it follows."""

from .config import QConfig, current_qconfig, qconfig
from .prepare import prerequisite_optimize
from .quantize import Quantization, quantize

__all__ = ["QConfig", "Quantization", "current_qconfig", "prerequisite_optimize", "qconfig", "quantize"]
