"""The published greedy algorithms: buffers are sorted and placed above the conflicting buffers placed before."""

from __future__ import annotations

from collections.abc import Sequence

from ..utils import BufferInfo, PoolAllocation
from .problem import Layout, Problem, above, place, to_allocations


def by_size(problem: Problem) -> Layout:
    return place(problem, problem.order(problem.size, problem.degree), above)


def by_conflicts(problem: Problem) -> Layout:
    return place(problem, problem.order(problem.degree, problem.size), above)


def greedy_by_size(buffers: Sequence[BufferInfo], memory_pressure: int = 0) -> dict[BufferInfo, PoolAllocation]:
    """Place the largest buffers first.

    Parameters
    ----------
    buffers : list of BufferInfo
        The buffers.
    memory_pressure : int, optional
        The most bytes that are live at one time; the algorithm does not need it.

    Returns
    -------
    dict of BufferInfo to PoolAllocation
        The place of each buffer.

    Raises
    ------
    TVMError
        The buffers do not fit in their pools.
    """
    problem = Problem(buffers)
    return to_allocations(problem, by_size(problem))


def greedy_by_conflicts(buffers: Sequence[BufferInfo], memory_pressure: int = 0) -> dict[BufferInfo, PoolAllocation]:
    """Place the buffers with the most conflicts first.

    Parameters
    ----------
    buffers : list of BufferInfo
        The buffers.
    memory_pressure : int, optional
        The most bytes that are live at one time; the algorithm does not need it.

    Returns
    -------
    dict of BufferInfo to PoolAllocation
        The place of each buffer.

    Raises
    ------
    TVMError
        The buffers do not fit in their pools.
    """
    problem = Problem(buffers)
    return to_allocations(problem, by_conflicts(problem))
