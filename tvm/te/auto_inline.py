"""Automatic inlining of unscheduled stages: elementwise, broadcast and injective ones."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.prim import IntImm, PrimExpr, ProducerLoad
from ..ir.visit import post_order
from .schedule import AttachType, Schedule, Stage
from .tensor import ComputeOp


def _loads(op: ComputeOp) -> list[ProducerLoad]:
    return [node for body in op.body for node in post_order(body) if type(node) is ProducerLoad]


def _in_order(indices: tuple[PrimExpr, ...], op: ComputeOp) -> bool:
    """Return whether the indices are axes of the operation in order; axes may be missing or replaced by the constant
    0."""
    axes = iter([a.var for a in op.axis])
    return all(isinstance(i, IntImm) and i.value == 0 or any(v is i for v in axes) for i in indices)


def is_elementwise(op: ComputeOp) -> bool:
    axes = [a.var for a in op.axis]
    return all(len(n.indices) == len(axes) and all(i is v for i, v in zip(n.indices, axes)) for n in _loads(op))


def is_broadcast(op: ComputeOp) -> bool:
    return all(_in_order(n.indices, op) for n in _loads(op))


def _scheduled(stage: Stage) -> bool:
    return bool(stage.relations or stage.iter_var_attrs) or stage.attach_type != AttachType.GROUP_ROOT


def _inline(sch: Schedule, wanted: Callable[[ComputeOp], bool]) -> None:
    for stage in sch.stages:
        op = stage.op
        if not isinstance(op, ComputeOp) or op.reduce_axis or stage.is_output or _scheduled(stage):
            continue
        if wanted(op):
            stage.compute_inline()


def AutoInlineElemWise(sch: Schedule) -> None:
    """Inline stages that read each input at the position they write."""
    _inline(sch, is_elementwise)


def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inline stages that read each input at the position they write, possibly without some of the dimensions."""
    _inline(sch, is_broadcast)


def AutoInlineInjective(sch: Schedule) -> None:
    """Inline all stages that do not reduce."""
    _inline(sch, lambda op: True)


__all__ = ["AutoInlineElemWise", "AutoInlineBroadcast", "AutoInlineInjective"]
