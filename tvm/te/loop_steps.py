"""Steps that change the loops of a stage: split, fuse and reorder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.prim import IntImm, IterVar, PrimExpr, Range, Var, const, convert
from . import axes as axis_algebra
from .attributes import ITER_TYPE_NAMES
from .axes import Fuse, Singleton, Split
from .steps import AxisRef, StageStep, primitive

if TYPE_CHECKING:
    from .stage import Stage


def _refuse_bound(stage: Stage, kind: str, axis: IterVar) -> None:
    attrs = stage.peek(axis)
    if attrs is not None and attrs.bind_thread is not None:
        stage.refuse(kind, f"axis {axis.var.name} is already bound to {attrs.bind_thread.thread_tag}")


def _split_size(stage: Stage, size: Any, what: str, parent: IterVar) -> PrimExpr:
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, (int, PrimExpr)) and not hasattr(size, "__index__"):
        stage.refuse("split", f"{what} of axis {parent.var.name} must be an integer or an expression, got {size!r}")
    if not isinstance(size, PrimExpr):
        size = const(int(size), parent.var.dtype)
    if isinstance(size, IntImm) and size.value <= 0:
        stage.refuse("split", f"{what} of axis {parent.var.name} must be at least 1, got {size.value}")
    return convert(size).astype(parent.var.dtype)


@primitive("split")
class SplitStep(StageStep):
    """for i in n  ->  for i.outer in ceil(n / factor): for i.inner in factor"""

    stage: int
    axis: AxisRef
    factor: Any = None
    nparts: Any = None

    def change(self, stage: Stage) -> tuple[IterVar, IterVar]:
        parent = stage.leaf(self.axis, "split")
        factor, nparts = self.factor, self.nparts
        if (factor is None) == (nparts is None):
            stage.refuse(
                "split", "pass either factor or nparts, not both" if factor is not None else "pass factor or nparts"
            )
        if factor is not None:
            factor = _split_size(stage, factor, "factor", parent)
        else:
            nparts = _split_size(stage, nparts, "nparts", parent)
        if parent.iter_type not in (IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered):
            stage.refuse("split", f"axis {parent.var.name} is a {ITER_TYPE_NAMES[parent.iter_type]} axis")
        _refuse_bound(stage, "split", parent)
        outer = IterVar(None, Var(parent.var.name + ".outer", parent.var.dtype), parent.iter_type)
        inner = IterVar(None, Var(parent.var.name + ".inner", parent.var.dtype), parent.iter_type)
        where = stage.leaf_iter_vars.index(parent)
        stage.relations.append(Split(parent, outer, inner, factor, nparts))
        stage.all_iter_vars += [outer, inner]
        stage.leaf_iter_vars[where : where + 1] = [outer, inner]
        return outer, inner


@primitive("overlap")
class OverlapStep(StageStep):
    """Make the last inner loop of a split end with the split axis, which is a dimension of the output or a fusion of
    several dimensions."""

    stage: int
    axis: AxisRef

    def change(self, stage: Stage) -> None:
        stage.require_compute("overlap")
        axis = stage.leaf(self.axis, "overlap")
        made = next((r for r in stage.relations if isinstance(r, Split) and r.outer is axis), None)
        made_of = [] if made is None else axis_algebra.fused_of(stage.relations, made.parent)
        if made is None or made.factor is None or not all(a in stage.op.axis for a in made_of):
            stage.refuse(
                "overlap", f"{axis.var.name} is not the outer loop of a split of an output dimension by a factor"
            )
        stage.relations[stage.relations.index(made)] = Split(
            made.parent, made.outer, made.inner, made.factor, None, overlaps=True
        )


@primitive("fuse", variadic=True)
class FuseStep(StageStep):
    """for i: for j  ->  for i.j.fused in extent(i) * extent(j). Without axes, make an outermost loop of one
    iteration."""

    stage: int
    axes: tuple[AxisRef, ...]

    def change(self, stage: Stage) -> IterVar:
        stage.require_compute("fuse")
        axes = [stage.leaf(axis, "fuse") for axis in self.axes]
        if not axes:
            axis = IterVar(Range(min=const(0), extent=const(1)), "singleton", IterVar.DataPar)
            stage.relations.append(Singleton(axis))
            stage.all_iter_vars.append(axis)
            stage.leaf_iter_vars.insert(0, axis)
            return axis
        _check_fusable(stage, axes)
        fused = axes[0]
        for inner in axes[1:]:
            fused = _fuse_two(stage, fused, inner)
        return fused


def _check_fusable(stage: Stage, axes: list[IterVar]) -> None:
    where = [stage.leaf_iter_vars.index(a) for a in axes]
    if len(set(where)) != len(where):
        stage.refuse("fuse", "the same axis is given twice")
    if where != list(range(where[0], where[0] + len(where))):
        stage.refuse(
            "fuse",
            f"axes {', '.join(a.var.name for a in axes)} must be neighbours in this order; "
            f"the loops are {stage.loop_names()}",
        )
    kinds = {a.iter_type for a in axes}
    if len(kinds) > 1 and kinds != {IterVar.DataPar, IterVar.CommReduce}:
        stage.refuse("fuse", f"axes of kinds {', '.join(sorted(ITER_TYPE_NAMES[k] for k in kinds))} cannot be fused")
    for axis in axes:
        _refuse_bound(stage, "fuse", axis)


def _fuse_two(stage: Stage, outer: IterVar, inner: IterVar) -> IterVar:
    name = f"{outer.var.name}.{inner.var.name}.fused"
    dtype = axis_algebra.fused_dtype([*stage.op.axis, *stage.op.reduce_axis], stage.relations, outer, inner)
    # A fusion of data and reduction axes is a reduction axis: its iterations depend on each other.
    kind = IterVar.CommReduce if IterVar.CommReduce in (outer.iter_type, inner.iter_type) else outer.iter_type
    fused = IterVar(None, Var(name, dtype), kind)
    where = stage.leaf_iter_vars.index(outer)
    stage.relations.append(Fuse(outer, inner, fused))
    stage.all_iter_vars.append(fused)
    stage.leaf_iter_vars[where : where + 2] = [fused]
    return fused


@primitive("reorder", variadic=True)
class ReorderStep(StageStep):
    """Put the given loops into the given order, in the positions they occupy now."""

    stage: int
    axes: tuple[AxisRef, ...]

    def change(self, stage: Stage) -> None:
        stage.require_compute("reorder")
        axes = [stage.leaf(axis, "reorder") for axis in self.axes]
        if len(set(axes)) != len(axes):
            stage.refuse("reorder", "the same axis is given twice")
        where = sorted(stage.leaf_iter_vars.index(a) for a in axes)
        ordered = list(stage.leaf_iter_vars)
        for place, axis in zip(where, axes):
            ordered[place] = axis
        # Moving the given loops can change their order relative to other loops, so check the order of all loops.
        held = axis_algebra.mixed(stage.relations)
        if [a for a in stage.leaf_iter_vars if a in held] != [a for a in ordered if a in held]:
            stage.refuse(
                "reorder", f"{held[0].var.name} is fused from data and reduction axes; its loops must keep their order"
            )
        stage.leaf_iter_vars[:] = ordered
