"""Winograd convolution on a GPU: a thread transforms a tile of one channel, a batched matmul follows, and a thread
transforms the result for a tile of one filter back and computes the epilogue on its pixels.

Each of the three steps is a kernel. The tensors between them are several times as large as the image, so the algorithm
pays only for convolutions with many multiplications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...target import Target
from ...te.schedule import Schedule, Stage
from ...te.tensor import Tensor
from .. import access, nn
from ..nn.utils import pads
from ..nn.winograd import DATA, RESULT
from ..template import GPUTemplate
from . import gemm, tiled_matmul, tuned
from .machine import Machine

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

# Tile sizes, in pixels along a side.
TILES = (2, 4)
# The threads of a block of the transforms.
THREADS = 128
# The bytes that all multiprocessors together read or write in a cycle.
MEMORY_RATE = 1800.0
# Winograd is used only if implicit GEMM is estimated to take this much longer. On ten measured layers, all of which
# Winograd made 1.3 to 2.3 times faster, the estimate of its three kernels was too low by up to this factor.
MARGIN = 1.2


def plan(images: int, channels: int, filters: int, height: int, width: int, machine: Machine) -> int | None:
    """Return the tile size for a 3x3 convolution with ``height`` x ``width`` output pixels, or None if implicit GEMM is
    estimated to be about as fast."""
    direct = gemm.estimate(gemm.Sizes(1, filters, images * height * width, 9 * channels, 4, (4, 1)), machine)
    least, best = min((cycles(images, channels, filters, height, width, tile, machine), tile) for tile in TILES)
    return best if least * MARGIN < direct else None


def cycles(images: int, channels: int, filters: int, height: int, width: int, tile: int, machine: Machine) -> float:
    """Return the estimated cycles of the three kernels."""
    tiles = images * -(-height // tile) * -(-width // tile)
    matrices = (tile + 2) ** 2
    matmuls = gemm.estimate(gemm.Sizes(matrices, filters, tiles, channels, 4, (4, 4)), machine)
    pixels = images * height * width * (channels + filters)
    moved = 4 * (pixels + matrices * tiles * (channels + filters))
    # Each filter is used for few tiles. With very few tiles the kernel is bound by reading the filters from memory.
    weights = 4 * matrices * channels * filters / MEMORY_RATE
    return max(matmuls, weights) + moved / MEMORY_RATE + 2 * machine.cost.tiled_matmul.launch_cycles


def conv2d_winograd_nchw(
    data: Tensor, kernel: Tensor, padding: Any, out_dtype: str | None = None, *, target: Target
) -> Tensor:
    """Return ``topi.nn.conv2d_winograd_nchw`` with a tiled batched matmul."""

    def matmul(kernel: Tensor, transformed: Tensor, dtype: str) -> Tensor:
        reach, _, channels, filters = (int(d) for d in kernel.shape)
        before, after = pads(padding, (3, 3), 2, "conv2d_winograd_nchw")
        workload = tuned.winograd_workload(data, filters, kernel.dtype, (*before, *after), reach - 2, dtype)
        return tiled_matmul.matmul(
            lambda a, b, k, o: kernel(a, b, k, o), lambda a, b, k, p: transformed(a, b, k, p), (reach, reach),
            (filters, int(transformed.shape[-1]), channels), dtype, "winograd",
            {"batch": (0, 1), "m": (2,), "n": (3,)}, Machine(target), workload,
        )  # fmt: skip

    return nn.conv2d_winograd_nchw(data, kernel, padding, out_dtype, matmul)


def _transform(planner: Planner, stage: Stage) -> None:
    """Bind one thread to each channel and tile; adjacent threads handle adjacent tiles."""
    s = planner.s
    (down,) = (s[t] for t in stage.op.input_tensors)
    (image,) = (s[t] for t in down.op.input_tensors)
    a, b, c, p = stage.op.axis
    stage.reorder(c, p, a, b)
    _, thread = planner.spread(stage, stage.fuse(c, p), THREADS)
    stage.unroll(a)
    stage.unroll(b)
    for part in (image, down):
        _in_registers(part, stage, thread)
    planner.placed.update((stage, down, image))


def _transform_back(planner: Planner, stage: Stage, consumer: Stage | None) -> None:
    s, tile = planner.s, stage.op.attrs["tile"]
    (back,) = (s[t] for t in stage.op.input_tensors)
    (sums,) = (s[t] for t in back.op.input_tensors)
    host = consumer
    if host is None:
        host, stage = stage, s[s.cache_write(stage.op.output(0), "local")]
    n, o, y, x = host.op.axis
    row, y = host.split(y, factor=tile)
    column, x = host.split(x, factor=tile)
    host.reorder(n, o, row, column, y, x)
    _, thread = planner.spread(host, host.fuse(n, o, row, column), THREADS)
    host.unroll(y)
    if planner.can_vectorize(host.op, tile):
        host.vectorize(x)
    else:
        host.unroll(x)
    for part in (sums, back, stage):
        _in_registers(part, host, thread)
    planner.placed.update((host, stage, back, sums))


def _in_registers(part: Stage, host: Stage, thread) -> None:
    part.set_scope("local")
    part.compute_at(host, thread)
    for axis in part.op.axis:
        part.unroll(axis)


class WinogradTransforms(GPUTemplate):
    """The transforms of tiles before and after the matmuls."""

    tags = (DATA, RESULT)

    def consumer(self, planner: Planner, stage: Stage, plain: Schedule) -> Stage | None:
        """Return the elementwise consumer of the output. The only consumer of the transformed data is the matmul."""
        return None if stage.op.tag == DATA else access.own_consumer(planner.s, stage, plain)

    def apply(self, planner: Planner, stage: Stage, consumer: Stage | None) -> None:
        if stage.op.tag == DATA:
            _transform(planner, stage)
        else:
            _transform_back(planner, stage, consumer)


TEMPLATE = WinogradTransforms()

__all__ = ["TEMPLATE", "conv2d_winograd_nchw", "cycles", "plan"]
