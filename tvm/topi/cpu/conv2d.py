"""Direct convolution over channels in blocks: a tile of pixels and blocks of filters stays in registers.

The tile is ``tile_h`` x ``tile_w`` pixels by ``tile_oc`` vectors of filters. For every input channel and position of
the window one vector of each filter block is loaded, and one number of each pixel is spread over the lanes. Neighbours
in a row of the window may share those numbers: each is then spread once for all the columns it is multiplied with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir.prim import IntImm, IterVar
from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access
from ..template import CPUTemplate
from . import parts, taps

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# Input channels in front of their use at which weights too many for the second cache are fetched.
AHEAD = 32
# Independent sums that keep the multipliers busy: their latency times their number.
CHAINS = 8
# Instructions a cycle of a core whose other half is busy with something else; one left to itself has twice as many.
ISSUED = 3
# Vectors of filters from which on a pixel read again from the second cache is used often enough.
WIDE = 4
# Tiles that use weights one after the other from which on it pays to keep those weights.
AGAIN = 16


def extents(op: ComputeOp) -> dict[str, int]:
    n, oc, h, w, ob = (access.extent_of(a) or 1 for a in op.axis)
    ico, kh, kw, ici = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return {"n": n, "oc": oc, "h": h, "w": w, "ob": ob, "ico": ico, "kh": kh, "kw": kw, "ici": ici,
            "groups": int(op.attrs.get("groups", 1))}


def pad_stage(planner: Planner, stage: Stage) -> Stage | None:
    """The padding that makes the data, if nothing else reads it."""
    for tensor in stage.op.input_tensors:
        if isinstance(tensor.op, ComputeOp) and "pad" in (tensor.op.tag or "").split(","):
            found = planner.s[tensor]
            if len(planner.s.consumers(found)) == 1 and not found.is_output:
                return found
    return None


def tiles(x: dict[str, int], machine: Machine) -> list[tuple[int, int, int]]:
    """(rows, columns, vectors of filters) whose sums fit the registers beside a vector of each filter and one number.
    Several rows only where the columns are all there are; filters of one tile read the same channels."""
    vectors = [d for d in range(1, 9) if x["oc"] // x["groups"] % d == 0]
    return [
        (h, w, oc)
        for oc in vectors
        for h in range(1, min(x["h"], 4) + 1)
        for w in (range(1, min(x["w"], machine.registers) + 1) if h == 1 else (x["w"],))
        if h * w * oc <= 4 or h * w * oc + oc + 1 <= machine.registers
    ]


def unrollable(tile: tuple[int, int, int], machine: Machine) -> bool:
    """Whether a tile also fits the registers where steps of several channels are written out: with numbers loaded in
    pairs, the second one of each pixel waits in a register of its own."""
    h, w, oc = tile
    return not machine.loads_pairs or h * w * (oc + 1) + oc <= machine.registers


def column_step(op: ComputeOp) -> int:
    """By how many columns of the data neighbours in a row of results are apart."""
    data = next(load for load in access.loads(op.body) if load.producer is op.input_tensors[0])
    return access.stride_along(data.indices[3], op.axis[3].var) or 1


def can_share(x: dict[str, int], tile: tuple[int, int, int], step: int, machine: Machine) -> bool:
    """Whether numbers may serve all columns of the window: its filters fit the registers too, rows are long beside it,
    neighbours have columns in common, and there is no second vector of filters to use a number again."""
    h, w, oc = tile
    fits = h * w * oc + x["kw"] * oc + 1 <= machine.registers
    return fits and x["oc"] == x["groups"] and w >= 3 * x["kw"] and step < x["kw"]


def numbers_of_step(x: dict[str, int], height: int, width: int, step: int, share: bool) -> float:
    """Numbers spread over the lanes for each channel and position of the window."""
    return height * ((width - 1) * step + x["kw"]) / x["kw"] if share else height * width


def taps_left(op: ComputeOp, tile: tuple[int, int, int], share: int) -> float:
    """The share of the window's taps that are computed."""
    return taps.share_left(window_of(op), tile_of_taps(tile, share))


def window_of(op: ComputeOp) -> list[taps.Taps | None]:
    return taps.window(op, op.axis[2:4], op.reduce_axis[1:3])


def tile_of_taps(tile: tuple[int, int, int], share: int) -> tuple[int, ...]:
    """The tile in the dimensions in which taps are skipped: numbers that serve all columns of the window are read for
    all of them."""
    return tile[:1] if share else tile[:2]


def outer_loops(x: dict[str, int], tile: tuple[int, int, int], step: int, machine: Machine) -> str:
    """What a task keeps. Data is read once where all filters are done on a tile of pixels ("pixels"); their weights
    then come from the second cache. Tiles of many filters go over some rows first ("rows"), so that their weights stay
    near and the rows in the second cache. Where weights are too many for that, "filters". What would be read from afar
    again and again is done in "parts"."""
    if parts.pays(x, tile, step, machine):
        return "parts"
    weights = 4 * x["oc"] * x["ob"] * x["ico"] * x["ici"] * x["kh"] * x["kw"] // x["groups"]
    if weights > machine.l2_bytes // 2 or x["h"] < 4 * machine.threads:
        return "filters"
    wide = tile[2] >= WIDE and x["kh"] == x["kw"] == 1
    pixels = rows_of_task(x, tile, "rows", step, machine) * x["w"]
    return "rows" if wide and pixels >= AGAIN * tile[0] * tile[1] else "pixels"


def ahead_of(x: dict[str, int], outer: str, machine: Machine) -> int:
    """Channels by which weights are fetched ahead."""
    weights = 4 * x["oc"] * x["ob"] * x["ico"] * x["ici"] * x["kh"] * x["kw"]
    return AHEAD if weights > machine.l2_bytes // 4 and outer not in ("rows", "parts") else 0


def pieces(height: int, width: int, tile_h: int, tile_w: int) -> list[tuple[int, int, int]]:
    """The tiles of an image as (height, width, how many)."""
    rows = [(tile_h, height // tile_h), (height % tile_h, 1)]
    columns = [(tile_w, width // tile_w), (width % tile_w, 1)]
    return [(h, w, a * b) for h, a in rows for w, b in columns if h and w and a and b]


def tile_cycles(pixels: int, tile_oc: int, steps: int) -> float:
    """Cycles of a tile: two multiplications and two loads each cycle, whichever takes longer; the loop and the first
    and last vectors on top."""
    sums = pixels * tile_oc
    return steps * step_cycles(max(sums, CHAINS) / 2, pixels, tile_oc) + 4 * sums


def direct_cycles(pixels: int, tile_oc: int, steps: int, numbers: float) -> float:
    """As tile_cycles, for a core that has to share what it can issue."""
    sums = pixels * tile_oc
    busy = max(max(sums, CHAINS) / 2, (sums + numbers + tile_oc) / ISSUED)
    return steps * step_cycles(busy, numbers, tile_oc) + 4 * sums


def step_cycles(busy: float, numbers: float, tile_oc: int) -> float:
    # A vector of weights comes from the second cache: it costs as much as three loads that hit the first.
    load = (numbers + 3 * tile_oc) / 2
    return max(busy, load) + 0.15 * min(busy, load) + 0.5


def rows_of_task(x: dict[str, int], tile: tuple[int, int, int], outer: str, step: int, machine: Machine) -> int:
    """Rows one task computes: enough tasks to share out, few enough that padding and waking them costs little; rows
    that all filters read one after the other stay in the second cache."""
    if outer == "parts":
        return parts.rows_and_filters(x, tile, step, machine)[0]
    chunks = x["n"] * (x["oc"] // tile[2] if outer != "pixels" else 1)
    row = 4 * x["w"] * x["ico"] * x["ici"] * step
    wanted, room, least = (8, machine.l2_bytes // 5, 0) if outer == "rows" else (4, x["h"] * row, 0)
    if outer == "pixels" and x["kh"] > 1:
        # A task pads its rows for itself: they stay near, but are not so few that most of them are padded twice.
        row, room, least = row * step, machine.l2_bytes // 2, 2 * (x["kh"] - 1) // step
    rows = x["h"]
    while rows > tile[0] and (
        chunks * -(-x["h"] // rows) < wanted * machine.threads or rows * row > room and rows > least
    ):
        rows = -(-rows // 2)
    return -(-rows // tile[0]) * tile[0]


def divide(stage: Stage, host: Stage, config: dict[str, Any]) -> IterVar:
    """Tiles in the order that the configuration names; gives the loop of tasks."""
    tile_h, tile_w, tile_oc = config["tile"]
    height, width = (access.extent_of(a) or 1 for a in host.op.axis[2:4])
    n, oc, h, w, ob = host.op.axis
    oc_outer, oc_tile = host.split(oc, factor=tile_oc)
    rows, h = host.split(h, factor=min(config["rows"], height))
    h_outer, h_tile = host.split(h, factor=tile_h)
    w_outer, w_tile = host.split(w, factor=tile_w)
    if config["outer"] == "filters":
        host.reorder(n, oc_outer, rows, h_outer, w_outer, oc_tile, h_tile, w_tile, ob)
        task, inside = host.fuse(n, oc_outer, rows), w_outer
    elif config["outer"] == "rows":
        host.reorder(n, rows, oc_outer, h_outer, w_outer, oc_tile, h_tile, w_tile, ob)
        task, inside = host.fuse(n, rows, oc_outer), w_outer
    else:
        host.reorder(n, rows, h_outer, w_outer, oc_outer, oc_tile, h_tile, w_tile, ob)
        task, inside = host.fuse(n, rows), oc_outer
    host.vectorize(ob)
    for axis in (oc_tile, h_tile, w_tile):
        host.unroll(axis)
    for axis, size, step in ((h_outer, height, tile_h), (w_outer, width, tile_w)):
        if size % step:
            host.pragma(axis, "loop_partition_hint", True)
    stage.compute_at(host, inside)
    return task


def place_padding(
    planner: Planner, padding: Stage | None, host: Stage, task: IterVar, config: dict[str, Any]
) -> None:
    """Padded data, where there is some: made by each task for itself, or once for all."""
    if padding is None:
        return
    planner.placed.add(padding)
    if config["pad"] == "task":
        padding.compute_at(host, task)
        padding.vectorize(padding.op.axis[-1])
    else:
        planner.injective(padding)


def sum_up(stage: Stage, config: dict[str, Any], ahead: int) -> None:
    """The sum over all channels, or over those of a part: parts are a dimension in front, and the blocks of channels,
    having been divided, are the last of the loops."""
    *lead, oc, h, w, ob = stage.op.axis
    ic_outer, kh, kw, ic_inner = stage.op.reduce_axis
    if len(lead) > 1:
        kh, kw, ic_inner, ic_outer = stage.op.reduce_axis
    ic_inner, ic_unrolled = stage.split(ic_inner, factor=config["unroll_ic"])
    unrolled = [ic_unrolled, h, w, kw, oc] if config["share"] else [ic_unrolled, h, w, oc]
    stage.reorder(*lead, ic_outer, kh, *([] if config["share"] else [kw]), ic_inner, *unrolled, ob)
    for axis in unrolled:
        stage.unroll(axis)
    stage.vectorize(ob)
    window = taps.window(stage.op, (h, w), (kh, kw))
    if taps.share_left(window, tile_of_taps(config["tile"], config["share"])) < 1:
        for axis in (kh,) if config["share"] else (kh, kw):
            stage.skip_padding(axis)
    if ahead:
        stage.prefetch(stage.op.input_tensors[-1], ic_unrolled, ahead)
    stage.set_scope("local")


class Conv2d(CPUTemplate):
    """A convolution over channels in blocks."""

    tags = ("conv2d_NCHWc",)

    def applies(self, op: ComputeOp) -> bool:
        """Known sizes, and groups that are whole blocks."""
        if not all(isinstance(a.dom.extent, IntImm) for a in (*op.axis, *op.reduce_axis)):
            return False
        x = extents(op)
        return x["oc"] % x["groups"] == 0

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Every knob and its values."""
        x = extents(op)
        return {
            "tile": tiles(x, machine),
            "share": [0, 1] if x["kw"] > 1 else [0],
            "rows": [d for d in (1, 2, 4, 7, 8, 14, 16, 28) if d <= x["h"]],
            "outer": ["filters", "rows", "pixels", *(["parts"] if x["groups"] == 1 else [])],
            "pad": ["task", "once"],
            "unroll_ic": [d for d in (1, 2, 4, 8, 16) if x["ici"] % d == 0],
        }

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """The tile with the least time by count of loads and sums, tails included."""
        x = extents(op)
        steps = x["ici"] * x["ico"] * x["kh"] * x["kw"]
        step, window = column_step(op), window_of(op)

        def left(tile: tuple[int, int, int], share: int) -> float:
            return taps.share_left(window, tile_of_taps(tile, share))

        def alone(tile: tuple[int, int, int]) -> float:
            h, w, oc = tile
            cycles = sum(n * tile_cycles(a * b, oc, steps) for a, b, n in pieces(x["h"], x["w"], h, w))
            return cycles / oc * left(tile, 0)

        def shared(option: tuple[tuple[int, int, int], int]) -> float:
            (h, w, oc), share = option
            cycles = sum(
                n * direct_cycles(a * b, oc, steps, numbers_of_step(x, a, b, step, bool(share)))
                for a, b, n in pieces(x["h"], x["w"], h, w)
            )
            return cycles / oc * left((h, w, oc), share)

        # What is fetched ahead of one step keeps its loads from being joined with those of the next.
        known = [t for t in tiles(x, machine) if x["ici"] == 1 or unrollable(t, machine)
                 or ahead_of(x, outer_loops(x, t, step, machine), machine)]
        options = [(min(known, key=alone), 0)]
        options += [(tile, 0) for tile in known if outer_loops(x, tile, step, machine) == "rows"]
        options += [(tile, 1) for tile in known if can_share(x, tile, step, machine)]
        tile, share = min(options, key=shared)
        outer = outer_loops(x, tile, step, machine)
        size = tile[0] * tile[1] * tile[2] * (x["kw"] if share else 1)
        # Short bodies are unrolled until the loop's own instructions are few beside them, those that wait for weights
        # until the address of a pixel is counted up once for all its channels.
        most = 16 * size if outer == "filters" and steps == x["ici"] * x["ico"] and ahead_of(x, outer, machine) else 112
        return {
            "tile": tile,
            "share": share,
            "rows": rows_of_task(x, tile, outer, step, machine),
            "outer": outer,
            # Tasks of other pixels pad the rows they need; those of other filters would all pad the same. Padding that
            # is mostly skipped is only made where something reads it, once for all.
            "pad": "task" if outer == "pixels" and left(tile, share) == 1 else "once",
            "unroll_ic": max(u for u in (1, 2, 4, 8, 16) if x["ici"] % u == 0 and (u == 1 or u * size <= most)),
        }

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """``host`` stores the results (it may do more to them); ``stage`` sums them up on a tile of registers."""
        padding, is_parallel = pad_stage(planner, stage), access.work(stage.op) >= planner.parallel_points
        x, step = extents(stage.op), column_step(stage.op)
        if config["outer"] == "parts":
            stage, task = parts.divide(planner, stage, host, config, x, step)
        else:
            task = divide(stage, host, config)
        if is_parallel:
            host.parallel(task)
        sum_up(stage, config, ahead_of(x, config["outer"], planner.machine))
        place_padding(planner, padding, host, task, config)


TEMPLATE = Conv2d()
