"""Features for cost models, a row for each stage, from its loop nest in closed form.

All features are computed on arrays: ``StageLoops`` contains the loops of a stage in many states, which differ in
lengths and annotations; a single state is an array of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir.prim import Var
from ..te.tensor import ComputeOp, Operation
from .access import AccessAnalyzer
from .attach_steps import INLINED
from .compute_dag import ComputeDAG
from .hardware import HardwareParams
from .iterator import Annotation, IteratorKind
from .loop_nests import Loop, LoopNests, Nest, length_of
from .operation_facts import KINDS, LINE_BYTES, OperationFacts
from .queries import is_tensorized
from .reach import Number
from .register_tile import NAMES as TILE_NAMES
from .register_tile import register_tile
from .search_task import SearchTask
from .state import Stage, StateObject

# Cache sizes in bytes: data that is reused while it is in a cache of this size is loaded from that cache.
_CACHE_BYTES = (1 << 10, 1 << 15, 1 << 18, 1 << 20, 1 << 21, 1 << 23)
# The number of instructions that could run while a cache line is loaded from beyond a cache of this size in bytes.
_WAITS = {1 << 15: 0.1, 1 << 18: 0.3, 1 << 21: 4.0}
# The fraction of a parallel iteration by which cores wait for each other at the end, because their speeds differ.
_LAST_SHARE = 0.15
NAMES = (
    *(f"{kind} operations" for kind in KINDS),
    "elements",
    "terms",
    "executions",
    "iterations",
    "parallel iterations",
    "parallel waste",
    "lanes",
    "lane waste",
    "contiguous reads",
    "broadcast reads",
    "strided reads",
    "contiguous store",
    "unrolled",
    "most unrolled",
    "innermost elements",
    "innermost terms",
    "innermost loop",
    "accumulators",
    "accumulator bytes",
    "accumulator registers",
    "innermost bytes",
    "is attached",
    "is reduction",
    "loops",
    "unique bytes",
    "buffers",
    *(f"traffic of {size} bytes" for size in _CACHE_BYTES),
    "arithmetic per byte",
    "relative cycles",
    *TILE_NAMES,
    "relative steps",
    "relative waits",
    *(f"relative traffic of {size} bytes" for size in _CACHE_BYTES),
)
_TIMES = [NAMES.index("relative steps"), NAMES.index("relative waits")]
# The maximum numbers of vector instructions, loads, and spilled accumulators of a loop body. Longer bodies are slow to
# compile and slow to run.
_MOST = {"body vectors": 128, "body loads": 192, "spilled": 8}


@dataclass
class StageLoops:
    """The loops of a stage in many states, outermost first, with fused loops separated: the axis of each, its extents
    (loops × states), whether it is spatial or a reduction, and its annotation (an ``Annotation`` for each state).
    ``owners``: the loop of the stage to which each part belongs. ``times``: executions of the whole nest. ``outer``:
    loops of other stages around them (see ``Nest``). ``unroll``: the unrolling limit. ``around``: iterations,
    distributed over threads, of the loops in which the stage is computed. ``free_from``: the index of the first loop
    from which on no other stage is computed inside this one."""

    stage: Stage
    axes: list[Var]
    kinds: list[IteratorKind]
    extents: np.ndarray
    how: np.ndarray
    times: np.ndarray
    outer: Sequence[tuple[Number, Mapping[Var, Number]]]
    unroll: np.ndarray
    owners: list[int]
    around: np.ndarray
    free_from: int = 0

    @staticmethod
    def of(stage: Stage, nest: Nest, count: int) -> StageLoops:
        """Return the loops of a nest, whose extents are integers or arrays of ``count`` elements."""
        rows = [(axis, extent, number) for number, loop in enumerate(nest.loops) for axis, extent in loop.parts]
        extents, how = np.ones((len(rows), count)), np.zeros((len(rows), count), dtype="int8")
        for place, (_, extent, number) in enumerate(rows):
            extents[place], how[place] = extent, _ways(nest.loops[number])
        owners = [number for _, _, number in rows]
        return StageLoops(
            stage,
            [axis for axis, _, _ in rows],
            [nest.loops[number].kind for number in owners],
            extents,
            how,
            np.broadcast_to(np.asarray(nest.times, dtype="float64"), (count,)),
            nest.outer,
            np.full(count, stage.auto_unroll_max_step),
            owners,
            np.ones(count),
        )

    def is_kind(self, kind: IteratorKind) -> np.ndarray:
        return np.array([own is kind for own in self.kinds], dtype=bool).reshape(-1, 1)

    def product(self, of: np.ndarray) -> np.ndarray:
        """Return the product of the extents of the loops selected by ``of``."""
        return np.where(of, self.extents, 1.0).prod(axis=0)

    def bound(self, annotation: Annotation) -> np.ndarray:
        """Return the iterations of the loops with this annotation."""
        return self.product(self.how == annotation)


def _ways(loop: Loop) -> Annotation:
    """Return the annotation of a loop. The spatial loops of an intrinsic count as vectorized; its reduction loops keep
    their annotation."""
    is_lane = loop.annotation is Annotation.TENSORIZE and loop.kind is IteratorKind.SPATIAL
    return Annotation.VECTORIZE if is_lane else loop.annotation


def surround(stages: Mapping[int, StageLoops]) -> list[StageLoops]:
    """Return the loops of stages in order, each with the threads around it. A stage comes before the one inside which
    it is computed."""
    for place in sorted(stages, reverse=True):
        attach = stages[place].stage.attach
        if attach is not None:
            outer = stages[attach[0]]
            outer.free_from = max(outer.free_from, attach[1] + 1)
            is_around = np.array([owner <= attach[1] for owner in outer.owners], dtype=bool).reshape(-1, 1)
            stages[place].around = outer.around * outer.product(is_around & (outer.how == Annotation.PARALLEL))
    return [stages[place] for place in sorted(stages)]


class FeatureExtractor:
    """Computes the features of states of one computation."""

    def __init__(self, dag: ComputeDAG, hardware: HardwareParams, has_dot_products: bool = False):
        self.dag, self.cores, self.vector_bytes = dag, max(hardware.num_cores, 1), max(hardware.vector_unit_bytes, 4)
        self.has_dot_products = has_dot_products
        # The least work: one operation for each term of each element.
        self.work = (
            sum(
                math.prod(length_of(axis) for axis in (*op.axis, *op.reduce_axis))
                for op in dag.ops
                if isinstance(op, ComputeOp)
            )
            or 1
        )
        self._layout_free = frozenset(tensor.op for tensor in dag.layout_free_placeholders)
        self._facts: dict[tuple[Operation, frozenset[Operation], frozenset[Operation]], OperationFacts] = {}

    @staticmethod
    def of(task: SearchTask) -> FeatureExtractor:
        """Return the features of the states of a task."""
        return FeatureExtractor(task.compute_dag, task.hardware_params, task.target.features.has_integer_dot_product)

    def rows(self, state: StateObject) -> np.ndarray:
        """Return a row for each stage with loops. If a state was read from a record, its loops are computed first."""
        if not state.stages:
            state = self.dag.state_of(state.transform_steps)
        nests = LoopNests(self.dag, state).nests.items()
        return self.rows_of_many(
            state, surround({place: StageLoops.of(state.stages[place], nest, 1) for place, nest in nests})
        )[0]

    def rows_of_many(self, state: StateObject, stages: Sequence[StageLoops]) -> np.ndarray:
        """Return the rows (states × stages × features) of states that share their operations."""
        analyzer = self.dag.analyzer_of(state)
        inlined = frozenset(stage.op for stage in state.stages if stage.compute_at == INLINED)
        attached = frozenset(stage.op for stage in state.stages if stage.attach is not None)
        rows = np.stack(
            [self._stage_rows(self._facts_of(loops.stage, analyzer, inlined, attached), loops) for loops in stages],
            axis=1,
        )
        return np.log2(1.0 + rows).astype("float32")

    def can_be_built(self, rows: np.ndarray) -> np.ndarray:
        """Return which states compile in a reasonable time, estimated from the size of their unrolled bodies."""
        columns, most = [NAMES.index(name) for name in _MOST], list(_MOST.values())
        return (np.rint(np.exp2(rows[:, :, columns]) - 1) <= most).all(axis=(1, 2))

    def _facts_of(
        self, stage: Stage, analyzer: AccessAnalyzer, inlined: frozenset[Operation], attached: frozenset[Operation]
    ) -> OperationFacts:
        key = (stage.op, inlined, attached)
        if key not in self._facts:
            if len(self._facts) > 4096:
                self._facts.clear()
            # An intrinsic reads arrays: inputs that it reads through inlined stages are copied in the order of its
            # loops.
            free = self._layout_free | inlined if is_tensorized(stage) else self._layout_free
            self._facts[key] = OperationFacts(stage.op, analyzer, inlined, free, attached)  # type: ignore[arg-type]
        return self._facts[key]

    def _stage_rows(self, facts: OperationFacts, loops: StageLoops) -> np.ndarray:
        extents, times = loops.extents, loops.times
        outside = np.concatenate([np.ones((1, extents.shape[1])), np.cumprod(extents, axis=0)])
        levels = MemoryLevels.of(facts, loops)
        touched = levels.touched
        iterations = outside[-1] * times
        space = loops.product(loops.is_kind(IteratorKind.SPATIAL))
        traffic = [levels.traffic(size) for size in _CACHE_BYTES]
        waits = sum(_WAITS.get(size, 0) * amount / LINE_BYTES for size, amount in zip(_CACHE_BYTES, traffic))
        flop = sum(facts.counts) * iterations
        tile = register_tile(facts, loops, self.vector_bytes, self.has_dot_products)
        op, constant = loops.stage.op, np.ones(extents.shape[1])
        columns = [
            *(count * iterations for count in facts.counts),
            space * times,
            outside[-1] / np.maximum(space, 1),
            times,
            iterations,
            *self._parallel(loops),
            *self._lanes(facts, loops),
            tile.expanded,
            loops.unroll,
            *self._innermost(facts, loops, touched),
            constant * (loops.stage.attach is not None),
            constant * bool(op.reduce_axis),
            (extents > 1).sum(axis=0),
            touched[0],
            constant * len(facts.buffers),
            *traffic,
            flop / np.maximum(traffic[2], 1),
            self._cycles(facts, loops, iterations),
            *tile.features(),
            self._relative(tile.steps(sum(facts.counts)), facts, loops),
            self._relative(np.asarray(waits), facts, loops),
            *(16 * amount / self.work for amount in traffic),
        ]
        return np.stack(columns, axis=1)

    def _parallel(self, loops: StageLoops) -> tuple[np.ndarray, np.ndarray]:
        """Return the parallel iterations, and the load imbalance: the time of the busiest core relative to the mean."""
        count = loops.bound(Annotation.PARALLEL) * loops.around
        return count, np.ceil(count / self.cores) * self.cores / count

    def _cycles(self, facts: OperationFacts, loops: StageLoops, iterations: np.ndarray) -> np.ndarray:
        """Return sixteen times the vector operations of the busiest core, divided by those of an ideal schedule on all
        cores."""
        lanes = loops.bound(Annotation.VECTORIZE)
        unit = max(self.vector_bytes // facts.store.width, 1)
        count, waste = self._parallel(loops)
        steps = iterations * np.ceil(lanes / unit) / lanes * waste / np.minimum(count, self.cores)
        return 16 * steps / self.work * unit * self.cores

    def _relative(self, steps: np.ndarray, facts: OperationFacts, loops: StageLoops) -> np.ndarray:
        """Return sixteen times the share of instructions that the busiest core executes, divided by the vector
        operations of an ideal schedule on all cores."""
        count, waste = self._parallel(loops)
        waste = waste * np.where(count > 1, 1 + _LAST_SHARE * min(self.cores - 1, 1) * self.cores / count, 1.0)
        unit = max(self.vector_bytes // facts.store.width, 1)
        return 16 * steps * waste / np.minimum(count, self.cores) / self.work * unit * self.cores

    def _lanes(self, facts: OperationFacts, loops: StageLoops) -> list[np.ndarray]:
        """Return the vector width, the register lanes that it occupies per used lane, and the numbers of loads and
        stores that are contiguous, broadcast or strided along the vectorized loop (or the innermost one)."""
        lanes = loops.bound(Annotation.VECTORIZE)
        unit = max(self.vector_bytes // facts.store.width, 1)
        waste = np.ceil(lanes / unit) * unit / lanes
        if not loops.axes:
            return [lanes, waste, *[np.zeros_like(lanes)] * 4]
        moves = np.stack([facts.moves_along(axis) for axis in loops.axes])
        last, is_there = _last(loops.extents > 1)
        return [lanes, waste, *(moves[last] * is_there[:, None]).T]

    def _innermost(self, facts: OperationFacts, loops: StageLoops, touched: np.ndarray) -> list[np.ndarray]:
        """Return the elements inside the innermost reduction loop, its extent, the extent of the innermost loop, the
        accumulators of the tile in elements, bytes and registers, and the bytes that one k of the tile accesses."""
        count = loops.extents.shape[1]
        if not loops.axes:
            return [np.ones(count)] * 4 + [np.full(count, facts.store.width)] + [np.ones(count), touched[0]]
        every = np.arange(count)
        is_term = loops.is_kind(IteratorKind.REDUCTION) & (loops.extents > 1)
        last, is_there = _last(is_term)
        inside = np.concatenate([np.cumprod(loops.extents[::-1], axis=0)[::-1], np.ones((1, count))])
        inner = np.where(is_there, inside[last + 1, every], 1.0)
        terms = np.where(is_there, loops.extents[last, every], 1.0)
        first = np.where(is_there, is_term.argmax(axis=0), len(loops.axes))
        after = np.arange(len(loops.axes))[:, None] >= first
        is_space = loops.is_kind(IteratorKind.SPATIAL)
        tile = loops.product(after & is_space)
        # A partly filled register counts as a whole one.
        unit = max(self.vector_bytes // facts.store.width, 1)
        is_lane = loops.how == Annotation.VECTORIZE
        registers = loops.product(after & is_space & ~is_lane) * np.ceil(loops.product(after & is_lane) / unit)
        at, any_loop = _last(loops.extents > 1)
        innermost = np.where(any_loop, loops.extents[at, every], 1.0)
        bytes_inside = np.where(is_there, touched[last + 1, every], touched[-1])
        return [inner, terms, innermost, tile, tile * facts.store.width, registers, bytes_inside]


def estimated_speed(rows: np.ndarray) -> np.ndarray:
    """Return speed estimates without measurements, from rows of states × stages × features: the negative logarithm of
    the sum of the instructions of all stages and of those that could run during memory latencies."""
    return -np.log2((np.exp2(rows[..., _TIMES].astype("float64")) - 1).sum(axis=(-2, -1)) + 1e-9)


@dataclass
class MemoryLevels:
    """The memory accesses of a stage, with a row for each loop of the stage and around it, and one for the innermost
    body: the bytes that all iterations of a loop access, the bytes of their cache lines, the cache space that these
    occupy, and how often the loop is started."""

    touched: np.ndarray
    moved: np.ndarray
    occupied: np.ndarray
    times: np.ndarray

    @staticmethod
    def of(facts: OperationFacts, loops: StageLoops) -> MemoryLevels:
        depth, count = loops.extents.shape
        outer, size = len(loops.outer), len(loops.outer) + depth + 1
        inside: dict[Var, np.ndarray] = {}
        for axis in (one.var for one in (*facts.op.axis, *facts.op.reduce_axis)):
            made = inside[axis] = np.ones((size, count))
            for place in reversed(range(depth)):
                own = loops.extents[place] if loops.axes[place] is axis else 1
                made[outer + place] = made[outer + place + 1] * own
            for place, (_, extents) in enumerate(loops.outer):
                # A loop around a stage covers all its reduction iterations.
                made[place] = extents.get(axis, made[outer])
        inner = {axis: made[outer:] for axis, made in inside.items()}
        touched, moved, occupied = np.zeros((depth + 1, count)), np.zeros((size, count)), np.zeros((size, count))
        for buffer in facts.buffers:
            touched += buffer.width * buffer.elements(inner)
            lines, held = buffer.footprint(inside)
            if buffer.is_compact:
                # Only a part of the tensor is stored at a time, always in the same memory, so it is in a cache when it
                # is read.
                rows = np.maximum(np.arange(size), outer if buffer is facts.store else size - 1)
                lines, held = (np.broadcast_to(part, (size, count))[rows] for part in (lines, held))
            moved += lines
            occupied += held
        times = np.empty((size, count))
        for place, (begun, _) in enumerate(loops.outer):
            times[place] = begun
        times[outer] = loops.times
        times[outer + 1 :] = np.cumprod(loops.extents, axis=0) * loops.times
        return MemoryLevels(touched, moved, occupied, times)

    def traffic(self, size: int) -> np.ndarray:
        """Return the bytes that are loaded from beyond a cache of this size. Data of an iteration is reused in the next
        one if it fits in the cache. So the lines that all iterations access are loaded once per start of the innermost
        loop whose data does not fit."""
        fits = self.occupied <= size
        fits[-1] = True
        first, every = np.maximum(fits.argmax(axis=0) - 1, 0), np.arange(self.moved.shape[1])
        return self.moved[first, every] * self.times[first, every]


def _last(of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the last selected loop of each state, and whether there is one."""
    return len(of) - 1 - of[::-1].argmax(axis=0), of.any(axis=0)


__all__ = ["FeatureExtractor", "MemoryLevels", "NAMES", "StageLoops", "estimated_speed", "surround"]
