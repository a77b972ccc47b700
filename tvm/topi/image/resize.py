"""Resizing along one, two or three axes, as defined by ONNX and the frameworks.

If only sizes are given, the position of an output element between input elements is a fraction of integers, and integer
division finds it without rounding errors. The position is a float for scales that are not a ratio of the sizes, for
regions, and for dynamic sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import te, tir
from ...dtype import canonical, info
from ...error import ExprTypeError, ExprValueError
from ...ir import primop
from ...ir.prim import IntImm, PrimExpr, const, convert
from ...target.layout import Layout
from .. import tag, utils
from ..assumptions import agree, assume, refuse_empty
from ..indexing import as_index
from ..utils import check_tensor

METHODS = ("nearest_neighbor", "linear", "cubic")
MODES = (
    "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn", "tf_crop_and_resize",
    "half_pixel_symmetric",
)  # fmt: skip
ROUNDING = ("", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


class Place:
    """The position of an output element along one axis: ``numerator / denominator`` exactly, or the float
    ``position``."""

    def __init__(self, numerator: PrimExpr | None = None, denominator: int = 1, position: PrimExpr | None = None):
        self.numerator, self.denominator, self.position = numerator, denominator, position

    def floor(self, halves: int = 0, up: bool = False) -> PrimExpr:
        """Return the position plus ``halves`` halves as an integer, rounded down (or up)."""
        if self.numerator is not None:
            top, bottom = self.numerator, self.denominator
            if halves:
                top, bottom = top * 2 + bottom * halves, bottom * 2
            return -((-top) // bottom) if up else top // bottom
        # A position that is an integer except for rounding errors is treated as an integer.
        shifted = self.position + const(0.5 * halves, "float32")
        nudge = const(1e-5 if not up else -1e-5, "float32")
        return primop.cast("int32", te.ceil(shifted + nudge) if up else te.floor(shifted + nudge))

    def split(self, dtype: str) -> tuple[PrimExpr, PrimExpr]:
        """Return the integer part of the position, rounded down, and the fraction."""
        if self.numerator is not None:
            low = self.numerator // self.denominator
            rest = self.numerator - low * self.denominator
            return low, primop.cast(dtype, rest) * const(1.0 / self.denominator, dtype)
        low = te.floor(self.position)
        return primop.cast("int32", low), primop.cast(dtype, self.position - low)


def _ratio(coefficient: int, start: int, denominator: int, index: PrimExpr) -> Place:
    """Return (coefficient * index + start) / denominator in lowest terms."""
    common = math.gcd(coefficient, start, denominator)
    coefficient, start, denominator = coefficient // common, start // common, denominator // common
    return Place(index * coefficient + start, denominator)


class Axis:
    """One resized axis: its sizes, its scale, and the mapping of coordinates."""

    def __init__(self, size: PrimExpr, out: PrimExpr, mode: str, scale: float | None, region: tuple | None):
        self.size, self.out, self.mode, self.region = size, out, mode, region
        known = isinstance(size, IntImm) and isinstance(out, IntImm)
        if scale is not None and known and abs(size.value * scale - out.value) < 1e-4 * scale:
            scale = None
        self.scale = scale
        self.exact = known and scale is None and mode != "tf_crop_and_resize"

    def place(self, index: PrimExpr) -> Place:
        return self._exact_place(index) if self.exact else Place(position=self._position(index))

    def _exact_place(self, index: PrimExpr) -> Place:
        size, out, mode = self.size.value, self.out.value, self.mode
        if mode == "asymmetric":
            return _ratio(size, 0, out, index)
        if mode == "tf_half_pixel_for_nn":
            return _ratio(2 * size, size, 2 * out, index)
        if mode == "align_corners":
            return _ratio(size - 1, 0, out - 1, index) if out > 1 else Place(const(0, index.dtype))
        if mode == "pytorch_half_pixel" and out <= 1:
            return Place(const(0, index.dtype))
        return _ratio(2 * size, size - out, 2 * out, index)

    def _position(self, index: PrimExpr) -> PrimExpr:
        at = primop.cast("float32", index)
        size, out = primop.cast("float32", self.size), primop.cast("float32", self.out)
        half, one, zero = (const(v, "float32") for v in (0.5, 1.0, 0.0))
        # With a scale, the size of the resized axis may have a fraction, which the output size does not contain.
        scale = out / size if self.scale is None else const(self.scale, "float32")
        whole = out if self.scale is None else size * scale
        if self.mode == "asymmetric":
            return at / scale
        if self.mode == "tf_half_pixel_for_nn":
            return (at + half) / scale
        if self.mode == "align_corners":
            return primop.select(primop.equal(whole, one), zero, at * (size - one) / (whole - one))
        if self.mode == "tf_crop_and_resize":
            begin, end = self.region
            alone = half * (begin + end) * (size - one)
            spread = begin * (size - one) + at * (end - begin) * (size - one) / (out - one)
            return primop.select(primop.equal(self.out, 1), alone, spread)
        centred = (at + half) / scale - half
        if self.mode == "pytorch_half_pixel":
            return primop.select(self.out > 1, centred, zero)
        if self.mode == "half_pixel_symmetric":
            return centred + size * half * (one - out / whole)
        return centred

    def outside(self, place: Place) -> PrimExpr | None:
        """Return the condition that the position is outside the image, or None. It is possible only with a region."""
        if self.mode != "tf_crop_and_resize":
            return None
        last = primop.cast("float32", self.size - 1)
        return tir.any(place.position < const(0.0, "float32"), place.position > last)

    def clamp(self, index: PrimExpr) -> PrimExpr:
        return te.max(te.min(index, self.size - 1), 0)


def _cubic_weight(distance: PrimExpr, alpha: float) -> PrimExpr:
    """Return the weight of an element at this (nonnegative) distance with Keys' cubic kernel."""
    dtype = distance.dtype
    a = const(alpha, dtype)
    near = ((a + const(2, dtype)) * distance - (a + const(3, dtype))) * distance * distance + const(1, dtype)
    far = ((a * distance - const(5 * alpha, dtype)) * distance + const(8 * alpha, dtype)) * distance
    far = far - const(4 * alpha, dtype)
    zero = const(0, dtype)
    return tir.Select(distance <= const(1, dtype), near, tir.Select(distance < const(2, dtype), far, zero))


def _linear_weight(distance: PrimExpr) -> PrimExpr:
    return te.max(const(1, distance.dtype) - distance, const(0, distance.dtype))


class Filter:
    """The interpolation filter along one axis: a list of (index, weight) for each output element."""

    def __init__(self, method: str, rounding: str, alpha: float, exclude: bool, antialias: bool, dtype: str):
        self.method, self.rounding, self.alpha = method, rounding, alpha
        self.exclude, self.antialias, self.dtype = exclude, antialias, dtype

    def taps(self, axis: Axis, place: Place) -> list[tuple[PrimExpr, PrimExpr | None]]:
        if self.method == "nearest_neighbor":
            return [(axis.clamp(self._nearest(place)), None)]
        low, fraction = place.split(self.dtype)
        stretch = self._stretch(axis)
        support = 1 if self.method == "linear" else 2
        first = math.floor(-support / stretch) + 1
        offsets = range(first, 2 - first)
        weights = [self._weight(offset, fraction, stretch) for offset in offsets]
        if self.exclude:
            zero = const(0, self.dtype)
            inside = [tir.all(low + offset >= 0, low + offset < axis.size) for offset in offsets]
            weights = [tir.Select(here, weight, zero) for here, weight in zip(inside, weights)]
        if self.exclude or stretch != 1.0:
            total = weights[0]
            for weight in weights[1:]:
                total = total + weight
            weights = [weight / total for weight in weights]
        return [(axis.clamp(low + offset), weight) for offset, weight in zip(offsets, weights)]

    def _stretch(self, axis: Axis) -> float:
        """Return the ratio of the input's grid spacing to the filter width: less than 1 if an image is shrunk with
        antialiasing."""
        if not self.antialias:
            return 1.0
        if axis.scale is not None:
            return min(1.0, axis.scale)
        return min(1.0, utils.get_const_int(axis.out) / utils.get_const_int(axis.size))

    def _weight(self, offset: int, fraction: PrimExpr, stretch: float) -> PrimExpr:
        if stretch == 1.0 and self.method == "linear":
            return const(1, self.dtype) - fraction if offset == 0 else fraction
        distance = const(offset, self.dtype) - fraction if offset > 0 else fraction - const(offset, self.dtype)
        if stretch != 1.0:
            distance = distance * const(stretch, self.dtype)
        return _linear_weight(distance) if self.method == "linear" else _cubic_weight(distance, self.alpha)

    def _nearest(self, place: Place) -> PrimExpr:
        if self.rounding == "floor":
            return place.floor()
        if self.rounding == "ceil":
            return place.floor(up=True)
        if self.rounding == "round_prefer_floor":
            return place.floor(halves=-1, up=True)
        return place.floor(halves=1)


def _check_options(what: str, method: str, mode: str, rounding: str) -> None:
    for value, known, name in ((method, METHODS, "method"), (mode, MODES, "coordinate transformation mode")):
        if value not in known:
            raise ExprValueError(f"{what}: the {name} must be one of {', '.join(known)}, got '{value}'")
    if rounding not in ROUNDING:
        raise ExprValueError(f"{what}: the rounding method must be one of {', '.join(ROUNDING[1:])}, got '{rounding}'")


def _region(roi: Any, number: int, place: int, what: str) -> tuple[PrimExpr, PrimExpr]:
    if roi is None:
        raise ExprValueError(f"{what}: tf_crop_and_resize needs a region of interest (roi)")
    if isinstance(roi, te.Tensor):
        ends = [roi(place), roi(place + number)]
    else:
        if len(roi) != 2 * number:
            raise ExprValueError(f"{what}: the region of {number} axes needs {2 * number} bounds, got {len(roi)}")
        ends = [convert(float(roi[place])), convert(float(roi[place + number]))]
    return tuple(primop.cast("float32", end) for end in ends)


def _resize(data, letters: str, roi, size, layout, options: dict, out_dtype, output_shape, scales, what: str):
    check_tensor(data, what)
    named = Layout(layout)
    if len(named) != len(data.shape) or any(letter not in named for letter in letters):
        raise ExprValueError(f"{what}: layout {layout} does not describe a tensor of {len(data.shape)} dimensions")
    places = [named.index_of(letter) for letter in letters]
    if output_shape is not None:
        sizes = [convert(output_shape[place]) for place in places]
    else:
        sizes = [convert(v) for v in (size if isinstance(size, (list, tuple)) else [size])]
    if len(sizes) != len(letters) or (scales is not None and len(scales) != len(letters)):
        raise ExprValueError(f"{what}: pass a size (and a scale, if scales are given) for each of {', '.join(letters)}")
    if utils.is_empty_shape([data.shape[place] for place in places]) and not utils.is_empty_shape(sizes):
        raise ExprValueError(f"{what}: an image without elements cannot be resized")
    for place, out in zip(places, sizes):
        assume(tir.any(data.shape[place] > 0, primop.equal(out, 0)), "an image with elements")
    mode = options.pop("mode")
    axes = {}
    for number, (place, out) in enumerate(zip(places, sizes)):
        region = _region(roi, len(letters), number, what) if mode == "tf_crop_and_resize" else None
        scale = None if scales is None else float(scales[number])
        axes[place] = Axis(data.shape[place], out, mode, scale, region)
    extrapolation = options.pop("extrapolation")
    out_dtype = canonical(out_dtype) if out_dtype else data.dtype
    inner = data.dtype if info(data.dtype).is_float and info(data.dtype).bits >= 32 else "float32"
    taking = Filter(**options, dtype=inner)
    if options["antialias"] and options["method"] != "nearest_neighbor":
        return _resize_axis_by_axis(data, axes, taking, inner, out_dtype)
    return _resize_at_once(data, axes, taking, extrapolation, inner, out_dtype)


def _resize_at_once(data, axes: dict[int, Axis], taking: Filter, extrapolation, inner: str, out_dtype: str):
    shape = [axes[place].out if place in axes else dim for place, dim in enumerate(data.shape)]
    nearest = taking.method == "nearest_neighbor"

    def element(*indices):
        found = {place: axis.place(indices[place]) for place, axis in axes.items()}
        taps = [(place, taking.taps(axes[place], where)) for place, where in found.items()]

        def value(number: int, own: list) -> PrimExpr:
            if number == len(taps):
                read = data(*own)
                return read if nearest else primop.cast(inner, read)
            place, choices = taps[number]
            total = None
            for index, weight in choices:
                part = value(number + 1, [*own[:place], index, *own[place + 1 :]])
                part = part if weight is None else part * weight
                total = part if total is None else total + part
            return total

        result = primop.cast(out_dtype, value(0, list(indices)))
        beyond = [axis.outside(found[place]) for place, axis in axes.items()]
        if beyond[0] is not None:
            result = tir.Select(tir.any(*beyond), primop.cast(out_dtype, convert(extrapolation)), result)
        return result

    return te.compute(shape, element, name="T_resize", tag=tag.INJECTIVE)


def _resize_axis_by_axis(data, axes: dict[int, Axis], taking: Filter, inner: str, out_dtype: str):
    """Resize one axis after the other, because wide filters read many elements: the number of reads is the sum of the
    filter widths instead of their product."""
    for number, (place, axis) in enumerate(axes.items()):
        shape = [axis.out if p == place else dim for p, dim in enumerate(data.shape)]
        dtype = out_dtype if number == len(axes) - 1 else inner

        def element(*indices, data=data, place=place, axis=axis, dtype=dtype):
            total = None
            for index, weight in taking.taps(axis, axis.place(indices[place])):
                part = primop.cast(inner, data(*indices[:place], index, *indices[place + 1 :])) * weight
                total = part if total is None else total + part
            return primop.cast(dtype, total)

        data = te.compute(shape, element, name="T_resize", tag=tag.INJECTIVE)
    return data


def _options(what, method, mode, rounding, alpha, exclude, extrapolation, antialias) -> dict:
    _check_options(what, method, mode, rounding)
    if not rounding:
        rounding = "round" if mode == "align_corners" else "floor"
    return {
        "method": method, "mode": mode, "rounding": rounding, "alpha": float(alpha), "exclude": bool(exclude),
        "antialias": bool(antialias), "extrapolation": extrapolation,
    }  # fmt: skip


def resize1d(
    data, roi, size, layout="NCW", method="linear", coordinate_transformation_mode="half_pixel", rounding_method="",
    bicubic_alpha=-0.5, bicubic_exclude=0, extrapolation_value=0.0, out_dtype=None, output_shape=None, scales=None,
    antialias=False,
):  # fmt: skip
    """``data`` resized along W. See resize2d."""
    options = _options(
        "resize1d", method, coordinate_transformation_mode, rounding_method, bicubic_alpha, bicubic_exclude,
        extrapolation_value, antialias,
    )  # fmt: skip
    return _resize(data, "W", roi, size, layout, options, out_dtype, output_shape, scales, "resize1d")


def resize2d(
    data, roi, size, layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel", rounding_method="",
    bicubic_alpha=-0.5, bicubic_exclude=0, extrapolation_value=0.0, out_dtype=None, output_shape=None, scales=None,
    antialias=False,
):  # fmt: skip
    """``data`` resized along H and W to ``size``.

    ``scales`` are the requested factors if ``size`` was rounded. ``roi`` (starts, then ends, as fractions of each axis)
    is used by tf_crop_and_resize. ``antialias`` widens the filter if the image shrinks.
    """
    options = _options(
        "resize2d", method, coordinate_transformation_mode, rounding_method, bicubic_alpha, bicubic_exclude,
        extrapolation_value, antialias,
    )  # fmt: skip
    return _resize(data, "HW", roi, size, layout, options, out_dtype, output_shape, scales, "resize2d")


def resize3d(
    data, roi, size, layout="NCDHW", method="linear", coordinate_transformation_mode="half_pixel", rounding_method="",
    bicubic_alpha=-0.5, bicubic_exclude=0, extrapolation_value=0.0, out_dtype=None, output_shape=None, scales=None,
    antialias=False,
):  # fmt: skip
    """``data`` resized along D, H and W. See resize2d."""
    options = _options(
        "resize3d", method, coordinate_transformation_mode, rounding_method, bicubic_alpha, bicubic_exclude,
        extrapolation_value, antialias,
    )  # fmt: skip
    return _resize(data, "DHW", roi, size, layout, options, out_dtype, output_shape, scales, "resize3d")


def crop_and_resize(
    data, boxes, box_indices, crop_size, layout="NCHW", method="bilinear", extrapolation_value=None, out_dtype=None
):
    """For each box (y1, x1, y2, x2, as fractions of height and width): the part of the image with the box's index
    inside the box, resized to ``crop_size``.

    Raises
    ------
    ExprValueError
        The layout or the method is unknown.
    ExprTypeError
        The boxes are not rows of four values, or there is not one index for each box.
    """
    for tensor in (data, boxes, box_indices):
        check_tensor(tensor, "crop_and_resize")
    if layout not in ("NCHW", "NHWC") or len(data.shape) != 4:
        raise ExprValueError(
            f"crop_and_resize: images must be NCHW or NHWC, got {layout} and {len(data.shape)} dimensions"
        )
    if method not in ("bilinear", "nearest_neighbor"):
        raise ExprValueError(f"crop_and_resize: the method must be bilinear or nearest_neighbor, got '{method}'")
    if len(boxes.shape) != 2 or len(box_indices.shape) != 1:
        raise ExprTypeError("crop_and_resize: boxes must be rows of four values, with one index for each row")
    if not agree(boxes.shape[0], box_indices.shape[0], "equal numbers of boxes and indices"):
        raise ExprTypeError(f"crop_and_resize: there are {boxes.shape[0]} boxes, but {box_indices.shape[0]} indices")
    at_h = layout.index("H")
    height, width = data.shape[at_h], data.shape[at_h + 1]
    sizes = [convert(v) for v in crop_size]
    out_dtype = canonical(out_dtype) if out_dtype else data.dtype
    shape = list(data.shape)
    shape[0], shape[at_h], shape[at_h + 1] = boxes.shape[0], *sizes
    refuse_empty(data.shape[0], shape, "crop_and_resize")
    outside = convert(0.0 if extrapolation_value is None else float(extrapolation_value))
    taking = Filter("linear" if method == "bilinear" else method, "round", -0.5, False, False, "float32")

    def element(*indices):
        box = indices[0]
        image = as_index(box_indices(box))
        spans = [(boxes(box, n), boxes(box, n + 2)) for n in (0, 1)]
        axes = [
            Axis(dim, out, "tf_crop_and_resize", None, tuple(primop.cast("float32", end) for end in span))
            for dim, out, span in zip((height, width), sizes, spans)
        ]
        found = [axis.place(indices[at_h + n]) for n, axis in enumerate(axes)]
        rows, columns = (taking.taps(axis, place) for axis, place in zip(axes, found))
        image = te.max(te.min(image, data.shape[0] - 1), 0)
        total = _weighted(data, (image, *indices[1:]), at_h, rows, columns)
        beyond = [axis.outside(place) for axis, place in zip(axes, found)]
        return tir.Select(tir.any(*beyond), primop.cast(out_dtype, outside), primop.cast(out_dtype, total))

    return te.compute(shape, element, name="T_crop_and_resize", tag=tag.INJECTIVE)


def _weighted(data: te.Tensor, indices: Sequence, at: int, rows: list, columns: list) -> PrimExpr:
    total = None
    for row, row_weight in rows:
        for column, column_weight in columns:
            part = primop.cast("float32", data(*indices[:at], row, column, *indices[at + 2 :]))
            if row_weight is not None:
                part = part * row_weight * column_weight
            total = part if total is None else total + part
    return total
