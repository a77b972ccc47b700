"""Products of non-constant expressions: their factors, and expressions from factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.prim import IntImm, Mul, PrimExpr
from . import rewrite_make

if TYPE_CHECKING:
    from .context import Context


def product(an: Context, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return ``a * b`` of two non-literals, or ``b * a`` if that product was created first."""
    order = an.products.setdefault(frozenset((a, b)), (a, b))
    return rewrite_make.make(an, Mul, *order)


def factors_of(e: PrimExpr) -> tuple[int, list[PrimExpr]]:
    """Return a product as a constant and its other factors."""
    constant, stack = 1, [e]
    out: list[PrimExpr] = []
    while stack and len(out) < 16:
        n = stack.pop()
        if n.__class__ is Mul:
            stack += (n.b, n.a)
        elif n.__class__ is IntImm:
            constant *= n.value
        else:
            out.append(n)
    return constant, out + stack


def times(an: Context, constant: int, factors: list[PrimExpr], dtype: str) -> PrimExpr:
    """Return the product of a constant and factors."""
    got = None
    for f in factors:
        got = f if got is None else an.binary(Mul, got, f)
    if got is None:
        return an.literal(constant, dtype)
    return got if constant == 1 else an.binary(Mul, got, an.literal(constant, dtype))


__all__ = ["factors_of", "product", "times"]
