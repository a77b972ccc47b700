"""Converters of image operations: resizing, cropping and sampling."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from .table import Context, Ints, axis_of, check_count, const, constant, half, op

# The sampling modes: how the sampling positions are spread over an axis.
MODES = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS")


def spacing(mode: str, count: int) -> tuple:
    """Return the first sampling position and the step between positions, each as coefficients ``(a, b, c)``.

    The value of coefficients is ``a * (size - 1) + b * size + c``. The step is 0 for a single position.
    """
    if mode not in MODES:
        raise TVMError(f"the sampling mode '{mode}' is not supported")
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        first = (0.5, 0, 0) if count == 1 and mode == "ALIGN_CORNERS" else (0, 0, 0)
        return first, (1 / (count - 1) if count > 1 else 0, 0, 0)
    if mode == "DEFAULT":
        return (0, 0, 0), (0, 1 / count, 0)
    if mode == "UNALIGN_CORNERS":
        return (0, 0.5 / count, -0.5), (0, 1 / count, 0)
    return (0.5 / count, 0, 0), (1 / count, 0, 0)


def grid(mode: str, size: int, count: int) -> np.ndarray:
    """Return the ``count`` sampling positions on an axis."""
    check_count("an axis", [count])
    if count < 1:
        raise TVMError(f"the number of sampling positions is {count}; it must be positive")
    # OFFSET_CORNERS keeps a distance from the edges, so a single element counts as an interval of length 1.
    width = max(size - 1, 1) if mode == "OFFSET_CORNERS" else size - 1
    first, step = (a * width + b * size + c for a, b, c in spacing(mode, count))
    return np.clip(first + np.arange(count) * step, 0, size - 1)


def linear_axis(ctx: Context, x, axis: int, places: np.ndarray):
    """Interpolate linearly at fixed positions along an axis."""
    low = np.floor(places).astype("int32")
    share = (places - low).astype("float32")
    out = relay.take(x, constant(low), axis)
    if not share.any():
        return out
    high = np.minimum(low + 1, ctx.known_size(x, axis) - 1)
    share = share.reshape([-1 if a == axis else 1 for a in range(ctx.rank(x))])
    other = relay.take(x, constant(high, "int32"), axis)
    return relay.add(relay.multiply(out, constant(1 - share)), relay.multiply(other, constant(share)))


@half
def resized_linear(ctx: Context, x, sizes: list[int], mode: str):
    """Resize the last dimensions with linear interpolation."""
    rank = ctx.rank(x)
    for i, count in enumerate(sizes):
        axis = axis_of(i - len(sizes), rank)
        size = ctx.known_size(x, axis)
        # With an equal number of positions the positions may still differ from those of the elements.
        places = grid(mode, size, count)
        if count != size or not np.array_equal(places, np.arange(size)):
            x = ctx.made(linear_axis(ctx, x, axis, places))
    return x


def resized_nearest(ctx: Context, x, sizes: list[int]):
    rank = ctx.rank(x)
    for i, count in enumerate(sizes):
        axis = axis_of(i - len(sizes), rank)
        size = ctx.known_size(x, axis)
        check_count("an axis", [count])
        if count != size:
            x = ctx.made(relay.take(x, constant(np.arange(count) * size // max(count, 1), "int32"), axis))
    return x


def grown_sizes(ctx: Context, x, factors) -> list[int]:
    if ctx.rank(x) < len(factors) or any(not 0 < f < 1 << 24 for f in factors):
        raise TVMError(f"scale factors {factors} do not match a tensor of {ctx.rank(x)} dimensions")
    rank = ctx.rank(x)
    return [int(np.floor(ctx.known_size(x, rank - len(factors) + i) * f)) for i, f in enumerate(factors)]


@op("upsample_nearest_neighbor")
def upsample_nearest_neighbor(ctx, x, scale_factor_height: float = 1.0, scale_factor_width: float = 1.0):
    return resized_nearest(ctx, x, grown_sizes(ctx, x, [scale_factor_height, scale_factor_width]))


@op("resize_nearest_neighbor")
def resize_nearest_neighbor(ctx, x, target_size_height: int, target_size_width: int):
    return resized_nearest(ctx, x, [target_size_height, target_size_width])


@op("upsample_bilinear")
def upsample_bilinear(ctx, x, scale_factor_height: float = 1.0, scale_factor_width: float = 1.0,
                      align_corners: bool = True, half_pixel_centers: bool | None = None):  # fmt: skip
    centred = not align_corners if half_pixel_centers is None else half_pixel_centers
    if align_corners and centred:
        raise TVMError("align_corners and half_pixel_centers exclude each other")
    mode = "STRICT_ALIGN_CORNERS" if align_corners else "UNALIGN_CORNERS" if centred else "DEFAULT"
    return resized_linear(ctx, x, grown_sizes(ctx, x, [scale_factor_height, scale_factor_width]), mode)


@op("resize_bilinear")
def resize_bilinear(ctx, x, target_size_height: int = 1, target_size_width: int = 1, sampling_mode: str = "DEFAULT"):
    return resized_linear(ctx, x, [target_size_height, target_size_width], sampling_mode)


@op("resize")
def resize(ctx, x, shape: Ints, resized_dims: int, interpolation_mode: str = "LINEAR", sampling_mode: str = "DEFAULT"):
    rank = ctx.rank(x)
    if not 0 <= resized_dims <= min(len(shape), rank):
        raise TVMError(f"{resized_dims} dimensions of a tensor of {rank} dimensions cannot be resized to {shape}")
    wanted = shape[len(shape) - resized_dims :]
    sizes = [w or ctx.known_size(x, rank - resized_dims + i) for i, w in enumerate(wanted)]
    if interpolation_mode == "LINEAR":
        return resized_linear(ctx, x, sizes, sampling_mode)
    if interpolation_mode != "NEAREST_NEIGHBOR" or sampling_mode != "DEFAULT":
        raise TVMError(f"interpolation {interpolation_mode} with sampling {sampling_mode} is not supported")
    return resized_nearest(ctx, x, sizes)


# -- cropping ---------------------------------------------------------------------------------------------------------


@op("crop")
def crop(ctx, x, crop_height: Ints, crop_width: Ints):
    rank = ctx.rank(x)
    (top, bottom), (left, right) = crop_height, crop_width
    height, width = ctx.known_size(x, rank - 2), ctx.known_size(x, rank - 1)
    if min(top, bottom, left, right) < 0 or top + bottom >= height or left + right >= width:
        raise TVMError(f"cannot crop {crop_height} and {crop_width} from an image of {height} x {width}")
    return relay.strided_slice(x, [top, left], [height - bottom, width - right], [1, 1], [rank - 2, rank - 1])


BOXES = ("CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST", "CENTER_SIZE_HEIGHT_FIRST", "CENTER_SIZE_WIDTH_FIRST")


class Boxes:
    """Boxes as the first and last positions along height and width, each a vector."""

    def __init__(self, ctx: Context, boxes, mode: str, sizes: tuple[int, int], normalized: bool, scale: float):
        if mode not in BOXES:
            raise TVMError(f"the box coordinate mode '{mode}' is not supported")
        columns = [relay.squeeze(c, [1]) for c in relay.split(boxes, 4, 1)]
        if mode.endswith("WIDTH_FIRST"):
            columns = [columns[1], columns[0], columns[3], columns[2]]
        if mode.startswith("CENTER"):
            reach = [relay.multiply(c, const(0.5, "float32")) for c in columns[2:]]
            columns = [relay.subtract(c, r) for c, r in zip(columns[:2], reach)] + [
                relay.add(c, r) for c, r in zip(columns[:2], reach)]  # fmt: skip
        factors = [scale * (s - 1 if normalized else 1) for s in sizes]
        self.ctx, self.sizes = ctx, sizes
        self.first = [relay.multiply(c, const(f, "float32")) for c, f in zip(columns[:2], factors)]
        self.last = [relay.multiply(c, const(f, "float32")) for c, f in zip(columns[2:], factors)]

    def places(self, side: int, mode: str, count: int):
        """Return the sampling positions of one side of each box: one row for each box."""
        low, high = self.first[side], self.last[side]
        width = relay.subtract(high, low)
        size = relay.add(width, const(1.0, "float32"))
        inner = relay.maximum(width, const(1.0, "float32")) if mode == "OFFSET_CORNERS" else width

        def at(rule):
            a, b, c = (const(float(v), "float32") for v in rule)
            return relay.add(relay.add(relay.multiply(inner, a), relay.multiply(size, b)), c)

        first, step = (relay.expand_dims(at(rule), 1) for rule in spacing(mode, count))
        points = relay.add(first, relay.multiply(step, constant(np.arange(count)[None], "float32")))
        # Clamp the positions to the box.
        points = relay.maximum(relay.minimum(points, relay.expand_dims(width, 1)), const(0.0, "float32"))
        return self.ctx.made(relay.add(points, relay.expand_dims(low, 1)))


def _sampled(ctx: Context, x, places, axis: int, size: int, batch: int):
    """Interpolate linearly along an axis at computed positions.

    ``batch`` is the number of leading axes that ``x`` and the positions share.
    """
    inside = relay.clip(places, 0.0, float(size - 1))
    low = relay.floor(inside)
    share = relay.subtract(inside, low)
    first = ctx.made(relay.cast(low, "int32"))
    second = ctx.made(relay.minimum(relay.add(first, const(1, "int32")), const(size - 1, "int32")))
    parts = [ctx.made(relay.take(x, i, axis, batch)) for i in (first, second)]
    count, boxes = ctx.known_shape(places)[1], ctx.known_shape(places)[0]
    rank = ctx.rank(parts[0])
    at = axis + (0 if batch else 1)
    column = [boxes if a == (0 if batch else axis) else count if a == at else 1 for a in range(rank)]
    share = relay.reshape(share, column)
    rest = relay.subtract(const(1.0, "float32"), share)
    return ctx.made(relay.add(relay.multiply(parts[0], rest), relay.multiply(parts[1], share)))


@half
def cropped(ctx: Context, x, boxes, sizes: tuple[int, int], normalized: bool, scale: float, mode: str, sampling: str,
            pad_value: float | None = None):  # fmt: skip
    """Crop the boxes of all images and resize them. Return a tensor [boxes, batch, channels, height, width]."""
    check_count("the output", [*ctx.known_shape(x)[:2], ctx.known_shape(boxes)[0], *sizes])
    if min(sizes) < 1:
        raise TVMError(f"cropping to size {sizes} is not supported")
    height, width = ctx.known_shape(x)[2:]
    found = Boxes(ctx, boxes, mode, (height, width), normalized, scale)
    rows, columns = (found.places(side, sampling, count) for side, count in enumerate(sizes))
    # [batch, channels, boxes, rows, width], then transpose the boxes to the front.
    out = _sampled(ctx, x, rows, 2, height, 0)
    out = _sampled(ctx, ctx.made(relay.transpose(out, (2, 0, 1, 3, 4))), columns, 4, width, 1)
    if pad_value is None:
        return out
    outside = [relay.logical_or(relay.less(p, const(0.0, "float32")), relay.greater(p, const(float(s - 1), "float32")))
               for p, s in ((rows, height), (columns, width))]  # fmt: skip
    count = ctx.known_shape(boxes)[0]
    columns_of = ((count, 1, 1, sizes[0], 1), (count, 1, 1, 1, sizes[1]))
    spread = [relay.reshape(e, shape) for e, shape in zip(outside, columns_of)]
    return relay.where(relay.logical_or(*spread), const(pad_value, "float32"), out)


@op("crop_resize")
def crop_resize(ctx, x, roi=None, boxes=None, box_indices=None, target_height: int = 1, target_width: int = 1,
                normalized_coordinates: bool = False, spatial_scale: float = 1.0,
                box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST", sampling_mode: str = "DEFAULT",
                pad_value: float | None = None):  # fmt: skip
    sizes = (target_height, target_width)
    if roi is not None:
        return cropped_regions(ctx, x, roi, sizes, normalized_coordinates, spatial_scale, box_coordinate_mode,
                               sampling_mode, pad_value)  # fmt: skip
    if boxes is None:
        raise TVMError("the input 'boxes' is missing")
    out = cropped(ctx, x, boxes, sizes, normalized_coordinates, spatial_scale, box_coordinate_mode, sampling_mode,
                  pad_value)  # fmt: skip
    if box_indices is None:
        if ctx.known_shape(boxes)[0] != ctx.known_shape(x)[0]:
            raise TVMError("without box_indices the number of boxes must equal the batch size")
        box_indices = constant(np.arange(ctx.known_shape(x)[0]), "int32")
    places = relay.expand_dims(relay.reshape(ctx.indices(box_indices), (-1,)), 1)
    return relay.squeeze(relay.take(out, places, 1, 1), [1])


def cropped_regions(ctx: Context, x, roi, sizes, normalized: bool, scale: float, mode: str, sampling: str,
                    pad_value: float | None = None):  # fmt: skip
    """Crop regions of shape [N, 1, 4, 1, 1], or [N, 1, 5, 1, 1] with the image index first."""
    shape = ctx.known_shape(roi)
    if len(shape) != 5 or shape[2] not in (4, 5) or shape[1] * shape[3] * shape[4] != 1:
        raise TVMError(f"regions of shape {shape} are not supported")
    rows = ctx.made(relay.reshape(roi, (shape[0], shape[2])))
    if shape[2] == 4:
        return cropped(ctx, x, rows, sizes, normalized, scale, mode, sampling, pad_value)
    image = ctx.made(relay.cast(relay.strided_slice(rows, [0], [1], [1], [1]), "int32"))
    boxes = ctx.made(relay.strided_slice(rows, [1], [5], [1], [1]))
    out = cropped(ctx, x, boxes, sizes, normalized, scale, mode, sampling, pad_value)
    return relay.take(out, image, 1, 1)


# -- sampling ---------------------------------------------------------------------------------------------------------


def _zeros_only(padding_mode: str, padding_value: float) -> str:
    if padding_mode == "constant" and padding_value == 0:
        return "zeros"
    if padding_mode == "border":
        return "border"
    raise TVMError(f"padding mode '{padding_mode}' with value {padding_value} is not supported")


@op("resample")
@half
def resample(ctx, x, coordinates, sampling_mode: str, padding_mode: str, padding_value: float, coordinates_mode: str,
             align_corners: bool):  # fmt: skip
    coordinates = ctx.cast(coordinates, "float32")
    sizes = np.array(ctx.known_shape(x)[:1:-1], "float32")
    if coordinates_mode == "unnormalized":
        coordinates = relay.subtract(relay.multiply(coordinates, constant(2 / np.maximum(sizes - 1, 1), "float32")),
                                     const(1.0, "float32"))  # fmt: skip
        align_corners = True
    elif coordinates_mode == "normalized_zero_to_one":
        coordinates = relay.subtract(relay.multiply(coordinates, const(2.0, "float32")), const(1.0, "float32"))
    elif coordinates_mode != "normalized_minus_one_to_one":
        raise TVMError(f"the coordinates mode '{coordinates_mode}' is not supported")
    if sampling_mode not in ("bilinear", "nearest"):
        raise TVMError(f"the sampling mode '{sampling_mode}' is not supported")
    points = relay.transpose(coordinates, (0, 3, 1, 2))
    return relay.image.grid_sample(x, points, sampling_mode, "NCHW", _zeros_only(padding_mode, padding_value),
                                   align_corners)  # fmt: skip


@op("affine")
@half
def affine(ctx, x, transform_matrix, output_height: int, output_width: int, sampling_mode: str, padding_mode: str,
           padding_value: float, coordinates_mode: str, align_corners: bool):  # fmt: skip
    if sampling_mode != "bilinear" or coordinates_mode != "normalized_minus_one_to_one" or not align_corners:
        raise TVMError(f"sampling mode '{sampling_mode}' with coordinates mode '{coordinates_mode}' is not supported")
    count, batch = ctx.known_shape(transform_matrix)[0], ctx.known_shape(x)[0]
    matrix = relay.reshape(transform_matrix, (count, 2, 3))
    matrix = relay.broadcast_to(matrix, (batch, 2, 3)) if count != batch else matrix
    points = relay.image.affine_grid(matrix, (output_height, output_width))
    return relay.image.grid_sample(x, points, "bilinear", "NCHW", _zeros_only(padding_mode, padding_value), True)


__all__ = ["BOXES", "crop", "cropped_regions", "grown_sizes", "resized_linear", "resized_nearest"]
