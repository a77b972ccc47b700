"""Sorting on a GPU, at Apache TVM's module path."""

from __future__ import annotations

from ..faces import face
from ..gpu.named import operators

_OPERATORS = {name: function for name, function in operators("cuda").items() if name in ("sort", "argsort", "topk")}
globals().update(_OPERATORS)

__getattr__ = face("tvm.topi.cuda", _OPERATORS)

__all__ = sorted(_OPERATORS)
