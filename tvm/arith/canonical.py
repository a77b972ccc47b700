"""Canonical simplification."""

from __future__ import annotations

from ..ir.prim import PrimExpr
from .rewrite import rewrite_expr


def canonical_expr(an, e: PrimExpr) -> PrimExpr:
    return rewrite_expr(an, e)
