"""A planning problem, whose buffers are numbered, and functions that build a layout from an order of buffers."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....error import TVMError
from ....ir.memory_pools import PoolInfo
from ..utils import BufferInfo, PoolAllocation

# An occupied byte range of a pool: start and end (exclusive).
Span = tuple[int, int]
Fit = Callable[[Sequence[Span], int, int], int]

# The number of buffers that the message about a full pool lists.
_LISTED = 5


def align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def above(spans: Sequence[Span], size: int, alignment: int) -> int:
    """Return the lowest aligned offset above all occupied ranges, as in the greedy algorithms of Apache TVM."""
    return align(max((end for _, end in spans), default=0), alignment)


def first_fit(spans: Sequence[Span], size: int, alignment: int) -> int:
    """Return the offset of the lowest gap between the occupied ranges that is large enough."""
    offset = 0
    for begin, end in spans:
        if offset + size <= begin:
            return offset
        offset = max(offset, align(end, alignment))
    return offset


def best_fit(spans: Sequence[Span], size: int, alignment: int) -> int:
    """Return the offset of the smallest gap that is large enough; without one, the offset above all ranges."""
    offset, best, smallest = 0, -1, 0
    for begin, end in spans:
        room = begin - offset
        if room >= size and (best < 0 or room < smallest):
            best, smallest = offset, room
        offset = max(offset, align(end, alignment))
    return offset if best < 0 else best


class Problem:
    """The numbered buffers of a program: sizes, alignments, neighbours (conflicting buffers) and candidate pools.

    Parameters
    ----------
    buffers : sequence of BufferInfo
        The buffers. Conflicts with other buffers are ignored.
    """

    def __init__(self, buffers: Sequence[BufferInfo]):
        self.buffers = list(buffers)
        numbers = {buffer: n for n, buffer in enumerate(self.buffers)}
        self.sizes = [b.size_bytes for b in self.buffers]
        self.alignments = [b.alignment for b in self.buffers]
        self.neighbours: list[set[int]] = [set() for _ in self.buffers]
        for n, buffer in enumerate(self.buffers):
            for other in buffer.conflicts:
                m = numbers.get(other)
                if m is not None and m != n:
                    self.neighbours[n].add(m)
                    self.neighbours[m].add(n)
        self.pools: list[PoolInfo] = []
        known: dict[PoolInfo, int] = {}
        self.candidates: list[list[int]] = []
        for buffer in self.buffers:
            if not buffer.pool_candidates:
                raise TVMError(f"the buffer '{buffer.name_hint}' has no candidate pools")
            for pool in buffer.pool_candidates:
                if pool not in known:
                    known[pool] = len(self.pools)
                    self.pools.append(pool)
            self.candidates.append([known[pool] for pool in buffer.pool_candidates])
        self.limits = [pool.size_hint_bytes for pool in self.pools]
        self.work = len(self.buffers) + sum(map(len, self.neighbours))

    def order(self, *keys: Callable[[int], int]) -> list[int]:
        """Return all buffers in descending order of the keys, then of their names."""
        names = sorted(range(len(self.buffers)), key=lambda n: self.buffers[n].name_hint, reverse=True)
        return sorted(names, key=lambda n: tuple(-key(n) for key in keys))

    def size(self, n: int) -> int:
        return self.sizes[n]

    def degree(self, n: int) -> int:
        return len(self.neighbours[n])


@dataclass
class Layout:
    """The pool and the offset of each buffer, and for each pool the used bytes and the bytes above its limit."""

    pools: list[int]
    offsets: list[int]
    used: list[int]
    overflow: list[int]

    @property
    def cost(self) -> tuple[int, ...]:
        """The sort key of layouts: first the bytes above the pool limits, then the used bytes of each pool, the least
        preferred pool first."""
        return (sum(self.overflow), *reversed(self.used))


def measure(problem: Problem, pools: list[int], offsets: list[int]) -> Layout:
    """Return the layout of these pools and offsets, with the used bytes of each pool and the bytes above its limit."""
    used = [0] * len(problem.pools)
    for n, (pool, offset) in enumerate(zip(pools, offsets)):
        used[pool] = max(used[pool], offset + problem.sizes[n])
    overflow = [max(0, u - limit) if limit >= 0 else 0 for u, limit in zip(used, problem.limits)]
    return Layout(pools, offsets, used, overflow)


def place(problem: Problem, order: Iterable[int], fit: Fit) -> Layout:
    """Place buffers one after the other, each in its first candidate pool with enough space. A buffer that does not fit
    in any candidate pool is placed in the last one, which then overflows."""
    count = len(problem.buffers)
    pools, offsets = [-1] * count, [0] * count
    for n in order:
        size, alignment = problem.sizes[n], problem.alignments[n]
        spans: dict[int, list[Span]] = {}
        for m in problem.neighbours[n]:
            if pools[m] >= 0:
                insort(spans.setdefault(pools[m], []), (offsets[m], offsets[m] + problem.sizes[m]))
        for pool in problem.candidates[n]:
            offset = fit(spans.get(pool, ()), size, alignment)
            limit = problem.limits[pool]
            pools[n], offsets[n] = pool, offset
            if limit < 0 or offset + size <= limit:
                break
    return measure(problem, pools, offsets)


def heaviest_clique(problem: Problem, members: Iterable[int]) -> list[int]:
    """Return buffers that all conflict with each other: the set with the largest total size that a greedy search
    finds."""
    best: list[int] = []
    inside = set(members)
    for start in inside:
        clique = [start]
        rest = sorted(problem.neighbours[start] & inside, key=lambda n: (-problem.sizes[n], n))
        for n in rest:
            if all(n in problem.neighbours[m] for m in clique):
                clique.append(n)
        if sum(problem.sizes[n] for n in clique) > sum(problem.sizes[n] for n in best):
            best = clique
    return sorted(best, key=lambda n: (-problem.sizes[n], n))


def to_allocations(problem: Problem, layout: Layout) -> dict[BufferInfo, PoolAllocation]:
    """Convert a layout to the return value of a planning algorithm.

    Raises
    ------
    TVMError
        The layout does not fit in the pools.
    """
    if any(layout.overflow):
        raise TVMError(_overflow_message(problem, layout))
    return {
        buffer: PoolAllocation(problem.pools[pool], offset)
        for buffer, pool, offset in zip(problem.buffers, layout.pools, layout.offsets)
    }


def _overflow_message(problem: Problem, layout: Layout) -> str:
    """Return the error message for a layout that does not fit: the missing bytes of each full pool, and the largest
    buffers in it that are live at the same time."""
    texts: list[str] = []
    for pool, missing in enumerate(layout.overflow):
        if not missing:
            continue
        members = [n for n, p in enumerate(layout.pools) if p == pool]
        live = heaviest_clique(problem, members)
        names = ", ".join(f"{problem.buffers[n].name_hint} ({problem.sizes[n]})" for n in live[:_LISTED])
        more = f" and {len(live) - _LISTED} smaller ones" if len(live) > _LISTED else ""
        texts.append(
            f"pool '{problem.pools[pool].pool_name}' has {problem.limits[pool]} bytes and the plan needs "
            f"{layout.used[pool]}: {missing} bytes are missing. Live at the same time there: {names}{more}"
        )
    return "the memory plan does not fit: " + "; ".join(texts)


def check_allocations(buffers: Sequence[BufferInfo], allocations: Mapping[BufferInfo, PoolAllocation]) -> None:
    """Check the plan that an algorithm returned, because custom algorithms can be incorrect.

    Raises
    ------
    TVMError
        A buffer is not placed, is in a pool that is not a candidate, is misaligned, exceeds the pool, or overlaps a
        buffer that is live at the same time.
    """
    for buffer in buffers:
        name, place_ = buffer.name_hint, allocations.get(buffer)
        if place_ is None:
            raise TVMError(f"the planning algorithm did not place the buffer '{name}'")
        pool, begin = place_.pool_info, int(place_.byte_offset)
        where = f"the planning algorithm placed '{name}' at byte {begin} of pool '{pool.pool_name}'"
        if not any(pool is candidate for candidate in buffer.pool_candidates):
            candidates = ", ".join(p.pool_name for p in buffer.pool_candidates)
            raise TVMError(f"{where}, but its candidate pools are {candidates}")
        if begin < 0 or begin % buffer.alignment:
            raise TVMError(f"{where}, which is not a multiple of its alignment {buffer.alignment}")
        end = begin + buffer.size_bytes
        if 0 <= pool.size_hint_bytes < end:
            raise TVMError(f"{where}, but the pool has only {pool.size_hint_bytes} bytes and the buffer ends at {end}")
        for other in buffer.conflicts:
            theirs = allocations.get(other)
            if theirs is None or theirs.pool_info is not pool:
                continue
            start = int(theirs.byte_offset)
            if begin < start + other.size_bytes and start < end:
                raise TVMError(f"{where}, where it overlaps '{other.name_hint}', which is live at the same time")
