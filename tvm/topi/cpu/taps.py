"""Taps of a window that tiles of results read from the data; those that a whole tile reads from padding are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...ir.prim import IterVar
from ...te.padding import idle_loads
from ...te.tensor import ComputeOp
from .. import access

# The share of taps that must be left for tests and smaller tiles to cost more than they save.
MOST_LEFT = 0.875


class Taps(NamedTuple):
    """One dimension of a window: result ``i`` reads element ``i * step + k * dilation`` with tap ``k``; those from
    ``first`` to ``last`` are data."""

    results: int
    count: int
    step: int
    dilation: int
    first: int
    last: int

    def read(self, begin: int, size: int) -> int:
        """How many taps of a tile read data."""
        low, high = begin * self.step, (begin + size - 1) * self.step
        return sum(high + k * self.dilation >= self.first and low + k * self.dilation <= self.last
                   for k in range(self.count))


@lru_cache(maxsize=4096)
def left(taps: Taps, tile: int) -> float:
    """The share of its taps that remains of a row of tiles, each counted by its size."""
    sizes = [(begin, min(tile, taps.results - begin)) for begin in range(0, taps.results, tile)]
    return sum(size * taps.read(begin, size) for begin, size in sizes) / (taps.results * taps.count)


def along(op: ComputeOp, axis: IterVar, window: IterVar) -> Taps | None:
    """The taps along a dimension of a convolution whose padding can be skipped."""
    for load, inside in idle_loads(op):
        for dim, index in enumerate(load.indices):
            step, dilation = (access.stride_along(index, a.var) for a in (axis, window))
            results, count = access.extent_of(axis), access.extent_of(window)
            if step and dilation and results and count and dim in inside.extents:
                return Taps(results, count, step, dilation, *inside.extents[dim])
    return None


def window(op: ComputeOp, axes: Sequence[IterVar], window: Sequence[IterVar]) -> list[Taps | None]:
    """The taps along each of these axes of results and of the window."""
    return [along(op, *pair) for pair in zip(axes, window)]


def share_left(sides: Iterable[Taps | None], tile: Iterable[int], most: float = MOST_LEFT) -> float:
    """The share of all taps that remains with tiles of a size; 1.0 where it is so large that none is skipped."""
    share = 1.0
    for side, size in zip(sides, tile):
        share *= 1.0 if side is None else left(side, size)
    return share if share < most else 1.0


__all__ = ["Taps", "along", "left", "share_left", "window"]
