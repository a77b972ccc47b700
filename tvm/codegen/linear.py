"""Linear forms of indices: a base as a sum of atoms, and a stride over the lanes. Unrolled loop variables are
constants."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

from ..arith.sums import Sum, combine, linear_sum, scaled
from ..dtype import info
from ..error import TVMError
from ..ir.prim import Add, Broadcast, Call, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Ramp, Sub
from ..ir.primop import multiply
from ..tir.buffer import Buffer

_INDEX = frozenset({"int32", "int64"})
# The maximum number of terms of two factors whose product is expanded, and the maximum depth of nested factors.
_MOST_TERMS, _DEPTH = 8, 4
# Operations on non-negative constant lane offsets: quotients and remainders, also by powers of two.
_NUMBERS = {"FloorDiv": operator.floordiv, "FloorMod": operator.mod, "tir.shift_right": operator.rshift,
            "tir.bitwise_and": operator.and_}  # fmt: skip


class Access(NamedTuple):
    """The elements base, base + stride, ... of an index; both are None if the lanes are not an arithmetic progression.
    If the lanes have constant distances from a common base, ``scattered`` contains the base and the distances."""

    base: Sum | None
    stride: int | None
    lanes: int
    scattered: tuple[Sum, tuple[int, ...]] | None = None


def one_index(buffer: Buffer, indices: Sequence[PrimExpr]) -> PrimExpr:
    """Return the single index of an element of flat memory."""
    if len(indices) != 1:
        raise TVMError(f"buffer {buffer.name} has {len(indices)} dimensions; run StorageFlatten before code generation")
    return indices[0]


def linear_form(root: PrimExpr) -> Sum:
    """Convert ``root`` (int32 or int64) to a sum. As an index, its parts are assumed not to overflow."""
    if root.dtype not in _INDEX and not isinstance(root, IntImm):
        # Narrow and unsigned types wrap around, so their arithmetic must not be rewritten.
        return Sum({root: 1}, 0)
    form = linear_sum(root, widened=True)
    return _expanded(form) if any(type(atom) is Mul for atom in form.terms) else form


def _expanded(form: Sum, depth: int = _DEPTH) -> Sum:
    """Return the sum with products of sums expanded. A row of dynamic width is at ``(y + dy) * width``, of which ``y *
    width`` is invariant in a loop over ``dy``."""
    out = Sum({}, form.constant)
    for atom, scale in form.terms.items():
        out = combine(out, _products(atom, depth), scale)
    return out


def _products(atom: PrimExpr, depth: int) -> Sum:
    if type(atom) is not Mul or depth == 0:
        return Sum({atom: 1}, 0)
    a, b = (_expanded(linear_sum(side), depth - 1) for side in (atom.a, atom.b))
    if len(a.terms) + len(b.terms) > _MOST_TERMS:
        return Sum({atom: 1}, 0)
    out = Sum({}, a.constant * b.constant)
    for x, c in a.terms.items():
        for y, d in b.terms.items():
            out = combine(out, Sum({atom if x is atom.a and y is atom.b else multiply(x, y): 1}, 0), c * d)
    out = combine(out, Sum(a.terms, 0), b.constant) if b.constant else out
    return combine(out, Sum(b.terms, 0), a.constant) if a.constant else out


def access_form(index: PrimExpr) -> Access:
    """Return the elements that a scalar or vector index accesses."""
    lanes = info(index.dtype).lanes
    if lanes == 1:
        return Access(linear_form(index), 0, 1)
    got = _ramp(index, 0)
    if got is None:
        return Access(None, None, lanes, _scattered(index, 0))
    return Access(got[0], got[1], lanes)


def _scattered(node: PrimExpr, depth: int) -> tuple[Sum, tuple[int, ...]] | None:
    """Return the common base of all lanes of a vector, and the distance of each lane from it."""
    if isinstance(node, (Ramp, Broadcast)):
        got = _ramp(node, depth)
        return None if got is None else (got[0], tuple(lane * got[1] for lane in range(info(node.dtype).lanes)))
    is_call = isinstance(node, Call) and getattr(node.op, "name", "") in _NUMBERS
    if depth >= 16 or not is_call and not isinstance(node, (Add, Sub, Mul, FloorDiv, FloorMod)):
        return None
    left, right = (node.args[0], node.args[1]) if isinstance(node, Call) else (node.a, node.b)
    a, b = _scattered(left, depth + 1), _scattered(right, depth + 1)
    if a is None or b is None:
        return None
    if isinstance(node, (Add, Sub)):
        sign = 1 if isinstance(node, Add) else -1
        return combine(a[0], b[0], sign), tuple(x + sign * y for x, y in zip(a[1], b[1]))
    number = b[0].constant
    if b[0].terms or any(b[1]):
        return None
    if isinstance(node, Mul):
        return scaled(a[0], number), tuple(x * number for x in a[1])
    numbers = [a[0].constant + x for x in a[1]]
    if a[0].terms or min(numbers) < 0 or number < (0 if is_call else 1):
        return None
    compute = _NUMBERS[node.op.name if isinstance(node, Call) else type(node).__name__]
    return Sum({}, 0), tuple(compute(x, number) for x in numbers)


def _ramp(node: PrimExpr, depth: int) -> tuple[Sum, int] | None:
    """Return the base and stride of a vector that is an arithmetic progression."""
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
