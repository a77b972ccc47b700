"""The greedy algorithms of Apache TVM: they sort the buffers, and place each above the conflicting buffers that are
already placed."""

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
        The maximum number of bytes that are live at the same time; this algorithm ignores it.

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
    return to_allocations(problem, by_size(problem))


def greedy_by_conflicts(buffers: Sequence[BufferInfo], memory_pressure: int = 0) -> dict[BufferInfo, PoolAllocation]:
    """Place the buffers with the most conflicts first.

    Parameters
    ----------
    buffers : list of BufferInfo
        The buffers.
    memory_pressure : int, optional
        The maximum number of bytes that are live at the same time; this algorithm ignores it.

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
    return to_allocations(problem, by_conflicts(problem))
