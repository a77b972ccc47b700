"""Reference grid sampling, one position at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np


def affine_grid_python(data, target_shape, align_corners=True):
    """The product of the matrices and the positions of an image, which range from -1 to 1."""

    def places(size):
        if align_corners:
            return np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
        return (2 * np.arange(size) + 1) / size - 1

    axes = np.meshgrid(*[places(size) for size in target_shape], indexing="ij")
    columns = np.stack([axis.ravel() for axis in reversed(axes)] + [np.ones(axes[0].size)])
    grid = data.astype("float64") @ columns
    return grid.reshape(data.shape[0], len(target_shape), *target_shape).astype(data.dtype)


def _reflect(x: float, low: float, high: float) -> float:
    if low == high:
        return 0.0
    while not low <= x <= high:
        x = 2 * low - x if x < low else 2 * high - x
    return x


def _bound(x: float, size: int, padding: str, align: bool) -> float:
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflect(x, 0.0, size - 1.0) if align else _reflect(x, -0.5, size - 0.5)
    return min(max(x, 0.0), size - 1.0)


def _cubic(d: float) -> float:
    d, a = abs(d), -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def _taps(place: float, size: int, method: str, padding: str, align: bool) -> list[tuple[int, float]]:
    x = (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2
    if method == "nearest":
        return [(int(np.rint(_bound(x, size, padding, align))), 1.0)]
    if method == "bilinear":
        x = _bound(x, size, padding, align)
        low = math.floor(x)
        return [(low, low + 1 - x), (low + 1, x - low)]
    low = math.floor(x)
    return [(int(_bound(low + n, size, padding, align)), _cubic(x - low - n)) for n in (-1, 0, 1, 2)]


def grid_sample_python(data, grid, method="bilinear", layout="NCHW", padding_mode="zeros", align_corners=True):
    """The samples of ``data``; ``grid`` (N, d, out...) contains x, y (, z) of each position along its second axis."""
    number = len(layout) - 2
    out = np.zeros((*data.shape[:2], *grid.shape[2:]), "float64")
    for n in range(data.shape[0]):
        for at in np.ndindex(*grid.shape[2:]):
            taps = [
                _taps(
                    float(grid[(n, number - 1 - axis, *at)]), data.shape[2 + axis], method, padding_mode, align_corners
                )
                for axis in range(number)
            ]
            for picked in itertools.product(*taps):
                place = tuple(index for index, _ in picked)
                if all(0 <= index < size for index, size in zip(place, data.shape[2:])):
                    weight = math.prod(weight for _, weight in picked)
                    out[(n, slice(None), *at)] += weight * data[(n, slice(None), *place)]
    return out.astype(data.dtype)
