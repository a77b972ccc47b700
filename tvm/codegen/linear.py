"""What an index touches: its elements as a sum of atoms and a stride. The part of unrolled variables is a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..arith.sums import Sum, combine, linear_sum, scaled
from ..dtype import info
from ..error import TVMError
from ..ir.prim import Add, Broadcast, IntImm, Mul, PrimExpr, Ramp, Sub
from ..tir.buffer import Buffer

_INDEX = frozenset({"int32", "int64"})


class Access(NamedTuple):
    """Elements base, base + stride, ...; ``stride`` is None where only the lanes of ``vector`` tell."""

    base: Sum | None
    stride: int | None
    lanes: int


def one_index(buffer: Buffer, indices: Sequence[PrimExpr]) -> PrimExpr:
    """The index of an element of flat memory."""
    if len(indices) != 1:
        raise TVMError(
            f"buffer {buffer.name} still has {len(indices)} dimensions; run StorageFlatten before code generation"
        )
    return indices[0]


def linear_form(root: PrimExpr) -> Sum:
    """Split ``root`` (int32 or int64) into a sum. Overflow of the parts is assumed not to happen: it is an index."""
    if root.dtype not in _INDEX and not isinstance(root, IntImm):
        # Narrow and unsigned types wrap; their arithmetic is not ours to change.
        return Sum({root: 1}, 0)
    return linear_sum(root, widened=True)


def access_form(index: PrimExpr) -> Access:
    """What a scalar or vector index touches."""
    lanes = info(index.dtype).lanes
    if lanes == 1:
        return Access(linear_form(index), 0, 1)
    got = _ramp(index, 0)
    if got is None:
        return Access(None, None, lanes)
    return Access(got[0], got[1], lanes)


def _ramp(node: PrimExpr, depth: int) -> tuple[Sum, int] | None:
    """Base and stride of a vector that is an arithmetic progression."""
    if isinstance(node, Ramp):
        return (linear_form(node.base), node.stride.value) if isinstance(node.stride, IntImm) else None
    if isinstance(node, Broadcast):
        return (linear_form(node.value), 0) if info(node.value.dtype).lanes == 1 else None
    if depth < 16 and isinstance(node, (Add, Sub)):
        a, b = _ramp(node.a, depth + 1), _ramp(node.b, depth + 1)
        if a is None or b is None:
            return None
        sign = 1 if isinstance(node, Add) else -1
        return combine(a[0], b[0], sign), a[1] + sign * b[1]
    if depth < 16 and isinstance(node, Mul):
        for x, y in ((node.a, node.b), (node.b, node.a)):
            if isinstance(y, Broadcast) and isinstance(y.value, IntImm):
                got = _ramp(x, depth + 1)
                return None if got is None else (scaled(got[0], y.value.value), got[1] * y.value.value)
    return None
