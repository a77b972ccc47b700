"""What a stage is: the loops of one operation, what is said about them, and the questions that steps ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..error import ScheduleError
from ..ir.prim import IterVar, PrimExpr
from .attributes import AttachType, AxisAttributes
from .axes import Fuse, Relation, Split, Transform
from .steps import AxisRef
from .tensor import ComputeOp, Operation, PlaceholderOp, TensorComputeOp

if TYPE_CHECKING:
    from ..tir.index_map import IndexMap
    from .schedule import Schedule
    from .stage import Stage


class StageState:
    """The loops of one operation and where they are computed, which ``Stage`` changes."""

    def __init__(self, schedule: Schedule, op: Operation, uid: int):
        self.schedule = schedule
        self.uid = uid
        self.op = op
        self.origin_op = op
        self.all_iter_vars: list[IterVar] = [*op.axis, *op.reduce_axis]
        self.leaf_iter_vars: list[IterVar] = list(op.loops if isinstance(op, TensorComputeOp) else self.all_iter_vars)
        self.relations: list[Relation] = []
        self.iter_var_attrs: dict[IterVar, AxisAttributes] = {}
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_ivar: IterVar | None = None
        self.attach_stage: Stage | None = None
        self.scope = ""
        self.is_output = False
        # Pieces of memory that take turns; 0 where there is one.
        self.double_buffered = 0
        # Whether its memory keeps what the next iteration of the loops around it reads again.
        self.rolls = False
        # How the elements of the result lie in memory: maps of indices, one after the other; and where the axes of the
        # last layout are cut into physical ones.
        self.layout_transforms: tuple[IndexMap, ...] = ()
        self.axis_separators: tuple[int, ...] = ()
        self.env_thread_axes: list[IterVar] = []
        self.store_predicate: PrimExpr | None = None
        self.group: Stage | None = None
        self.num_child_stages = 0

    def __repr__(self):
        return f"stage({self.op.name}, {self.op!s})" if self.is_group else f"stage({self.op.name})"

    @property
    def is_group(self) -> bool:
        return False

    @property
    def name(self) -> str:
        return self.op.name

    def attributes(self, axis: IterVar) -> AxisAttributes:
        """The attributes of an axis, made when first asked for.

        Parameters
        ----------
        axis : IterVar
            An axis of this stage.

        Returns
        -------
        AxisAttributes
            Its attributes.
        """
        got = self.iter_var_attrs.get(axis)
        if got is None:
            got = self.iter_var_attrs[axis] = AxisAttributes()
            got.iter_type = axis.iter_type
        return got

    def peek(self, axis: IterVar) -> AxisAttributes | None:
        """The attributes of an axis, where something was said of it.

        Parameters
        ----------
        axis : IterVar
            An axis of this stage.

        Returns
        -------
        AxisAttributes, optional
            Its attributes; None where nothing was said.
        """
        return self.iter_var_attrs.get(axis)

    @property
    def compute_op(self) -> ComputeOp:
        """The operation of a stage that is known to be a compute."""
        assert isinstance(self.op, ComputeOp), f"stage {self.name} is no compute"
        return self.op

    @property
    def attached_at(self) -> tuple[Stage, IterVar]:
        """The stage and the loop of it inside which this stage is computed; only for a stage that is."""
        assert self.attach_stage is not None and self.attach_ivar is not None, f"stage {self.name} is not attached"
        return self.attach_stage, self.attach_ivar

    def computed_inside(self) -> list[Stage]:
        """The stages in whose loops this one is computed, innermost first.

        Returns
        -------
        list of Stage
            The stages.
        """
        found: list[Stage] = []
        node: StageState | None = self
        while node is not None:
            if node.attach_type in (AttachType.SCOPE, AttachType.SCAN_UPDATE):
                node, _ = node.attached_at
                found.append(node)
            else:
                node = node.group
                if node is not None and not node.is_group:
                    found.append(node)
        return found

    # -- what steps ask -------------------------------------------------------------------------------------------

    def refuse(self, primitive: str, reason: str) -> NoReturn:
        """End with an error that names a primitive and this stage.

        Parameters
        ----------
        primitive : str
            The primitive.
        reason : str
            Why it cannot be applied.

        Raises
        ------
        ScheduleError
            Always.
        """
        raise ScheduleError(f"{primitive} on stage {self.name}: {reason}")

    def require_compute(self, primitive: str) -> None:
        """Refuse a primitive on a placeholder.

        Parameters
        ----------
        primitive : str
            The primitive.

        Raises
        ------
        ScheduleError
            The stage is that of a placeholder.
        """
        if isinstance(self.op, PlaceholderOp):
            self.refuse(primitive, "it is a placeholder (an input): there is nothing to schedule")

    def loop_names(self) -> str:
        """The names of the loops of this stage, for errors.

        Returns
        -------
        str
            The names, separated by commas.
        """
        return ", ".join(a.var.name for a in self.leaf_iter_vars) or "none"

    def axis(self, ref: AxisRef, primitive: str) -> IterVar:
        """The axis a step names, of a stage that can be scheduled.

        Parameters
        ----------
        ref : AxisRef
            The name of the axis in a step.
        primitive : str
            The primitive, for errors.

        Returns
        -------
        IterVar
            The axis.

        Raises
        ------
        ScheduleError
            The stage is that of a placeholder.
        """
        self.require_compute(primitive)
        if ref.stage != self.uid or not 0 <= ref.index < len(self.all_iter_vars):
            self.refuse(primitive, f"it has no axis number {ref.index}; the loops are {self.loop_names()}")
        return self.all_iter_vars[ref.index]

    def leaf(self, ref: AxisRef, primitive: str) -> IterVar:
        """The axis a step names, which is a loop.

        Parameters
        ----------
        ref : AxisRef
            The name of the axis in a step.
        primitive : str
            The primitive, for errors.

        Returns
        -------
        IterVar
            The loop.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage: it was split or fused.
        """
        axis = self.axis(ref, primitive)
        if axis in self.leaf_iter_vars:
            return axis
        for r in self.relations:
            if isinstance(r, Split) and r.parent is axis:
                why = f"was split into {r.outer.var.name} and {r.inner.var.name}"
                break
            if isinstance(r, Fuse) and axis in (r.outer, r.inner):
                why = f"was fused into {r.fused.var.name}"
                break
            if isinstance(r, Transform) and axis in r.parents:
                why = "was replaced by transform_layout"
                break
        else:
            why = "is made by an intrinsic" if isinstance(self.op, TensorComputeOp) else "is no loop any more"
        self.refuse(primitive, f"axis {axis.var.name} {why}; the loops are {self.loop_names()}")

    def _ref(self, axis: Any, primitive: str) -> AxisRef:
        """An axis of this stage as steps name it."""
        self.require_compute(primitive)
        if not isinstance(axis, IterVar):
            self.refuse(primitive, f"an axis of the stage is wanted, got {type(axis).__name__}")
        if axis not in self.all_iter_vars:
            name = axis.var.name
            self.refuse(primitive, f"axis {name} is not an axis of this stage; the loops are {self.loop_names()}")
        return AxisRef(self.uid, self.all_iter_vars.index(axis))

    def _refs(self, axes: tuple[Any, ...], primitive: str) -> tuple[AxisRef, ...]:
        """Axes, given one by one or as one list."""
        if len(axes) == 1 and isinstance(axes[0], (list, tuple)):
            axes = tuple(axes[0])
        return tuple(self._ref(axis, primitive) for axis in axes)
