"""Convolutions and dense layers of 8-bit integers in NHWC for processors without wide vectors.

A buffer of one window (the patch) holds the data that an output pixel depends on, so that no padded copy of the image
exists. The weights of ``f`` filters are interleaved in blocks, which the inner loop reads in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import te, tir
from ...error import TVMError
from ...ir.prim import PrimExpr
from ...te.tensor import Tensor
from ..utils import get_const_int, get_const_tuple
from .utils import pads, spatial


class _Window:
    """The geometry of a convolution in NHWC: window, strides, dilations, padding and the size of the output."""

    def __init__(self, what: str, data: Tensor, window: Any, stride: Any, padding: Any, dilation: Any):
        if len(data.shape) != 4:
            raise TVMError(f"{what}: data must have 4 dimensions (NHWC), got {get_const_tuple(data.shape)}")
        self.batch, self.height, self.width, self.channels = get_const_tuple(data.shape)
        names = ((window, "kernel_size"), (stride, "strides"), (dilation, "dilation"))
        self.size, self.strides, self.dilations = (spatial(value, 2, f"{what}: {name}") for value, name in names)
        reach = [(k - 1) * d + 1 for k, d in zip(self.size, self.dilations)]
        self.before, self.after = pads(padding, reach, 2, what)
        rows, columns = (
            (size + lo + hi - span) // step + 1
            for size, lo, hi, span, step in zip((self.height, self.width), self.before, self.after, reach, self.strides)
        )
        self.shape = (self.batch, rows, columns)

    @property
    def taps(self) -> int:
        return self.size[0] * self.size[1]

    @property
    def is_padded(self) -> bool:
        return any((*self.before, *self.after))

    def runs(self, is_whole: bool, run: int | None = None) -> dict[str, Any]:
        """Return the attributes of a patch: its contiguous elements, if its last axis has several taps, the taps of a
        row, and whether it has only the taps of the window."""
        return {"run": run, "columns": self.size[1], "is_whole": is_whole}

    def element(self, data: Tensor, pad_value: int, at: Sequence[PrimExpr], tap: PrimExpr, c: PrimExpr) -> PrimExpr:
        """Return an element of the window of the output pixel ``at``."""
        n, y, x = at
        row, column = te.indexdiv(tap, self.size[1]), te.indexmod(tap, self.size[1])
        h = y * self.strides[0] + row * self.dilations[0] - self.before[0]
        w = x * self.strides[1] + column * self.dilations[1] - self.before[1]
        value = data(n, h, w, c)
        if not self.is_padded:
            return value
        is_inside = te.all(h >= 0, h < self.height, w >= 0, w < self.width)
        return tir.if_then_else(is_inside, value, tir.const(pad_value, data.dtype))


def _filters(what: str, weight: Tensor, terms: int) -> tuple[int, ...]:
    """Return the shape of packed weights: groups of filters, blocks, 1, filters in a group, terms in a block."""
    shape = get_const_tuple(weight.shape)
    if len(shape) != 5 or shape[2] != 1 or not 0 <= shape[1] * shape[4] - terms < shape[4]:
        raise TVMError(f"{what}: filters of {terms} terms need weights (o/f, blocks, 1, f, terms), got {shape}")
    return shape


def _padded_terms(value: PrimExpr, k: PrimExpr, terms: int, whole: int) -> PrimExpr:
    """Return a value, or zero for the terms that fill the last block."""
    return value if terms == whole else tir.if_then_else(k < terms, value, tir.const(0, value.dtype))


def _dots(data: Tensor, weight: Tensor, lead: Sequence[Any], at: Any) -> Tensor:
    """Return the dot products of rows of ``data`` with all filters. ``at`` returns the indices of a row of the data,
    given the indices of the output."""
    groups, blocks, _, filters, terms = get_const_tuple(weight.shape)
    block = te.reduce_axis((0, blocks), name="block")
    term = te.reduce_axis((0, terms), name="term")

    def body(*indices: PrimExpr) -> PrimExpr:
        *place, o = indices
        x = data(*at(*place), block * terms + term)
        w = weight(te.indexdiv(o, filters), block, 0, te.indexmod(o, filters), term)
        return te.sum(x.astype("int32") * w.astype("int32"), axis=[block, term])

    return te.compute((*lead, groups * filters), body, name="sums", tag="byte_dots")


def conv2d_NHWC_int8(
    data: Tensor, weight: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, pad_value: int = 0
) -> Tensor:
    """A convolution of 8-bit data (n, h, w, c) with weights (o/f, blocks, 1, f, terms). The terms of a filter are its
    weights in the order (kh, kw, c), with zeros after the last one. The data is padded with ``pad_value``.

    Raises
    ------
    TVMError
        Data or weights do not have this layout.
    """
    what = "conv2d_NHWC_int8"
    window = _Window(what, data, kernel_size, stride, padding, dilation)
    channels, terms = window.channels, window.taps * window.channels
    shape = _filters(what, weight, terms)
    whole = shape[1] * shape[4]
    if window.taps == 1 and not window.is_padded and whole == terms:
        down, right = window.strides
        return _dots(data, weight, window.shape, lambda n, y, x: (n, y * down, x * right))

    def element(n: PrimExpr, y: PrimExpr, x: PrimExpr, k: PrimExpr) -> PrimExpr:
        tap, c = te.indexdiv(k, channels), te.indexmod(k, channels)
        return _padded_terms(window.element(data, pad_value, (n, y, x), tap, c), k, terms, whole)

    patch = te.compute(
        (*window.shape, whole), element, name="patch", tag="patch,step", attrs=window.runs(whole == terms, channels)
    )
    return _dots(patch, weight, window.shape, lambda *at: at)


def depthwise_conv2d_NHWC_int8(
    data: Tensor, weight: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, pad_value: int = 0
) -> Tensor:
    """A depthwise convolution of 8-bit data (n, h, w, c) with weights (c/f, taps, f). The data is padded with
    ``pad_value``.

    Raises
    ------
    TVMError
        Data or weights do not have this layout.
    """
    what = "depthwise_conv2d_NHWC_int8"
    window = _Window(what, data, kernel_size, stride, padding, dilation)
    shape, channels, taps = get_const_tuple(weight.shape), window.channels, window.taps
    filters = shape[-1]
    if channels % filters or shape != (channels // filters, taps, filters):
        raise TVMError(f"{what}: {channels} channels and {taps} taps need weights (c/f, taps, f), got {shape}")

    def element(n: PrimExpr, y: PrimExpr, x: PrimExpr, tap: PrimExpr, c: PrimExpr) -> PrimExpr:
        return window.element(data, pad_value, (n, y, x), tap, c)

    runs = window.runs(True)
    patch = te.compute((*window.shape, taps, channels), element, name="patch", tag="patch,step", attrs=runs)
    tap = te.reduce_axis((0, taps), name="tap")

    def body(n: PrimExpr, y: PrimExpr, x: PrimExpr, c: PrimExpr) -> PrimExpr:
        w = weight(te.indexdiv(c, filters), tap, te.indexmod(c, filters))
        return te.sum(patch(n, y, x, tap, c).astype("int32") * w.astype("int32"), axis=[tap])

    return te.compute((*window.shape, channels), body, name="sums", tag="byte_taps")


def dense_int8(data: Tensor, weight: Tensor) -> Tensor:
    """A dense layer of 8-bit data (..., k) with weights (o/f, blocks, 1, f, terms).

    Raises
    ------
    TVMError
        Data or weights do not have this layout.
    """
    *lead, terms = get_const_tuple(data.shape)
    shape = _filters("dense_int8", weight, terms)
    whole = shape[1] * shape[4]
    source = data
    if whole != terms:
        source = te.compute(
            (*lead, whole), lambda *at: _padded_terms(data(*at), at[-1], terms, whole), name="row", tag="patch,step"
        )
    return _dots(source, weight, lead, lambda *at: at)


def largest_group(filters: int) -> int:
    """Return the number of filters that share the loaded data: the largest divisor up to 4."""
    return next(f for f in (4, 3, 2, 1) if get_const_int(filters) % f == 0)


__all__ = ["conv2d_NHWC_int8", "dense_int8", "depthwise_conv2d_NHWC_int8", "largest_group"]
