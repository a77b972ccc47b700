"""Analysis of padding: the position of padding in a tensor, and the reductions to which it contributes nothing.

A padded tensor selects between data and one constant. A zero that is a factor of the summed product, or a source equal
to the combiner's identity, leaves the result unchanged. Zeros of padding count as neutral even if the other factor is
infinite or NaN.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.op import Op
from ..ir.prim import GE, LT, Add, And, Call, Cast, FloatImm, IntImm, Mul, PrimExpr, ProducerLoad, Reduce
from ..ir.visit import post_order
from .axes import range_of
from .tensor import ComputeOp, Operation


class Interior(NamedTuple):
    """The region of the data in a padded tensor, as (first, last) by dimension, and the constant around it."""

    extents: dict[int, tuple[int, int]]
    value: PrimExpr


def interior(op: ComputeOp) -> Interior | None:
    """Return the interior of a tensor that ``op`` pads with a constant, or None for other operations."""
    body = op.body[0]
    if len(op.body) != 1 or not isinstance(body, Call) or body.op is not Op.get("tir.if_then_else"):
        return None
    condition, _, value = body.args
    if not isinstance(value, (IntImm, FloatImm)):
        return None
    dims: dict[PrimExpr, int] = {axis.var: i for i, axis in enumerate(op.axis)}
    sizes = [range_of(axis).extent for axis in op.axis]
    extents = {i: (0, size.value - 1) for i, size in enumerate(sizes) if isinstance(size, IntImm)}
    for part in _conjuncts(condition):
        if not isinstance(part, (GE, LT)) or not isinstance(part.b, IntImm) or dims.get(part.a) not in extents:
            return None
        dim = dims[part.a]
        low, last = extents[dim]
        extents[dim] = (part.b.value, last) if isinstance(part, GE) else (low, part.b.value - 1)
    return Interior(extents, value)


def _conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    left = [condition]
    found: list[PrimExpr] = []
    while left:
        e = left.pop()
        if isinstance(e, And):
            left += [e.b, e.a]
        else:
            found.append(e)
    return found


def idle_loads(op: Operation) -> list[tuple[ProducerLoad, Interior]]:
    """Return the loads of padded tensors for which a reduction step that reads padding contributes nothing."""
    reduce = op.body[0] if isinstance(op, ComputeOp) else None
    if not isinstance(reduce, Reduce) or len(reduce.source) != 1:
        return []
    found: list[tuple[ProducerLoad, Interior]] = []
    for node in post_order(reduce.source[0]):
        if type(node) is ProducerLoad and isinstance(getattr(node.producer, "op", None), ComputeOp):
            inside = interior(node.producer.op)
            if inside is not None and _adds_nothing(reduce, node, inside.value):
                found.append((node, inside))
    return found


def idle_unless(op: Operation) -> list[PrimExpr]:
    """Return conditions that must hold for a reduction step to contribute. They are the conditions of padding that is
    computed in place."""
    reduce = op.body[0] if isinstance(op, ComputeOp) else None
    if not isinstance(reduce, Reduce) or len(reduce.source) != 1:
        return []
    choices = [n for n in post_order(reduce.source[0]) if isinstance(n, Call) and n.op is Op.get("tir.if_then_else")]
    return [part for n in choices if isinstance(n.args[2], (IntImm, FloatImm)) and _adds_nothing(reduce, n, n.args[2])
            for part in _conjuncts(n.args[0])]  # fmt: skip


def _adds_nothing(reduce: Reduce, load: PrimExpr, value: PrimExpr) -> bool:
    """Return whether a reduction step leaves the result unchanged when ``load`` equals ``value``."""
    source, identity = reduce.source[0], reduce.combiner.identity_element[0]
    if source is load:
        return isinstance(identity, (IntImm, FloatImm)) and identity.value == value.value
    sums = isinstance(reduce.combiner.result[0], Add) and getattr(identity, "value", None) == 0
    return sums and value.value == 0 and _is_factor(source, load)


def _is_factor(e: PrimExpr, load: PrimExpr) -> bool:
    """Return whether an expression is a product with ``load`` as a factor."""
    left = [e]
    while left:
        e = left.pop()
        if e is load:
            return True
        left += [e.value] if isinstance(e, Cast) else [e.a, e.b] if isinstance(e, Mul) else []
    return False


__all__ = ["Interior", "idle_loads", "idle_unless", "interior"]
