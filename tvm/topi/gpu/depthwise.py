"""Depthwise convolution on a GPU: a thread computes a tile of adjacent output pixels, so that all of them share each
loaded input pixel.

Threads are numbered in the memory order of the output in every layout. In channels-last layouts a thread computes
several channels with vector loads. Pixels are loaded into registers through the cache. If windows are large compared to
the tiles, a block first copies its patch of the image to shared memory, so that padding is checked once for each pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import te
from ...ir.prim import IterVar
from ...target.gpu_cost import SM_REGISTERS
from ...te.schedule import Schedule, Stage
from ...te.tensor import Tensor
from .. import access
from ..template import GPUTemplate, Knobs
from . import tuned
from .machine import Machine

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

TAG = "gpu_depthwise"
# Thread tiles: rows and columns of output pixels.
TILES = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4), (7, 1), (1, 7), (4, 4), (8, 1), (8, 2))
# Threads along rows and columns of a block whose image patch is in shared memory; (0, 0) means no patch.
PATCHES = ((0, 0), (1, 8), (2, 8), (4, 8), (8, 8), (4, 16), (8, 16), (2, 32), (4, 32), (8, 32), (2, 4), (4, 4))
THREADS = (128, 256)
LANES = (1, 2, 4)
# The maximum number of unrolled multiplications of a thread; tiles in registers must be unrolled.
MAX_UNROLLED = 1024


class Sizes(NamedTuple):
    """The parameters of a depthwise convolution: its output, window and strides along rows and columns, filters for
    each input channel, whether channels are last, bytes of an element, and the dilation of the window."""

    images: int
    channels: int
    rows: int
    columns: int
    window: tuple[int, int]
    strides: tuple[int, int]
    multiplier: int
    channels_last: bool
    element_bytes: int
    dilations: tuple[int, int] = (1, 1)


def _patch(sizes: Sizes, config: dict[str, Any]) -> tuple[int, int]:
    """Return the threads of a block along rows and columns: at most one for each tile."""
    (th, tw), (ph, pw) = config["tile"], config["patch"]
    return min(ph, -(-sizes.rows // th)), min(pw, -(-sizes.columns // tw))


def _block_channels(sizes: Sizes, config: dict[str, Any]) -> int:
    """Return the threads of a block along channels: the maximum that divides the channels evenly."""
    ph, pw = _patch(sizes, config)
    groups, most = sizes.channels // config["lanes"], config["threads"] // (ph * pw)
    return max((d for d in range(1, max(most, 1) + 1) if groups % d == 0), default=1)


def _patch_pixels(sizes: Sizes, config: dict[str, Any]) -> int:
    """Return the number of pixels in the image patch that a block reads."""
    (th, tw), (ph, pw) = config["tile"], _patch(sizes, config)
    rows, columns = (
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip((th * ph, tw * pw), sizes.strides, sizes.window, sizes.dilations)
    )
    return rows * columns


def _cost(sizes: Sizes, config: dict[str, Any], machine: Machine) -> float:
    """Return the cycles until the last block is done."""
    cost = machine.cost.depthwise
    (th, tw), lanes, threads = (config[x] for x in ("tile", "lanes", "threads"))
    ph, pw = _patch(sizes, config)
    window = sizes.window[0] * sizes.window[1]
    multiplies = th * tw * lanes * window
    pixels = ((th - 1) * sizes.strides[0] + sizes.window[0]) * ((tw - 1) * sizes.strides[1] + sizes.window[1])
    if sizes.dilations != (1, 1):
        pixels = th * tw * window
    registers = cost.other_registers + lanes * (th * tw + min(pixels, 32) + min(window, 16))
    filters = window * (2.0 if lanes > 1 else 1.5)
    waiting = cost.memory_latency_cycles
    if ph:
        channels = _block_channels(sizes, config)
        threads = channels * ph * pw
        bytes_ = channels * lanes * _patch_pixels(sizes, config) * sizes.element_bytes
        fetched = channels * _patch_pixels(sizes, config) * (1 if lanes > 1 else lanes) / threads
        fetches = cost.start_instructions + cost.fetch_instructions * fetched
        each = fetches + cost.shared_read_instructions * pixels * lanes + filters + multiplies
        blocks = sizes.channels // (lanes * channels) * -(-sizes.rows // (th * ph)) * -(-sizes.columns // (tw * pw))
        blocks *= sizes.images
        fit = machine.multiprocessor_shared // (bytes_ + 1024)
        waiting += cost.barrier_cycles
    else:
        each = cost.start_instructions + cost.load_instructions * pixels + filters + multiplies
        count = sizes.images * (sizes.channels // lanes) * -(-sizes.rows // th) * -(-sizes.columns // tw)
        blocks, fit = -(-count // threads), 32
    fit = max(min(fit, machine.multiprocessor_threads // threads, SM_REGISTERS // (threads * registers), 32), 1)
    warps = -(-threads // machine.warp)
    rounds, rest = divmod(blocks, machine.multiprocessors * fit)
    cycles = rounds * max(waiting + each * cost.dependent_cycles, each * fit * warps / cost.issues_per_cycle)
    if rest:
        busy = each * -(-rest // machine.multiprocessors) * warps / cost.issues_per_cycle
        cycles += max(waiting + each * cost.dependent_cycles, busy)
    results = sizes.images * sizes.channels * sizes.rows * sizes.columns
    moved = results * (1 + sizes.strides[0] * sizes.strides[1]) * sizes.element_bytes
    memory = cost.memory_latency_cycles + moved / cost.memory_bytes_per_cycle
    # Computation and memory traffic overlap only partly.
    return max(cycles, memory) + 0.2 * min(cycles, memory)


# -- computation -------------------------------------------------------------------------------------------------------


def conv(
    data: Tensor,
    weight: Callable[..., Any],
    sizes: Sizes,
    before: Sequence[int],
    dilations: Sequence[int],
    layout: str,
    dtype: str,
    name: str,
    machine: Machine,
    workload: tuple[Any, ...] | None = None,
) -> Tensor:
    """Return the convolution of ``data`` with ``weight(channel, y, x)`` over the channels of the output. ``before`` is
    the padding at the start of rows and columns; pixels past their ends are padding too. ``workload`` is the operator's
    name in tuning records."""
    config = tuned.configuration(TEMPLATE, sizes, machine, workload)
    exact = {"N": sizes.images, "C": sizes.channels, "H": sizes.rows, "W": sizes.columns}
    # The output is rounded up to full tiles, so that the inner loops need no guards.
    rounded = dict(exact)
    for letter, tile, patch in zip("HW", config["tile"], _patch(sizes, config)):
        step = tile * max(patch, 1)
        rounded[letter] = -(-exact[letter] // step) * step
    image = _padded(data, rounded, sizes, before, dilations, layout, name)
    filters = te.compute(
        (*sizes.window, sizes.channels), lambda y, x, c: weight(c, y, x), name=f"{name}_filters", tag=f"{TAG},step"
    )
    dy, dx = (te.reduce_axis((0, k), name=n) for k, n in zip(sizes.window, ("dy", "dx")))

    def body(*at):
        i = dict(zip(layout, at))
        channel = i["C"] if sizes.multiplier == 1 else te.indexdiv(i["C"], sizes.multiplier)
        where = {
            "N": i["N"],
            "C": channel,
            "H": i["H"] * sizes.strides[0] + dy * dilations[0],
            "W": i["W"] * sizes.strides[1] + dx * dilations[1],
        }
        value = image(*[where[c] for c in layout]).astype(dtype)
        return te.sum(value * filters(dy, dx, i["C"]).astype(dtype), axis=[dy, dx])

    attrs = {"layout": layout, "config": config, "sizes": sizes}
    attrs |= {"workload": workload} if workload is not None else {}
    sums = te.compute([rounded[c] for c in layout], body, name=f"{name}_sum", tag=TAG, attrs=attrs)
    tag = f"depthwise_conv2d_{layout.lower()}"
    return te.compute([exact[c] for c in layout], lambda *at: sums(*at), name=name, tag=tag)


def _padded(
    data: Tensor,
    rounded: dict[str, int],
    sizes: Sizes,
    before: Sequence[int],
    dilations: Sequence[int],
    layout: str,
    name: str,
) -> Tensor:
    """Return the image padded with zeros up to full tiles."""
    reach = {"N": rounded["N"], "C": rounded["C"] // sizes.multiplier}
    for letter, s, k, d in zip("HW", sizes.strides, sizes.window, dilations):
        reach[letter] = (rounded[letter] - 1) * s + (k - 1) * d + 1
    lead = dict(zip("HW", before))

    def pixel(*at):
        index, inside = [], []
        for c, i, size in zip(layout, at, data.shape):
            first = lead.get(c, 0)
            index.append(i - first if first else i)
            if first > 0:
                inside.append(i >= first)
            if reach[c] > size.value + first:
                inside.append(i < size + first)
        value = data(*index)
        return te.if_then_else(te.all(*inside), value, te.const(0, data.dtype)) if inside else value

    return te.compute([reach[c] for c in layout], pixel, name=f"{name}_image", tag=f"{TAG},step")


# -- schedule ----------------------------------------------------------------------------------------------------------


def _multiplies(sizes: Sizes, config: dict[str, Any]) -> int:
    (th, tw), lanes = config["tile"], config["lanes"]
    return th * tw * lanes * sizes.window[0] * sizes.window[1]


def _patches(
    host: Stage, axes: dict[str, IterVar], inner: list[IterVar], layout: str, sizes: Sizes, config: dict[str, Any]
) -> tuple[IterVar, IterVar, int]:
    """Bind thread blocks along channels, rows and columns. Return the loop over blocks, the loop over threads, and the
    number of threads."""
    rows, columns = _patch(sizes, config)
    counts = {"N": 1, "C": _block_channels(sizes, config), "H": rows, "W": columns}
    blocks, threads = [], []
    for c in layout:
        outer, inner_thread = host.split(axes[c], factor=counts[c])
        blocks.append(outer)
        threads.append(inner_thread)
    host.reorder(*blocks, *threads, *inner)
    return host.fuse(*blocks), host.fuse(*threads), counts["C"] * counts["H"] * counts["W"]


def _sum(stage: Stage, host: Stage, thread: IterVar) -> None:
    """Compute the thread tile in registers, one tap of the window at a time."""
    stage.compute_at(host, thread)
    stage.set_scope("local")
    config, sizes = (stage.op.attrs[x] for x in ("config", "sizes"))
    dy, dx = stage.op.reduce_axis
    axes = list(stage.op.axis)
    stage.reorder(dy, dx, *axes)
    for axis in (dy, dx, *axes) if _multiplies(sizes, config) <= MAX_UNROLLED else axes:
        stage.unroll(axis)


def _filters(filters: Stage, host: Stage, thread: IterVar, lanes: int) -> None:
    """Read weights where they are used; weights of adjacent channels are read as one vector."""
    axes, loads = list(filters.op.axis), access.loads(filters.op.body)
    if lanes == 1 or any(access.first_step(x, axes, axes[-1]) != 1 for x in loads):
        filters.compute_inline()
        return
    filters.set_scope("local")
    filters.compute_at(host, thread)
    _in_registers(filters, lanes)


def _in_registers(stage: Stage, lanes: int) -> None:
    *axes, last = stage.op.axis
    for axis in axes:
        stage.unroll(axis)
    if lanes > 1:
        stage.vectorize(last)
    else:
        stage.unroll(last)


def _copy_to_shared(image: Stage, count: int, threads: IterVar, lanes: int) -> None:
    """Copy the image patch of a block with all its threads. Adjacent threads copy adjacent vectors."""
    fused = image.fuse(*image.op.axis)
    if lanes > 1:
        fused, vector = image.split(fused, factor=lanes)
        image.vectorize(vector)
    _, thread = image.split(fused, factor=count)
    image.bind(thread, threads)


class Depthwise(Knobs[Sizes, Machine], GPUTemplate):
    """A depthwise convolution."""

    tags = (TAG,)

    def space(self, sizes: Sizes, machine: Machine) -> dict[str, list]:
        """Return the knobs: the thread tile, the channels of a thread, the threads of a block, and its image patch."""
        return {
            "tile": [t for t in TILES if t[0] < 2 * sizes.rows and t[1] < 2 * sizes.columns] or [TILES[0]],
            "lanes": [n for n in LANES if n == 1 or sizes.channels_last],
            "threads": [t for t in THREADS if t <= machine.max_threads] or [machine.max_threads],
            "patch": [p for p in PATCHES if not p[0] or (sizes.multiplier == 1 and machine.has_shared)],
        }

    def valid(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> bool:
        """Return whether channels are whole vectors and all multiplications of a thread can be unrolled. A block with
        an image patch must also have the configured number of threads and enough shared memory."""
        (th, tw), lanes, (ph, pw) = config["tile"], config["lanes"], _patch(sizes, config)
        if sizes.channels % lanes or (lanes > 1 and sizes.multiplier > 1):
            return False
        multiplies = th * tw * lanes * sizes.window[0] * sizes.window[1]
        if multiplies > MAX_UNROLLED and (th, tw, lanes) != (1, 1, 1):
            return False
        if not ph:
            return True
        channels = _block_channels(sizes, config)
        if channels * ph * pw < min(config["threads"], 128):
            return False
        return channels * lanes * _patch_pixels(sizes, config) * sizes.element_bytes <= machine.shared_bytes

    def cost(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> float:
        return _cost(sizes, config, machine)

    def choose(self, sizes: Sizes, machine: Machine) -> dict[str, Any]:
        """Return the analytic choice: the fewest estimated cycles."""
        return tuned.cheapest(
            self.space(sizes, machine), lambda c: self.valid(sizes, machine, c), lambda c: _cost(sizes, c, machine)
        )

    def consumer(self, planner: Planner, stage: Stage, plain: Schedule) -> Stage | None:
        """Return the only consumer of the convolution if it is elementwise."""
        return access.own_consumer(planner.s, stage, plain)

    def apply(self, planner: Planner, stage: Stage, consumer: Stage | None) -> None:
        """Apply the configuration: blocks, threads and thread tiles, with the epilogue on the tile."""
        s, attrs = planner.s, stage.op.attrs
        config, layout, sizes = (attrs[x] for x in ("config", "layout", "sizes"))
        host = consumer
        if host is None:
            host, stage = stage, s[s.cache_write(stage.op.output(0), "local")]
        image, filters = (s[t] for t in stage.op.input_tensors)
        planner.placed.update((host, stage, image, filters))
        last, lanes = layout[-1], config["lanes"]
        steps = {"H": config["tile"][0], "W": config["tile"][1], "C": lanes, "N": 1}
        axes = dict(zip(layout, host.op.axis))
        tiles: dict[str, IterVar] = {}
        for letter, step in steps.items():
            if step > 1:
                axes[letter], tiles[letter] = host.split(axes[letter], factor=step)
        inner = [tiles[c] for c in layout if c in tiles]
        if config["patch"][0]:
            block, thread, count = _patches(host, axes, inner, layout, sizes, config)
        else:
            host.reorder(*[axes[c] for c in layout], *inner)
            count = config["threads"]
            block, thread = host.split(host.fuse(*[axes[c] for c in layout]), factor=count)
        threads = te.thread_axis((0, count), "threadIdx.x")
        host.bind(block, te.thread_axis("blockIdx.x"))
        host.bind(thread, threads)
        for axis in inner:
            host.unroll(axis)
        if last in tiles and planner.can_vectorize(host.op, steps[last]):
            host.vectorize(tiles[last])
        _sum(stage, host, thread)
        _filters(filters, host, thread, lanes)
        unrolled = _multiplies(sizes, config) <= MAX_UNROLLED
        if config["patch"][0]:
            image.set_scope("shared")
            image.compute_at(host, block)
            _copy_to_shared(image, count, threads, lanes)
        elif unrolled and sizes.dilations == (1, 1):
            image.set_scope("local")
            image.compute_at(host, thread)
            _in_registers(image, lanes)
        else:
            image.compute_inline()


TEMPLATE = Depthwise()

__all__ = ["TEMPLATE", "Sizes", "conv"]
