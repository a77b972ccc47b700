"""Properties of the stages of a state that sketch rules query."""

from __future__ import annotations

from typing import Any, TypeVar

from ..ir.prim import Var
from ..ir.visit import post_order
from ..te.tensor import ComputeOp
from .access import SIMPLIFY_CONST_TENSOR_INDICES
from .attach_steps import INLINED
from .compute_dag import ComputeDAG
from .dataflow_steps import PADDED_STAGES, CacheReadStep, CacheWriteStep, PadStep, RfactorStep
from .iterator import Annotation, IteratorKind
from .state import Stage, StateObject
from .steps import TransformStep

Kind = TypeVar("Kind", bound=TransformStep)


class Queries:
    """The queries on a state: producers and consumers, with inlined stages skipped."""

    def __init__(self, dag: ComputeDAG, state: StateObject):
        self.state, self.analyzer = state, dag.analyzer_of(state)
        self._places = {stage.op: place for place, stage in enumerate(state.stages)}

    def consumers(self, stage_id: int) -> list[int]:
        return self._through_inlined(stage_id, self.analyzer.consumers)

    def producers(self, stage_id: int) -> list[int]:
        return self._through_inlined(stage_id, self.analyzer.producers)

    def _through_inlined(self, stage_id: int, neighbours: Any) -> list[int]:
        found: dict[int, None] = {}
        todo, seen = [self.state.stages[stage_id].op], set()
        while todo:
            for op in neighbours(todo.pop()):
                place = self._places[op]
                if op in seen:
                    continue
                seen.add(op)
                if self.state.stages[place].compute_at == INLINED:
                    todo.append(op)
                else:
                    found[place] = None
        return sorted(found)

    def single_consumer(self, stage_id: int) -> int | None:
        found = self.consumers(stage_id)
        return found[0] if len(found) == 1 else None

    def axes_that_read(self, op: Any, reader: Any) -> set[str]:
        """Return the names of the axes of a reader on which its reads of an operation depend, also through inlined
        operations."""
        found: set[str] = set()
        for through in self.analyzer.consumers(op):
            places: Any = None
            if through is not reader:
                if self.state.stages[self._places[through]].compute_at != INLINED:
                    continue
                own = self.axes_that_read(op, through)
                places = [place for place, axis in enumerate(through.axis) if axis.var.name in own]
            for indices in self.analyzer.accesses[reader].reads.get(op if places is None else through, ()):
                for index in indices if places is None else [indices[place] for place in places]:
                    found |= {node.name for node in post_order(index) if isinstance(node, Var)}
        return found

    def is_elementwise_match(self, stage_id: int, target_stage_id: int) -> bool:
        stages = self.state.stages
        return self.analyzer.elementwise_match(stages[stage_id].op, stages[target_stage_id].op)

    def matched_consumer(self, stage_id: int) -> int | None:
        """Return the only consumer of a stage, if it reads elementwise, so that both can be tiled alike."""
        target = self.single_consumer(stage_id)
        if target is None or not self.is_elementwise_match(stage_id, target):
            return None
        stages = self.state.stages
        both_reduce = has_reduce_iter(stages[stage_id]) and has_reduce_iter(stages[target])
        return None if both_reduce or is_tiled(stages[target]) else target

    def needs_multi_level_tiling(self, stage_id: int) -> bool:
        return self.analyzer.needs_multi_level_tiling(self.state.stages[stage_id].op)

    def is_output(self, stage_id: int) -> bool:
        return self.state.stages[stage_id].is_output

    def is_strictly_inlineable(self, stage_id: int) -> bool:
        return self.analyzer.is_strictly_inlineable(self.state.stages[stage_id].op)


def has_reduce_iter(stage: Stage) -> bool:
    return any(it.kind is not IteratorKind.SPATIAL and it.kind is not IteratorKind.SPECIAL for it in stage.iters)


def is_constant_transform(stage: Stage) -> bool:
    """Return whether a stage has axes that index constants, like Winograd transforms."""
    return not stage.is_placeholder and SIMPLIFY_CONST_TENSOR_INDICES in stage.op.attrs


def is_tensorized(stage: Stage) -> bool:
    """Return whether a tensor intrinsic computes the innermost loops of a stage."""
    return any(it.annotation is Annotation.TENSORIZE for it in stage.iters)


def has_fragments(stage: Stage) -> bool:
    """Return whether an intrinsic of matrix registers, which works on rows and columns, computes the loops of a stage.
    Its loops are unrolled as required and must not be changed."""
    made = [it.kind for it in stage.iters if it.annotation is Annotation.TENSORIZE]
    return made.count(IteratorKind.SPATIAL) > 1 and IteratorKind.REDUCTION in made


def is_tiled(stage: Stage) -> bool:
    """Return whether the loops of a stage differ from the axes of its operation."""
    op = stage.op
    return isinstance(op, ComputeOp) and len(stage.iters) != len(op.axis) + len(op.reduce_axis)


def outer_reduction(stage: Stage) -> int | None:
    """Return the index of the innermost loop of the outermost level of a tiled reduction."""
    names = {f"{axis.var.name}.0" for axis in stage.op.reduce_axis}
    return max((place for place, it in enumerate(stage.iters) if it.name in names), default=None)


def extents_product(stage: Stage) -> tuple[int, int]:
    """Return the iterations of the spatial loops and of the reduction loops; -1 if one is unknown."""
    space = reduction = 1
    for it in stage.iters:
        if it.extent is None:
            return -1, -1
        if it.kind is IteratorKind.SPATIAL:
            space *= it.extent
        elif it.kind is IteratorKind.REDUCTION:
            reduction *= it.extent
    return space, reduction


def _step_beside(state: StateObject, stage_id: int, kind: type[Kind]) -> Kind | None:
    """Return the last step of a type that created a stage next to the stage that is now at a position."""
    for step in reversed(state.transform_steps):
        if not step.changes_ops:
            continue
        if isinstance(step, kind) and step.stage_id == stage_id:
            return step
        before = step.place_before(stage_id)
        if before is None:
            return None
        stage_id = before
    return None


def has_cache_write(state: StateObject, stage_id: int) -> bool:
    return _step_beside(state, stage_id, CacheWriteStep) is not None


def has_cache_read(state: StateObject, stage_id: int) -> bool:
    return _step_beside(state, stage_id, CacheReadStep) is not None


def has_rfactor(state: StateObject, stage_id: int) -> bool:
    return _step_beside(state, stage_id, RfactorStep) is not None


def _pad_of(state: StateObject, stage_id: int) -> tuple[PadStep, int] | None:
    """Return the pad step that created a stage, or the stage that it caches, and the index of the stage in the pad
    step."""
    for step in reversed(state.transform_steps):
        before = step.place_before(stage_id)
        if before is None:
            return (step, stage_id - step.stage_id) if isinstance(step, PadStep) else None
        stage_id = before
    return None


def is_padding(state: StateObject, stage_id: int) -> bool:
    """Return whether a stage is an operand padded with zeros, or a sum over padded axes."""
    return _pad_of(state, stage_id) is not None


def multiples_of(state: StateObject, stage_id: int) -> tuple[int, ...]:
    """Return the padding factors of the axes of a padded sum, regardless of how much of it is read; None for other
    stages."""
    found = _pad_of(state, stage_id)
    return found[0].factors if found is not None and found[1] == PADDED_STAGES - 1 else ()


def axis_of_parts(state: StateObject, stage_id: int) -> int | None:
    """Return the axis of a stage that enumerates the parts of a reduction; None without an rfactor."""
    step = _step_beside(state, stage_id, RfactorStep)
    return None if step is None else step.factor_iter_id


def has_cross_thread_reduction(state: StateObject, stage_id: int) -> bool:
    """Return whether the threads of a block cooperate in the reduction."""
    return any(
        it.kind is IteratorKind.REDUCTION and it.annotation is Annotation.THREAD_X
        for it in state.stages[stage_id].iters
    )


__all__ = [
    "Queries",
    "axis_of_parts",
    "extents_product",
    "has_cache_read",
    "has_cache_write",
    "has_cross_thread_reduction",
    "has_fragments",
    "has_reduce_iter",
    "has_rfactor",
    "is_constant_transform",
    "is_padding",
    "is_tensorized",
    "is_tiled",
    "multiples_of",
    "outer_reduction",
]
