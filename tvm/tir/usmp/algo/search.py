"""The default algorithm: greedy placement in many orders, then branch and bound in each pool.

The plan is never worse than those of Apache TVM's algorithms, because the search includes them. A number of steps, not
the elapsed time, limits the search, so equal programs get equal plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....ir.visit import components
from ..utils import BufferInfo, PoolAllocation
from .greedy import by_conflicts, by_size
from .hill_climb import climb
from .packing import Packing, Search
from .problem import Layout, Problem, best_fit, first_fit, measure, place, to_allocations

# The step limit of branch and bound. A step, the visit of a buffer in a branch, takes about a microsecond.
BRANCH_WORK = 1_000_000
# Branch and bound is skipped for connected sets with more buffers than this.
LARGEST_SET = 400


def orders(problem: Problem) -> Iterator[list[int]]:
    """Yield orders of placement: by size, by number of conflicts, by both, and by the total size of the conflicting
    buffers."""
    sizes, neighbours = problem.sizes, problem.neighbours
    beside = [size + sum(sizes[m] for m in near) for size, near in zip(sizes, neighbours)]
    yield problem.order(problem.size, problem.degree)
    yield problem.order(problem.degree, problem.size)
    yield problem.order(lambda n: sizes[n] * (1 + len(neighbours[n])), problem.size)
    yield problem.order(beside.__getitem__, problem.size)
    yield list(range(len(sizes)))


def first_layout(problem: Problem) -> Layout:
    """Return the best layout of the greedy algorithms."""
    layouts = [by_size(problem), by_conflicts(problem)]
    layouts += [place(problem, order, fit) for order in orders(problem) for fit in (first_fit, best_fit)]
    return min(layouts, key=lambda layout: layout.cost)


def _sets(problem: Problem, layout: Layout, pool: int) -> list[list[int]]:
    """Split the buffers of a pool into independent sets: buffers of different sets do not conflict. In each set, the
    largest buffers are first."""
    members = [n for n, p in enumerate(layout.pools) if p == pool and problem.sizes[n]]
    inside = set(members)
    found = components(members, lambda n: [m for m in problem.neighbours[n] if m in inside])
    return [sorted(part, key=lambda n: (-problem.sizes[n], n)) for part in found]


def pack(problem: Problem, layout: Layout) -> Layout:
    """Return the layout after branch and bound has repacked the buffers of each pool."""
    offsets, work = list(layout.offsets), BRANCH_WORK
    for pool in range(len(problem.pools)):
        found = [(part, _packing(problem, part)) for part in _sets(problem, layout, pool)]
        target = max((packing.bound for _, packing in found), default=0)
        for part, packing in found:
            peak = max(offsets[n] + problem.sizes[n] for n in part)
            if peak <= target or len(part) > LARGEST_SET or work <= 0:
                target = max(target, peak)
                continue
            search = Search(packing, peak, target, work)
            better = search.run()
            work = search.work
            for n, offset in zip(part, better or ()):
                offsets[n] = offset
            target = max(target, search.peak)
    return measure(problem, list(layout.pools), offsets)


def _packing(problem: Problem, part: list[int]) -> Packing:
    numbers = {n: i for i, n in enumerate(part)}
    neighbours = [{numbers[m] for m in problem.neighbours[n] if m in numbers} for n in part]
    return Packing([problem.sizes[n] for n in part], [problem.alignments[n] for n in part], neighbours)


def bounds(problem: Problem, layout: Layout) -> int:
    """Return a lower bound of the bytes that the buffers need in the pools of this layout."""
    pools = [_sets(problem, layout, pool) for pool in range(len(problem.pools))]
    return sum(max((_packing(problem, part).bound for part in parts), default=0) for parts in pools)


def search_layout(problem: Problem) -> Layout:
    """Return the best layout that the search finds. It may not fit in the pools."""
    best = first_layout(problem)
    bound = bounds(problem, best) if len(problem.pools) == 1 else 0
    found = [best]
    for step in (lambda: climb(problem, bound), lambda: pack(problem, best), lambda: pack(problem, found[1])):
        if len(problem.pools) == 1 and sum(found[-1].used) == bound:
            break
        found.append(step())
    return min(found, key=lambda layout: layout.cost)


def search(buffers: Sequence[BufferInfo], memory_pressure: int = 0) -> dict[BufferInfo, PoolAllocation]:
    """Search for the smallest plan; for small programs the search is exhaustive.

    Parameters
    ----------
    buffers : list of BufferInfo
        The buffers.
    memory_pressure : int, optional
        The maximum number of bytes that are live at the same time; ignored, because the search computes tighter bounds.

    Returns
    -------
    dict of BufferInfo to PoolAllocation
        The pool and the offset of each buffer.

    Raises
    ------
    TVMError
        The search found no plan that fits in the pools.
    """
    problem = Problem(buffers)
    return to_allocations(problem, search_layout(problem))
