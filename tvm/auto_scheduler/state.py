"""The loops of a program after some steps, without a te schedule.

States are immutable: a step returns a new state, which shares the unchanged stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..error import TVMError
from ..ir.prim import IntImm, ProducerLoad
from ..ir.visit import post_order
from ..te.tensor import ComputeOp, Operation, PlaceholderOp
from .iterator import Iterator, IteratorKind
from .state_text import state_text
from .steps import TransformStep

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG


@dataclass(frozen=True, eq=False)
class Stage:
    """The loops of an operation, and its compute location.

    Parameters
    ----------
    op : Operation
        The operation.
    iters : tuple of Iterator
        The loops, outermost first.
    compute_at : int
        The compute location, a value of ``COMPUTE_AT_TRANS_TABLE``.
    attach : tuple of int, optional
        The stage number and loop index at which the stage is computed.
    auto_unroll_max_step : int
        The maximum number of statements up to which its loops are unrolled.
    storage_factor : int
        The factor of which a storage alignment makes the stride a multiple.
    storage_offset : int
        The offset that it adds.
    buffers : int
        The number of buffers (double buffering).
    is_output : bool
        Whether it is an output of the computation.
    """

    COMPUTE_AT_TRANS_TABLE: ClassVar[dict[str, int]] = {"root": 0, "inlined": 1, "iter": 2}

    op: Operation
    iters: tuple[Iterator, ...]
    compute_at: int = 0
    attach: tuple[int, int] | None = None
    auto_unroll_max_step: int = 0
    storage_factor: int = 0
    storage_offset: int = 0
    buffers: int = 1
    is_output: bool = False

    @staticmethod
    def of(op: Operation, is_output: bool = False) -> Stage:
        """The stage of an operation with its initial loops.

        Parameters
        ----------
        op : Operation
            The operation; a placeholder has no loops.
        is_output : bool, optional
            Whether it is an output of the computation.

        Returns
        -------
        Stage

        Raises
        ------
        TVMError
            A loop has no constant extent.
        """
        return Stage(op, fresh_iterators(op), is_output=is_output)

    @property
    def op_type(self) -> int:
        """0 for a placeholder, 1 for a compute."""
        return 0 if self.is_placeholder else 1

    @property
    def is_placeholder(self) -> bool:
        return isinstance(self.op, PlaceholderOp)


def fresh_iterators(op: Operation) -> tuple[Iterator, ...]:
    if not isinstance(op, ComputeOp):
        return ()
    kinds = [(a, IteratorKind.SPATIAL) for a in op.axis] + [(a, IteratorKind.REDUCTION) for a in op.reduce_axis]
    return tuple(Iterator(a.var.name, _constant(a.dom.min), _extent(a.dom.extent, kind), kind) for a, kind in kinds)


def _extent(value: Any, kind: IteratorKind) -> int | None:
    """Return the extent of a loop; that of a reduction may be data-dependent, such as the length of a row of a sparse
    matrix."""
    if kind is IteratorKind.REDUCTION and any(isinstance(node, ProducerLoad) for node in post_order(value)):
        return None
    return _constant(value)


def _constant(value: Any) -> int:
    if not isinstance(value, IntImm):
        raise TVMError(f"the auto-scheduler only supports loops with constant extents, got {value}")
    return value.value


@dataclass(frozen=True, eq=False)
class StateObject:
    """Stages and the steps that created them. A state that was read from a record contains only steps.

    Parameters
    ----------
    stages : tuple of Stage
        The stages; a state of a record has none before it is replayed.
    transform_steps : tuple of TransformStep
        The steps of the state.
    """

    stages: tuple[Stage, ...]
    transform_steps: tuple[TransformStep, ...] = ()

    def then(self, step: TransformStep, dag: ComputeDAG) -> StateObject:
        """The state after one more step.

        Parameters
        ----------
        step : TransformStep
            The step.
        dag : ComputeDAG
            The computation of the state.

        Returns
        -------
        StateObject

        Raises
        ------
        TVMError
            The step refers to a stage or loop that does not exist or to a placeholder, or it cannot be applied.
        """
        if not 0 <= step.stage_id < len(self.stages):
            step.refuse(f"stage number {step.stage_id} is out of range; there are {len(self.stages)} stages")
        if self.stages[step.stage_id].is_placeholder and not step.changes_ops:
            step.refuse(f"{self.stages[step.stage_id].op.name} is a placeholder: it has no loops")
        return replace(step.apply(self, dag), transform_steps=(*self.transform_steps, step))

    @property
    def concrete(self) -> bool:
        """Whether the lengths of all splits are known."""
        return all(None not in getattr(step, "lengths", ()) for step in self.transform_steps if step.code == "SP")

    def iterator(self, stage_id: int, iter_id: int, step: TransformStep) -> Iterator:
        """The loop that a step refers to.

        Parameters
        ----------
        stage_id : int
            The number of the stage.
        iter_id : int
            The index of the loop in the stage, outermost first.
        step : TransformStep
            The step, which is part of the error message.

        Returns
        -------
        Iterator

        Raises
        ------
        TVMError
            The loop does not exist.
        """
        iters = self.stages[stage_id].iters if 0 <= stage_id < len(self.stages) else ()
        if not 0 <= iter_id < len(iters):
            step.refuse(f"stage {stage_id} has no loop number {iter_id}")
        return iters[iter_id]

    def attached_to(self, stage_id: int, iter_id: int) -> list[int]:
        """The stages that are computed inside a loop.

        Parameters
        ----------
        stage_id : int
            The number of the stage.
        iter_id : int
            The index of its loop.

        Returns
        -------
        list of int
            The numbers of the stages.
        """
        return [i for i, stage in enumerate(self.stages) if stage.attach == (stage_id, iter_id)]

    # -- modified states -----------------------------------------------------------------------------------------------

    def with_stage(self, stage_id: int, **changes: Any) -> StateObject:
        """The state with one stage changed.

        Parameters
        ----------
        stage_id : int
            The number of the stage.
        **changes
            New values of fields of ``Stage``, by their names.

        Returns
        -------
        StateObject
        """
        stages = list(self.stages)
        stages[stage_id] = replace(stages[stage_id], **changes)
        return replace(self, stages=tuple(stages))

    def with_iters(
        self, stage_id: int, iters: tuple[Iterator, ...], moved: Callable[[int], int] | None = None
    ) -> StateObject:
        """The state with other loops of a stage. ``moved`` maps old loop indices to new ones, for the stages computed
        inside them.

        Parameters
        ----------
        stage_id : int
            The number of the stage.
        iters : tuple of Iterator
            The loops, outermost first.
        moved : callable, optional
            The function that returns the new index of an old loop; by default, indices do not change.

        Returns
        -------
        StateObject
        """
        state = self.with_stage(stage_id, iters=iters)
        if moved is None or all(s.attach is None or s.attach[0] != stage_id for s in self.stages):
            return state
        stages = tuple(
            replace(s, attach=(stage_id, moved(s.attach[1]))) if s.attach and s.attach[0] == stage_id else s
            for s in state.stages
        )
        return replace(state, stages=stages)

    def with_new_stage(self, place: int, stage: Stage) -> StateObject:
        """The state with an additional stage; the numbers of stages from ``place`` on increase.

        Parameters
        ----------
        place : int
            The number of the new stage.
        stage : Stage
            The stage.

        Returns
        -------
        StateObject
            The state; stages stay attached to the same loops.
        """

        def shifted(s: Stage) -> Stage:
            return replace(s, attach=(s.attach[0] + 1, s.attach[1])) if s.attach and s.attach[0] >= place else s

        stages = [shifted(s) for s in self.stages]
        stages.insert(place, stage)
        return replace(self, stages=tuple(stages))

    def with_ops(self, ops: Sequence[Operation]) -> StateObject:
        """The state with the same loops and other operations.

        Parameters
        ----------
        ops : list of Operation
            An operation for each stage, with the same axes as the operation that it replaces.

        Returns
        -------
        StateObject
        """
        stages = tuple(s if s.op is op else replace(s, op=op) for s, op in zip(self.stages, ops))
        return replace(self, stages=stages)

    def with_fresh_iters(self, stage_id: int) -> StateObject:
        """The state with a stage reset to its initial loops; its compute location is unchanged.

        Parameters
        ----------
        stage_id : int
            The number of the stage.

        Returns
        -------
        StateObject

        Raises
        ------
        TVMError
            A loop of its operation has no constant extent.
        """
        return self.with_stage(stage_id, iters=fresh_iterators(self.stages[stage_id].op))

    def __str__(self) -> str:
        return state_text(self)


__all__ = ["Stage", "StateObject", "fresh_iterators"]
