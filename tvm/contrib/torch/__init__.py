"""Integration of compiled models with PyTorch, which is imported at the first use."""

from ...not_built import name_of as _name_of
from .dynamo import tvm_classic
from .modules import as_torch, compile, optimize_torch

__all__ = ["as_torch", "compile", "optimize_torch", "tvm_classic"]


def __getattr__(name: str):
    return _name_of(__name__, name)
