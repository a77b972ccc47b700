"""Resource limits of a GPU block: states that exceed them are rejected before they are lowered."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..dtype import info
from ..error import TVMError
from ..ir.prim import Var
from ..ir.visit import post_order
from ..target.features import Features
from .access import Access
from .attach_steps import INLINED
from .compute_dag import ComputeDAG
from .hardware import HardwareParams
from .iterator import Annotation, Iterator, IteratorKind
from .loop_nests import Loop, LoopNests
from .loop_steps import SplitStep
from .queries import has_cross_thread_reduction
from .state import Stage, StateObject
from .tiling import factorizations

_THREADS = (Annotation.THREAD_X, Annotation.THREAD_Y, Annotation.THREAD_Z)
_BLOCKS = (Annotation.BLOCK_X, Annotation.BLOCK_Y, Annotation.BLOCK_Z)
# Vector widths of cooperative loads, in elements of 4 bytes.
LANES = (1, 2, 4)
# The stride between adjacent elements that threads read in shared memory is 8 k + 4 elements, so that eight threads,
# each reading a vector of four, use different banks.
ALIGN_FACTOR, ALIGN_OFFSET = 8, 4
# The inner lengths of a spatial tile, outermost first: virtual threads, threads, and the thread tile.
_VIRTUAL, _THREAD = 0, 1
_TILE_LENGTHS = 3
# The usual limit of block_k, the part of a reduction that is in shared memory at a time.
_MOST_TERMS = 256
# The maximum number of warps of a block along one axis, of fragments of a warp along one axis, and of unrolled fragment
# matmuls for one part of the reduction in shared memory. Accumulators use half of the registers.
_MOST_WARPS, _MOST_FRAGMENTS, _MOST_PRODUCTS = 8, 8, 128
# The lengths of a tile: warps, fragments, and elements of a fragment.
_FRAGMENT_LENGTHS = 3
_ON_CHIP = re.compile(r"\.(shared|shared\.dyn|local|wmma\.\w+)$")


@dataclass(frozen=True)
class GPULimits:
    """The maximum resources of a block, or of one of its threads."""

    threads: int
    virtual_threads: int
    shared_bytes: int
    # Bytes of dynamic shared memory.
    dynamic_bytes: int
    # Bytes of local memory of all threads of a block, and of one thread.
    local_bytes: int
    thread_bytes: int
    warp: int

    @staticmethod
    def of(hardware: HardwareParams, features: Features) -> GPULimits:
        shared = hardware.max_shared_memory_per_block
        return GPULimits(
            hardware.max_threads_per_block,
            max(hardware.max_vthread_extent, 1),
            shared,
            # A user-defined limit of shared memory also applies to dynamic shared memory.
            features.dynamic_shared_bytes if shared == features.shared_bytes else shared,
            hardware.max_local_memory_per_block,
            4 * features.thread_registers,
            max(hardware.warp_size, 1),
        )


# -- split lengths -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def tile_options(
    extent: int, count: int, most_inner: int, threads: int, virtual_threads: int
) -> tuple[tuple[int, ...], ...]:
    """Return the possible tile lengths of a spatial or reduction loop."""
    options = factorizations(extent, count, most_inner)
    if count < _TILE_LENGTHS:
        return options
    return tuple(o for o in options if o[_THREAD] <= threads and o[_VIRTUAL] <= virtual_threads)


@lru_cache(maxsize=1024)
def fragment_options(extent: int, count: int, length: int) -> tuple[tuple[int, ...], ...]:
    """Return the possible lengths of a loop whose innermost part is a fragment or a single element: warps and fragments
    of a warp, or fragments of a part of a reduction."""
    options = factorizations(extent // length, count - 1, _MOST_FRAGMENTS)
    return tuple((*o, length) for o in options if max(o) <= max(_MOST_WARPS, _MOST_FRAGMENTS))


def thread_options(extent: int | None, limits: GPULimits) -> tuple[tuple[int, ...], ...]:
    """Return the possible numbers of threads for a loop: powers of two, at least a warp if there is enough work. They
    need not divide the extent."""
    extent = extent or 1
    most = min(limits.threads, 1 << (extent - 1).bit_length())
    least = min(max(limits.warp, 16), most)
    return tuple((1 << n,) for n in range(limits.threads.bit_length()) if least <= 1 << n <= most) or ((1,),)


def length_options(step: SplitStep, most_inner: int, limits: GPULimits) -> tuple[tuple[int, ...], ...]:
    """Return the possible lengths of a split of a sketch: fixed lengths, or options for the vector width of a copy, for
    threads, or for tiles."""
    if None not in step.lengths:
        return (step.lengths,)  # type: ignore[return-value]
    if step.lengths[-1] is not None:
        return fragment_options(step.extent or 1, len(step.lengths), step.lengths[-1])
    if step.extent is None:
        return tuple((lanes,) * len(step.lengths) for lanes in LANES)
    if len(step.lengths) == 1:
        return thread_options(step.extent, limits)
    return tile_options(step.extent, len(step.lengths), most_inner, limits.threads, limits.virtual_threads)


def are_likely(steps: Sequence[SplitStep], chosen: Sequence[tuple[int, ...]], limits: GPULimits) -> bool:
    """Return whether the tile sizes of one stage alone allow a block that fits and fills a warp."""
    if all(None in step.lengths and step.lengths[-1] is not None for step in steps):
        return _are_likely_fragments(chosen, limits)
    tiles = [(step, o) for step, o in zip(steps, chosen) if len(o) >= _TILE_LENGTHS]
    terms = math.prod(math.prod(o) for o in chosen if 1 < len(o) < _TILE_LENGTHS)
    if not tiles:
        return True
    elements = math.prod(step.extent or 1 for step, _ in tiles)
    threads = math.prod(o[_THREAD] for _, o in tiles)
    virtual = math.prod(o[_VIRTUAL] for _, o in tiles)
    held = 4 * virtual * math.prod(math.prod(o[_THREAD + 1 :]) for _, o in tiles)
    least = min(limits.warp, elements)
    fits = least <= threads <= limits.threads and virtual <= limits.virtual_threads and terms <= _MOST_TERMS
    return fits and held <= limits.thread_bytes and held * threads <= limits.local_bytes


def _are_likely_fragments(chosen: Sequence[tuple[int, ...]], limits: GPULimits) -> bool:
    tiles = [o for o in chosen if len(o) == _FRAGMENT_LENGTHS]
    warps, count = (math.prod(o[n] for o in tiles) for n in range(2))
    held = 4 * math.prod(o[1] * o[2] for o in tiles) // limits.warp
    products = count * math.prod(o[0] for o in chosen if len(o) < _FRAGMENT_LENGTHS)
    return warps * limits.warp <= limits.threads and held <= limits.thread_bytes // 2 and products <= _MOST_PRODUCTS


# -- whole states --------------------------------------------------------------------------------------------------


@dataclass
class Block:
    """The resources of a block of a kernel."""

    threads: int = 1
    virtual_threads: int = 1
    blocks: int = 1
    shared_bytes: int = 0
    # Bytes of dynamic shared memory, of operands and of the accumulators that reuse this memory.
    operand_bytes: int = 0
    sum_bytes: int = 0
    # Bytes of local memory of one thread.
    local_bytes: int = 0
    # Bytes of the fragments of a warp, whose threads are those along x.
    fragment_bytes: int = 0
    warp: int = 1

    @property
    def dynamic_bytes(self) -> int:
        return max(self.operand_bytes, self.sum_bytes)


def kernels_of(dag: ComputeDAG, state: StateObject, nests: LoopNests | None = None) -> dict[int, Block]:
    """Return the resources of the blocks of each kernel, by the root stage of the kernel."""
    nests = nests or LoopNests(dag, state)
    found: dict[int, Block] = {}
    for place in reversed(range(len(state.stages))):
        stage = state.stages[place]
        if stage.is_placeholder or stage.compute_at == INLINED:
            continue
        root = root_of(state, place)
        block = found.setdefault(root, Block())
        loops = [(it.annotation, _extent(it, loop)) for it, loop in zip(stage.iters, nests.nests[place].loops)]
        if place == root:
            block.blocks = math.prod(extent for kind, extent in loops if kind in _BLOCKS)
            block.virtual_threads = math.prod(extent for kind, extent in loops if kind is Annotation.VTHREAD)
        threads = math.prod(extent for kind, extent in loops if kind in _THREADS)
        block.threads = max(block.threads, threads)
        block.warp = max(block.warp, *(extent for kind, extent in loops if kind is Annotation.THREAD_X), 1)
        width = sum(info(output.dtype).bits // 8 for output in stage.op.outputs)
        if has_cross_thread_reduction(state, place):
            # A cross-thread reduction exchanges at most one value per thread through shared memory.
            block.shared_bytes += width * threads
            block.local_bytes += 2 * width
        if stage.attach is None:
            continue
        scope = scope_of(stage.op)
        if scope == "shared.dyn":
            _note_dynamic(block, state, nests, place)
        elif is_shared(state, place):
            block.shared_bytes += width * elements_of_block(state, nests, place)[0]
        elif scope.startswith("wmma"):
            # The threads of a warp hold a fragment together.
            inner = math.prod(extent for it, (_, extent) in zip(stage.iters, loops) if it.kind is IteratorKind.SPATIAL)
            block.fragment_bytes += width * inner
        elif not has_cross_thread_reduction(state, place):
            inner = math.prod(extent for it, (_, extent) in zip(stage.iters, loops) if it.kind is IteratorKind.SPATIAL)
            block.local_bytes += width * inner * block.virtual_threads
    for block in found.values():
        block.local_bytes += block.fragment_bytes // block.warp
    return found


def _note_dynamic(block: Block, state: StateObject, nests: LoopNests, place: int) -> None:
    """Add operands of fragments, or the accumulators that are stored from them."""
    stage = state.stages[place]
    extents = region_of_block(state, nests, place)
    row = extents[-1]
    row += (stage.storage_offset - row) % stage.storage_factor
    size = stage.buffers * math.prod(extents[:-1]) * row * info(stage.op.output(0).dtype).bits // 8
    if any(scope_of(producer).startswith("wmma") for producer in nests.analyzer.producers(stage.op)):
        block.sum_bytes += size
    else:
        block.operand_bytes += size


def region_of_block(state: StateObject, nests: LoopNests, place: int) -> list[int]:
    """Return the extents of the region of a stage in dynamic shared memory that all warps of a block need, inside the
    loop in which it is computed."""
    stage = state.stages[place]
    assert stage.attach is not None
    target, loop = stage.attach
    reader = state.stages[target]
    if reader.attach is None:
        region = nests.region(place, target, loop)
        return [region[axis.var] for axis in stage.op.axis]
    host, last = reader.attach
    outside = [n for n, it in enumerate(state.stages[host].iters[: last + 1]) if it.annotation in _BLOCKS]
    inside = {**nests.nests[target].inside(loop + 1), **nests.region(target, host, max(outside, default=-1))}
    # A matmul reads a copy in fragments, which covers the same region as the copy in shared memory.
    (held,) = nests.analyzer.consumers(stage.op)
    reads = nests.analyzer.accesses[reader.op].reaches[held]
    return [max(min(read[n](inside), axis.dom.extent.value) for read in reads) for n, axis in enumerate(stage.op.axis)]


def _extent(it: Iterator, loop: Loop) -> int:
    """Return the extent of a loop. The parts of fused loops have no closed form: their extents are the lengths of their
    splits or, at the root, their full extents. The number of threads is the chosen one, even if some are idle."""
    extent = loop.extent if loop.parts else it.extent or it.asked or 1
    return max(extent, it.asked or 1) if it.annotation in _THREADS else extent


def root_of(state: StateObject, place: int) -> int:
    attach = state.stages[place].attach
    while attach is not None:
        place = attach[0]
        attach = state.stages[place].attach
    return place


def is_shared(state: StateObject, place: int) -> bool:
    """Return whether the output of a stage is in shared memory: it has this scope, or it is computed inside blocks but
    outside threads."""
    stage = state.stages[place]
    scope = scope_of(stage.op)
    return scope.startswith("shared") or stage.attach is not None and not scope and not _inside_threads(state, stage)


def scope_of(op: Any) -> str:
    """Return the on-chip memory scope of a cache stage; "" for other operations."""
    found = _ON_CHIP.search(op.name)
    return found.group(1) if found else ""


def _inside_threads(state: StateObject, stage: Stage) -> bool:
    while stage.attach is not None:
        target, loop = stage.attach
        stage = state.stages[target]
        if any(Annotation.VTHREAD == it.annotation or it.annotation in _THREADS for it in stage.iters[: loop + 1]):
            return True
    return False


def strides_of_block(state: StateObject, nests: LoopNests, place: int) -> tuple[list[int], list[int]]:
    """Return the extents and strides of the region of a stage that all threads of a block need, inside the loop in
    which it is computed."""
    attach = state.stages[place].attach
    assert attach is not None
    target, loop = attach
    op, reader = state.stages[place].op, state.stages[target]
    inside = dict(nests.nests[target].inside(loop + 1))
    if reader.attach is not None:
        # The region is the union over all threads of a block.
        host, last = reader.attach
        outside = [n for n, it in enumerate(state.stages[host].iters[: last + 1]) if it.annotation in _BLOCKS]
        inside.update(nests.region(target, host, max(outside, default=-1)))
    access = nests.analyzer.accesses[reader.op]
    reads = access.reaches.get(op, [])
    apart = dimension_of_threads(access, op) if state.stages[place].storage_offset else None
    extents = [
        max((min(read[n](inside), axis.dom.extent.value) for read in reads), default=1)
        for n, axis in enumerate(op.axis)
    ]
    strides, size = [], 1
    for number in reversed(range(len(extents))):
        if number == apart:
            size += (ALIGN_OFFSET - size) % ALIGN_FACTOR
        strides.append(size)
        size *= extents[number]
    return extents, strides[::-1]


def elements_of_block(state: StateObject, nests: LoopNests, place: int) -> tuple[int, int]:
    """Return the number of shared memory elements that a block allocates for a stage, and how many of them are
    contiguous in the source memory."""
    extents, strides = strides_of_block(state, nests, place)
    run, is_whole = 1, True
    for axis, extent in zip(reversed(state.stages[place].op.axis), reversed(extents)):
        run *= extent if is_whole else 1
        is_whole = is_whole and extent == axis.dom.extent.value
    return (extents[0] * strides[0] if extents else 1), run


def dimension_of_threads(access: Access, producer: Any) -> int | None:
    """Return the last dimension of an operand that is indexed by spatial axes of a tiled stage, with only reduction
    axes in the inner dimensions. Adjacent threads read at multiples of its stride, from the same banks."""
    axes = {axis.var for axis in access.op.axis}
    last = -1
    for indices in access.reads[producer]:
        for number, index in enumerate(indices):
            if any(node in axes for node in post_order(index) if isinstance(node, Var)):
                last = max(last, number)
    return last if 0 <= last < len(producer.output(0).shape) - 1 else None


def check_block_resources(
    dag: ComputeDAG, state: StateObject, limits: GPULimits, nests: LoopNests | None = None
) -> None:
    """Raise TVMError if a block exceeds the resources of the device."""
    for place, block in kernels_of(dag, state, nests).items():
        for what, number, most in (
            ("threads", block.threads, limits.threads),
            ("virtual threads", block.virtual_threads, limits.virtual_threads),
            ("bytes of shared memory", block.shared_bytes, limits.shared_bytes),
            ("bytes of dynamic shared memory", block.shared_bytes + block.dynamic_bytes, limits.dynamic_bytes),
            ("bytes of registers in a thread", block.local_bytes, limits.thread_bytes),
            ("bytes of registers", block.local_bytes * block.threads, limits.local_bytes),
        ):
            if number > most:
                name = state.stages[place].op.name
                raise TVMError(f"a block of {name} needs {number} {what}, but the target has only {most}")


__all__ = [
    "ALIGN_FACTOR",
    "ALIGN_OFFSET",
    "Block",
    "GPULimits",
    "are_likely",
    "dimension_of_threads",
    "elements_of_block",
    "is_shared",
    "kernels_of",
    "length_options",
    "check_block_resources",
    "region_of_block",
    "root_of",
    "scope_of",
    "strides_of_block",
    "thread_options",
]
