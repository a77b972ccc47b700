"""The state of a stage: the loops of one operation and their attributes, with the queries that steps use."""

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
    """The loops of one operation and the attach point of its stage. The methods of ``Stage`` change this state."""

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
        # The number of buffers of a double-buffered stage, or 0 without double buffering.
        self.double_buffered = 0
        # Whether the stage keeps the elements that the next iteration of the loops around it reads again.
        self.rolls = False
        # The layout of the output: index maps, applied one after the other, and the separators of the last layout.
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
        """The attributes of an axis, created on first use.

        Parameters
        ----------
        axis : IterVar
            An axis of this stage.

        Returns
        -------
        AxisAttributes
            The attributes.
        """
        got = self.iter_var_attrs.get(axis)
        if got is None:
            got = self.iter_var_attrs[axis] = AxisAttributes()
            got.iter_type = axis.iter_type
        return got

    def peek(self, axis: IterVar) -> AxisAttributes | None:
        """The attributes of an axis, if any were set.

        Parameters
        ----------
        axis : IterVar
            An axis of this stage.

        Returns
        -------
        AxisAttributes, optional
            The attributes, or None.
        """
        return self.iter_var_attrs.get(axis)

    @property
    def compute_op(self) -> ComputeOp:
        """The operation of the stage, which must be a compute operation."""
        assert isinstance(self.op, ComputeOp), f"stage {self.name} is not a compute operation"
        return self.op

    @property
    def attached_at(self) -> tuple[Stage, IterVar]:
        """The stage and the loop inside which this stage is computed. The stage must be attached."""
        assert self.attach_stage is not None and self.attach_ivar is not None, f"stage {self.name} is not attached"
        return self.attach_stage, self.attach_ivar

    def computed_inside(self) -> list[Stage]:
        """The stages inside whose loops this one is computed, innermost first.

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

    # -- queries of steps -----------------------------------------------------------------------------------------

    def refuse(self, primitive: str, reason: str) -> NoReturn:
        """Raise an error that names a primitive and this stage.

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
        """Reject a primitive on a placeholder.

        Parameters
        ----------
        primitive : str
            The primitive.

        Raises
        ------
        ScheduleError
            The stage is a placeholder.
        """
        if isinstance(self.op, PlaceholderOp):
            self.refuse(primitive, "it is a placeholder (an input) and cannot be scheduled")

    def loop_names(self) -> str:
        """The names of the loops of this stage, for error messages.

        Returns
        -------
        str
            The names, separated by commas.
        """
        return ", ".join(a.var.name for a in self.leaf_iter_vars) or "none"

    def axis(self, ref: AxisRef, primitive: str) -> IterVar:
        """The axis to which a step refers. The stage must not be a placeholder.

        Parameters
        ----------
        ref : AxisRef
            The reference to the axis in a step.
        primitive : str
            The primitive, for error messages.

        Returns
        -------
        IterVar
            The axis.

        Raises
        ------
        ScheduleError
            The stage is a placeholder.
        """
        self.require_compute(primitive)
        if ref.stage != self.uid or not 0 <= ref.index < len(self.all_iter_vars):
            self.refuse(primitive, f"it has no axis {ref.index}; the loops are {self.loop_names()}")
        return self.all_iter_vars[ref.index]

    def leaf(self, ref: AxisRef, primitive: str) -> IterVar:
        """The loop to which a step refers.

        Parameters
        ----------
        ref : AxisRef
            The reference to the axis in a step.
        primitive : str
            The primitive, for error messages.

        Returns
        -------
        IterVar
            The loop.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage because it was split or fused.
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
            why = "is made by an intrinsic" if isinstance(self.op, TensorComputeOp) else "is not a loop any more"
        self.refuse(primitive, f"axis {axis.var.name} {why}; the loops are {self.loop_names()}")

    def _ref(self, axis: Any, primitive: str) -> AxisRef:
        """Return the reference to an axis of this stage that steps use."""
        self.require_compute(primitive)
        if not isinstance(axis, IterVar):
            self.refuse(primitive, f"expected an axis of the stage, got {type(axis).__name__}")
        if axis not in self.all_iter_vars:
            name = axis.var.name
            self.refuse(primitive, f"axis {name} is not an axis of this stage; the loops are {self.loop_names()}")
        return AxisRef(self.uid, self.all_iter_vars.index(axis))

    def _refs(self, axes: tuple[Any, ...], primitive: str) -> tuple[AxisRef, ...]:
        """Return the references to axes that are passed separately or as one list."""
        if len(axes) == 1 and isinstance(axes[0], (list, tuple)):
            axes = tuple(axes[0])
        return tuple(self._ref(axis, primitive) for axis in axes)
