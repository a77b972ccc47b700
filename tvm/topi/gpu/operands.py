"""Operands of products that are read where they lie: through the reshapes, transpositions and slices before a product.

Such operators give every element from one place of their input. What a product asks of the last of them is asked of the
input of the first, at places made simple for the rows, columns and terms there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...arith import Analyzer
from ...ir.prim import PrimExpr, ProducerLoad, Range, Var, const
from ...ir.subst import substitute
from ...te.tensor import ComputeOp
from ..tag import is_injective


def through(read: Callable[..., Any], batch: Sequence[int], size: int, terms: int) -> Callable[..., Any]:
    """``read(*batch, k, i)`` as a reading of what the operand is made of by moving alone."""
    extents = (*batch, terms, size)
    variables = [Var(f"v{n}", "int32") for n in range(len(extents))]
    asked = read(*variables)
    found = _source(asked)
    if found is asked:
        return read
    analyzer = Analyzer()
    for var, extent in zip(variables, extents):
        analyzer.bind(var, Range(min=const(0, "int32"), extent=const(extent, "int32")))
    value = found.producer(*[analyzer.simplify(i) for i in found.indices])

    def moved(*at: Any) -> PrimExpr:
        here = [const(x, "int32") if isinstance(x, int) else x for x in at]
        return substitute(value, dict(zip(variables, here)))

    return moved


def _source(value: Any) -> Any:
    """The element that a chain of operators which only move data gives."""
    while type(value) is ProducerLoad:
        op = value.producer.op
        if not isinstance(op, ComputeOp) or not is_injective(op.tag or "") or (op.tag or "").endswith(",step"):
            break
        if len(op.body) != 1 or type(op.body[0]) is not ProducerLoad:
            break
        value = substitute(op.body[0], {a.var: i for a, i in zip(op.axis, value.indices)})
    return value


__all__ = ["through"]
