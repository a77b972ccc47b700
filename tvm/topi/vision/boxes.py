"""What the operators on boxes share: overlap, greedy suppression, numbers that may be tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te, tir
from ...error import ExprValueError
from ...ir import primop
from ...ir.prim import PrimExpr, const, convert
from ...tir.ir_builder import BufferVar, IRBuilder
from ..utils import equal_const_int


class Numbers:
    """Parameters of an operator that are plain numbers, or tensors of one element read when the program runs."""

    def __init__(self, values: dict[str, tuple[Any, str]], what: str):
        self.values = values
        self.tensors = {}
        for name, (value, _) in values.items():
            if isinstance(value, te.Tensor):
                if any(not equal_const_int(dim, 1) for dim in value.shape):
                    raise ExprValueError(
                        f"{what}: {name} is a number or a tensor of one element, got {list(value.shape)}"
                    )
                self.tensors[name] = value

    def read(self, ib: IRBuilder, buffers: Sequence) -> dict[str, PrimExpr]:
        """Each as an expression; ``buffers`` are those of ``tensors``, in their order."""
        given = dict(zip(self.tensors, buffers))
        out = {}
        for name, (value, dtype) in self.values.items():
            if name in given:
                value = ib.buffer_ptr(given[name])[tuple([0] * len(given[name].shape))]
            out[name] = primop.cast(dtype, convert(value))
        return out


def overlap(a: Sequence[PrimExpr], b: Sequence[PrimExpr], extra: float = 0.0) -> PrimExpr:
    """Intersection over union of two boxes given by opposite corners, in any order; 0 where both are empty. ``extra``
    is 1 where a box includes its last row and column."""
    dtype = a[0].dtype
    zero, more = const(0, dtype), const(extra, dtype)

    def sides(box):
        return (
            te.min(box[0], box[2]), te.min(box[1], box[3]), te.max(box[0], box[2]), te.max(box[1], box[3]),
        )  # fmt: skip

    first, second = sides(a), sides(b)
    width = te.max(te.min(first[2], second[2]) - te.max(first[0], second[0]) + more, zero)
    height = te.max(te.min(first[3], second[3]) - te.max(first[1], second[1]) + more, zero)

    def area(box):
        return (box[2] - box[0] + more) * (box[3] - box[1] + more)

    common = width * height
    union = area(first) + area(second) - common
    return tir.Select(union <= zero, zero, common / tir.Select(union <= zero, const(1, dtype), union))


def suppress(
    ib: IRBuilder, n: PrimExpr, alive: BufferVar, limit: PrimExpr | None, overlaps: Callable, on_keep: Callable
) -> BufferVar:
    """Of ``n`` candidates in order, keep those that are ``alive`` and that no kept one before ``overlaps``: greedily,
    at most ``limit`` (all if negative or None). ``on_keep(candidate, number)`` is told; the number kept is returned."""
    kept = ib.allocate("int32", (1,), name="kept", scope="local")
    kept[0] = 0
    with ib.for_range(0, n, name="candidate") as i:
        wanted = primop.not_equal(alive[i], 0)
        room = None if limit is None else tir.any(limit < 0, kept[0] < limit)
        with ib.if_scope(wanted if room is None else tir.all(wanted, room)):
            on_keep(i, kept[0])
            kept[0] = kept[0] + 1
            with ib.for_range(0, n - i - 1, name="later") as step:
                j = i + 1 + step
                with ib.if_scope(primop.not_equal(alive[j], 0)):
                    with ib.if_scope(overlaps(i, j)):
                        alive[j] = 0
    return kept
