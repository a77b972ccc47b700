"""The default algorithm: the best of many orders, then branch and bound in each pool.

The result is never worse than that of a published algorithm, since all of them are among the orders. The work is
limited by a number of steps and not by the clock, so that equal programs get equal plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....ir.visit import components
from ..utils import BufferInfo, PoolAllocation
from .greedy import by_conflicts, by_size
from .hill_climb import climb
from .packing import Packing, Search
from .problem import Layout, Problem, best_fit, first_fit, measure, place, to_allocations

# Steps of one branch and bound, each about a microsecond: visits of a buffer in a branch.
BRANCH_WORK = 1_000_000
# Larger sets of connected buffers are too large for branch and bound.
LARGEST_SET = 400


def orders(problem: Problem) -> Iterator[list[int]]:
    """Orders of placement: by size, number of conflicts, both, and the bytes that are live beside a buffer."""
    sizes, neighbours = problem.sizes, problem.neighbours
    beside = [size + sum(sizes[m] for m in near) for size, near in zip(sizes, neighbours)]
    yield problem.order(problem.size, problem.degree)
    yield problem.order(problem.degree, problem.size)
    yield problem.order(lambda n: sizes[n] * (1 + len(neighbours[n])), problem.size)
    yield problem.order(beside.__getitem__, problem.size)
    yield list(range(len(sizes)))


def first_layout(problem: Problem) -> Layout:
    """The best layout of the greedy algorithms."""
    layouts = [by_size(problem), by_conflicts(problem)]
    layouts += [place(problem, order, fit) for order in orders(problem) for fit in (first_fit, best_fit)]
    return min(layouts, key=lambda layout: layout.cost)


def _sets(problem: Problem, layout: Layout, pool: int) -> list[list[int]]:
    """The buffers of a pool, split into sets without a conflict between two of them; the largest buffers first."""
    members = [n for n, p in enumerate(layout.pools) if p == pool and problem.sizes[n]]
    inside = set(members)
    found = components(members, lambda n: [m for m in problem.neighbours[n] if m in inside])
    return [sorted(part, key=lambda n: (-problem.sizes[n], n)) for part in found]


def pack(problem: Problem, layout: Layout) -> Layout:
    """The layout with the buffers of each pool packed by branch and bound."""
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
    """The bytes that the buffers of the layout need in their pools at least."""
    pools = [_sets(problem, layout, pool) for pool in range(len(problem.pools))]
    return sum(max((_packing(problem, part).bound for part in parts), default=0) for parts in pools)


def search_layout(problem: Problem) -> Layout:
    """The best layout that the search finds, which may not fit."""
    best = first_layout(problem)
    bound = bounds(problem, best) if len(problem.pools) == 1 else 0
    found = [best]
    for step in (lambda: climb(problem, bound), lambda: pack(problem, best), lambda: pack(problem, found[1])):
        if len(problem.pools) == 1 and sum(found[-1].used) == bound:
            break
        found.append(step())
    return min(found, key=lambda layout: layout.cost)


def search(buffers: Sequence[BufferInfo], memory_pressure: int = 0) -> dict[BufferInfo, PoolAllocation]:
    """Find the smallest plan of many, exhaustively where the program is small.

    Parameters
    ----------
    buffers : list of BufferInfo
        The buffers.
    memory_pressure : int, optional
        The most bytes that are live at one time; the search computes its own bounds.

    Returns
    -------
    dict of BufferInfo to PoolAllocation
        The place of each buffer.

    Raises
    ------
    TVMError
        No plan was found that fits in the pools.
    """
    problem = Problem(buffers)
    return to_allocations(problem, search_layout(problem))
