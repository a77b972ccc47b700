"""Schedules written by hand: ``State`` holds the state after the steps that its methods make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..docstring import described
from ..te.tensor import Operation, Tensor
from .annotation_steps import AnnotationStep, DoubleBufferStep, PragmaStep, StorageAlignStep, TensorizeStep
from .attach_steps import ComputeAtStep, ComputeInlineStep, ComputeRootStep
from .dataflow_steps import CacheReadStep, CacheWriteStep, PadStep, RfactorStep
from .iterator import ANNOTATION_NAMES, Annotation, Iterator
from .loop_steps import FollowFusedSplitStep, FollowSplitStep, FuseStep, ReorderStep, SplitStep
from .state import Stage, StateObject
from .steps import TransformStep

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG

StageKey = Any
# The parameters that most methods share.
_NAMED = {"stage": ("int, Operation or Tensor", "The stage."), "iterator": ("Iterator", "The loop.")}


class State:
    """A schedule written by hand: methods name stages by tensors, operations or places.

    Parameters
    ----------
    state_object : StateObject
        The state that is changed from.
    dag : ComputeDAG
        Its computation.
    """

    ANNOTATION_TRANS_TABLE: ClassVar[dict[str, int]] = {name: int(kind) for kind, name in ANNOTATION_NAMES.items()}

    def __init__(self, state_object: StateObject, dag: ComputeDAG):
        self.state_object, self.compute_dag = state_object, dag
        self.stage_id_map: dict[Operation, int] = {}
        self._number_stages()

    def _number_stages(self) -> None:
        # Operations that steps replaced are still known: scripts hold their tensors.
        for place, stage in enumerate(self.state_object.stages):
            self.stage_id_map[stage.op] = place

    # -- what there is ---------------------------------------------------------------------------------------------

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.state_object.stages

    @property
    def transform_steps(self) -> tuple[TransformStep, ...]:
        return self.state_object.transform_steps

    @property
    def stage_ops(self) -> list[Operation]:
        return [stage.op for stage in self.stages]

    def __getitem__(self, key: StageKey) -> Stage:
        return self.stages[self._stage(key)]

    def _stage(self, key: StageKey) -> int:
        if isinstance(key, int):
            if not 0 <= key < len(self.stages):
                raise ValueError(f"there is no stage number {key}; there are {len(self.stages)}")
            return key
        op = key.op if isinstance(key, Tensor) else key
        if not isinstance(op, Operation):
            raise ValueError(f"a stage is named by a tensor, an operation or its number, got {type(key).__name__}")
        if op not in self.stage_id_map:
            raise ValueError(f"{op.name} is no stage of this state")
        return self.stage_id_map[op]

    def _place(self, stage_id: int, iterator: Iterator) -> int:
        stage = self.stages[stage_id]
        for place, it in enumerate(stage.iters):
            if it is iterator:
                return place
        raise ValueError(f"{iterator} is no loop of stage {stage.op.name}; they are {', '.join(map(str, stage.iters))}")

    def copy(self) -> State:
        """An independent state of the same steps.

        Returns
        -------
        State
            The copy.
        """
        made = State(self.state_object, self.compute_dag)
        made.stage_id_map = dict(self.stage_id_map)
        return made

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self.compute_dag is other.compute_dag and self.transform_steps == other.transform_steps

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self.state_object)

    __repr__ = __str__

    # -- steps -----------------------------------------------------------------------------------------------------

    def _then(self, step: TransformStep) -> None:
        self.state_object = self.state_object.then(step, self.compute_dag)

    def _made(self, stage_id: int) -> Operation:
        """The operation of a new stage, after which others moved up."""
        self.stage_id_map = {op: i + (i >= stage_id) for op, i in self.stage_id_map.items()}
        self._number_stages()
        return self.stages[stage_id].op

    def _annotate(self, stage: StageKey, iterator: Iterator, annotation: Annotation) -> Iterator:
        stage_id = self._stage(stage)
        place = self._place(stage_id, iterator)
        self._then(AnnotationStep(stage_id, place, int(annotation)))
        return self.stages[stage_id].iters[place]

    @described(_NAMED)
    def tensorize(self, stage: StageKey, iterator: Iterator, intrinsic: str) -> Iterator:
        """Let a tensor intrinsic compute a loop and all loops inside of it.

        Parameters
        ----------
        intrinsic : str
            Its name, as the back end of the target has declared it (``auto_scheduler.intrinsics``).

        Returns
        -------
        Iterator
            The loop as it is now.
        """
        stage_id = self._stage(stage)
        place = self._place(stage_id, iterator)
        self._then(TensorizeStep(stage_id, place, intrinsic))
        return self.stages[stage_id].iters[place]

    @described(_NAMED)
    def bind(self, stage: StageKey, iterator: Iterator, thread_name: str) -> Iterator:
        """Let hardware threads ("blockIdx.x", "threadIdx.y", "vthread", ...) carry a loop.

        Parameters
        ----------
        thread_name : str
            The threads.

        Returns
        -------
        Iterator
            The loop as it is now.

        Raises
        ------
        ValueError
            There are no such threads.
        """
        number = self.ANNOTATION_TRANS_TABLE.get(thread_name, 0)
        if not Annotation.VTHREAD <= number <= Annotation.THREAD_Z:
            raise ValueError(f"bind: '{thread_name}' is no name of threads")
        return self._annotate(stage, iterator, Annotation(number))

    @described(_NAMED)
    def parallel(self, stage: StageKey, iterator: Iterator) -> Iterator:
        """Spread the iterations of a loop over threads.

        Returns
        -------
        Iterator
            The loop as it is now.
        """
        return self._annotate(stage, iterator, Annotation.PARALLEL)

    @described(_NAMED)
    def unroll(self, stage: StageKey, iterator: Iterator, max_unroll: int | None = None) -> Iterator:
        """Unroll a loop, unless it has more iterations than ``max_unroll``.

        Parameters
        ----------
        max_unroll : int, optional
            The most iterations.

        Returns
        -------
        Iterator
            The loop as it is now.
        """
        if max_unroll is not None and iterator.extent is not None and iterator.extent > max_unroll:
            return iterator
        return self._annotate(stage, iterator, Annotation.UNROLL)

    @described(_NAMED)
    def vectorize(self, stage: StageKey, iterator: Iterator) -> Iterator:
        """Run the iterations of a loop as lanes of vectors.

        Returns
        -------
        Iterator
            The loop as it is now.
        """
        return self._annotate(stage, iterator, Annotation.VECTORIZE)

    @described(_NAMED)
    def fuse(self, stage: StageKey, iters: Sequence[Iterator]) -> Iterator:
        """Make one loop of neighbouring ones.

        Parameters
        ----------
        iters : list of Iterator
            The loops, from the outer to the inner.

        Returns
        -------
        Iterator
            The one loop.
        """
        stage_id = self._stage(stage)
        places = tuple(self._place(stage_id, it) for it in iters)
        self._then(FuseStep(stage_id, places))
        return self.stages[stage_id].iters[places[0] if places else 0]

    @described(_NAMED)
    def pragma(self, stage: StageKey, iterator: Iterator, pragma_type: str) -> None:
        """Note something at a loop: ``auto_unroll_max_step$64``.

        Parameters
        ----------
        pragma_type : str
            What is noted.
        """
        stage_id = self._stage(stage)
        self._then(PragmaStep(stage_id, self._place(stage_id, iterator), pragma_type))

    @described(_NAMED)
    def reorder(self, stage: StageKey, order: Sequence[Iterator]) -> None:
        """All loops of a stage in another order.

        Parameters
        ----------
        order : list of Iterator
            The loops.
        """
        stage_id = self._stage(stage)
        self._then(ReorderStep(stage_id, tuple(self._place(stage_id, it) for it in order)))

    def _split_made(self, stage_id: int, place: int, before: int) -> list[Iterator]:
        iters = self.stages[stage_id].iters
        return list(iters[place : place + 1 + len(iters) - before])

    @described(_NAMED)
    def split(
        self, stage: StageKey, iterator: Iterator, lengths: Sequence[int | None], inner_to_outer: bool = True
    ) -> list[Iterator]:
        """Split a loop: ``lengths`` of the inner parts, or of the outer ones without ``inner_to_outer``; None where
        one is not decided.

        Parameters
        ----------
        lengths : list of int
            The lengths.
        inner_to_outer : bool
            Whether they are those of the inner parts.

        Returns
        -------
        list of Iterator
            The parts, from the outer to the inner.
        """
        stage_id = self._stage(stage)
        place, before = self._place(stage_id, iterator), len(self.stages[stage_id].iters)
        known = tuple(None if length is None else int(length) for length in lengths)
        self._then(SplitStep(stage_id, place, iterator.extent, known, bool(inner_to_outer)))
        return self._split_made(stage_id, place, before)

    @described(_NAMED)
    def follow_split(self, stage: StageKey, iterator: Iterator, src_step_id: int, n_split: int) -> list[Iterator]:
        """Split a loop as an earlier step did another one.

        Parameters
        ----------
        src_step_id : int
            The number of the step.
        n_split : int
            How many lengths are taken.

        Returns
        -------
        list of Iterator
            The parts.
        """
        stage_id = self._stage(stage)
        place, before = self._place(stage_id, iterator), len(self.stages[stage_id].iters)
        self._then(FollowSplitStep(stage_id, place, src_step_id, n_split))
        return self._split_made(stage_id, place, before)

    @described(_NAMED)
    def follow_fused_split(
        self, stage: StageKey, iterator: Iterator, src_step_ids: Sequence[int], level: int, factor_or_nparts: bool
    ) -> list[Iterator]:
        """Split a loop by the product of the lengths that earlier splits have at a level.

        Parameters
        ----------
        src_step_ids : list of int
            The numbers of the steps.
        level : int
            The level.
        factor_or_nparts : bool
            Whether the product is the length of the inner part.

        Returns
        -------
        list of Iterator
            The parts.
        """
        stage_id = self._stage(stage)
        place, before = self._place(stage_id, iterator), len(self.stages[stage_id].iters)
        self._then(FollowFusedSplitStep(stage_id, place, tuple(src_step_ids), level, bool(factor_or_nparts)))
        return self._split_made(stage_id, place, before)

    @described(_NAMED)
    def storage_align(self, stage: StageKey, iterator: Iterator, factor: int, offset: int) -> None:
        """Make the stride of a dimension factor * k + offset.

        Parameters
        ----------
        factor : int
            The factor.
        offset : int
            What is added to its multiple.
        """
        stage_id = self._stage(stage)
        self._then(StorageAlignStep(stage_id, self._place(stage_id, iterator), factor, offset))

    @described(_NAMED)
    def double_buffer(self, stage: StageKey, buffers: int = 2) -> None:
        """Fill some pieces of memory while another one is read.

        Parameters
        ----------
        buffers : int
            How many pieces take turns.
        """
        self._then(DoubleBufferStep(self._stage(stage), buffers))

    @described(_NAMED)
    def compute_at(self, stage: StageKey, target_stage: StageKey, target_iter: Iterator) -> None:
        """Compute what a stage needs inside one of its loops.

        Parameters
        ----------
        target_stage : int, Operation or Tensor
            The stage that reads it.
        target_iter : Iterator
            A loop of that one.
        """
        target = self._stage(target_stage)
        self._then(ComputeAtStep(self._stage(stage), target, self._place(target, target_iter)))

    @described(_NAMED)
    def compute_inline(self, stage: StageKey) -> None:
        """Compute every element where it is used."""
        self._then(ComputeInlineStep(self._stage(stage)))

    @described(_NAMED)
    def compute_root(self, stage: StageKey) -> None:
        """Compute the whole of a stage before its users."""
        self._then(ComputeRootStep(self._stage(stage)))

    @described(_NAMED)
    def cache_read(self, stage: StageKey, scope_name: str, reader_stages: Sequence[StageKey]) -> Operation:
        """A copy of what a stage makes that certain readers use; its operation.

        Parameters
        ----------
        scope_name : str
            The kind of memory.
        reader_stages : list of int, Operation or Tensor
            The readers.

        Returns
        -------
        Operation
            The operation of the copy.
        """
        stage_id, readers = self._stage(stage), tuple(self._stage(reader) for reader in reader_stages)
        self._then(CacheReadStep(stage_id, scope_name, readers))
        return self._made(stage_id + 1)

    @described(_NAMED)
    def cache_write(self, stage: StageKey, scope_name: str) -> Operation:
        """Compute a stage in a scope and copy it out; the operation that computes.

        Parameters
        ----------
        scope_name : str
            The kind of memory.

        Returns
        -------
        Operation
            The operation that computes.
        """
        stage_id = self._stage(stage)
        self._then(CacheWriteStep(stage_id, scope_name))
        return self._made(stage_id)

    @described(_NAMED)
    def rfactor(self, stage: StageKey, iterator: Iterator, factor_iter_id: int) -> Operation:
        """Split a reduction in two; the operation that makes the parts, which a loop of the reduction tells apart.

        Parameters
        ----------
        factor_iter_id : int
            Where the new dimension stands.

        Returns
        -------
        Operation
            The operation of the parts.
        """
        stage_id = self._stage(stage)
        self._then(RfactorStep(stage_id, self._place(stage_id, iterator), factor_iter_id))
        return self._made(stage_id)

    @described(_NAMED)
    def pad(self, stage: StageKey, factors: Sequence[int]) -> Operation:
        """Compute a sum of products over lengths that are multiples of factors, with zeros past the ends of both
        operands, and copy it out; the operation of the first operand. Those of the other one and of the sum follow it.

        Parameters
        ----------
        factors : list of int
            A factor for each axis, those of the reduction last.

        Returns
        -------
        Operation
            The operation of the first operand.
        """
        stage_id = self._stage(stage)
        self._then(PadStep(stage_id, tuple(factors)))
        return self._made(stage_id)


__all__ = ["Stage", "State", "StateObject"]
