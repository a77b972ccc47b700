"""Discrete Fourier transforms."""

from __future__ import annotations

from ... import topi
from ..expr import RelayExpr, TupleWrapper
from .record import OPAQUE, as_expr, call, op
from .rules import dims
from .transform import ones


@op("dft", 2, pattern=OPAQUE, compute=lambda attrs, inputs, out: topi.signal.dft(inputs[0], inputs[1], attrs.inverse))
def dft(re_data, im_data, inverse=False):
    """Compute the real and imaginary parts of the Fourier transform along the last axis."""
    return TupleWrapper(call("dft", re_data, im_data, inverse=bool(inverse)), 2)


def _stft_compute(attrs, inputs, out):
    return topi.signal.stft(
        inputs[0], attrs.n_fft, attrs.hop_length, attrs.win_length, inputs[1], attrs.normalized, attrs.onesided
    )


@op("stft", 2, pattern=OPAQUE, compute=_stft_compute)
def stft(data, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=True):
    """Compute the Fourier transforms of overlapping frames of each row.

    Raises
    ------
    ValueError
        The length of the window differs from ``win_length``.
    """
    from ..infer import infer_type

    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    data = as_expr(data)
    if window is None:
        window = ones((int(win_length),), infer_type(data).checked_type_.dtype)
    if isinstance(window, RelayExpr) and window.checked_type_ is None:
        infer_type(window)
    if dims(window.checked_type_) != (int(win_length),):
        raise ValueError(f"stft: the window has shape {dims(window.checked_type_)}, but win_length is {win_length}")
    return call(
        "stft",
        data,
        window,
        n_fft=int(n_fft),
        hop_length=int(hop_length),
        win_length=int(win_length),
        normalized=bool(normalized),
        onesided=bool(onesided),
    )


__all__ = ["dft", "stft"]
