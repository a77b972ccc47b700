"""Taps of a convolution window that read data for a tile of the output. Taps that read only padding for a whole tile
are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...ir.prim import IterVar
from ...te.padding import idle_loads
from ...te.tensor import ComputeOp
from .. import access

# Taps are skipped if at most this fraction of them reads data; otherwise the checks cost more than they save.
MAX_COMPUTED = 0.875


class Taps(NamedTuple):
    """One dimension of a window: output ``i`` reads element ``i * step + k * dilation`` with tap ``k``; the elements
    from ``first`` to ``last`` are data."""

    outputs: int
    count: int
    step: int
    dilation: int
    first: int
    last: int

    def read(self, begin: int, size: int) -> int:
        """Return the number of taps of a tile that read data."""
        low, high = begin * self.step, (begin + size - 1) * self.step
        return sum(
            high + k * self.dilation >= self.first and low + k * self.dilation <= self.last for k in range(self.count)
        )


@lru_cache(maxsize=4096)
def computed(taps: Taps, tile: int) -> float:
    """Return the fraction of the taps of a row of tiles that is computed, with each tile weighted by its size."""
    sizes = [(begin, min(tile, taps.outputs - begin)) for begin in range(0, taps.outputs, tile)]
    return sum(size * taps.read(begin, size) for begin, size in sizes) / (taps.outputs * taps.count)


def along(op: ComputeOp, axis: IterVar, window: IterVar) -> Taps | None:
    """Return the taps along a dimension of a convolution whose padding can be skipped, else None."""
    for load, inside in idle_loads(op):
        for dim, index in enumerate(load.indices):
            step, dilation = (access.stride_along(index, a.var) for a in (axis, window))
            results, count = access.extent_of(axis), access.extent_of(window)
            if step and dilation and results and count and dim in inside.extents:
                return Taps(results, count, step, dilation, *inside.extents[dim])
    return None


def window(op: ComputeOp, axes: Sequence[IterVar], window: Sequence[IterVar]) -> list[Taps | None]:
    """Return the taps along each of these axes of the output and of the window."""
    return [along(op, *pair) for pair in zip(axes, window)]


def computed_share(sides: Iterable[Taps | None], tile: Iterable[int], most: float = MAX_COMPUTED) -> float:
    """Return the fraction of all taps that is computed with tiles of a size, or 1.0 if it is so large that no tap is
    skipped."""
    share = 1.0
    for side, size in zip(sides, tile):
        share *= 1.0 if side is None else computed(side, size)
    return share if share < most else 1.0


__all__ = ["Taps", "along", "computed", "computed_share", "window"]
