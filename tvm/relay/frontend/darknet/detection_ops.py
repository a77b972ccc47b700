"""Converters of detection layers (yolo, region, detection).

The outputs are DarkNet's raw layer outputs: probabilities from 0 to 1, and box sizes as exponents. They are followed by
the parameters for decoding boxes. With ``boxes=True`` the output is the decoded boxes.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .conv_ops import flat
from .table import Context, layer


class Grid:
    """A layer output with ``count`` boxes at each grid position: (batch, count, values per box, height, width)."""

    def __init__(self, ctx: Context, x: RelayExpr, count: int, numbers: int):
        self.batch, self.channels, self.height, self.width = ctx.image(x)
        if count < 1 or self.channels != count * numbers:
            raise TVMError(
                f"{count} boxes of {numbers} values need {count * numbers} channels, but the previous layer "
                f"has {self.channels}"
            )
        self.count, self.numbers = count, numbers
        self.value = relay.reshape(x, (self.batch, count, numbers, self.height, self.width))

    def part(self, begin: int, end: int) -> RelayExpr:
        return relay.strided_slice(self.value, [begin], [end], [1], [2])

    def image(self, parts: list[RelayExpr]) -> RelayExpr:
        joined = relay.concatenate([p for p in parts if p is not None], 2)
        return relay.reshape(joined, (self.batch, self.channels, self.height, self.width))

    def rows(self, ctx: Context, box: list[RelayExpr], objectness: RelayExpr, classes: RelayExpr) -> RelayExpr:
        """Return a row for each box: center, width and height as fractions of the image, objectness, and objectness
        times each class probability."""
        joined = relay.concatenate([*box, objectness, relay.multiply(classes, objectness)], 2)
        moved = relay.transpose(joined, (0, 3, 4, 1, 2))
        return relay.reshape(moved, (self.batch, self.height * self.width * self.count, -1))

    def centres(self, ctx: Context, x: RelayExpr, y: RelayExpr) -> list[RelayExpr]:
        columns, rows = np.arange(self.width), np.arange(self.height)[:, None]
        return [
            relay.divide(relay.add(x, ctx.constant(columns)), ctx.like(self.width, x)),
            relay.divide(relay.add(y, ctx.constant(rows)), ctx.like(self.height, y)),
        ]


def _anchors(ctx: Context, count: int) -> np.ndarray:
    """Return the anchors (width and height) of all boxes; missing values are 0.5."""
    found = ctx.section.numbers("anchors")
    out = np.full(2 * count, 0.5, "float32")
    if len(found) > 2 * count:
        raise TVMError(f"{len(found)} anchor values for num={count} boxes; at most {2 * count} are allowed")
    out[: len(found)] = found
    return out


def _sizes(ctx: Context, grid: Grid, anchors: np.ndarray, w: RelayExpr, h: RelayExpr, across, squares: bool):
    """Return box widths and heights as fractions of the image.

    The raw values are exponents, or ``value * value * 4`` applies if ``squares`` is set.
    """

    def size(value: RelayExpr, which: int) -> RelayExpr:
        factor = anchors[which::2].astype("float64") / across[which]
        grown = relay.multiply(relay.multiply(value, value), ctx.like(4, value)) if squares else relay.exp(value)
        return relay.multiply(grown, ctx.constant(factor[:, None, None, None]))

    return [size(w, 0), size(h, 1)]


def _masked(ctx: Context) -> tuple[list[int], np.ndarray, int]:
    """Return the anchor indices of a layer, the anchors of all layers and the number of classes."""
    total, classes = ctx.positive("num", 1), ctx.positive("classes", 20)
    mask = [int(v) for v in ctx.section.numbers("mask")] or list(range(total))
    if any(not 0 <= m < total for m in mask):
        raise TVMError(f"mask={ctx.section.options['mask']} contains an index out of range for num={total}")
    return mask, _anchors(ctx, total), classes


def _scaled(ctx: Context, centre: RelayExpr) -> RelayExpr:
    """Scale box centers about the middle of the cell by ``scale_x_y``."""
    scale = ctx.section.float("scale_x_y", 1.0)
    if scale == 1:
        return centre
    return relay.subtract(relay.multiply(centre, ctx.like(scale, centre)), ctx.like(0.5 * (scale - 1), centre))


@layer("Gaussian_yolo")
def gaussian_yolo(ctx, x):
    """Each of the four box values is followed by its uncertainty. The uncertainty reduces the class scores."""
    if ctx.section.text("yolo_point", "center") != "center":
        raise TVMError(f"yolo_point={ctx.section.options['yolo_point']} is not supported")
    mask, anchors, classes = _masked(ctx)
    grid = Grid(ctx, x, len(mask), classes + 9)
    parts = [grid.part(k, k + 1) for k in range(8)] + [grid.part(8, 9 + classes)]
    parts = [value if k in (4, 6) else ctx.made(relay.sigmoid(value)) for k, value in enumerate(parts)]
    parts[0], parts[2] = _scaled(ctx, parts[0]), _scaled(ctx, parts[2])
    if not ctx.importer.boxes:
        attributes = [len(mask), grid.channels, grid.height, grid.width, classes, len(anchors) // 2]
        return ctx.importer.detected(grid.image(parts), np.array(mask, "int32"), anchors, np.array(attributes, "int32"))
    sizes = _sizes(ctx, grid, anchors.reshape(-1, 2)[mask].reshape(-1), parts[4], parts[6], ctx.importer.input_size,
                   False)  # fmt: skip
    total = relay.add(relay.add(parts[1], parts[3]), relay.add(parts[5], parts[7]))
    certain = relay.subtract(ctx.like(1, x), relay.multiply(total, ctx.like(0.25, x)))
    objectness = relay.strided_slice(parts[8], [0], [1], [1], [2])
    kinds = relay.multiply(relay.strided_slice(parts[8], [1], [classes + 1], [1], [2]), certain)
    return ctx.importer.detected(grid.rows(ctx, [*grid.centres(ctx, parts[0], parts[2]), *sizes], objectness, kinds))


@layer("yolo")
def yolo(ctx, x):
    mask, anchors, classes = _masked(ctx)
    grid = Grid(ctx, x, len(mask), classes + 5)
    plain = ctx.flag("new_coords")

    def bounded(value: RelayExpr) -> RelayExpr:
        return value if plain else relay.sigmoid(value)

    centre = _scaled(ctx, bounded(grid.part(0, 2)))
    size, rest = grid.part(2, 4), bounded(grid.part(4, 5 + classes))
    out = grid.image([centre, size, rest])
    if ctx.importer.boxes:
        return _yolo_rows(ctx, grid, anchors.reshape(-1, 2)[mask].reshape(-1), centre, size, rest, plain)
    attributes = [len(mask), grid.channels, grid.height, grid.width, classes, len(anchors) // 2]
    ctx.importer.detected(out, np.array(mask, "int32"), anchors, np.array(attributes, "int32"))
    return out


def _yolo_rows(ctx: Context, grid: Grid, anchors: np.ndarray, centre, size, rest, squares: bool) -> RelayExpr:
    x, y = relay.split(centre, 2, 2)
    w, h = relay.split(size, 2, 2)
    box = [*grid.centres(ctx, x, y), *_sizes(ctx, grid, anchors, w, h, ctx.importer.input_size, squares)]
    objectness = relay.strided_slice(rest, [0], [1], [1], [2])
    classes = relay.strided_slice(rest, [1], [grid.numbers - 4], [1], [2])
    return ctx.importer.detected(grid.rows(ctx, box, objectness, classes))


@layer("region")
def region(ctx, x):
    count, classes, coords = ctx.positive("num", 1), ctx.positive("classes", 20), ctx.positive("coords", 4)
    background = ctx.flag("background")
    anchors = _anchors(ctx, count)
    if coords < 4:
        raise TVMError(f"coords={coords} is not supported; it must be at least 4")
    grid = Grid(ctx, x, count, coords + classes + 1)
    centre, size = relay.sigmoid(grid.part(0, 2)), grid.part(2, coords)
    if background:
        objectness, kinds = None, grid.part(coords, coords + classes + 1)
    else:
        objectness, kinds = relay.sigmoid(grid.part(coords, coords + 1)), grid.part(coords + 1, coords + classes + 1)
    if ctx.flag("softmax"):
        kinds = relay.nn.softmax(kinds, axis=2)
    elif background:
        first = relay.strided_slice(kinds, [0], [1], [1], [2])
        rest = relay.strided_slice(kinds, [1], [classes + 1], [1], [2])
        kinds = relay.concatenate([first, relay.sigmoid(rest)], 2)
    else:
        kinds = relay.sigmoid(kinds)
    if ctx.importer.boxes:
        return _region_rows(ctx, grid, anchors, centre, size, objectness, kinds)
    attributes = [count, grid.channels, grid.height, grid.width, classes, coords, int(background)]
    out = grid.image([centre, size, objectness, kinds])
    ctx.importer.detected(out, anchors, np.array(attributes, "int32"))
    return out


def _region_rows(ctx: Context, grid: Grid, anchors, centre, size, objectness, kinds) -> RelayExpr:
    x, y = relay.split(centre, 2, 2)
    w, h = (relay.strided_slice(size, [i], [i + 1], [1], [2]) for i in (0, 1))
    box = [*grid.centres(ctx, x, y), *_sizes(ctx, grid, anchors, w, h, (grid.width, grid.height), False)]
    if objectness is None:
        # The first class is the background; every box has objectness 1.
        kinds = relay.strided_slice(kinds, [1], [grid.numbers], [1], [2])
        objectness = relay.ones_like(x)
    return ctx.importer.detected(grid.rows(ctx, box, objectness, kinds))


@layer("detection")
def detection(ctx, x):
    """Convert a YOLO v1 detection layer: the classes of each grid position, followed by objectness and boxes."""
    x = flat(ctx, x)
    batch, count = ctx.known_shape(x)
    side, classes, boxes = ctx.positive("side", 7), ctx.positive("classes", 1), ctx.positive("num", 1)
    places = side * side
    wanted = places * (classes + boxes * (1 + ctx.positive("coords", 1)))
    if count != wanted:
        raise TVMError(f"a grid of {places} positions needs {wanted} inputs, but the previous layer has {count}")
    if not ctx.flag("softmax"):
        return x
    kinds = relay.reshape(relay.strided_slice(x, [0], [places * classes], [1], [1]), (batch * places, classes))
    kinds = relay.reshape(relay.nn.softmax(kinds), (batch, places * classes))
    return relay.concatenate([kinds, relay.strided_slice(x, [places * classes], [count], [1], [1])], 1)


__all__ = ["Grid"]
