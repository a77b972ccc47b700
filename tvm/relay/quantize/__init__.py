"""Quantization of float models: ``quantize`` and its configuration."""

from ...not_built import name_of as _name_of
from .config import QConfig, current_qconfig, qconfig
from .prepare import prerequisite_optimize
from .quantize import Quantization, quantize
from .weights import WeightQuantization, quantize_weights

__all__ = ["QConfig", "Quantization", "WeightQuantization", "current_qconfig", "prerequisite_optimize", "qconfig",
           "quantize", "quantize_weights"]  # fmt: skip


def __getattr__(name: str):
    return _name_of(__name__, name)
