"""Features of states for GPUs: a row for each kernel, computed from its loop nests in closed form, with estimated
cycles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..dtype import info
from ..ir.prim import Var
from ..target.features import Features
from .attach_steps import INLINED
from .compute_dag import ComputeDAG
from .fragment_features import VECTOR_BYTES, FragmentSteps
from .gpu_limits import Block, elements_of_block, is_shared, kernels_of, root_of, scope_of, strides_of_block
from .intrinsics import ACCUMULATOR
from .iterator import Annotation, IteratorKind
from .loop_nests import LoopNests, Nest, length_of
from .operation_facts import arithmetic
from .queries import has_cross_thread_reduction, has_reduce_iter
from .state import Stage, StateObject

# Per multiprocessor: multiplications and bytes of shared memory per cycle, registers, maximum number of resident
# blocks, and the number of warps that hides latency.
_MULTIPLIES, _SHARED_BYTES, _REGISTERS, _MOST_BLOCKS, _HIDING_WARPS = 128.0, 128.0, 65536, 32, 12.0
# Registers of a thread in addition to its accumulators.
_OTHER_REGISTERS = 32
# Per device: bytes from global memory per cycle, and the latency of a load and of a launch in cycles.
_MEMORY_BYTES, _LATENCY, _LAUNCH = 2400.0, 700.0, 3000.0
# Groups of four shared memory banks, each of which serves one vector load.
_BANK_GROUPS = 8
# Bytes of a memory sector, the unit of transfer from global memory.
_SECTOR = 32


@dataclass
class Kernel:
    """The features of a kernel. Quantities are per thread or per block if their name or comment states it, otherwise
    for the whole kernel."""

    blocks: float = 1
    threads: float = 1
    virtual_threads: float = 1
    shared_bytes: float = 0
    local_bytes: float = 0
    # Operations, operations per thread, and bytes loaded from and stored to global memory in whole sectors.
    operations: float = 0
    thread_operations: float = 0
    global_bytes: float = 0
    stored_bytes: float = 0
    # The fraction of the loaded bytes that is used, and the number of contiguous elements that a warp stores at once.
    used_share: float = 1
    store_run: float = 1
    # Bytes that all threads of a block read from shared memory, and the number of barriers.
    shared_read_bytes: float = 0
    waits: float = 0
    fetches: float = 0
    lanes: float = 1
    # The thread tile: its elements, block_k, the elements of the innermost loops, and unrolled statements.
    thread_tile: float = 1
    terms: float = 1
    inner_elements: float = 1
    unrolled: float = 0
    crossed_threads: float = 1
    # The degree of shared memory bank conflicts.
    bank_conflicts: float = 1
    # Derived quantities.
    blocks_at_once: float = 1
    warps_at_once: float = 1
    waves: float = 1
    busy_share: float = 1
    compute_cycles: float = 0
    shared_cycles: float = 0
    memory_cycles: float = 0
    waiting_cycles: float = 0
    cycles: float = 0
    # The fragment matmul of a kernel; it is included in the cycles and is not a separate feature.
    fragments: FragmentSteps | None = None


NAMES = tuple(f.name for f in fields(Kernel) if f.name != "fragments")
_CYCLES = NAMES.index("cycles")


def estimated_speed(rows: np.ndarray) -> np.ndarray:
    """Return speed estimates without measurements, from rows of states × kernels × features: the negative logarithm of
    the cycles of all kernels."""
    return -np.log2((np.exp2(rows[..., _CYCLES].astype("float64")) - 1).sum(axis=-1))


def summary(rows: np.ndarray) -> np.ndarray:
    """Return the number of kernels of a state, and the features of the slowest of them."""
    return np.concatenate([[np.log2(1.0 + len(rows))], rows[rows[:, _CYCLES].argmax()]])


class GPUFeatureExtractor:
    """Features of states of one computation on one target."""

    def __init__(self, dag: ComputeDAG, features: Features):
        self.dag, self.features = dag, features
        self._counts: dict[Any, int] = {}

    def rows(self, state: StateObject) -> np.ndarray:
        """Return a row for each kernel. If a state was read from a record, its loops are computed first."""
        table = [[getattr(kernel, name) for name in NAMES] for kernel in self.kernels(state)]
        return np.log2(1.0 + np.array(table, dtype="float64")).astype("float32")

    def kernels(self, state: StateObject) -> list[Kernel]:
        if not state.stages:
            state = self.dag.state_of(state.transform_steps)
        nests = LoopNests(self.dag, state)
        made = {root: _of_block(block) for root, block in kernels_of(self.dag, state, nests).items()}
        for place, stage in enumerate(state.stages):
            if not stage.is_placeholder and stage.compute_at != INLINED:
                self._note(made[root_of(state, place)], state, nests, place)
        for kernel in made.values():
            self._conclude(kernel)
        return [made[root] for root in sorted(made)]

    def _note(self, kernel: Kernel, state: StateObject, nests: LoopNests, place: int) -> None:
        stage, nest = state.stages[place], nests.nests[place]
        op = stage.op
        iterations = math.prod(length_of(axis) for axis in (*op.axis, *op.reduce_axis))
        width = info(op.output(0).dtype).bits // 8
        kernel.unrolled = max(kernel.unrolled, stage.auto_unroll_max_step)
        scope = scope_of(op)
        if stage.attach is not None and scope == "shared":
            self._note_copy(kernel, state, nests, place, width)
            return
        if stage.attach is not None and (scope == "shared.dyn" or scope.startswith("wmma")):
            self._note_fragments(kernel, state, nests, place, scope)
            return
        kernel.operations += self._operations(op) * iterations
        if stage.attach is None:
            kernel.stored_bytes += width * math.prod(axis.dom.extent.value for axis in op.axis)
            kernel.store_run = max(kernel.store_run, _neighbours(nest, op.axis[-1].var if op.axis else None))
        for loop in nest.loops:
            if loop.kind is IteratorKind.REDUCTION and loop.annotation is Annotation.THREAD_X:
                kernel.crossed_threads = max(kernel.crossed_threads, loop.extent)
        copied = [p for p in nests.analyzer.producers(op) if scope_of(p) == "shared"]
        for producer in nests.analyzer.producers(op):
            if producer not in copied and not is_shared(state, _place(state, producer)):
                # Repeated reads may hit a cache.
                kernel.global_bytes += (
                    min(float(iterations), float(math.prod(d.value for d in producer.output(0).shape)))
                    * info(producer.output(0).dtype).bits
                    // 8
                )
        if copied:
            self._note_tile(kernel, state, nests, place, copied)
        elif not has_cross_thread_reduction(state, place):
            # A thread loads the terms of its sums one after the other, as in split-k.
            kernel.fetches += math.prod(loop.extent for loop in nest.loops if loop.kind is IteratorKind.REDUCTION)

    def _note_copy(self, kernel: Kernel, state: StateObject, nests: LoopNests, place: int, width: int) -> None:
        """Add a cooperative copy into shared memory."""
        stage = state.stages[place]
        assert stage.attach is not None
        target, loop = stage.attach
        elements, run = elements_of_block(state, nests, place)
        reader = nests.nests[target]
        times = math.prod(one.extent for one in reader.loops[: loop + 1] if one.kind is IteratorKind.REDUCTION)
        share = run * width / (math.ceil(run * width / _SECTOR) * _SECTOR)
        fetched = elements * width * times * kernel.blocks
        kernel.global_bytes += fetched / share
        kernel.used_share = min(kernel.used_share, share)
        kernel.waits = max(kernel.waits, times)
        lanes = next((it.extent or 1 for it in stage.iters if it.annotation is Annotation.VECTORIZE), 1)
        asked = next((it.asked or 1 for it in stage.iters if it.annotation is Annotation.VECTORIZE), lanes)
        kernel.lanes = max(kernel.lanes, asked)
        kernel.fetches += times * math.ceil(elements / (kernel.threads * asked))

    def _note_fragments(self, kernel: Kernel, state: StateObject, nests: LoopNests, place: int, scope: str) -> None:
        """Add operands in shared memory and in fragments, their matmuls and the stores of accumulators."""
        kernel.fragments = kernel.fragments or FragmentSteps()
        stage, nest = state.stages[place], nests.nests[place]
        assert stage.attach is not None
        target, loop = stage.attach
        warps = kernel.threads / max(self.features.warp_size, 1)
        if scope == ACCUMULATOR:
            kernel.operations += self._operations(stage.op) * math.prod(
                length_of(axis) for axis in (*stage.op.axis, *stage.op.reduce_axis)
            )
            kernel.thread_tile = kernel.local_bytes / 4
            first = nests.analyzer.producers(stage.op)[0]
            width = info(first.output(0).dtype).bits // 8
            (source,) = nests.analyzer.producers(first)
            outer = state.stages[_place(state, source)].attach
            kernel.fragments.note_matmuls(nests, place, width, warps, outer[1] if outer is not None else -1)
            kernel.waits, kernel.terms = kernel.fragments.steps, kernel.fragments.row_bytes / width
        elif scope != "shared.dyn":
            width = info(stage.op.output(0).dtype).bits // 8
            outer = state.stages[_place(state, nests.analyzer.producers(stage.op)[0])].attach
            reader = nests.nests[target].loops[outer[1] + 1 if outer is not None else 0 : loop + 1]
            times = math.prod(one.extent for one in reader if one.kind is IteratorKind.REDUCTION)
            kernel.fragments.note_load(nests, place, width, warps, times)
        elif not has_reduce_iter(state.stages[target]):
            kernel.store_run = max(kernel.store_run, nest.loops[-1].extent)
        else:
            kernel.fragments.note_copy(state, nests, place, kernel.threads)
            kernel.lanes = max(it.asked or 1 for it in stage.iters if it.annotation is Annotation.VECTORIZE)

    def _note_tile(self, kernel: Kernel, state: StateObject, nests: LoopNests, place: int, copied: list[Any]) -> None:
        """Add the thread tile: for each k it loads operands from shared memory, which all its elements share."""
        stage, nest = state.stages[place], nests.nests[place]
        loops = [loop for loop in nest.loops if loop.extent > 1]
        steps = math.prod(loop.extent for loop in loops if loop.kind is IteratorKind.REDUCTION)
        tile = math.prod(loop.extent for loop in loops if loop.kind is IteratorKind.SPATIAL)
        per_axis: dict[Var, int] = {}
        for loop in loops:
            for axis, extent in loop.parts if loop.kind is IteratorKind.SPATIAL else ():
                per_axis[axis] = per_axis.get(axis, 1) * extent
        beside = _adjacent_threads_axis(state, nests, place)
        ways = {p: _bank_conflicts(state, nests, stage, p, beside, per_axis) for p in copied}
        kernel.bank_conflicts = max(kernel.bank_conflicts, *ways.values())
        read = sum(
            _elements(nests, stage, producer, per_axis) * info(producer.output(0).dtype).bits // 8 * ways[producer]
            for producer in copied
        )
        kernel.thread_tile = max(kernel.thread_tile, tile * kernel.virtual_threads)
        # Threads of a warp that read the same element share one read (a broadcast); this usually applies to at least
        # half of them.
        kernel.shared_read_bytes += steps * read * kernel.virtual_threads * kernel.threads / 2
        kernel.terms = max(kernel.terms, steps / max(kernel.waits, 1))
        kernel.inner_elements = max(kernel.inner_elements, loops[-1].extent if loops else 1)
        kernel.thread_operations = steps * tile * kernel.virtual_threads

    def _operations(self, op: Any) -> int:
        if op not in self._counts:
            self._counts[op] = max(sum(arithmetic(op)), 1)
        return self._counts[op]

    def _conclude(self, kernel: Kernel) -> None:
        """Compute the occupancy, and the cycles of each resource."""
        f = self.features
        if kernel.fragments is not None:
            self._conclude_fragments(kernel, kernel.fragments)
            return
        registers = kernel.local_bytes / 4 + _OTHER_REGISTERS
        warp = max(f.warp_size, 1)
        kernel.blocks_at_once = max(
            1,
            min(
                f.multiprocessor_threads // max(kernel.threads, 1),
                _MOST_BLOCKS,
                _REGISTERS // (registers * kernel.threads),
                f.multiprocessor_shared_bytes // max(kernel.shared_bytes, 1),
            ),
        )
        rounds = math.ceil(kernel.blocks / f.multiprocessors)
        at_once = min(kernel.blocks_at_once, rounds)
        kernel.warps_at_once = at_once * math.ceil(kernel.threads / warp)
        kernel.waves = math.ceil(kernel.blocks / (f.multiprocessors * kernel.blocks_at_once))
        kernel.busy_share = kernel.blocks / (rounds * f.multiprocessors)
        hidden = min(1.0, kernel.warps_at_once / _HIDING_WARPS)
        filled = kernel.threads / (math.ceil(kernel.threads / warp) * warp)
        each = kernel.operations / kernel.blocks
        kernel.compute_cycles = rounds * each / 2 / _MULTIPLIES / hidden / filled
        kernel.shared_cycles = rounds * kernel.shared_read_bytes / _SHARED_BYTES
        stored = kernel.stored_bytes * max(1.0, _SECTOR / 4 / kernel.store_run)
        kernel.memory_cycles = (kernel.global_bytes + stored) / _MEMORY_BYTES / min(1.0, kernel.busy_share + 0.1)
        kernel.waiting_cycles = kernel.waves * (kernel.waits + 1) * _LATENCY / max(1.0, at_once)
        kernel.waiting_cycles += kernel.waves * kernel.fetches * 20
        kernel.cycles = (
            _LAUNCH + kernel.waiting_cycles + max(kernel.compute_cycles, kernel.shared_cycles, kernel.memory_cycles)
        )

    def _conclude_fragments(self, kernel: Kernel, made: FragmentSteps) -> None:
        f = self.features
        cycles, kernel.blocks_at_once = made.cycles(
            kernel.blocks, kernel.threads, kernel.local_bytes / 4, kernel.shared_bytes, f
        )
        steps = made.steps * kernel.blocks
        rounds = math.ceil(kernel.blocks / f.multiprocessors)
        kernel.warps_at_once = min(kernel.blocks_at_once, rounds) * kernel.threads / f.warp_size
        kernel.waves = math.ceil(kernel.blocks / (f.multiprocessors * kernel.blocks_at_once))
        kernel.busy_share = kernel.blocks / (rounds * f.multiprocessors)
        kernel.fetches = made.steps * made.fetched_bytes / (kernel.threads * VECTOR_BYTES)
        kernel.global_bytes += steps * made.fetched_bytes
        kernel.shared_read_bytes = made.steps * made.loaded_bytes
        kernel.compute_cycles = rounds * made.steps * made.multiplies / f.cost.tensor_core.multiplies_per_cycle
        kernel.shared_cycles = rounds * kernel.shared_read_bytes / _SHARED_BYTES
        # Most data that blocks load is in the L2 cache; the cycles of a block include these loads.
        kernel.memory_cycles = kernel.stored_bytes / _MEMORY_BYTES
        kernel.waiting_cycles = max(cycles - kernel.compute_cycles, 0.0)
        kernel.cycles = _LAUNCH + max(cycles, kernel.memory_cycles)


def _of_block(block: Block) -> Kernel:
    shared = block.shared_bytes + block.dynamic_bytes
    return Kernel(block.blocks, block.threads, block.virtual_threads, shared, block.local_bytes)


def _place(state: StateObject, op: Any) -> int:
    return next(place for place, stage in enumerate(state.stages) if stage.op is op)


def _elements(nests: LoopNests, stage: Stage, producer: Any, extents: Mapping[Var, int]) -> int:
    """Return the elements of a producer that one iteration of a reduction reads."""
    reads = nests.analyzer.accesses[stage.op].reaches[producer]
    return max(math.prod(reach(extents) for reach in read) for read in reads)


def _adjacent_threads_axis(state: StateObject, nests: LoopNests, place: int) -> tuple[Var, int] | None:
    """Return the axis of a tiled stage along which the threads of a warp are adjacent, and their number."""
    attach = state.stages[place].attach
    if attach is None:
        return None
    host = state.stages[attach[0]]
    places = {axis.var: n for n, axis in enumerate(host.op.axis)}
    for loop in nests.nests[attach[0]].loops:
        if loop.annotation is Annotation.THREAD_X:
            for axis, extent in reversed(loop.parts):
                if extent > 1 and places.get(axis, len(places)) < len(state.stages[place].op.axis):
                    return state.stages[place].op.axis[places[axis]].var, extent
    return None


def _bank_conflicts(
    state: StateObject,
    nests: LoopNests,
    stage: Stage,
    producer: Any,
    beside: tuple[Var, int] | None,
    per_axis: Mapping[Var, int],
) -> float:
    """Return how many of eight adjacent threads, each of which reads a vector of four elements, read from the same
    banks."""
    if beside is None:
        return 1.0
    axis, count = beside
    _, strides = strides_of_block(state, nests, _place(state, producer))
    reads = nests.analyzer.accesses[stage.op].reaches[producer]
    # The stride between adjacent threads includes all elements of a thread along the axis.
    far = {axis: per_axis.get(axis, 1) + 1}
    near = {axis: 1}
    step = max(sum((reach(far) - reach(near)) * stride for reach, stride in zip(read, strides)) for read in reads)
    if step == 0:
        return 1.0
    return float(min(math.gcd(step // 4, _BANK_GROUPS) if step % 4 == 0 else 1, count))


def _neighbours(nest: Nest, last: Var | None) -> float:
    """Return the number of contiguous elements that adjacent threads of a block store: along the last axis if it is
    bound to the innermost threads, unless each thread traverses it alone."""
    run = 1
    for loop in nest.loops:
        if loop.annotation in (Annotation.THREAD_X, Annotation.VECTORIZE):
            run *= math.prod(extent for axis, extent in loop.parts if axis is last)
    inside = math.prod(
        extent
        for loop in nest.loops
        if loop.annotation is Annotation.NONE and loop.kind is IteratorKind.SPATIAL
        for axis, extent in loop.parts
        if axis is last
    )
    return max(run / max(inside, 1), 1.0)


__all__ = ["GPUFeatureExtractor", "Kernel", "NAMES", "estimated_speed", "summary"]
