"""Explicit schedules: ``State`` contains the state that results from the steps of its methods."""

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
# Parameters that most methods share.
_NAMED = {"stage": ("int, Operation or Tensor", "The stage."), "iterator": ("Iterator", "The loop.")}


class State:
    """A schedule that is written explicitly; methods identify stages by tensors, operations or positions.

    Parameters
    ----------
    state_object : StateObject
        The initial state.
    dag : ComputeDAG
        The computation.
    """

    ANNOTATION_TRANS_TABLE: ClassVar[dict[str, int]] = {name: int(kind) for kind, name in ANNOTATION_NAMES.items()}

    def __init__(self, state_object: StateObject, dag: ComputeDAG):
        self.state_object, self.compute_dag = state_object, dag
        self.stage_id_map: dict[Operation, int] = {}
        self._number_stages()

    def _number_stages(self) -> None:
        # Operations that steps have replaced are still accepted, because scripts hold their tensors.
        for place, stage in enumerate(self.state_object.stages):
            self.stage_id_map[stage.op] = place

    # -- queries -------------------------------------------------------------------------------------------------------

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
                raise ValueError(f"stage number {key} is out of range; there are {len(self.stages)} stages")
            return key
        op = key.op if isinstance(key, Tensor) else key
        if not isinstance(op, Operation):
            raise ValueError(f"a stage must be a tensor, an operation or a number, got {type(key).__name__}")
        if op not in self.stage_id_map:
            raise ValueError(f"{op.name} is not a stage of this state")
        return self.stage_id_map[op]

    def _place(self, stage_id: int, iterator: Iterator) -> int:
        stage = self.stages[stage_id]
        for place, it in enumerate(stage.iters):
            if it is iterator:
                return place
        raise ValueError(
            f"{iterator} is not a loop of stage {stage.op.name}; its loops are {', '.join(map(str, stage.iters))}"
        )

    def copy(self) -> State:
        """An independent copy of this state.

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
        """Return the operation of a new stage, which shifts the positions of later stages."""
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
        """Replace a loop and all loops inside it by a tensor intrinsic.

        Parameters
        ----------
        intrinsic : str
            The name of the intrinsic as declared by the back end of the target (``auto_scheduler.intrinsics``).

        Returns
        -------
        Iterator
            The new loop.
        """
        stage_id = self._stage(stage)
        place = self._place(stage_id, iterator)
        self._then(TensorizeStep(stage_id, place, intrinsic))
        return self.stages[stage_id].iters[place]

    @described(_NAMED)
    def bind(self, stage: StageKey, iterator: Iterator, thread_name: str) -> Iterator:
        """Bind a loop to hardware threads ("blockIdx.x", "threadIdx.y", "vthread", ...).

        Parameters
        ----------
        thread_name : str
            The name of the threads.

        Returns
        -------
        Iterator
            The new loop.

        Raises
        ------
        ValueError
            The name of the threads is unknown.
        """
        number = self.ANNOTATION_TRANS_TABLE.get(thread_name, 0)
        if not Annotation.VTHREAD <= number <= Annotation.THREAD_Z:
            raise ValueError(f"bind: unknown thread name '{thread_name}'")
        return self._annotate(stage, iterator, Annotation(number))

    @described(_NAMED)
    def parallel(self, stage: StageKey, iterator: Iterator) -> Iterator:
        """Run the iterations of a loop in parallel.

        Returns
        -------
        Iterator
            The new loop.
        """
        return self._annotate(stage, iterator, Annotation.PARALLEL)

    @described(_NAMED)
    def unroll(self, stage: StageKey, iterator: Iterator, max_unroll: int | None = None) -> Iterator:
        """Unroll a loop, unless it has more iterations than ``max_unroll``.

        Parameters
        ----------
        max_unroll : int, optional
            The maximum number of iterations.

        Returns
        -------
        Iterator
            The new loop.
        """
        if max_unroll is not None and iterator.extent is not None and iterator.extent > max_unroll:
            return iterator
        return self._annotate(stage, iterator, Annotation.UNROLL)

    @described(_NAMED)
    def vectorize(self, stage: StageKey, iterator: Iterator) -> Iterator:
        """Vectorize a loop.

        Returns
        -------
        Iterator
            The new loop.
        """
        return self._annotate(stage, iterator, Annotation.VECTORIZE)

    @described(_NAMED)
    def fuse(self, stage: StageKey, iters: Sequence[Iterator]) -> Iterator:
        """Fuse adjacent loops.

        Parameters
        ----------
        iters : list of Iterator
            The loops, outermost first.

        Returns
        -------
        Iterator
            The fused loop.
        """
        stage_id = self._stage(stage)
        places = tuple(self._place(stage_id, it) for it in iters)
        self._then(FuseStep(stage_id, places))
        return self.stages[stage_id].iters[places[0] if places else 0]

    @described(_NAMED)
    def pragma(self, stage: StageKey, iterator: Iterator, pragma_type: str) -> None:
        """Attach a pragma to a loop: ``auto_unroll_max_step$64``.

        Parameters
        ----------
        pragma_type : str
            The pragma.
        """
        stage_id = self._stage(stage)
        self._then(PragmaStep(stage_id, self._place(stage_id, iterator), pragma_type))

    @described(_NAMED)
    def reorder(self, stage: StageKey, order: Sequence[Iterator]) -> None:
        """Reorder the loops of a stage.

        Parameters
        ----------
        order : list of Iterator
            All loops of the stage in the new order.
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
        """Split a loop. ``lengths`` are the lengths of the inner loops, or of the outer loops without
        ``inner_to_outer``; None is a length that is not decided yet.

        Parameters
        ----------
        lengths : list of int
            The lengths.
        inner_to_outer : bool
            Whether the lengths are those of the inner loops.

        Returns
        -------
        list of Iterator
            The loops, outermost first.
        """
        stage_id = self._stage(stage)
        place, before = self._place(stage_id, iterator), len(self.stages[stage_id].iters)
        known = tuple(None if length is None else int(length) for length in lengths)
        self._then(SplitStep(stage_id, place, iterator.extent, known, bool(inner_to_outer)))
        return self._split_made(stage_id, place, before)

    @described(_NAMED)
    def follow_split(self, stage: StageKey, iterator: Iterator, src_step_id: int, n_split: int) -> list[Iterator]:
        """Split a loop with the lengths of an earlier split.

        Parameters
        ----------
        src_step_id : int
            The number of the split step.
        n_split : int
            The number of lengths to use.

        Returns
        -------
        list of Iterator
            The loops, outermost first.
        """
        stage_id = self._stage(stage)
        place, before = self._place(stage_id, iterator), len(self.stages[stage_id].iters)
        self._then(FollowSplitStep(stage_id, place, src_step_id, n_split))
        return self._split_made(stage_id, place, before)

    @described(_NAMED)
    def follow_fused_split(
        self, stage: StageKey, iterator: Iterator, src_step_ids: Sequence[int], level: int, factor_or_nparts: bool
    ) -> list[Iterator]:
        """Split a loop by the product of the lengths of earlier splits at a level.

        Parameters
        ----------
        src_step_ids : list of int
            The numbers of the split steps.
        level : int
            The tile level.
        factor_or_nparts : bool
            Whether the product is the length of the inner loop.

        Returns
        -------
        list of Iterator
            The loops, outermost first.
        """
        stage_id = self._stage(stage)
        place, before = self._place(stage_id, iterator), len(self.stages[stage_id].iters)
        self._then(FollowFusedSplitStep(stage_id, place, tuple(src_step_ids), level, bool(factor_or_nparts)))
        return self._split_made(stage_id, place, before)

    @described(_NAMED)
    def storage_align(self, stage: StageKey, iterator: Iterator, factor: int, offset: int) -> None:
        """Align the stride of a dimension to factor * k + offset.

        Parameters
        ----------
        factor : int
            The factor.
        offset : int
            The offset.
        """
        stage_id = self._stage(stage)
        self._then(StorageAlignStep(stage_id, self._place(stage_id, iterator), factor, offset))

    @described(_NAMED)
    def double_buffer(self, stage: StageKey, buffers: int = 2) -> None:
        """Double-buffer a stage: fill some parts of its memory while another one is read.

        Parameters
        ----------
        buffers : int
            The number of buffers.
        """
        self._then(DoubleBufferStep(self._stage(stage), buffers))

    @described(_NAMED)
    def compute_at(self, stage: StageKey, target_stage: StageKey, target_iter: Iterator) -> None:
        """Compute a stage inside a loop of another stage.

        Parameters
        ----------
        target_stage : int, Operation or Tensor
            The stage that reads it.
        target_iter : Iterator
            The loop of that stage.
        """
        target = self._stage(target_stage)
        self._then(ComputeAtStep(self._stage(stage), target, self._place(target, target_iter)))

    @described(_NAMED)
    def compute_inline(self, stage: StageKey) -> None:
        """Inline a stage: compute every element where it is used."""
        self._then(ComputeInlineStep(self._stage(stage)))

    @described(_NAMED)
    def compute_root(self, stage: StageKey) -> None:
        """Compute a whole stage before its consumers."""
        self._then(ComputeRootStep(self._stage(stage)))

    @described(_NAMED)
    def cache_read(self, stage: StageKey, scope_name: str, reader_stages: Sequence[StageKey]) -> Operation:
        """The operation of a copy of a stage's output that the given stages read.

        Parameters
        ----------
        scope_name : str
            The storage scope.
        reader_stages : list of int, Operation or Tensor
            The stages that read the copy.

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
        """The operation that computes a stage in a storage scope, from where the stage is copied out.

        Parameters
        ----------
        scope_name : str
            The storage scope.

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
        """The operation of the partial reductions, after a reduction is split into two stages by one of its loops.

        Parameters
        ----------
        factor_iter_id : int
            The position of the new dimension.

        Returns
        -------
        Operation
            The operation of the partial reductions.
        """
        stage_id = self._stage(stage)
        self._then(RfactorStep(stage_id, self._place(stage_id, iterator), factor_iter_id))
        return self._made(stage_id)

    @described(_NAMED)
    def pad(self, stage: StageKey, factors: Sequence[int]) -> Operation:
        """The operation of the first operand, after a matmul-like reduction is padded to multiples of factors. Both
        operands are padded with zeros, and the valid part of the sum is copied out. The operations of the other operand
        and of the sum follow.

        Parameters
        ----------
        factors : list of int
            A factor for each axis, with the reduction axes last.

        Returns
        -------
        Operation
            The operation of the first operand.
        """
        stage_id = self._stage(stage)
        self._then(PadStep(stage_id, tuple(factors)))
        return self._made(stage_id)


__all__ = ["Stage", "State", "StateObject"]
