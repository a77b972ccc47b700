"""Fusion of reshapes, transposes and slices into the operands of matmuls.

Each output element of such a layout-changing op is one element of its input. A load from the last op of a chain becomes
a load from the input of the first op, with indices simplified for the extents of m, n and k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...arith import Analyzer
from ...ir.prim import PrimExpr, ProducerLoad, Range, Var, const, convert
from ...ir.subst import substitute
from ...te.tensor import ComputeOp
from ..tag import is_injective


def read_through(read: Callable[..., Any], batch: Sequence[Any], size: Any, reduction: Any) -> Callable[..., Any]:
    """Return ``read(*batch, k, i)`` as a load from the tensor before the layout-changing ops, for i below ``size`` and
    k below ``reduction``."""
    extents = (*batch, reduction, size)
    variables = [Var(f"v{n}", "int32") for n in range(len(extents))]
    load = read(*variables)
    source = _source(load)
    if source is load:
        return read
    analyzer = Analyzer()
    for var, extent in zip(variables, extents):
        analyzer.bind(var, Range(min=const(0, "int32"), extent=convert(extent)))
    value = source.producer(*[analyzer.simplify(i) for i in source.indices])

    def moved(*at: Any) -> PrimExpr:
        here = [const(x, "int32") if isinstance(x, int) else x for x in at]
        return substitute(value, dict(zip(variables, here)))

    return moved


def _source(value: Any) -> Any:
    """Return the load from the input of a chain of layout-changing ops."""
    while type(value) is ProducerLoad:
        op = value.producer.op
        if not isinstance(op, ComputeOp) or not is_injective(op.tag or "") or (op.tag or "").endswith(",step"):
            break
        if len(op.body) != 1 or type(op.body[0]) is not ProducerLoad:
            break
        value = substitute(op.body[0], {a.var: i for a, i in zip(op.axis, value.indices)})
    return value


__all__ = ["read_through"]
