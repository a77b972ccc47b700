"""Steps that add operations to the program: cache_read, cache_write and rfactor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..arith import Analyzer
from ..error import ScheduleError
from ..ir.prim import IterVar, PrimExpr, ProducerLoad, Range, Reduce, Var, const
from ..ir.primop import logical_and
from ..ir.subst import substitute
from ..ir.visit import post_order
from . import axes as algebra
from .attributes import AttachType
from .normalize import Substitution, replace_in_stages, set_op
from .stage import Stage
from .steps import AxisRef, ScheduleStep, TensorRef, primitive
from .tensor import BaseComputeOp, ComputeOp, PlaceholderOp, Tensor, TensorComputeOp

if TYPE_CHECKING:
    from .schedule import Schedule

SCOPES = ("global", "shared", "shared.dyn", "local", "warp", "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")


def _check_scope(primitive: str, name: str, scope: Any) -> None:
    if not isinstance(scope, str) or not scope:
        raise ScheduleError(
            f"{primitive} of {name}: expected a scope name ({', '.join(SCOPES[:5])}, ...), got {scope!r}"
        )


def _copy_axes(shape: Any, suffix: str = "") -> list[IterVar]:
    return [
        IterVar(Range(min=const(0, d.dtype), extent=d), Var(f"ax{i}{suffix}", d.dtype), IterVar.DataPar)
        for i, d in enumerate(shape)
    ]


@primitive("cache_read")
class CacheReadStep(ScheduleStep):
    """Copy ``tensor`` to ``scope``; the stages of ``readers`` read the copy."""

    tensor: TensorRef
    scope: str
    readers: tuple[TensorRef, ...]

    def act(self, schedule: Schedule) -> Tensor:
        stage, current = schedule.stage_by_uid(self.tensor.stage), schedule.tensor(self.tensor)
        _check_scope("cache_read", stage.name, self.scope)
        if not self.readers:
            raise ScheduleError(f"cache_read of {stage.name}: the list of readers is empty")
        users = [schedule.stage_by_uid(reader.stage) for reader in self.readers]
        for user in users:
            if current not in user.op.input_tensors:
                raise ScheduleError(f"cache_read of {stage.name}: {user.name} does not read it")
        axes = _copy_axes(current.shape)
        cache = ComputeOp(f"{current.name}.{self.scope}", "", {}, axes, (current(*[a.var for a in axes]),))
        change = Substitution()
        change.replaced[current] = cache.output(0)
        new = schedule.add_stage(cache, schedule.stages.index(stage) + 1)
        new.scope, new.group = self.scope, users[0].group
        replace_in_stages(schedule, change, only=set(users), skip={new})
        return cache.output(0)


@primitive("cache_write")
class CacheWriteStep(ScheduleStep):
    """Compute one output of an operation, or the tuple of all its outputs, in ``scope`` and copy the result out."""

    tensor: TensorRef | tuple[TensorRef, ...]
    scope: str

    def act(self, schedule: Schedule) -> Any:
        tensors = (self.tensor,) if isinstance(self.tensor, TensorRef) else self.tensor
        if not tensors:
            raise ScheduleError("cache_write: the list of tensors is empty")
        stage = schedule.stage_by_uid(tensors[0].stage)
        _check_scope("cache_write", stage.name, self.scope)
        op = stage.op
        if not isinstance(op, BaseComputeOp):
            raise ScheduleError(
                f"cache_write of {stage.name}: only a compute operation can be cached; this is {type(op).__name__}"
            )
        if len(tensors) != op.num_outputs or any(t.stage != stage.uid for t in tensors):
            raise ScheduleError(
                f"cache_write of {stage.name}: pass all {op.num_outputs} outputs of the operation together"
            )
        data = [a for a in stage.leaf_iter_vars if not _is_reduction(a)]
        loops = op.axis[: op.schedulable_ndim] if isinstance(op, TensorComputeOp) else op.axis
        if stage.relations or data != list(loops):
            outputs = _relayout(schedule, stage, data, self.scope).outputs
        else:
            outputs = _same_layout(schedule, stage, self.scope).outputs
        return outputs[0] if isinstance(self.tensor, TensorRef) else outputs


def _moved(op: BaseComputeOp, scope: str, axes: list[IterVar]) -> BaseComputeOp:
    """Return the operation over other axes, for storage in ``scope``."""
    name, values = f"{op.name}.{scope}", {a.var: n.var for a, n in zip(op.axis, axes)}
    if isinstance(op, ComputeOp):
        return ComputeOp(name, op.tag, op.attrs, axes, _moved_body(op, values))
    assert isinstance(op, TensorComputeOp), f"{op.name} is not a compute operation"

    def move(e: Any):
        return substitute(e, values)

    regions = [[Range.from_min_extent(move(r.min), move(r.extent)) for r in region] for region in op.input_regions]
    return TensorComputeOp(
        name,
        op.tag,
        op.attrs,
        axes,
        op.reduce_axis,
        op.schedulable_ndim,
        op.intrin,
        op.inputs,
        regions,
        [move(e) for e in op.scalar_inputs],
    )


def _same_layout(schedule: Schedule, stage: Stage, scope: str) -> BaseComputeOp:
    op = stage.op
    assert isinstance(op, BaseComputeOp), "cache_write has already checked the operation"
    axes = [IterVar(a.dom, Var(a.var.name + ".c", a.var.dtype), a.iter_type) for a in op.axis]
    cache = _moved(op, scope, axes)
    copy_body = tuple(t(*[a.var for a in op.axis]) for t in cache.outputs)
    out = ComputeOp(op.name, "", op.attrs, op.axis, copy_body)
    new = schedule.add_stage(cache, schedule.stages.index(stage))
    new.scope = scope
    new.group = stage.group
    for axis, moved in zip(op.reduce_axis, cache.reduce_axis):
        stage.leaf_iter_vars.remove(axis)
        stage.all_iter_vars.remove(axis)
        if axis in stage.iter_var_attrs:
            new.iter_var_attrs[moved] = stage.iter_var_attrs.pop(axis)
    for axis, moved in zip(op.axis, axes):
        # The new axis keeps the alignment set by align_bounds.
        attrs = stage.peek(axis)
        if attrs is not None and attrs.region_factor:
            new.attributes(moved).region_factor = attrs.region_factor
    stage.leaf_iter_vars += [a for a in op.axis if a not in stage.leaf_iter_vars]
    swap_op(schedule, stage, out, skip={new})
    return cache


def _relayout(schedule: Schedule, stage: Stage, data: list[IterVar], scope: str) -> ComputeOp:
    """Make a cache whose dimensions are the data loops in their order. The copy out of it has unscheduled loops."""
    op = stage.op
    if not isinstance(op, ComputeOp):
        raise ScheduleError(
            f"cache_write of {stage.name}: the loops around its intrinsic have been changed; call cache_write first"
        )
    _refuse_mixed("cache_write", stage)
    marked = [a.var.name for a in data if stage.peek(a) is not None]
    if marked:
        raise ScheduleError(
            f"cache_write of {stage.name}: loop {marked[0]} is annotated, and the cache takes over the loops; call "
            "cache_write first, then annotate"
        )
    variables = {a.var: a.var for a in op.axis}
    follows = [a.var.name for a in op.reduce_axis if _mentions(algebra.range_of(a).extent, variables)]
    if follows:
        raise ScheduleError(
            f"cache_write of {stage.name}: the extent of {follows[0]} depends on the element; call cache_write before "
            "changing the data loops"
        )
    analyzer = Analyzer()
    ranges = {a: algebra.range_of(a) for a in list(op.axis) + list(op.reduce_axis)}
    algebra.pass_down_domain(stage.relations, ranges, analyzer)
    axes = [IterVar(ranges[a], Var(a.var.name + ".c", a.var.dtype), IterVar.DataPar) for a in data]
    values: dict[IterVar, PrimExpr] = {a: n.var for a, n in zip(data, axes)}
    algebra.pass_up_index(stage.relations, ranges, values)
    condition = const(True, "bool")
    guards = algebra.needs_guard(stage.relations, ranges, set(), analyzer)
    for root in op.axis:
        if root in guards:
            dom = algebra.range_of(root)
            condition = logical_and(condition, values[root] < dom.min + dom.extent)
    body = _moved_body(op, {a.var: values[a] for a in op.axis}, condition)
    cache = ComputeOp(f"{op.name}.{scope}", op.tag, op.attrs, axes, body)
    indices: dict[IterVar, PrimExpr] = {a: a.var for a in op.axis}
    algebra.pass_down_index(stage.relations, ranges, indices)
    copy_body = tuple(t(*[indices[a] for a in data]) for t in cache.outputs)
    out = ComputeOp(op.name, "", op.attrs, op.axis, copy_body)
    new = schedule.add_stage(cache, schedule.stages.index(stage))
    new.scope, new.group = scope, stage.group
    new.relations = [r for r in stage.relations if _of_reduction(r)]
    new.leaf_iter_vars = axes + [a for a in stage.leaf_iter_vars if _is_reduction(a)]
    new.all_iter_vars = axes + [a for a in stage.all_iter_vars if _is_reduction(a)]
    new.iter_var_attrs = {a: v for a, v in stage.iter_var_attrs.items() if _is_reduction(a)}
    stage.relations, stage.iter_var_attrs = [], {}
    stage.all_iter_vars, stage.leaf_iter_vars = list(op.axis), list(op.axis)
    swap_op(schedule, stage, out, skip={new})
    return cache


def _moved_body(op: ComputeOp, values: dict[Any, Any], where: Any = None) -> tuple[Any, ...]:
    """Return the body over other variables, evaluated only where a condition holds. A reduction keeps its axes, and its
    outputs share one tuple of sources."""
    where = const(True, "bool") if where is None else where
    if not op.reduce_axis:
        return tuple(guarded(substitute(b, values), where, const(0, b.dtype)) for b in op.body)
    first = op.body[0]
    source = tuple(substitute(s, values) for s in first.source)
    condition = logical_and(where, substitute(first.condition, values))
    init = tuple(substitute(i, values) for i in first.init)
    axis = tuple(_moved_axis(a, values) for a in first.axis)
    combiner = substitute(first.combiner, values)
    return tuple(Reduce(combiner, source, axis, condition, b.value_index, init) for b in op.body)


def _moved_axis(axis: IterVar, values: dict[Any, Any]) -> IterVar:
    """Return ``axis`` with its range rewritten, or the same object if its range does not use the moved axes."""
    dom = algebra.range_of(axis)
    low, extent = substitute(dom.min, values), substitute(dom.extent, values)
    if low is dom.min and extent is dom.extent:
        return axis
    return IterVar(Range.from_min_extent(low, extent), axis.var, axis.iter_type, axis.thread_tag)


def swap_op(schedule: Schedule, stage: Stage, op: ComputeOp, skip: set[Stage]) -> None:
    """Set the operation of ``stage`` to ``op`` and let all readers read the new tensors."""
    change = Substitution()
    change.replaced.update(zip(stage.op.outputs, op.outputs))
    set_op(schedule, stage, op)
    replace_in_stages(schedule, change, skip=skip | {stage})


@primitive("rfactor")
class RfactorStep(ScheduleStep):
    """Split a reduction into two: a new tensor keeps ``axis`` as its dimension ``factor_axis``; the second reduction
    reduces that dimension."""

    tensor: TensorRef
    axis: AxisRef
    factor_axis: int = 0

    def act(self, schedule: Schedule) -> Any:
        stage = schedule.stage_by_uid(self.tensor.stage)
        op = stage.op
        _check_rfactor(stage)
        assert isinstance(op, ComputeOp), "_check_rfactor has already checked the operation"
        axis = _reduction_loop(schedule, stage, self.axis)
        place = self.factor_axis if self.factor_axis >= 0 else len(op.axis) + 1 + self.factor_axis
        if not 0 <= place <= len(op.axis):
            raise ScheduleError(
                f"rfactor of {stage.name}: factor_axis {self.factor_axis} is not within its {len(op.axis) + 1} "
                "dimensions"
            )
        factored, new_axis = _factored_op(stage, axis, place)
        final = _final_op(op, factored, new_axis, axis, place)
        new = schedule.add_stage(factored, schedule.stages.index(stage))
        new.group = stage.group
        stage.relations = [r for r in stage.relations if not _of_reduction(r)]
        data = [a for a in stage.leaf_iter_vars if not _is_reduction(a)]
        stage.all_iter_vars = [a for a in stage.all_iter_vars if not _is_reduction(a)] + list(final.reduce_axis)
        stage.leaf_iter_vars = data + list(final.reduce_axis)
        swap_op(schedule, stage, final, skip={new})
        outputs = factored.outputs
        return outputs[0] if len(outputs) == 1 else outputs


def _is_reduction(axis: Any) -> bool:
    return isinstance(axis, IterVar) and axis.iter_type == IterVar.CommReduce


def _of_reduction(relation: algebra.Relation) -> bool:
    """Return whether a relation divides or fuses reduction axes."""
    return _is_reduction(getattr(relation, "parent", getattr(relation, "outer", None)))


def _refuse_mixed(primitive: str, stage: Stage) -> None:
    found = algebra.mixed(stage.relations)
    if found:
        raise ScheduleError(
            f"{primitive} of {stage.name}: axis {found[0].var.name} is fused from data and reduction axes"
        )


def _check_rfactor(stage: Stage) -> None:
    if isinstance(stage.op, PlaceholderOp) or not isinstance(stage.op, ComputeOp) or not stage.op.reduce_axis:
        raise ScheduleError(f"rfactor of {stage.name}: it is not a reduction")


def _reduction_loop(schedule: Schedule, stage: Stage, ref: AxisRef) -> IterVar:
    """Return the loop to factor out. No other stage may be computed inside the reduction loops."""
    axis = stage.axis(ref, "rfactor")
    if axis not in stage.leaf_iter_vars:
        raise ScheduleError(f"rfactor of {stage.name}: {axis.var.name} is not one of its loops ({stage.loop_names()})")
    _refuse_mixed("rfactor", stage)
    if not _is_reduction(axis):
        raise ScheduleError(f"rfactor of {stage.name}: axis {axis.var.name} is not a reduction axis")
    for other in schedule.stages:
        if other.attach_type != AttachType.SCOPE or other.attach_stage is not stage:
            continue
        _, loop = other.attached_at
        if _is_reduction(loop):
            raise ScheduleError(
                f"rfactor of {stage.name}: stage {other.name} is computed inside its loop {loop.var.name}, which "
                "rfactor removes; call rfactor before compute_at"
            )
    return axis


def _factored_op(stage: Stage, axis: IterVar, place: int) -> tuple[ComputeOp, IterVar]:
    """Return the reduction over every reduction loop except ``axis``, which becomes a dimension."""
    op = stage.compute_op
    analyzer = Analyzer()
    ranges = {a: algebra.range_of(a) for a in list(op.axis) + list(op.reduce_axis)}
    algebra.pass_down_domain(stage.relations, ranges, analyzer)
    data = [IterVar(a.dom, Var(a.var.name, a.var.dtype), a.iter_type) for a in op.axis]
    # The extent of the reduction may depend on the element.
    moved = {a.var: n.var for a, n in zip(op.axis, data)}
    if _mentions(ranges[axis].extent, moved):
        raise ScheduleError(
            f"rfactor of {stage.name}: the extent of {axis.var.name} depends on the element, so it cannot become a "
            "dimension"
        )
    new_axis = IterVar(
        Range(min=const(0, axis.var.dtype), extent=ranges[axis].extent),
        Var(axis.var.name, axis.var.dtype),
        IterVar.DataPar,
    )
    values = {axis: new_axis.var + ranges[axis].min}
    leaves = [leaf for leaf in stage.leaf_iter_vars if _is_reduction(leaf) and leaf is not axis]
    # Undivided axes come first and stay the same objects.
    reduced = [_over(leaf, moved) for leaf in leaves if leaf in op.reduce_axis]
    reduced += [
        _over(IterVar(ranges[leaf], leaf.var, IterVar.CommReduce), moved)
        for leaf in leaves
        if leaf not in op.reduce_axis
    ]
    values.update({leaf: leaf.var for leaf in leaves})
    algebra.pass_up_index(stage.relations, ranges, values)
    guards = algebra.needs_guard(stage.relations, ranges, set(), analyzer)
    table = {**{a.var: values[a] for a in op.reduce_axis}, **moved}
    first = op.body[0]
    condition = substitute(first.condition, table)
    for root in op.reduce_axis:
        if root in guards:
            dom = algebra.range_of(root)
            condition = logical_and(condition, values[root] < substitute(dom.min + dom.extent, moved))
    for made in algebra.repeats(stage.relations, ranges, set(), analyzer):
        if made in values:
            condition = logical_and(condition, values[made] < substitute(ranges[made].min + ranges[made].extent, moved))
    source = tuple(substitute(s, table) for s in first.source)
    combiner = substitute(first.combiner, table)
    data.insert(place, new_axis)
    if reduced:
        body = tuple(Reduce(combiner, source, tuple(reduced), condition, b.value_index) for b in op.body)
    else:
        body = tuple(guarded(s, condition, i) for s, i in zip(source, first.combiner.identity_element))
    return ComputeOp(op.name + ".rf", op.tag, op.attrs, data, body), new_axis


def _mentions(expr: PrimExpr, variables: dict[Var, Var]) -> bool:
    return any(isinstance(n, Var) and n in variables for n in post_order(expr))


def _over(axis: IterVar, moved: dict[Var, Var]) -> IterVar:
    """Return a reduction axis with its range rewritten for other data variables, or the same object if nothing
    changes."""
    dom = algebra.range_of(axis)
    if not _mentions(dom.min, moved) and not _mentions(dom.extent, moved):
        return axis
    new = Range(min=substitute(dom.min, moved), extent=substitute(dom.extent, moved))
    return IterVar(new, axis.var, axis.iter_type)


def guarded(value: Any, condition: Any, identity: Any):
    from ..tir.op import if_then_else

    if getattr(condition, "value", 0):
        return value
    return if_then_else(condition, value, identity.astype(value.dtype))


def _final_op(op: ComputeOp, factored: ComputeOp, new_axis: IterVar, axis: IterVar, place: int) -> ComputeOp:
    """Return the reduction over the new dimension."""
    first = op.body[0]
    over = IterVar(new_axis.dom, Var(axis.var.name + ".v", axis.var.dtype), IterVar.CommReduce)
    indices = [a.var for a in op.axis]
    indices.insert(place, over.var)
    source = tuple(ProducerLoad(t, tuple(indices)) for t in factored.outputs)
    axes = (over,)
    always = const(True, "bool")
    body = tuple(Reduce(first.combiner, source, axes, always, b.value_index, first.init) for b in op.body)
    return ComputeOp(op.name, op.tag, op.attrs, op.axis, body)


__all__ = ["CacheReadStep", "CacheWriteStep", "RfactorStep", "guarded", "swap_op"]
