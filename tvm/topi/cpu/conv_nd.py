"""Direct 1D and 3D convolution in a blocked layout, analogous to the 2D convolution.

The last dimension provides the columns of the tile, the one before it (if any) the rows; the others are outer loops.
Rows, or the columns of a 1D convolution, are split evenly, so that no task has a remainder.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ...ir.prim import IntImm
from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access
from ..template import CPUTemplate
from . import taps
from .conv2d import PREFETCH_CHANNELS, compute_padding, pad_stage, pieces, tiles, unrollable
from .cycles import tile_cycles
from .machine import Machine

if TYPE_CHECKING:
    from ..schedule.cpu import Planner

# The maximum number of slices into which rows or columns are split.
MAX_SLICES = 64
# The maximum number of multiplications in an unrolled body.
MAX_UNROLLED = 112


def extents(op: ComputeOp) -> dict[str, int]:
    """Return the dimensions under the names of the 2D convolution; ``lead`` contains the outer dimensions."""
    n, oc, *spatial, ob = (access.extent_of(a) or 1 for a in op.axis)
    ico, *window, ici = (access.extent_of(a) or 1 for a in op.reduce_axis)
    *lead, w = spatial
    h = lead.pop() if lead else 1
    return {
        "n": n,
        "lead": prod(lead),
        "oc": oc,
        "h": h,
        "w": w,
        "ob": ob,
        "steps": ico * ici * prod(window),
        "ici": ici,
        "groups": 1,
        "cut": h if len(spatial) > 1 else w,
    }


def window_of(op: ComputeOp) -> list[taps.Taps | None]:
    return taps.window(op, op.axis[2:-1], op.reduce_axis[1:-1])


def computed_taps_share(window: list[taps.Taps | None], tile: tuple[int, int, int]) -> float:
    """Return the fraction of the window's taps that are computed. The tile has size one in all dimensions except the
    last two."""
    return taps.computed_share(window[::-1], (tile[1], tile[0], *[1] * len(window)))


def slice_counts(x: dict[str, int]) -> list[int]:
    return [d for d in range(1, min(x["cut"], MAX_SLICES) + 1) if x["cut"] % d == 0]


def reduce_channels(stage: Stage, config: dict[str, Any], ahead: int) -> None:
    n, oc, *spatial, ob = stage.op.axis
    ic_outer, *window, ic_inner = stage.op.reduce_axis
    ic_inner, ic_unrolled = stage.split(ic_inner, factor=config["unroll_ic"])
    stage.reorder(n, ic_outer, *window, ic_inner, ic_unrolled, *spatial, oc, ob)
    for axis in (ic_unrolled, *spatial, oc):
        stage.unroll(axis)
    stage.vectorize(ob)
    if computed_taps_share(window_of(stage.op), config["tile"]) < 1:
        for axis in window:
            stage.skip_padding(axis)
    if ahead:
        stage.prefetch(stage.op.input_tensors[-1], ic_unrolled, ahead)
    stage.set_scope("local")


class ConvNd(CPUTemplate):
    """A 1D or 3D convolution in a blocked layout."""

    tags = ("conv1d_NCWc", "conv3d_NCDHWc")

    def applies(self, op: ComputeOp) -> bool:
        return all(isinstance(a.dom.extent, IntImm) for a in (*op.axis, *op.reduce_axis))

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values."""
        x = extents(op)
        return {
            "tile": tiles(x, machine),
            "parts": slice_counts(x),
            "outer": ["filters", "pixels"],
            "pad": ["task", "once"],
            "unroll_ic": [d for d in (1, 2, 4, 8, 16) if x["ici"] % d == 0],
        }

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the tile with the fewest estimated cycles, including remainders at the edges, and slices for every
        thread."""
        x = extents(op)
        weights = 4 * x["oc"] * x["ob"] * x["steps"]
        chunks, counts = x["n"] * x["lead"], slice_counts(x)
        window = window_of(op)
        many = chunks * max(counts) >= 4 * machine.threads
        outer = "pixels" if weights <= machine.l2_bytes // 2 and many else "filters"

        def cost(pick: tuple[tuple[int, int, int], int]) -> float:
            (h, w, oc), slices = pick
            height, width = (x["h"] // slices, x["w"]) if len(op.axis) > 4 else (1, x["w"] // slices)
            cycles = sum(n * tile_cycles(a * b, oc, x["steps"]) for a, b, n in pieces(height, width, h, w))
            tasks = chunks * slices * (x["oc"] // oc if outer == "filters" else 1)
            # With few tasks, threads wait for the last one; starting a task has a cost as well.
            waits = 1 + machine.threads / (2 * tasks)
            return slices * (cycles / oc * computed_taps_share(window, (h, w, oc)) + 500) * waits

        ahead = weights > machine.l2_bytes // 4
        known = [t for t in tiles(x, machine) if x["ici"] == 1 or ahead or unrollable(t, machine)]
        tile, slices = min(((t, p) for t in known for p in counts), key=cost)
        size = tile[0] * tile[1] * tile[2]
        return {
            "tile": tile,
            "parts": slices,
            "outer": outer,
            "pad": "task" if outer == "pixels" and computed_taps_share(window, tile) == 1 else "once",
            "unroll_ic": max(
                u
                for u in (1, 2, 4, 8, 16)
                if x["ici"] % u == 0 and (u == 1 or u * size <= MAX_UNROLLED and u <= machine.max_unroll)
            ),
        }

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration. ``host`` stores the output, with the epilogue if there is one; ``stage`` accumulates
        it in a register tile."""
        tile_h, tile_w, tile_oc = config["tile"]
        x = extents(stage.op)
        n, oc, *lead, w, ob = host.op.axis
        oc_outer, oc_tile = host.split(oc, factor=tile_oc)
        length = x["cut"] // config["parts"]
        if lead:
            part, h = host.split(lead.pop(), factor=length)
            h_outer, h_tile = host.split(h, factor=tile_h)
            loops, within, ragged, width = [h_outer], [h_tile], [(h_outer, length, tile_h)], x["w"]
        else:
            part, w = host.split(w, factor=length)
            loops, within, ragged, width = [], [], [], length
        tile_w = min(tile_w, width)
        w_outer, w_tile = host.split(w, factor=tile_w)
        ragged.append((w_outer, width, tile_w))
        tile = [oc_tile, *within, w_tile]
        if config["outer"] == "filters":
            host.reorder(n, oc_outer, *lead, part, *loops, w_outer, *tile, ob)
            task, inside = host.fuse(n, oc_outer, *lead, part), w_outer
        else:
            host.reorder(n, *lead, part, *loops, w_outer, oc_outer, *tile, ob)
            task, inside = host.fuse(n, *lead, part), oc_outer
        host.vectorize(ob)
        for axis in tile:
            host.unroll(axis)
        for axis, size, step in ragged:
            if size % step:
                host.pragma(axis, "loop_partition_hint", True)
        if access.work(stage.op) >= planner.parallel_points:
            host.parallel(task)
        padding = pad_stage(planner, stage)
        stage.compute_at(host, inside)
        weights = 4 * x["oc"] * x["ob"] * x["steps"]
        reduce_channels(stage, config, PREFETCH_CHANNELS if weights > planner.machine.l2_bytes // 4 else 0)
        compute_padding(planner, padding, host, task, config)


TEMPLATE = ConvNd()
