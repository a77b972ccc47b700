"""Direct convolution in a blocked layout: a register tile of pixels by blocks of filters.

The register tile is ``tile_h`` x ``tile_w`` pixels by ``tile_oc`` vectors of filters. For every input channel and tap,
the kernel loads one vector of each filter block and broadcasts one element of each pixel over the lanes. The taps of a
row of the window may share broadcasts: each element is then broadcast once for all taps that use it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from ...ir.prim import IterVar
from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access
from ..template import CPUTemplate
from . import channel_blocking, taps
from .cycles import direct_cycles, lane_cycles, tile_cycles

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The prefetch distance, in input channels, for weights that do not fit the L2 cache.
PREFETCH_CHANNELS = 32
# For tiles whose multiply-add instructions have memory operands: the maximum vectors of filters (with more, loads are
# the bottleneck), the minimum number of channels (below it, tiles of more filters are faster), and the maximum
# multiply-adds in the loop body. A body of this size fits the decoder's cache, and LLVM has enough registers for it.
VECTORS_OF_OPERANDS, CHANNELS_OF_OPERANDS, PRODUCTS_OF_OPERANDS = 2, 128, 112
# The minimum vectors of filters for which a pixel reloaded from the L2 cache is reused often enough.
MIN_VECTORS_OF_ROWS = 4
# The minimum number of consecutive tiles with the same weights for which weights should stay in the L1 cache.
MIN_WEIGHT_REUSE = 16
# The height and approximate width for which schedules of dynamic images are chosen.
NOMINAL_SIDE = 28
# The number of pixels of an image that counts as small.
SMALL_IMAGE = 7 * 7
# Rows of a task for images of dynamic height. Each task also pads the rows around its own.
ANY_IMAGE_ROWS = 8
# The maximum number of register tiles of pixels in a task for flattened pixels with dynamic length.
MAX_FLAT_TILES = 32
# The maximum numbers of pixel tiles in sequence, if elements are loaded one by one: FLAT_TILES while a tile of filters
# stays in the L1 cache (images whose sides are multiples of 14 have a multiple of 7 tiles), FLAT_TILES_OF_FILTERS if
# weights are read only once. An image may have fewer tiles.
FLAT_TILES, FLAT_TILES_OF_FILTERS = 7, 128
# The minimum number of channels for which a tile of 14 pixels exceeds the L1 cache.
MIN_STEPS_OF_PIXELS = 1024
# The maximum number of pixels with separate addresses in a register tile, because addresses occupy registers too, and
# the number of channels in its loop body.
MAX_POINTERS, POINTER_CHANNELS = 10, 2
# Bandwidth of the L3 cache in bytes per cycle.
L3_BYTES_PER_CYCLE = 16
# The minimum number of vector multiply-adds in a task.
TASK_PRODUCTS = 1 << 15
# The minimum number of vector multiply-adds in a task of one register tile.
TILE_PRODUCTS = 1 << 11
# Free registers besides the accumulators of a tile whose elements are loaded one at a time where LLVM would load pairs.
# With more accumulators, LLVM spills some.
SPARE_REGISTERS = 5
# The maximum number of vector multiply-adds in the body of the channel loop for images of dynamic size. Such a tile is
# compiled twice, the second time with clamped addresses, and this size hides the loop overhead. Elements that are
# loaded in pairs need a larger body.
ANY_IMAGE_PRODUCTS, ANY_IMAGE_PRODUCTS_OF_PAIRS = 64, 112


def dynamic_image_columns(filters: int, channels: int, taps: int, has_pointers: bool, machine: Machine) -> int:
    """Return the number of pixels in a register tile for images of dynamic size. It is the width of the tile with the
    fewest estimated cycles for the given vectors of filters per group, channels and taps. Pixels at irregular addresses
    (``has_pointers``) belong to convolutions with many weights, which are read from the L2 cache."""
    vector, steps = 4 * machine.lanes("float32"), channels * taps
    is_single = takes_single_channels(channels, has_pointers, machine)
    most = MAX_POINTERS if has_pointers else machine.registers - 1
    fits = [
        (w, oc)
        for oc in range(1, 9)
        for w in range(1, most + 1)
        if filters % oc == 0 and fits_any_image((1, w, oc), is_single, machine)
    ]

    def cycles(tile: tuple[int, int]) -> float:
        if machine.has_lane_operands and taps == 1:
            return lane_cycles(*tile, steps, channels, machine)
        if not has_pointers:
            return direct_cycles(*tile, steps, tile[0])
        weights = steps * tile[1] * vector
        return tile_cycles(*tile, steps) + (weights / L3_BYTES_PER_CYCLE if weights > machine.l2_bytes * 3 // 4 else 0)

    is_point = taps == 1 and not has_pointers
    is_even = filters % VECTORS_OF_OPERANDS == 0
    # Images with flattened pixels count as small if the weights exceed the L2 cache.
    weights = vector * filters * steps
    is_small = is_point and weights > machine.l2_bytes
    if machine.has_memory_operands and is_point and is_even and steps >= CHANNELS_OF_OPERANDS:
        # Flattened pixels form whole tiles. Multiply-adds with memory operands are used if the accumulators fill the
        # registers except for two vectors of each block of filters.
        return machine.registers // VECTORS_OF_OPERANDS - 2
    if has_pointers and not machine.has_lane_operands:
        is_small = weights > 2 * machine.l2_bytes
    pixels = SMALL_IMAGE if is_small else None
    return min(fits, key=lambda t: cycles(t) / t[1] * (-(-pixels // t[0]) if pixels else 1 / t[0]))[0]


def image_extents(op: ComputeOp) -> tuple[int, int, int, int, int]:
    """Return the dimensions of the output. A dynamic batch size counts as one, because more images only add tasks.
    Dynamic row lengths consist of whole tiles."""
    n, oc, h, w, ob = (access.extent_of(a) for a in op.axis)
    columns = op.attrs.get("columns", 1)
    return n or 1, oc or 1, h or NOMINAL_SIDE, w or max(NOMINAL_SIDE // columns, 1) * columns, ob or 1


def is_image_known(op: ComputeOp) -> bool:
    """Return whether height and width are constants."""
    return access.are_known(op.axis[2:4])


def has_known_channels(op: ComputeOp) -> bool:
    """Return whether all dimensions are constants except the batch size and the image size, whose rows consist of whole
    tiles."""
    is_tiled = "columns" in op.attrs or access.are_known(op.axis[3:4])
    return is_tiled and access.are_known((op.axis[1], op.axis[4], *op.reduce_axis))


def extents(op: ComputeOp) -> dict[str, int]:
    """Return the dimensions of a convolution by name."""
    n, oc, h, w, ob = image_extents(op)
    ico, kh, kw, ici = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return {
        "n": n,
        "oc": oc,
        "h": h,
        "w": w,
        "ob": ob,
        "ico": ico,
        "kh": kh,
        "kw": kw,
        "ici": ici,
        "groups": int(op.attrs.get("groups", 1)),
    }


def pad_stage(planner: Planner, stage: Stage) -> Stage | None:
    """Return the stage that pads the data if the convolution is its only consumer."""
    for tensor in stage.op.input_tensors:
        if isinstance(tensor.op, ComputeOp) and "pad" in (tensor.op.tag or "").split(","):
            padding = planner.s[tensor]
            if len(planner.s.consumers(padding)) == 1 and not padding.is_output:
                return padding
    return None


def tiles(x: dict[str, int], machine: Machine) -> list[tuple[int, int, int]]:
    """Return the register tiles (rows, columns, vectors of filters) that fit the registers together with a vector of
    each filter block and one broadcast. Only tiles of full width have several rows; all filters of a tile belong to one
    group."""
    vectors = [d for d in range(1, 9) if x["oc"] // x["groups"] % d == 0]
    return [
        (h, w, oc)
        for oc in vectors
        for h in range(1, min(x["h"], 4) + 1)
        for w in (range(1, min(x["w"], machine.registers) + 1) if h == 1 else (x["w"],))
        if h * w * oc <= 4 or h * w * oc + oc + 1 <= machine.registers
    ]


def unrollable(tile: tuple[int, int, int], machine: Machine) -> bool:
    """Return whether a tile also fits the registers with several unrolled channels. If elements are loaded in pairs or
    vectors, those of each pixel occupy an additional register, and LLVM needs two spare registers."""
    h, w, oc = tile
    return not machine.loads_pairs or h * w * (oc + 1) + oc + 2 <= machine.registers


def lane_operands(x: dict[str, int], config: dict[str, Any], machine: Machine) -> int:
    """Return the number of channels of a pixel that are loaded as one vector whose lanes are operands of multiply-adds,
    or 0 if each channel is loaded separately."""
    lanes = machine.lanes("float32")
    is_whole = x["ici"] % lanes == 0 and config["unroll_ic"] % lanes == 0
    fits = is_whole and unrollable(config["tile"], machine) and not config["share"]
    return lanes if machine.has_lane_operands and fits else 0


def takes_single_channels(channels: int, has_pointers: bool, machine: Machine) -> bool:
    """Return whether channels of an image of dynamic size are not unrolled. Unrolled elements would be loaded in pairs;
    if they do not form whole vectors and addresses are regular, a larger tile without unrolling is faster."""
    is_whole = machine.has_lane_operands and channels % machine.lanes("float32") == 0
    return machine.loads_pairs and not is_whole and not has_pointers


def fits_any_image(tile: tuple[int, int, int], is_single: bool, machine: Machine) -> bool:
    """Return whether a tile of an image of dynamic size fits the registers, with several unrolled channels unless
    ``is_single``."""
    _, w, oc = tile
    fits = w * oc + oc + 1 <= machine.registers
    return fits and (w * oc <= machine.registers - SPARE_REGISTERS if is_single else unrollable(tile, machine))


def column_stride(op: ComputeOp) -> int:
    """Return the stride of the convolution along a row."""
    if "step" in op.attrs:
        return op.attrs["step"]
    data = next(load for load in access.loads(op.body) if load.producer is op.input_tensors[0])
    return access.stride_along(data.indices[3], op.axis[3].var) or 1


def can_share(x: dict[str, int], tile: tuple[int, int, int], stride: int, machine: Machine) -> bool:
    """Return whether the taps of a row of the window may share broadcasts: their filters fit the registers too, rows
    are long compared to the window, windows overlap, and no second vector of filters reuses a broadcast."""
    h, w, oc = tile
    fits = h * w * oc + x["kw"] * oc + 1 <= machine.registers
    return fits and x["oc"] == x["groups"] and w >= 3 * x["kw"] and stride < x["kw"]


def broadcasts_per_step(x: dict[str, int], height: int, width: int, stride: int, share: bool) -> float:
    """Return the number of elements broadcast over the lanes for each channel and tap."""
    return height * ((width - 1) * stride + x["kw"]) / x["kw"] if share else height * width


def computed_taps_share(op: ComputeOp, tile: tuple[int, int, int], share: int) -> float:
    """Return the fraction of the window's taps that are computed."""
    return taps.computed_share(window_of(op), tile_of_taps(tile, share))


def window_of(op: ComputeOp) -> list[taps.Taps | None]:
    return taps.window(op, op.axis[2:4], op.reduce_axis[1:3])


def tile_of_taps(tile: tuple[int, int, int], share: int) -> tuple[int, ...]:
    """Return the tile size in the dimensions in which taps are skipped. Shared broadcasts are computed for all taps of
    a row."""
    return tile[:1] if share else tile[:2]


def outer_loops(x: dict[str, int], tile: tuple[int, int, int], stride: int, machine: Machine) -> str:
    """Return the loop order of a task, which is named after the data that it keeps in the caches:

    - "pixels": all filters are computed on a tile of pixels. Data is read once, weights come from the L2 cache.
    - "rows": a tile of many filters is computed on some rows first. Its weights stay in the L1 cache and the rows in
      the L2 cache.
    - "filters": chosen if there are too many weights for "rows".
    - "parts": the channels are blocked, because operands would be read repeatedly from beyond the L2 cache.

    Multiply-adds with lanes of pixels wait for loads in all orders except "pixels", which loads each pixel once."""
    if channel_blocking.pays(x, tile, stride, machine):
        return "parts"
    weights = 4 * x["oc"] * x["ob"] * x["ico"] * x["ici"] * x["kh"] * x["kw"] // x["groups"]
    room = machine.l2_bytes if machine.has_lane_operands else machine.l2_bytes // 2
    if weights > room or x["h"] < 4 * machine.threads:
        return "filters"
    wide = tile[2] >= MIN_VECTORS_OF_ROWS and x["kh"] == x["kw"] == 1 and not machine.has_lane_operands
    pixels = task_rows(x, tile, "rows", stride, machine) * x["w"]
    return "rows" if wide and pixels >= MIN_WEIGHT_REUSE * tile[0] * tile[1] else "pixels"


def is_bound_by_issue(outer: str, machine: Machine) -> bool:
    """Return whether the caches deliver operands in time with a loop order. Tiles of more filters than pixels, which
    need fewer instructions, may then be faster. A broadcast needs no instruction if it is a lane of a loaded vector."""
    return outer in ("rows", "parts") and not machine.loads_pairs


def has_memory_operands(op: ComputeOp, config: dict[str, Any], machine: Machine) -> bool:
    """Return whether the multiply-adds of a tile have memory operands: the tile must fill the registers, and rows must
    consist of whole tiles. In shorter tiles such loads take longer than the instructions that they replace."""
    x, tile = extents(op), config["tile"]
    is_full = prod(tile) + 2 * tile[2] == machine.registers and x["w"] % tile[1] == 0
    has_rows = is_image_known(op) or bool(op.attrs.get("overlaps") or op.attrs.get("is_gathered"))
    is_plain = x["kh"] == x["kw"] == 1 and has_rows and config["outer"] in ("pixels", "filters")
    is_float = op.output(0).dtype == "float32" == op.input_tensors[0].dtype
    is_short = prod(tile) * config["unroll_ic"] <= PRODUCTS_OF_OPERANDS and tile[2] == VECTORS_OF_OPERANDS
    return machine.has_memory_operands and is_plain and is_float and is_full and is_short


def prefetch_distance(x: dict[str, int], outer: str, machine: Machine) -> int:
    """Return the prefetch distance of weights in channels."""
    weights = 4 * x["oc"] * x["ob"] * x["ico"] * x["ici"] * x["kh"] * x["kw"]
    orders = ("filters",) if machine.has_lane_operands else ("filters", "pixels")
    return PREFETCH_CHANNELS if weights > machine.l2_bytes // 4 and outer in orders else 0


def streams_weights(op: ComputeOp, config: dict[str, Any], machine: Machine) -> bool:
    """Return whether each tile of an image with flattened pixels reads weights that exceed the L1 cache."""
    x = extents(op)
    steps, is_row = x["ici"] * x["ico"] * x["kh"] * x["kw"], bool(op.attrs.get("is_one_row"))
    is_long = 4 * config["tile"][2] * x["ob"] * steps > machine.l1_bytes
    return is_row and is_long and not machine.has_lane_operands


def pieces(height: int, width: int, tile_h: int, tile_w: int) -> list[tuple[int, int, int]]:
    """Return the tiles of an image as (height, width, number of tiles)."""
    rows = [(tile_h, height // tile_h), (height % tile_h, 1)]
    columns = [(tile_w, width // tile_w), (width % tile_w, 1)]
    return [(h, w, a * b) for h, a in rows for w, b in columns if h and w and a and b]


def fastest_tile(op: ComputeOp, machine: Machine) -> tuple[tuple[int, int, int], int]:
    """Return the tile with the fewest estimated cycles, including remainders at the edges of the image, and whether the
    taps of a row of the window share broadcasts (0 or 1)."""
    x = extents(op)
    steps = x["ici"] * x["ico"] * x["kh"] * x["kw"]
    stride, window = column_stride(op), window_of(op)

    def with_remainders(tile: tuple[int, int, int], share: int, cycles: Callable[[int, int], float]) -> float:
        h, w, oc = tile
        computed = taps.computed_share(window, tile_of_taps(tile, share))
        return sum(n * cycles(a, b) for a, b, n in pieces(x["h"], x["w"], h, w)) / oc * computed

    def alone(tile: tuple[int, int, int]) -> float:
        oc = tile[2]
        if lane_operands(x, {"tile": tile, "share": 0, "unroll_ic": x["ici"]}, machine):
            channels = x["ico"] * x["ici"]
            return with_remainders(tile, 0, lambda a, b: lane_cycles(a * b, oc, steps, channels, machine))
        return with_remainders(tile, 0, lambda a, b: tile_cycles(a * b, oc, steps))

    def shared(option: tuple[tuple[int, int, int], int]) -> float:
        tile, share = option

        def cycles(a: int, b: int) -> float:
            return direct_cycles(a * b, tile[2], steps, broadcasts_per_step(x, a, b, stride, bool(share)))

        return with_remainders(tile, share, cycles)

    def outer(tile: tuple[int, int, int]) -> str:
        return outer_loops(x, tile, stride, machine)

    # Prefetches prevent LLVM from pairing the loads of one channel with those of the next.
    known = [
        t
        for t in tiles(x, machine)
        if x["ici"] == 1 or unrollable(t, machine) or prefetch_distance(x, outer(t), machine)
    ]
    best = min(known, key=alone)
    options = [(best, 0)]
    if steps < CHANNELS_OF_OPERANDS or not tile_has_memory_operands(op, best, stride, machine):
        options += [(t, 0) for t in known if is_bound_by_issue(outer(t), machine)]
    options += [(tile, 1) for tile in known if can_share(x, tile, stride, machine)]
    return min(options, key=shared)


def tile_has_memory_operands(op: ComputeOp, tile: tuple[int, int, int], stride: int, machine: Machine) -> bool:
    """Return whether the multiply-adds of a tile have memory operands if its channels are not unrolled."""
    config = {"tile": tile, "outer": outer_loops(extents(op), tile, stride, machine), "unroll_ic": 1}
    return has_memory_operands(op, config, machine)


def unrolled_channels(x: dict[str, int], size: int, most: int, machine: Machine) -> int:
    """Return the number of channels in a loop body for a tile of ``size`` multiply-adds per channel: one, or several
    with ``most`` multiply-adds."""
    return max(
        u for u in (1, 2, 4, 8, 16) if x["ici"] % u == 0 and (u == 1 or u * size <= most and u <= machine.max_unroll)
    )


def task_rows(x: dict[str, int], tile: tuple[int, int, int], outer: str, stride: int, machine: Machine) -> int:
    """Return the number of rows that one task computes: enough tasks for the threads, but few enough that the overhead
    of padding and starting a task is small. Rows that all filters read in sequence stay in the L2 cache."""
    if outer == "parts":
        return channel_blocking.rows_and_filters(x, tile, stride, machine)[0]
    chunks = x["n"] * (x["oc"] // tile[2] if outer != "pixels" else 1)
    row = 4 * x["w"] * x["ico"] * x["ici"] * stride
    wanted, room, least = (8, machine.l2_bytes // 5, 0) if outer == "rows" else (4, x["h"] * row, 0)
    if outer == "pixels" and x["kh"] > 1:
        # Each task pads the rows it reads. They must fit the L2 cache, but a task needs enough rows that most are not
        # padded twice.
        row, room, least = row * stride, machine.l2_bytes // 2, 2 * (x["kh"] - 1) // stride
    rows = x["h"]
    while rows > tile[0] and (
        chunks * -(-x["h"] // rows) < wanted * machine.threads or rows * row > room and rows > least
    ):
        rows = -(-rows // 2)
    return -(-rows // tile[0]) * tile[0]


def flat_tasks(x: dict[str, int], tile: tuple[int, int, int], machine: Machine) -> tuple[str, int, int]:
    """Return the loop order for flattened pixels whose elements are loaded one by one, the number of pixel tiles in
    sequence, and the number of tasks that share the filters.

    - "filters": weights occupy much of the L2 cache and are read once for as many pixel tiles as fit it (all tiles of a
      small image). Each register tile is a task.
    - "rows": the weights of a wide tile stay in the L1 cache for some pixel tiles.
    - "pixels": weights are read again for each pixel tile. If the elements of a tile, which are not prefetched like
      weights, exceed the L1 cache, larger weights use this order as well."""
    _, w, oc = tile
    steps = x["ici"] * x["ico"] * x["kh"] * x["kw"]
    weights, of_tile = 4 * x["oc"] * x["ob"] * steps // x["groups"], w * x["oc"] * steps // x["groups"]
    most = max(machine.l2_bytes // 2 // (4 * w * x["ici"] * x["ico"]), 1)
    is_long = x["kh"] == x["kw"] == 1 and oc == VECTORS_OF_OPERANDS and steps >= MIN_STEPS_OF_PIXELS
    room = machine.l2_bytes // 2 if is_long else machine.l2_bytes // 4
    if weights > room and w * oc * steps >= TILE_PRODUCTS:
        return "filters", min(most, FLAT_TILES_OF_FILTERS), 1
    if oc >= MIN_VECTORS_OF_ROWS and 4 * oc * x["ob"] * steps <= machine.l1_bytes:
        return "rows", min(most, FLAT_TILES), 1
    shares = [d for d in range(1, machine.threads + 1)
              if x["oc"] // oc % d == 0 and (d == 1 or of_tile >= d * TASK_PRODUCTS // 4)]  # fmt: skip
    return "pixels", min(-(-TASK_PRODUCTS // 4 // of_tile), MAX_FLAT_TILES), max(shares)


def divide(stage: Stage, host: Stage, config: dict[str, Any]) -> IterVar:
    """Split the output into tasks and tiles in the order given by the configuration. Return the loop of tasks."""
    if stage.op.attrs.get("is_one_row"):
        return divide_row(stage, host, config)
    tile_h, tile_w, tile_oc = config["tile"]
    height, width = (access.extent_of(a) or NOMINAL_SIDE for a in host.op.axis[2:4])
    n, oc, h, w, ob = host.op.axis
    oc_outer, oc_tile = host.split(oc, factor=tile_oc)
    rows, h = host.split(h, factor=min(config["rows"], height))
    h_outer, h_tile = host.split(h, factor=tile_h)
    w_outer, w_tile = host.split(w, factor=tile_w)
    # In a row of dynamic width, the bounds check of a pixel is done once for all its filters.
    order = (oc_tile, h_tile, w_tile) if access.extent_of(w) is not None else (h_tile, w_tile, oc_tile)
    if config["outer"] == "filters":
        host.reorder(n, oc_outer, rows, h_outer, w_outer, *order, ob)
        task, inside = host.fuse(n, oc_outer, rows), w_outer
    elif config["outer"] == "rows":
        host.reorder(n, rows, oc_outer, h_outer, w_outer, *order, ob)
        task, inside = host.fuse(n, rows, oc_outer), w_outer
    else:
        host.reorder(n, rows, h_outer, w_outer, oc_outer, *order, ob)
        task, inside = host.fuse(n, rows), oc_outer
    host.vectorize(ob)
    for axis in (oc_tile, h_tile, w_tile):
        host.unroll(axis)
    for axis, size, tile in ((h_outer, height, tile_h), (w_outer, width, tile_w)):
        # In a row of dynamic width, all tiles except the last compute distinct pixels.
        if size % tile or axis is w_outer and access.extent_of(w) is None:
            host.pragma(axis, "loop_partition_hint", True)
    stage.compute_at(host, inside)
    return task


def divide_row(stage: Stage, host: Stage, config: dict[str, Any]) -> IterVar:
    """Split an output with flattened pixels: a tile of filters is computed on all pixels of a task. Return the loop of
    tasks."""
    _, columns, tile_oc = config["tile"]
    n, oc, h, w, ob = host.op.axis
    pixels = host.fuse(h, w)
    images = [] if access.extent_of(n) == 1 else [n]
    oc_outer, oc_tile = host.split(oc, factor=tile_oc)
    tile, column = host.split(pixels, factor=columns)
    if stage.op.attrs["overlaps"]:
        host.overlap(tile)
    # The bounds check of a pixel is done once for all its filters.
    if config["outer"] == "filters":
        # Weights are read once for all tiles of a part, including those of several images. Each reduction is long
        # enough for a task of its own, and threads share even few tasks evenly.
        host.reorder(n, tile, oc_outer, column, oc_tile, ob)
        part, tile = host.split(host.fuse(*images, tile), factor=config["rows"])
        host.reorder(part, oc_outer, tile, column, oc_tile, ob)
        task = inside = host.fuse(part, oc_outer, tile)
    elif config["outer"] == "pixels":
        part, tile = host.split(tile, factor=config["rows"])
        share, oc_outer = host.split(oc_outer, nparts=config["shares"])
        host.reorder(n, part, share, tile, oc_outer, column, oc_tile, ob)
        task, inside = host.fuse(*images, part, share), oc_outer
    else:
        part, tile = host.split(tile, factor=config["rows"])
        host.reorder(n, part, oc_outer, tile, column, oc_tile, ob)
        task, inside = host.fuse(*images, part, oc_outer), tile
    host.vectorize(ob)
    for axis in (oc_tile, column):
        host.unroll(axis)
    stage.compute_at(host, inside)
    return task


def compute_padding(
    planner: Planner, padding: Stage | None, host: Stage, task: IterVar, config: dict[str, Any]
) -> None:
    """Compute the padded data, if any, in each task or once for all tasks."""
    if padding is None:
        return
    planner.placed.add(padding)
    if config["pad"] == "task":
        padding.compute_at(host, task)
        padding.vectorize(padding.op.axis[-1])
        if not is_image_known(host.op):
            padding.pragma(padding.op.axis[3], "loop_partition_hint", True)
    elif is_image_known(host.op):
        planner.injective(padding)
    elif padding.op.attrs.get("is_gathered"):
        # The address of a pixel is computed once for all its elements.
        n, block, _, pixel, lane = padding.op.axis
        padding.reorder(n, pixel, block, lane)
        padding.parallel(padding.fuse(n, pixel))
        padding.vectorize(lane)
    else:
        # Images of dynamic size, including small ones, are padded row by row, so that one part serves all sizes.
        *rows, _, lane = padding.op.axis
        padding.parallel(padding.fuse(*rows))
        padding.vectorize(lane)


def reduce_channels(stage: Stage, config: dict[str, Any], ahead: int, with_operands: bool, lanes: int = 0) -> None:
    """Schedule the reduction over all channels, or over those of a channel block. With blocks, the axis of blocks comes
    first, and the split channel axis is the last reduction axis. ``with_operands`` enables memory operands; ``lanes``
    is the number of channels that are loaded at once."""
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
    if taps.computed_share(window, tile_of_taps(config["tile"], config["share"])) < 1:
        for axis in (kh,) if config["share"] else (kh, kw):
            stage.skip_padding(axis)
    if with_operands:
        stage.pragma(ic_unrolled, "memory_operands", config["tile"][2])
    if lanes:
        stage.pragma(ic_unrolled, "lane_operands", lanes)
    if ahead:
        stage.prefetch(stage.op.input_tensors[-1], ic_unrolled, ahead)
    stage.set_scope("local")


class Conv2d(CPUTemplate):
    """A convolution in a blocked layout."""

    tags = ("conv2d_NCHWc",)

    def applies(self, op: ComputeOp) -> bool:
        """Return whether channels are constant and groups consist of whole blocks."""
        if not has_known_channels(op):
            return False
        x = extents(op)
        return x["oc"] % x["groups"] == 0

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values."""
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
        """Return the tile with the fewest estimated cycles and the knobs that follow from it."""
        x = extents(op)
        if not is_image_known(op):
            return self.choose_for_dynamic_image(op, machine, tiles(x, machine))
        tile, share = fastest_tile(op, machine)
        stride = column_stride(op)
        outer = outer_loops(x, tile, stride, machine)
        # Short bodies are unrolled until the loop overhead is small. Bodies that wait for weights are unrolled until
        # the address of a pixel is incremented once for all its channels.
        size = prod(tile) * (x["kw"] if share else 1)
        pointwise = x["kh"] == x["kw"] == 1
        most = 16 * size if outer == "filters" and pointwise and prefetch_distance(x, outer, machine) else 112
        if tile_has_memory_operands(op, tile, stride, machine):
            most = PRODUCTS_OF_OPERANDS
        return {
            "tile": tile,
            "share": share,
            "rows": task_rows(x, tile, outer, stride, machine),
            "outer": outer,
            # Tasks of different pixels pad the rows they need; tasks of different filters would all pad the same rows.
            # Padding that is mostly skipped is computed once for all tasks, only where it is read.
            "pad": "task" if outer == "pixels" and computed_taps_share(op, tile, share) == 1 else "once",
            "unroll_ic": unrolled_channels(x, size, most, machine),
        }

    def choose_for_dynamic_image(
        self, op: ComputeOp, machine: Machine, options: list[tuple[int, int, int]]
    ) -> dict[str, Any]:
        """Choose a configuration for images of any size. A task computes some rows of pixels (some tiles if pixels are
        flattened) with all filters or those of one tile."""
        x, columns = extents(op), op.attrs.get("columns")
        fit = [t for t in options if t[0] == 1 and t[1] == (columns or t[1])]
        is_point = x["kh"] == x["kw"] == column_stride(op) == 1
        has_pointers = bool(op.attrs.get("is_one_row")) and not is_point
        is_single = takes_single_channels(x["ici"], has_pointers, machine)
        fitting = [t for t in fit if fits_any_image(t, is_single, machine)] or fit
        steps = x["ici"] * x["ico"] * x["kh"] * x["kw"]

        def cycles(tile: tuple[int, int, int]) -> float:
            if machine.has_lane_operands and x["kh"] == x["kw"] == 1:
                return lane_cycles(*tile[1:], steps, steps, machine)
            return tile_cycles(*tile[1:], steps)

        tile = min(fitting, key=lambda t: cycles(t) / (t[1] * t[2]))
        weights = 4 * x["oc"] * x["ob"] * steps // x["groups"]
        outer, rows, pad, shares = "pixels", ANY_IMAGE_ROWS if x["kh"] > 1 else 1, "task", 1
        if op.attrs.get("is_one_row"):
            # Weights that fit the L2 cache are read again for each pixel tile. Otherwise, or if a tile of many filters
            # is enough for a task, the data of a task stays in the L2 cache for all filter tiles, and the weights of
            # one tile stay in the L1 cache. The output is then written, and the epilogue's inputs read, in long rows of
            # few blocks. A task has more than one pixel tile, so that all but the last need no bounds checks, unless
            # the last tile of an image overlaps the one before.
            is_wide = tile[2] >= MIN_VECTORS_OF_ROWS and MAX_FLAT_TILES * tile[1] * tile[2] * steps >= TASK_PRODUCTS
            outer = "rows" if weights > machine.l2_bytes or is_wide else "pixels"
            cached = machine.l2_bytes // 2 // (4 * tile[1] * x["ico"] * x["ici"])
            of_tile = tile[1] * x["oc"] * steps // x["groups"]
            rows = cached if outer == "rows" else -(-TASK_PRODUCTS // of_tile)
            rows, pad = max(min(rows, MAX_FLAT_TILES), 1 if op.attrs["overlaps"] else 2), "once"
            # Small images have few such tasks. Tasks share the filters so that all threads get the same number of
            # tasks.
            is_long = rows * of_tile >= 4 * TASK_PRODUCTS and machine.threads > 1
            shares = 2 if is_long and x["oc"] // tile[2] % 2 == 0 else 1
            if not machine.has_lane_operands:
                outer, rows, shares = flat_tasks(x, tile, machine)
        size, most = tile[1] * tile[2], ANY_IMAGE_PRODUCTS
        if machine.loads_pairs:
            most = size if is_single else ANY_IMAGE_PRODUCTS_OF_PAIRS
        if has_pointers and not machine.has_lane_operands:
            # With more channels LLVM loads all elements first and spills accumulators.
            most = min(most, POINTER_CHANNELS * size)
        return {
            "tile": tile,
            "share": 0,
            "rows": rows,
            "outer": outer,
            "pad": pad,
            "shares": shares,
            "unroll_ic": unrolled_channels(x, size, most, machine),
        }

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration. ``host`` stores the output, with the epilogue if there is one; ``stage`` accumulates
        it in a register tile."""
        padding, is_parallel = pad_stage(planner, stage), access.work(stage.op) >= planner.parallel_points
        x, stride = extents(stage.op), column_stride(stage.op)
        ahead = prefetch_distance(x, config["outer"], planner.machine)
        with_operands = has_memory_operands(stage.op, config, planner.machine)
        # Prefetches also prevent LLVM from loading the weights of the next channel early, for which there are no
        # registers.
        if with_operands or streams_weights(stage.op, config, planner.machine):
            ahead = PREFETCH_CHANNELS
        if config["outer"] == "parts":
            stage, task = channel_blocking.divide(planner, stage, host, config, x, stride)
        else:
            task = divide(stage, host, config)
        if is_parallel:
            host.parallel(task)
        reduce_channels(stage, config, ahead, with_operands, lane_operands(x, config, planner.machine))
        compute_padding(planner, padding, host, task, config)


TEMPLATE = Conv2d()
