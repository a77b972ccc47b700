"""Fourier transforms by their definition, with tables of sines and cosines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import te, tir
from ..dtype import info
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import PrimExpr, const, convert
from . import tag
from .assumptions import agree
from .utils import check_tensor, equal_const_int, get_const_int


def _table(function, n: PrimExpr, dtype: str, name: str) -> te.Tensor:
    """Return the table function(2 pi i / n). Multiples of i are looked up modulo n, so that angles stay small."""
    step = const(2.0 * math.pi, dtype) / primop.cast(dtype, n)
    return te.compute((n,), lambda i: function(primop.cast(dtype, i) * step), name=name)


def _float(tensor: Any, what: str) -> te.Tensor:
    check_tensor(tensor, what)
    if not info(tensor.dtype).is_float:
        raise ExprTypeError(f"{what}: data must be float, got {tensor.dtype}")
    return tensor


def dft(re_data, im_data, inverse):
    """[real part, imaginary part] of the transform along the last axis; divided by its length if ``inverse`` is set.

    Raises
    ------
    ExprValueError
        The parts have different shapes or no dimensions.
    """
    _float(re_data, "dft"), _float(im_data, "dft")
    if not re_data.shape or len(re_data.shape) != len(im_data.shape):
        raise ExprValueError("dft: real and imaginary part must have the same number of dimensions, at least one")
    if not all(agree(a, b, "equal shapes of real and imaginary part") for a, b in zip(re_data.shape, im_data.shape)):
        raise ExprValueError(
            f"dft: real and imaginary part have different shapes {list(re_data.shape)} and {list(im_data.shape)}"
        )
    dtype, n = re_data.dtype, re_data.shape[-1]
    cosines, sines = _table(te.cos, n, dtype, "cosines"), _table(te.sin, n, dtype, "sines")
    sign = const(1.0 if inverse else -1.0, dtype)

    def part(real: bool) -> te.Tensor:
        k = te.reduce_axis((0, n), name="k")

        def element(*i):
            turn = _product_modulo(i[-1], k.var, n)
            across, along = cosines(turn), sines(turn) * sign
            re, im = re_data(*i[:-1], k), im_data(*i[:-1], k)
            return te.sum(re * across - im * along if real else re * along + im * across, axis=k)

        total = te.compute(re_data.shape, element, name="dft_sum", tag=tag.COMM_REDUCE)
        if not inverse:
            return total
        length = primop.cast(dtype, n)
        return te.compute(total.shape, lambda *i: total(*i) / length, name="T_dft", tag=tag.ELEMWISE)

    return [part(True), part(False)]


def _product_modulo(a: PrimExpr, b: PrimExpr, n: PrimExpr) -> PrimExpr:
    """Return a * b modulo n, where the product may exceed int32."""
    if equal_const_int(n, 0):
        # The table is empty, and the divisor must not be 0.
        return a
    product = primop.cast("int64", a) * primop.cast("int64", b)
    return primop.cast(a.dtype, primop.floormod(product, primop.cast("int64", n)))


def stft(data, n_fft, hop_length, win_length, window, normalized, onesided, output_shape: Sequence | None = None):
    """Transforms of frames of ``n_fft`` elements, ``hop_length`` apart, of each row of ``data``: (batch, frequencies,
    frames, 2). The window, of any numeric dtype, is centered in the frame. With ``onesided``, only the first half of
    the frequencies is computed.

    Raises
    ------
    ExprValueError
        The data is not a batch of rows, the window is not a vector, or it does not fit a frame.
    """
    _float(data, "stft"), check_tensor(window, "stft")
    if len(data.shape) != 2 or len(window.shape) != 1:
        raise ExprValueError(
            f"stft: data must have 2 dimensions and the window 1, got {len(data.shape)} and {len(window.shape)}"
        )
    n_fft, hop_length, win_length = (get_const_int(v) for v in (n_fft, hop_length, win_length))
    if not 0 < win_length <= n_fft or hop_length < 1:
        raise ExprValueError(
            f"stft: a window of {win_length} does not fit frames of {n_fft} elements that are {hop_length} apart"
        )
    dtype = data.dtype
    if output_shape is None:
        frequencies = n_fft // 2 + 1 if onesided else n_fft
        output_shape = (data.shape[0], frequencies, (data.shape[1] - n_fft) // hop_length + 1, 2)
    cosines, sines = _table(te.cos, convert(n_fft), dtype, "cosines"), _table(te.sin, convert(n_fft), dtype, "sines")
    before = (n_fft - win_length) // 2
    factor = const(1.0 / math.sqrt(n_fft) if normalized else 1.0, dtype)
    k = te.reduce_axis((0, win_length), name="k")

    def element(batch, frequency, frame, which):
        place = k + before
        value = data(batch, frame * hop_length + place) * primop.cast(dtype, window(k)) * factor
        turn = _product_modulo(frequency, place, convert(n_fft))
        return te.sum(value * tir.Select(primop.equal(which, 0), cosines(turn), -sines(turn)), axis=k)

    return te.compute(output_shape, element, name="T_stft", tag=tag.COMM_REDUCE)


__all__ = ["dft", "stft"]
