"""``tvm.ir.expr``: the bases of expressions, under TVM's path."""

from __future__ import annotations

from .module import GlobalVar, RelayExpr
from .prim import BaseExpr, IntImm, PrimExpr, Range

__all__ = [
    "BaseExpr",
    "GlobalVar",
    "IntImm",
    "PrimExpr",
    "Range",
    "RelayExpr",
]
