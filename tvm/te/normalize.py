"""Preparation of a schedule for bound inference: inlines stages and moves attach points to existing loops."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Any

from ..arith.compare import Interner
from ..error import ScheduleError
from ..ir import primop
from ..ir.prim import IterVar, PrimExpr, ProducerLoad, Reduce, Var
from .attributes import AttachType
from .axes import Fuse, Split
from .stage import Stage
from .tensor import ComputeOp, ExternOp, HybridOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorComputeOp

if TYPE_CHECKING:
    from .schedule import Schedule


def normalize(schedule: Schedule) -> Schedule:
    new = schedule.copy()
    for stage in new.stages:
        if stage.attach_type == AttachType.SCOPE:
            stage.attach_ivar = live_axis(*stage.attached_at)
    _inline_all(new)
    return new


def live_axis(stage: Stage, axis: IterVar) -> IterVar:
    """Return the loop that replaced ``axis``: the inner loop of a split, or the fused loop."""
    while axis not in stage.leaf_iter_vars:
        for r in stage.relations:
            if isinstance(r, Split) and r.parent is axis:
                axis = r.inner
                break
            if isinstance(r, Fuse) and axis in (r.outer, r.inner):
                axis = r.fused
                break
        else:
            raise ScheduleError(
                f"stage {stage.name} has no loop {axis.var.name} any more, but another stage is computed at it"
            )
    return axis


class _Reading:
    """The body of an inlined tensor for one read: the values of its axes, and its nodes rewritten for these values."""

    __slots__ = ("body", "done", "values")

    def __init__(self, body: PrimExpr | None = None, values: dict[Var, PrimExpr] | None = None):
        self.body = body
        self.values = values or {}
        # By id of a node: the node, which keeps the id unique, and its rewritten form.
        self.done: dict[int, tuple[PrimExpr, PrimExpr]] = {}


class Substitution:
    """A rewriter of bodies: replaces loads of inlined tensors by their bodies, and loads of replaced tensors by loads
    of the new ones.

    Each read of a tensor at the same indices is one value. The bodies of inlined tensors are stored as written and
    expanded only in operations that stay, once for each tensor and indices. A chain of operations that use their input
    several times (GELU, swish) therefore has as many nodes as operations.
    """

    def __init__(self):
        self.inlined: dict[Tensor, tuple[tuple[IterVar, ...], PrimExpr]] = {}
        self.replaced: dict[Tensor, Tensor] = {}
        self._readings: dict[tuple[Any, ...], _Reading] = {}
        self._indices = Interner()

    def __call__(self, body: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        top = _Reading()
        out = tuple(self._read(top, b) for b in body)
        return body if all(a is b for a, b in zip(out, body)) else out

    def _read(self, top: _Reading, root: Any):
        """Return ``root`` with its loads replaced. Each node is on the stack twice: once to visit its operands and once
        to rebuild it."""
        stack: list[tuple[_Reading, Any, bool]] = [(top, root, False)]
        while stack:
            at, node, ready = stack.pop()
            done = at.done
            if not ready:
                if id(node) in done:
                    continue
                if isinstance(node, Var):
                    done[id(node)] = (node, at.values.get(node, node))
                    continue
                stack.append((at, node, True))
                stack.extend((at, child, False) for child in node.children())
                continue

            def replaced(child: Any, done: dict[int, Any] = done) -> Any:
                return done[id(child)][1]

            new = node.map_children(replaced)
            if type(new) is ProducerLoad and isinstance(new.producer, Tensor):
                tensor = new.producer
                if tensor in self.inlined:
                    inner = self._reading(tensor, new.indices)
                    if id(inner.body) not in inner.done:
                        stack.append((at, node, True))
                        stack.append((inner, inner.body, False))
                        continue
                    new = inner.done[id(inner.body)][1]
                elif tensor in self.replaced:
                    new = ProducerLoad(self.replaced[tensor], new.indices)
            done[id(node)] = (node, new)
        return top.done[id(root)][1]

    def _reading(self, tensor: Tensor, indices: tuple[PrimExpr, ...]) -> _Reading:
        axes, body = self.inlined[tensor]
        # An index read from a tensor may have a wider dtype than the axis; its value is within the range of the axis.
        places = [self._indices.intern(primop.cast(a.var.dtype, i)) for a, i in zip(axes, indices)]
        key = (tensor, *places)
        got = self._readings.get(key)
        if got is None:
            got = self._readings[key] = _Reading(body, {a.var: i for a, i in zip(axes, places)})
        return got

    def apply(self, op: Operation) -> Operation:
        """Return ``op`` with its inputs replaced, or the same object if it reads none of them."""
        if isinstance(op, ComputeOp):
            body = self(op.body)
            if body is op.body:
                return op
            if isinstance(body[0], Reduce):
                body = share_reduction(body)
            return op.with_body(body)
        if isinstance(op, PlaceholderOp):
            return op
        touched = [t for t in op.input_tensors if t in self.inlined]
        if touched:
            raise ScheduleError(
                f"stage {touched[0].op.name} cannot be inlined: {op.name} ({type(op).__name__}) reads its memory"
            )

        def get(tensors: Iterable[Any]) -> tuple[Any, ...]:
            return tuple(self.replaced.get(t, t) for t in tensors)

        if not any(t in self.replaced for t in op.input_tensors):
            return op
        if isinstance(op, TensorComputeOp):
            return op.with_inputs(get(op.inputs), self(op.scalar_inputs))
        if isinstance(op, ScanOp):
            return ScanOp(
                op.name,
                op.tag,
                op.attrs,
                op.scan_axis,
                get(op.init),
                get(op.update),
                op.state_placeholder,
                get(op.inputs),
                op.spatial_axis_,
            )
        if isinstance(op, ExternOp):
            return ExternOp(
                op.name, op.tag, op.attrs, get(op.inputs), op.input_placeholders, op.output_placeholders, op.body
            )
        if isinstance(op, HybridOp):
            body = self._read(_Reading(), op.body)
            return HybridOp(op.name, op.tag, op.attrs, get(op.inputs), op.outputs_, op.axis_, body)
        raise ScheduleError(f"cannot change the inputs of {op.name}: unsupported operation {type(op).__name__}")


def share_reduction(body: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make all bodies of a reduction share one tuple of sources and axes."""
    first = body[0]
    return tuple(
        b
        if b is first or (b.source is first.source and b.axis is first.axis)
        else Reduce(first.combiner, first.source, first.axis, first.condition, b.value_index, first.init)
        for b in body
    )


def replace_in_stages(
    schedule: Schedule, change: Substitution, only: set[Stage] | None = None, skip: Set[Stage] = frozenset()
) -> None:
    """Apply ``change`` to the stages (initially only to those in ``only``) and then to all readers of a changed
    stage."""
    follow = Substitution()
    for stage in schedule.stages:
        if stage in skip:
            continue
        op = stage.op
        if only is None or stage in only:
            op = change.apply(op)
        op = follow.apply(op)
        if op is stage.op:
            continue
        follow.replaced.update(zip(stage.op.outputs, op.outputs))
        set_op(schedule, stage, op)


def set_op(schedule: Schedule, stage: Stage, op: Operation) -> None:
    """Set the operation of a stage. Readers of the old operation are not changed."""
    if stage.op in schedule.outputs:
        schedule.outputs[schedule.outputs.index(stage.op)] = op
    stage.op = op
    schedule.stage_map[op] = stage


def _inline_all(schedule: Schedule) -> None:
    change = Substitution()
    for stage in schedule.stages:
        if stage.attach_type == AttachType.INLINE:
            for tensor, value in zip(stage.op.outputs, stage.compute_op.body):
                change.inlined[tensor] = (stage.op.axis, value)
            continue
        op = change.apply(stage.op)
        if op is not stage.op:
            change.replaced.update(zip(stage.op.outputs, op.outputs))
            set_op(schedule, stage, op)
    schedule.stages = [s for s in schedule.stages if s.attach_type != AttachType.INLINE]
