"""Sampling of images at the positions of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ... import te, tir
from ...error import ExprValueError
from ...ir import primop
from ...ir.prim import PrimExpr, const
from .. import tag
from ..assumptions import agree
from ..utils import check_tensor, get_const_int
from .resize import _cubic_weight

_LAYOUTS = {"NCHW": 2, "NCDHW": 3}
_METHODS = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def affine_grid(data, target_shape, align_corners=True):
    """The grid for grid_sample that maps each position of an image of ``target_shape`` by the affine matrices (N, d, d
    + 1). Positions range from -1 to 1, which are the centers of the outermost elements or the edges of the image.

    Raises
    ------
    ExprValueError
        There are not two or three sizes, or the data is not a batch of matrices.
    """
    check_tensor(data, "affine_grid")
    target = [get_const_int(size) for size in target_shape]
    number = len(target)
    if number not in (2, 3) or len(data.shape) != 3:
        raise ExprValueError(
            f"affine_grid: data must be matrices (N, d, d + 1) with d sizes, and d must be 2 or 3; got {number} sizes"
        )

    def element(n, coordinate, *indices):
        # Coordinates are ordered from the last axis: x, y, z.
        value = data(n, coordinate, number)
        for place, (index, size) in enumerate(zip(reversed(indices), reversed(target))):
            value = value + data(n, coordinate, place) * _centred(index, size, align_corners, data.dtype)
        return value

    return te.compute((data.shape[0], number, *target), element, name="T_affine_grid", tag=tag.INJECTIVE)


def _centred(index: PrimExpr, size: int, align_corners: bool, dtype: str) -> PrimExpr:
    """Return an index as a position between -1 and 1."""
    at = primop.cast(dtype, index)
    if align_corners:
        return at * const(2.0 / (size - 1), dtype) - const(1, dtype) if size > 1 else const(0, dtype)
    return (at * const(2, dtype) + const(1, dtype)) * const(1.0 / size, dtype) - const(1, dtype)


class _Sampler:
    """The treatment of positions outside an axis, and of positions between elements."""

    def __init__(self, padding_mode: str, align_corners: bool, dtype: str):
        self.padding, self.align, self.dtype = padding_mode, align_corners, dtype

    def number(self, value: float) -> PrimExpr:
        return const(value, self.dtype)

    def position(self, place: PrimExpr, size: PrimExpr) -> PrimExpr:
        """Convert a position between -1 and 1 to element units."""
        length, one, half = primop.cast(self.dtype, size), self.number(1), self.number(0.5)
        if self.align:
            return (place + one) * half * (length - one)
        return ((place + one) * length - one) * half

    def bounded(self, position: PrimExpr, size: PrimExpr) -> PrimExpr:
        """Return the position after padding: clamped or reflected at the borders; zero padding does not change it."""
        if self.padding == "zeros":
            return position
        last = primop.cast(self.dtype, size) - self.number(1)
        if self.padding == "reflection":
            low = self.number(0.0 if self.align else -0.5)
            span = last if self.align else last + self.number(1)
            away = te.abs(position - low)
            turns = te.floor(away / te.max(span, self.number(1e-20)))
            rest = away - turns * span
            even = primop.equal(turns - self.number(2) * te.floor(turns * self.number(0.5)), self.number(0))
            position = tir.Select(even, rest + low, span - rest + low)
            position = tir.Select(primop.equal(span, self.number(0)), self.number(0), position)
        return te.min(te.max(position, self.number(0)), last)

    def taps(self, place: PrimExpr, size: PrimExpr, method: str) -> list[tuple[PrimExpr, PrimExpr | None]]:
        """Return (index, weight) of the elements around a position. Indices may be outside the image only with zero
        padding."""
        position = self.position(place, size)
        if method == "nearest":
            return [(self._index(te.nearbyint(self.bounded(position, size))), None)]
        if method == "bilinear":
            position = self.bounded(position, size)
            low = te.floor(position)
            share = position - low
            return [(self._index(low), self.number(1) - share), (self._index(low) + 1, share)]
        low = te.floor(position)
        share = position - low
        taps = []
        for offset in (-1, 0, 1, 2):
            at = self.bounded(low + self.number(offset), size)
            distance = self.number(offset) - share if offset > 0 else share - self.number(offset)
            taps.append((self._index(at), _cubic_weight(distance, -0.75)))
        return taps

    def _index(self, position: PrimExpr) -> PrimExpr:
        # Clamp distant positions first: they are outside anyway, and floats beyond int32 cannot be converted.
        near = te.min(te.max(position, self.number(-4.0)), self.number(2.0**24))
        return primop.cast("int32", near)


def grid_sample(data, grid, method="bilinear", layout="NCHW", padding_mode="zeros", align_corners=True):
    """The elements of ``data`` at the positions of ``grid`` (N, d, out...), whose second axis is x, y (, z) from -1 to
    1.

    Raises
    ------
    ExprValueError
        The layout, method or padding mode is unknown, or the grid does not fit the data.
    """
    check_tensor(data, "grid_sample"), check_tensor(grid, "grid_sample")
    if layout not in _LAYOUTS or len(data.shape) != _LAYOUTS[layout] + 2:
        raise ExprValueError(
            f"grid_sample: the layout must be NCHW or NCDHW, got {layout} and {len(data.shape)} dimensions"
        )
    for value, known, name in ((method, _METHODS, "method"), (padding_mode, _PADDING, "padding mode")):
        if value not in known:
            raise ExprValueError(f"grid_sample: the {name} must be one of {', '.join(known)}, got '{value}'")
    number = _LAYOUTS[layout]
    if method == "bicubic" and number == 3:
        raise ExprValueError("grid_sample: bicubic supports only images with two spatial axes")
    if len(grid.shape) != number + 2 or get_const_int(grid.shape[1]) != number:
        raise ExprValueError(
            f"grid_sample: the grid for {layout} must have shape (N, {number}, out...), got {list(grid.shape)}"
        )
    sampler = _Sampler(padding_mode, align_corners, grid.dtype)
    sizes = data.shape[2:]

    def element(*indices):
        n, channel, out = indices[0], indices[1], indices[2:]
        choices = [sampler.taps(grid(n, number - 1 - axis, *out), sizes[axis], method) for axis in range(number)]
        total = None
        for picked in itertools.product(*choices):
            part = _read(data, (n, channel), [index for index, _ in picked], sizes)
            for _, weight in picked:
                part = part if weight is None else part * primop.cast(data.dtype, weight)
            total = part if total is None else total + part
        return total

    shape = [data.shape[0], data.shape[1], *grid.shape[2:]]
    if not agree(data.shape[0], grid.shape[0], "images against grids"):
        raise ExprValueError(f"grid_sample: the data has {data.shape[0]} images, but there are {grid.shape[0]} grids")
    return te.compute(shape, element, name="T_grid_sample", tag=tag.INJECTIVE)


def _read(data: te.Tensor, front: tuple, places: Sequence[PrimExpr], sizes: Sequence[PrimExpr]) -> PrimExpr:
    """Return an element, or zero outside the image. The second neighbour of a position at the border is outside too;
    its weight is zero."""
    inside = tir.all(*[tir.all(place >= 0, place < size) for place, size in zip(places, sizes)])
    return te.if_then_else(inside, data(*front, *places), const(0, data.dtype))


__all__ = ["affine_grid", "grid_sample"]
