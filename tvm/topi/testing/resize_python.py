"""Reference resizing with one matrix of weights for each axis, computed element by element from the definition."""

from __future__ import annotations

import math

import numpy as np


def _coordinate(x: int, size: int, out: int, scale: float, mode: str, region) -> float:
    whole = size * scale
    if mode == "align_corners":
        return 0.0 if whole == 1 or out == 1 else x * (size - 1) / (whole - 1)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        begin, end = region
        if out == 1:
            return 0.5 * (begin + end) * (size - 1)
        return begin * (size - 1) + x * (end - begin) * (size - 1) / (out - 1)
    if mode == "pytorch_half_pixel" and out <= 1:
        return 0.0
    shift = size / 2 * (1 - out / whole) if mode == "half_pixel_symmetric" else 0.0
    return shift + (x + 0.5) / scale - 0.5


def _nearest(x: float, rounding: str) -> int:
    # Coordinates that are integers except for float64 rounding errors are treated as integers.
    x = round(x, 9)
    if rounding == "floor":
        return math.floor(x)
    if rounding == "ceil":
        return math.ceil(x)
    return math.ceil(x - 0.5) if rounding == "round_prefer_floor" else math.floor(x + 0.5)


def _kernel(distance: float, method: str, alpha: float) -> float:
    d = abs(distance)
    if method == "linear":
        return max(0.0, 1.0 - d)
    if d <= 1:
        return (alpha + 2) * d**3 - (alpha + 3) * d**2 + 1
    return alpha * d**3 - 5 * alpha * d**2 + 8 * alpha * d - 4 * alpha if d < 2 else 0.0


def resize_matrix(size, out, scale, method, mode, rounding="", alpha=-0.5, exclude=False, antialias=False, region=None):
    """Return (weights (out, size), mask of the outputs outside the input)."""
    weights, beyond = np.zeros((out, size)), np.zeros(out, bool)
    rounding = rounding or ("round" if mode == "align_corners" else "floor")
    for x in range(out):
        at = _coordinate(x, size, out, scale, mode, region)
        beyond[x] = mode == "tf_crop_and_resize" and not 0 <= at <= size - 1
        if method == "nearest_neighbor":
            weights[x, min(max(_nearest(at, rounding), 0), size - 1)] = 1
            continue
        stretch = min(1.0, scale) if antialias else 1.0
        reach = math.ceil((1 if method == "linear" else 2) / stretch) + 1
        row = {}
        for place in range(math.floor(at) - reach, math.floor(at) + reach + 2):
            weight = _kernel((place - at) * stretch, method, alpha)
            if weight and not (exclude and not 0 <= place < size):
                row[place] = weight
        total = sum(row.values()) if (exclude or stretch != 1.0) else 1.0
        for place, weight in row.items():
            weights[x, min(max(place, 0), size - 1)] += weight / total
    return weights, beyond


def _resize(data, scale, letters, layout, method, mode, size=None, extrapolation=0.0, roi=None, **options):
    result, outside = data.astype("float64"), None
    for number, letter in enumerate(letters):
        axis = layout.index(letter)
        own = data.shape[axis]
        out = int(round(own * scale[number])) if size is None else size[number]
        region = None if roi is None else (roi[number], roi[number + len(letters)])
        # The operators get only the sizes. If a factor does not give an integer size, they use the factor of the
        # rounded size.
        factor = out / own if size is None else scale[number]
        weights, beyond = resize_matrix(own, out, factor, method, mode, region=region, **options)
        result = np.moveaxis(np.tensordot(weights, result, (1, axis)), 0, axis)
        mask = beyond.reshape([-1 if n == axis else 1 for n in range(data.ndim)])
        outside = mask if outside is None else outside | mask
    result = np.where(outside, extrapolation, result)
    return result.astype(data.dtype)


def resize1d_python(
    data, scale, layout="NCW", method="nearest_neighbor", coordinate_transformation_mode="align_corners", **options
):
    return _resize(data, scale, "W", layout, method, coordinate_transformation_mode, **options)


def resize2d_python(
    data, scale, layout="NCHW", method="nearest_neighbor", coordinate_transformation_mode="align_corners", **options
):
    return _resize(data, scale, "HW", layout, method, coordinate_transformation_mode, **options)


def resize3d_python(
    data, scale, layout="NCDHW", method="nearest_neighbor", coordinate_transformation_mode="align_corners", **options
):
    return _resize(data, scale, "DHW", layout, method, coordinate_transformation_mode, **options)


def crop_and_resize_python(image, boxes, box_indices, crop_size, layout, method="bilinear", extrapolation_value=0):
    """Each box, resized separately."""
    height = layout.index("H")
    parts = []
    for box, index in zip(boxes, box_indices):
        one = image[index : index + 1]
        parts.append(
            _resize(
                one,
                (1.0, 1.0),
                "HW",
                layout,
                "linear" if method == "bilinear" else method,
                "tf_crop_and_resize",
                size=crop_size,
                extrapolation=extrapolation_value,
                roi=list(box),
                rounding="round",
            )  # fmt: skip
        )
    shape = list(image.shape)
    shape[height : height + 2] = crop_size
    return np.concatenate(parts, 0) if parts else np.zeros([0, *shape[1:]], image.dtype)
