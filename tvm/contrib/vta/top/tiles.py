"""Tiles of products without tuning records: an estimate of the cycles chooses among the tiles that fit the memories."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..environment import Environment

# The share of the shorter of memory and compute time that virtual threads do not hide.
NOT_HIDDEN = 0.2


@dataclass(frozen=True)
class Product:
    """The sizes of a convolution in elements of the scratchpads; a matmul has an image of one pixel.

    ``extra`` is the number of accumulator tiles that elementwise operations load.
    """

    batch: int
    out_channels: int
    height: int
    width: int
    in_channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    extra: int = 0


class Tile(NamedTuple):
    """The sizes of a tile, and the virtual threads over output channels and over rows."""

    out_channels: int
    height: int
    width: int
    in_channels: int
    oc_threads: int
    h_threads: int


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _candidates(p: Product, threads: int) -> Iterator[Tile]:
    sizes = (_divisors(p.out_channels), _divisors(p.height), _divisors(p.width), _divisors(p.in_channels))
    for co, h, w, ci in itertools.product(*sizes):
        if threads == 1:
            yield Tile(co, h, w, ci, 1, 1)
            continue
        if p.out_channels // co % threads == 0:
            yield Tile(co, h, w, ci, threads, 1)
        if p.height // h % threads == 0:
            yield Tile(co, h, w, ci, 1, threads)


def _tile_inputs(p: Product, t: Tile) -> int:
    rows = (t.height - 1) * p.stride[0] + p.kernel[0]
    columns = (t.width - 1) * p.stride[1] + p.kernel[1]
    return t.in_channels * rows * columns


def _tile_weights(p: Product, t: Tile) -> int:
    return t.out_channels * t.in_channels * p.kernel[0] * p.kernel[1]


def _fits(env: Environment, p: Product, t: Tile) -> bool:
    depth, threads = env.config.depth, t.oc_threads * t.h_threads
    outputs = t.out_channels * t.height * t.width
    # The two outermost loops are executed by the instruction; micro-ops exist for the others.
    uops = p.kernel[0] * p.kernel[1] * t.width * t.in_channels
    return (
        threads * _tile_inputs(p, t) <= depth["inp"]
        and threads * _tile_weights(p, t) <= depth["wgt"]
        and threads * outputs * (1 + p.extra) <= depth["acc"]
        and 2 * threads * uops <= depth["uop"]
    )


def estimated_cycles(env: Environment, p: Product, t: Tile) -> float:
    """Estimate the cycles of a tile size: loads and products overlap if there are virtual threads."""
    tiles = p.batch * math.prod(
        -(-whole // part)
        for whole, part in ((p.out_channels, t.out_channels), (p.height, t.height), (p.width, t.width))
    )
    steps = p.in_channels // t.in_channels
    bus, latency = (1 << env.config.log_bus_width) // 8, env.config.dram_latency
    size = _tile_inputs(p, t) * env.INP_ELEM_BYTES + _tile_weights(p, t) * env.WGT_ELEM_BYTES
    load = size / bus + latency * (1 + t.in_channels)
    outputs = t.out_channels * t.height * t.width
    gemm = outputs * t.in_channels * p.kernel[0] * p.kernel[1]
    # Each output is reset once, and usually shifted and clipped.
    alu = outputs * 4
    store = outputs * (env.OUT_ELEM_BYTES + p.extra * env.ACC_ELEM_BYTES) / bus + latency
    memory, compute = steps * load + store, steps * gemm + alu
    if t.oc_threads * t.h_threads == 1:
        return tiles * (memory + compute)
    return tiles * (max(memory, compute) + NOT_HIDDEN * min(memory, compute)) + load + store


def choose(env: Environment, p: Product, threads: int = 0) -> Tile:
    """Return the tile with the fewest estimated cycles; ``threads`` virtual threads, or at most two if 0."""
    counts = (threads,) if threads else (2, 1)
    for count in counts:
        fitting = [t for t in _candidates(p, count) if _fits(env, p, t)]
        if fitting:
            return min(fitting, key=lambda t: (estimated_cycles(env, p, t), t))
    raise ValueError(f"no tile of {p} fits the memories of {env.MODEL} with {threads or 1} virtual threads")
