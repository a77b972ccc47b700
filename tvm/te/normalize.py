"""Making a schedule ready for bound inference: inlined stages are substituted, attach points moved to existing
loops."""

from __future__ import annotations

from ..error import ScheduleError
from ..ir import primop
from ..ir.prim import IntImm, IterVar, PrimExpr, ProducerLoad, Reduce, Var
from ..ir.subst import substitute
from ..ir.visit import rewrite
from .axes import Fuse, Split
from .schedule import AttachType, Schedule, Stage
from .tensor import ComputeOp, ExternOp, HybridOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorComputeOp


def normalize(schedule: Schedule) -> Schedule:
    new = schedule.copy()
    for stage in new.stages:
        if stage.attach_type == AttachType.SCOPE:
            stage.attach_ivar = _live_axis(stage.attach_stage, stage.attach_ivar)
    _inline_all(new)
    return new


def _live_axis(stage: Stage, axis: IterVar) -> IterVar:
    """The loop that now stands where ``axis`` did: the inner one of a split, the fused one of a fusion."""
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
                f"stage {stage.name} has no loop {axis.var.name} any more, but another is computed there"
            )
    return axis


def index_key(e: PrimExpr, depth: int = 12):
    """A key that is equal for equal small index expressions; large ones are told apart by identity."""
    if isinstance(e, IntImm):
        return (e.value, e.dtype)
    if isinstance(e, Var) or depth == 0:
        return id(e)
    kids = e.children()
    if not kids or isinstance(e, ProducerLoad):
        return id(e)
    return (type(e).__name__, e.dtype, *[index_key(k, depth - 1) for k in kids], getattr(e, "op", None))


class Substitution:
    """Rewrites bodies: loads of inlined tensors become their bodies, loads of replaced tensors load the new ones.

    Equal loads give one shared expression, so chains of inlined operations that read their input several times
    (GELU, swish) do not double at every level.
    """

    def __init__(self):
        self.inlined: dict[Tensor, tuple[tuple[IterVar, ...], PrimExpr]] = {}
        self.replaced: dict[Tensor, Tensor] = {}
        self._loads: dict = {}

    def __call__(self, body: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        memo: dict = {}
        out = tuple(rewrite(b, self._post, memo=memo) for b in body)
        return body if all(a is b for a, b in zip(out, body)) else out

    def _post(self, node):
        if type(node) is not ProducerLoad or not isinstance(node.producer, Tensor):
            return None
        tensor = node.producer
        if tensor not in self.inlined and tensor not in self.replaced:
            return None
        key = (tensor, *[index_key(i) for i in node.indices])
        got = self._loads.get(key)
        if got is None:
            if tensor in self.inlined:
                axes, value = self.inlined[tensor]
                # An index read from a tensor may be wider than the axis it stands for; it lies within the axis.
                places = {a.var: primop.cast(a.var.dtype, i) for a, i in zip(axes, node.indices)}
                new = substitute(value, places)
            else:
                new = ProducerLoad(self.replaced[tensor], node.indices)
            # The node is kept with its replacement: an id in the key stays valid while the node lives.
            got = self._loads[key] = (node, new)
        return got[1]

    def apply(self, op: Operation) -> Operation:
        """``op`` with its inputs replaced; the same object when it reads none of them."""
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
        get = lambda tensors: tuple(self.replaced.get(t, t) for t in tensors)
        if not any(t in self.replaced for t in op.input_tensors):
            return op
        if isinstance(op, TensorComputeOp):
            return op.with_inputs(get(op.inputs), self(op.scalar_inputs))
        if isinstance(op, ScanOp):
            return ScanOp(op.name, op.tag, op.attrs, op.scan_axis, get(op.init), get(op.update), op.state_placeholder,
                          get(op.inputs), op.spatial_axis_)
        if isinstance(op, ExternOp):
            return ExternOp(op.name, op.tag, op.attrs, get(op.inputs), op.input_placeholders, op.output_placeholders,
                            op.body)
        if isinstance(op, HybridOp):
            body = rewrite(op.body, self._post)
            return HybridOp(op.name, op.tag, op.attrs, get(op.inputs), op.outputs_, op.axis_, body)
        raise ScheduleError(f"cannot change the inputs of {op.name} ({type(op).__name__})")


def share_reduction(body: tuple) -> tuple:
    """Bodies of one reduction share one tuple of sources and axes."""
    first = body[0]
    return tuple(
        b if b is first or (b.source is first.source and b.axis is first.axis)
        else Reduce(first.combiner, first.source, first.axis, first.condition, b.value_index, first.init)
        for b in body
    )


def replace_in_stages(schedule: Schedule, change: Substitution, only: set[Stage] | None = None,
                      skip: set[Stage] = frozenset()) -> None:
    """Apply ``change`` to the stages (to ``only`` these at first), and carry on to all who read a changed one."""
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
        for old, new in zip(stage.op.outputs, op.outputs):
            follow.replaced[old] = new
        if stage.op in schedule.outputs:
            schedule.outputs[schedule.outputs.index(stage.op)] = op
        stage.op = op
        schedule.stage_map[op] = stage


def _inline_all(schedule: Schedule) -> None:
    change = Substitution()
    for stage in schedule.stages:
        op = change.apply(stage.op)
        if stage.attach_type == AttachType.INLINE:
            for tensor, old, value in zip(op.outputs, stage.op.outputs, op.body):
                change.inlined[tensor] = change.inlined[old] = (op.axis, value)
            schedule.stage_map[op] = stage
            stage.op = op
            continue
        if op is not stage.op:
            for old, new in zip(stage.op.outputs, op.outputs):
                change.replaced[old] = new
            if stage.op in schedule.outputs:
                schedule.outputs[schedule.outputs.index(stage.op)] = op
            stage.op = op
            schedule.stage_map[op] = stage
    schedule.stages = [s for s in schedule.stages if s.attach_type != AttachType.INLINE]
