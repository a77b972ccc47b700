"""Estimated cycles of the register tile of a convolution, by how its elements are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..schedule.cpu import Machine

# The number of independent accumulators that keeps the multipliers busy: the latency of a multiply-add times the number
# of multipliers.
CHAINS = 8
# Instructions per cycle of a hardware thread that shares its core; a single thread has twice as many.
ISSUE_WIDTH = 3


def tile_cycles(pixels: int, tile_oc: int, steps: int) -> float:
    """Return the estimated cycles of a register tile: two multiply-adds and two loads per cycle, whichever takes
    longer, plus the loop overhead and the initialization and stores of the accumulators."""
    sums = pixels * tile_oc
    return steps * step_cycles(max(sums, CHAINS) / 2, pixels, tile_oc) + 4 * sums


def lane_cycles(pixels: int, tile_oc: int, steps: int, channels: int, machine: Machine) -> float:
    """Return the estimated cycles of a register tile in which a load reads a vector of channels. The multiply-adds wait
    for vectors of weights; pixels of tiles that exceed the L1 cache also come from the L2 cache."""
    sums = pixels * tile_oc
    loads = pixels / machine.lanes("float32") * (3 if 4 * pixels * channels > machine.l1_bytes * 3 // 4 else 1)
    busy, load = max(sums, CHAINS) / 2, (loads + 6 * tile_oc) / 2
    return steps * (max(busy, load) + 0.15 * min(busy, load) + 0.5) + 4 * sums


def direct_cycles(pixels: int, tile_oc: int, steps: int, broadcasts: float) -> float:
    """Return the estimated cycles of a register tile, which are also limited by the issue width of a shared core."""
    sums = pixels * tile_oc
    busy = max(max(sums, CHAINS) / 2, (sums + broadcasts + tile_oc) / ISSUE_WIDTH)
    return steps * step_cycles(busy, broadcasts, tile_oc) + 4 * sums


def step_cycles(busy: float, broadcasts: float, tile_oc: int) -> float:
    """Return the cycles of one channel and tap whose multiply-adds take ``busy`` cycles."""
    # A vector of weights from the L2 cache costs as much as three loads that hit the L1 cache.
    load = (broadcasts + 3 * tile_oc) / 2
    return max(busy, load) + 0.15 * min(busy, load) + 0.5


__all__ = ["CHAINS", "direct_cycles", "lane_cycles", "tile_cycles"]
