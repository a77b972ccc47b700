"""The step that stores a stage in another layout, and its lowering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ..error import ExprValueError
from ..ir.op import Op
from ..ir.prim import Call, IntImm, IterVar, PrimExpr, Range, Var, const
from ..tir.index_map import IndexMap
from ..tir.stmt import AttrStmt, Stmt
from . import axes as algebra
from .attributes import AttachType
from .axes import Transform
from .steps import StageStep, primitive
from .tensor import ComputeOp, ScanOp, Tensor

if TYPE_CHECKING:
    from .schedule import Schedule
    from .stage import Stage

# The layout of a tensor, as an attribute around the statement of a schedule. Its node is (tensor, index maps), its
# value the separators.
LAYOUT = "layout_transforms"


def layout_axes(stage: Stage) -> tuple[IterVar, ...]:
    """Return the axes of a stage, one for each dimension of its memory; an empty tuple if the layout has no axes in the
    loops."""
    if not stage.layout_transforms:
        return tuple(stage.op.axis)
    made = [r.made for r in stage.relations if isinstance(r, Transform)]
    return tuple(made[-1]) if made else ()


def _loops_of(stage: Stage) -> list[IterVar]:
    """Return the loops over the dimensions of the current layout."""
    made = [r.made for r in stage.relations if isinstance(r, Transform)]
    return list(made[-1] if made else stage.op.axis)


def layout_shapes(stage: Stage) -> list[Sequence[PrimExpr]]:
    """Return the shapes of the outputs of a stage in its current layout."""
    shapes: list[Sequence[PrimExpr]] = [t.shape for t in stage.op.outputs]
    for index_map in stage.layout_transforms:
        shapes = [index_map.map_shape(shape) for shape in shapes]
    return shapes


@primitive("transform_layout")
class TransformLayoutStep(StageStep):
    """Store the output at the indices of ``index_map``; a compute operation also runs its loops in that order. The
    layout is split into physical axes at ``axis_separators``."""

    stage: int
    index_map: IndexMap
    axis_separators: tuple[int, ...] = ()

    def change(self, stage: Stage) -> tuple[IterVar, ...]:
        made: tuple[IterVar, ...] = ()
        self._check_separators(stage)
        self._check_stage(stage)
        if isinstance(stage.op, ComputeOp):
            made = self._transform_loops(stage)
        else:
            for shape in layout_shapes(stage):
                self._check_injective(stage, shape)
        stage.layout_transforms = (*stage.layout_transforms, self.index_map)
        stage.axis_separators = tuple(self.axis_separators)
        return made

    def _check_separators(self, stage: Stage) -> None:
        places, last = list(self.axis_separators), len(self.index_map.final_indices)
        if places != sorted(set(places)) or any(not 0 < place < last for place in places):
            stage.refuse(
                "transform_layout", f"axis separators must be between axes; they are at {places} of {last} axes"
            )

    def _check_stage(self, stage: Stage) -> None:
        if stage.attach_type == AttachType.SCAN_UPDATE or _begins_scan(stage):
            stage.refuse("transform_layout", "its memory belongs to its scan; transform the layout of the scan")
        rank = len(self.index_map.initial_indices)
        for shape in layout_shapes(stage):
            if len(shape) != rank:
                stage.refuse(
                    "transform_layout", f"the map takes {rank} indices, but the stage has {len(shape)} dimensions"
                )

    def _check_injective(self, stage: Stage, shape: Sequence[PrimExpr]) -> None:
        """Check that the layout maps no two elements to one position. Positions without an element are padding and are
        never read."""
        if not all(isinstance(extent, IntImm) for extent in shape):
            return
        try:
            self.index_map.non_surjective_inverse(shape)
        except ExprValueError as error:
            stage.refuse("transform_layout", str(error))

    def _transform_loops(self, stage: Stage) -> tuple[IterVar, ...]:
        loops = _loops_of(stage)
        where = self._place(stage, loops)
        ranges = [algebra.range_of(axis) for axis in loops]
        try:
            inverse = self.index_map.inverse(ranges)
        except ExprValueError as error:
            stage.refuse("transform_layout", f"{error}; compute a padded layout in a stage of its own")
        final = self.index_map.final_indices
        made: list[IterVar] = []
        for i, (index, dom) in enumerate(zip(final, self.index_map.map_ranges(ranges))):
            name = index.name if isinstance(index, Var) else f"axis{i}"
            dtype = index.dtype
            full = Range(min=dom.min.astype(dtype), extent=dom.extent.astype(dtype))
            made.append(IterVar(full, Var(name, dtype), IterVar.DataPar))
        stage.relations.append(Transform(loops, made, self.index_map, inverse))
        stage.all_iter_vars += made
        stage.leaf_iter_vars[where : where + len(loops)] = made
        return tuple(made)

    def _place(self, stage: Stage, loops: list[IterVar]) -> int:
        """Return the position of the data loops among the leaf axes. The loops must be unscheduled."""
        leaves = stage.leaf_iter_vars
        where = leaves.index(loops[0]) if loops and loops[0] in leaves else 0
        if leaves[where : where + len(loops)] != loops:
            names = ", ".join(a.var.name for a in loops)
            _refuse_changed_stage(stage, f"its loops {names} have already been changed ({stage.loop_names()})")
        for axis in loops:
            if stage.peek(axis) is not None:
                _refuse_changed_stage(stage, f"loop {axis.var.name} is already annotated")
        for other in stage.schedule.stages:
            if other.attach_type == AttachType.SCOPE and other.attach_stage is stage and other.attach_ivar in loops:
                _, loop = other.attached_at
                _refuse_changed_stage(stage, f"stage {other.name} is computed inside its loop {loop.var.name}")
        return where


def _refuse_changed_stage(stage: Stage, why: str) -> NoReturn:
    stage.refuse("transform_layout", f"{why}; transform the layout first")


def _begins_scan(stage: Stage) -> bool:
    scans = [s.op for s in stage.schedule.stages if isinstance(s.op, ScanOp)]
    return any(t.op is stage.op for scan in scans for t in (*scan.init, *scan.state_placeholder))


def noted_layouts(schedule: Schedule, stmt: Stmt) -> Stmt:
    """Wrap the statement of a schedule in attributes that record the layouts of its tensors."""
    for stage in schedule.stages:
        for tensor in stage.op.outputs if stage.layout_transforms else ():
            separators = Call("handle", Op.get("tir.tvm_tuple"), tuple(const(i) for i in stage.axis_separators))
            stmt = AttrStmt((tensor, *stage.layout_transforms), LAYOUT, separators, stmt)
    return stmt


def read_layouts(stmt: Stmt) -> tuple[Stmt, dict[Tensor, tuple[tuple[IndexMap, ...], tuple[int, ...]]]]:
    """Remove the layout attributes from a statement; return it with, by tensor, the layout's index maps and
    separators."""
    found: dict[Tensor, tuple[tuple[IndexMap, ...], tuple[int, ...]]] = {}
    while isinstance(stmt, AttrStmt) and stmt.attr_key == LAYOUT:
        tensor, *maps = stmt.node
        separators: Any = stmt.value
        found[tensor] = tuple(maps), tuple(int(i) for i in separators.args)
        stmt = stmt.body
    return stmt, found


__all__ = ["TransformLayoutStep", "layout_axes", "layout_shapes", "noted_layouts", "read_layouts"]
