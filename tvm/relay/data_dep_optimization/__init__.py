"""Optimizations that rewrite a graph together with its parameters."""

from ...not_built import name_of as _name_of
from . import bsr_dense, simplify_fc_transpose


def __getattr__(name: str):
    return _name_of(__name__, name)


__all__ = ["bsr_dense", "simplify_fc_transpose"]
