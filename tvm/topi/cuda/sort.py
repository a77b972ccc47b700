"""Sorting as a GPU does it, under the classic name of its module."""

from __future__ import annotations

from ..faces import face
from ..gpu.named import operators

_OPERATORS = {name: function for name, function in operators("cuda").items() if name in ("sort", "argsort", "topk")}
globals().update(_OPERATORS)

__getattr__ = face("tvm.topi.cuda", _OPERATORS)

__all__ = sorted(_OPERATORS)
