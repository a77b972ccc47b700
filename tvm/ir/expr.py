"""``tvm.ir.expr``: alias module of Apache TVM for the base classes of expressions."""

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
