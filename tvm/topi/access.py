"""Analysis of the memory accesses of operations: contiguous axes, reused elements and the amount of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith import Analyzer, detect_linear_equation
from ..ir.op import Op
from ..ir.prim import Call, IntImm, IterVar, PrimExpr, ProducerLoad, Reduce, Select, Var, const
from ..ir.structural import structural_equal
from ..ir.subst import substitute
from ..ir.visit import post_order
from ..te.schedule import Schedule, Stage
from ..te.tensor import ComputeOp, Tensor

# Calls that cost a few instructions. The values of other math functions are worth storing rather than recomputing.
CHEAP_CALLS = frozenset(
    {
        "tir.likely",
        "tir.fabs",
        "tir.bitwise_and",
        "tir.bitwise_or",
        "tir.bitwise_xor",
        "tir.bitwise_not",
        "tir.shift_left",
        "tir.shift_right",
        "tir.floor",
        "tir.ceil",
        "tir.trunc",
        "tir.reinterpret",
        "tir.sqrt",
        "tir.round",
        "tir.nearbyint",
    }
)


def extent_of(axis: IterVar) -> int | None:
    """Return the constant extent of an axis, or None if it is symbolic."""
    e = axis.dom.extent
    return e.value if isinstance(e, IntImm) else None


def are_known(axes: Sequence[IterVar]) -> bool:
    """Return whether the extents of all axes are constants."""
    return all(isinstance(a.dom.extent, IntImm) for a in axes)


def is_ragged(op: ComputeOp) -> bool:
    """Return whether the extent of a reduction depends on the output element, as for the rows of a sparse matrix. The
    reduction loop must then be inside the loops over the elements, and each element is computed separately."""
    axes = {a.var for a in op.axis}
    extents = [a.dom.extent for a in op.reduce_axis]
    return any(node in axes for e in extents if not isinstance(e, IntImm) for node in post_order(e))


def elements(shape) -> int:
    """Return the number of elements of a shape; symbolic dimensions count as 64."""
    total = 1
    for d in shape:
        total *= d.value if isinstance(d, IntImm) else 64
    return total


def loads(body) -> list[ProducerLoad]:
    """Return the reads of tensor elements in a body."""
    found: dict[int, ProducerLoad] = {}
    for b in body:
        for root in b.source if isinstance(b, Reduce) else (b,):
            for node in post_order(root):
                if type(node) is ProducerLoad and isinstance(node.producer, Tensor):
                    found[id(node)] = node
    return list(found.values())


def is_cheap(op: ComputeOp) -> bool:
    """Return whether recomputing an element costs about as much as loading it: the body has no conditions and no
    expensive calls."""
    for b in op.body:
        for node in post_order(b):
            if isinstance(node, Select) or isinstance(node, Call) and node.op.name not in CHEAP_CALLS:
                return False
    return True


def stride_along(index: PrimExpr, var: Var) -> int | None:
    """Return the increase of an index per increment of a variable, or None if it is not constant."""
    if not any(n is var for n in post_order(index)):
        return 0
    found = detect_linear_equation(index, [var])
    if not found:
        return None
    step = found[0]
    return step.value if isinstance(step, IntImm) else None


def runs_along(load: ProducerLoad, var: Var) -> str:
    """Return "same" if the element does not depend on the axis, "next" if neighbours along the axis are contiguous,
    else "far"."""
    if not load.indices:
        return "same"
    outer = [stride_along(i, var) for i in load.indices[:-1]]
    last = stride_along(load.indices[-1], var)
    if any(s != 0 for s in outer):
        return "far"
    return "same" if last == 0 else "next" if last == 1 else "far"


def work(op: ComputeOp) -> int:
    """Return the number of points that an operation computes."""
    return elements([a.dom.extent for a in list(op.axis) + list(op.reduce_axis)])


def first_step(load: ProducerLoad, axes: list[IterVar], axis: IterVar) -> int | None:
    """Return the distance in memory, in elements, between the first two reads of a load along ``axis``, with all axes
    at their minimum."""
    start = {a.var: const(0, a.var.dtype) for a in axes}
    places = []
    for at in (start, start | {axis.var: const(1, axis.var.dtype)}):
        place = 0
        for index, size in zip(load.indices, load.producer.shape):
            value = Analyzer().simplify(substitute(index, at))
            if not isinstance(value, IntImm) or not isinstance(size, IntImm):
                return None
            place = place * size.value + value.value
        places.append(place)
    return places[1] - places[0]


def own_consumer(schedule: Schedule, stage: Stage, plain: Schedule) -> Stage | None:
    """Return the only reader of a reduction if it reads the reduction elementwise, so that both can be computed
    together. ``plain`` is the schedule in which all stages to be inlined are inlined."""
    twin = plain.stage_map[stage.op]
    users = plain.consumers(twin)
    if stage.is_output or len(users) != 1 or is_ragged(stage.op):
        return None
    user = users[0]
    if not isinstance(user.op, ComputeOp) or user.op.reduce_axis or len(user.op.axis) != len(stage.op.axis):
        return None
    is_own = _is_own_pixel if stage.op.attrs.get("is_one_row") else _is_own_element
    for load in loads(user.op.body):
        if load.producer.op is twin.op and not is_own(load, user.op.axis):
            return None
    return next(x for x in schedule.stages if x.uid == user.uid)


def _is_own_element(load: ProducerLoad, axes: Sequence[IterVar]) -> bool:
    return len(load.indices) == len(axes) and all(i is a.var for i, a in zip(load.indices, axes))


def _is_own_pixel(load: ProducerLoad, axes: Sequence[IterVar]) -> bool:
    """Return whether a load from an image with flattened pixels reads the element at the given axes."""
    if len(load.indices) != 5 or len(axes) != 5:
        return False
    n, oc, y, x, ob = (a.var for a in axes)
    pixel = y * axes[3].dom.extent + x
    others = zip((load.indices[i] for i in (0, 1, 4)), (n, oc, ob))
    return all(i is a for i, a in others) and structural_equal(load.indices[3], pixel)


def is_choosing(node: Any) -> bool:
    """Return whether a node evaluates one of two values, as padding does."""
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "tir.if_then_else"
