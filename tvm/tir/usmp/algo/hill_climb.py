"""Hill climbing: exchange two buffers in the order of placement and keep orders that need less memory.

The buffers to exchange are the buffers that end at the peak of the layout, the buffers that conflict with them, and the
buffers that conflict with those: moving other buffers cannot lower the peak. Sometimes a worse order is kept, to leave
local minima. The random numbers have a fixed seed, so equal programs get equal plans.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..utils import BufferInfo, PoolAllocation
from .problem import Layout, Problem, first_fit, place, to_allocations

ATTEMPTS = 500
# The limit of visited conflicts, each about a microsecond: large programs get fewer attempts.
WORK = 1_500_000
# One of this many worse orders is kept.
_WORSE_KEPT = 50


def climb(problem: Problem, target: int) -> Layout:
    """Return the best layout of all attempted orders. The search stops at a layout that fits in the pools and needs at
    most ``target`` bytes."""
    attempts = min(ATTEMPTS, max(1, WORK // max(problem.work, 1)))
    numbers = random.Random(0)
    order = problem.order(problem.degree, problem.size)
    best = current = place(problem, order, first_fit)
    for _ in range(attempts):
        if not any(best.overflow) and sum(best.used) <= target:
            break
        pair = _exchange(problem, current, numbers)
        if pair is None:
            break
        positions = {n: position for position, n in enumerate(order)}
        first, second = (positions[n] for n in pair)
        tried = list(order)
        tried[first], tried[second] = tried[second], tried[first]
        layout = place(problem, tried, first_fit)
        if layout.cost <= current.cost or not numbers.randrange(_WORSE_KEPT):
            order, current = tried, layout
        if layout.cost < best.cost:
            best = layout
    return best


def _exchange(problem: Problem, layout: Layout, numbers: random.Random) -> tuple[int, int] | None:
    """Return two buffers to exchange: one near the peak of a pool, and another one that can affect it; None if there
    are fewer than two."""
    tops = [
        n for n, (pool, offset) in enumerate(zip(layout.pools, layout.offsets))
        if offset + problem.sizes[n] == layout.used[pool]
    ]  # fmt: skip
    near = sorted({m for n in tops for m in problem.neighbours[n]} | set(tops))
    far = sorted({m for n in near for m in problem.neighbours[n]} | set(near))
    if len(far) < 2:
        return None
    first = numbers.choice(near)
    second = numbers.choice([n for n in far if n != first])
    return first, second


def hill_climb(buffers: Sequence[BufferInfo], memory_pressure: int = 0) -> dict[BufferInfo, PoolAllocation]:
    """Improve the order of placement step by step.

    Parameters
    ----------
    buffers : list of BufferInfo
        The buffers.
    memory_pressure : int, optional
        The maximum number of bytes that are live at the same time; the search stops at a plan of this size.

    Returns
    -------
    dict of BufferInfo to PoolAllocation
        The pool and the offset of each buffer.

    Raises
    ------
    TVMError
        The buffers do not fit in their pools.
    """
    problem = Problem(buffers)
    return to_allocations(problem, climb(problem, memory_pressure))
