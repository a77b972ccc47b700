"""Converters of signal processing operators."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import const
from ..common import run_time
from ..common.fourier import fourier
from . import run_time_signal
from .declared import shape_of_output
from .load import onnx_dtype
from .table import argument, axis_of, op


def _transformed(ctx, x, axis: int, length: int, inverse: bool, onesided: bool):
    """Return the Fourier transform of a tensor whose last dimension contains real (and imaginary) parts."""
    last = ctx.rank(x) - 1
    parts = [relay.take(x, const(k, "int64"), last) for k in range(ctx.known_size(x, last))]
    re, im = fourier(ctx, parts[0], parts[1] if len(parts) == 2 else None, axis, length, inverse, onesided)
    return relay.stack([re] if im is None else [re, im], last)


@op("DFT")
def dft_17(ctx, inputs, attrs):
    return _dft(ctx, inputs, attrs, attrs.get("axis", 1))


@op("DFT", since=20)
def dft(ctx, inputs, attrs):
    inverse, onesided = bool(attrs.get("inverse", 0)), bool(attrs.get("onesided", 0))
    if ctx.is_run_time_value(argument(inputs, 2), argument(inputs, 1)):
        axis = run_time.number(-2) if argument(inputs, 2) is None else inputs[2]
        return run_time_signal.dft(ctx, inputs[0], axis, argument(inputs, 1), inverse, onesided)
    axis = ctx.ints(argument(inputs, 2), "the axis")
    return _dft(ctx, inputs, attrs, axis[0] if axis else -2)


def _dft(ctx, inputs, attrs, axis: int):
    axis = axis_of(axis, ctx.rank(inputs[0]))
    given = ctx.ints(argument(inputs, 1), "the length")
    inverse, onesided = bool(attrs.get("inverse", 0)), bool(attrs.get("onesided", 0))
    size = ctx.known_shape(inputs[0])[axis]
    length = given[0] if given else 2 * (size - 1) if inverse and onesided else size
    return _transformed(ctx, inputs[0], axis, length, inverse, onesided)


@op("STFT")
def stft(ctx, inputs, attrs):
    signal, window = inputs[0], argument(inputs, 2)
    if ctx.is_run_time_value(inputs[1], argument(inputs, 3)) or not isinstance(ctx.shape(signal)[1], int):
        signal = relay.expand_dims(signal, 2) if ctx.rank(signal) == 2 else signal
        onesided = bool(attrs.get("onesided", 1))
        return run_time_signal.stft(ctx, ctx.made(signal), inputs[1], window, argument(inputs, 3), onesided)
    step = ctx.ints(inputs[1], "the step")[0]
    length = ctx.ints(argument(inputs, 3), "the length")
    length = length[0] if length else ctx.known_shape(window)[0]
    if ctx.rank(signal) == 2:
        signal = relay.expand_dims(signal, 2)
    size = ctx.known_shape(signal)[1]
    count = 1 + (size - length) // step
    places = np.arange(count)[:, None] * step + np.arange(length)[None, :]
    frames = relay.take(signal, const(places.astype("int64")), 1)
    if window is not None:
        frames = relay.multiply(frames, relay.expand_dims(window, 1))
    return _transformed(ctx, frames, 2, length, False, bool(attrs.get("onesided", 1)))


@op("MelWeightMatrix")
def mel_weight_matrix(ctx, inputs, attrs):
    if ctx.is_run_time_value(*inputs):
        return run_time_signal.mel_weights(ctx, *inputs, onnx_dtype(attrs.get("output_datatype", 1)))
    bins, length, rate, low, high = (ctx.array(i, "the parameters").reshape(-1)[0] for i in inputs)
    dtype = onnx_dtype(attrs.get("output_datatype", 1))
    spectrum = int(length) // 2 + 1
    edges = 2595 * np.log10(1 + np.array([low, high], "float64") / 700)
    mel = np.arange(int(bins) + 2) * (edges[1] - edges[0]) / (int(bins) + 2) + edges[0]
    at = np.floor((int(length) + 1) * (700 * (10 ** (mel / 2595) - 1)) / rate).astype(int)
    out = np.zeros((spectrum, int(bins)))
    for i in range(int(bins)):
        left, middle, right = at[i : i + 3]
        if middle == left:
            out[middle, i] = 1
        else:
            for j in range(left, middle + 1):
                out[j, i] = (j - left) / (middle - left)
        for j in range(middle, right):
            if right > middle:
                out[j, i] = (right - j) / (right - middle)
    return const(out.astype(dtype))


def _window(weights):
    def convert(ctx, inputs, attrs):
        known = ctx.value(inputs[0])
        dtype = onnx_dtype(attrs.get("output_datatype", 1))
        if known is None and ctx.declared() is None:
            return run_time_signal.window(ctx, inputs[0], weights, bool(attrs.get("periodic", 1)), dtype)
        size = shape_of_output(ctx, "the size")[0] if known is None else int(known.reshape(-1)[0])
        length = size if attrs.get("periodic", 1) else size - 1
        angle = 2 * np.pi * np.arange(size) / max(length, 1)
        values = sum(w * np.cos(k * angle) for k, w in enumerate(weights))
        return const(np.asarray(values).astype(dtype))

    return convert


op("HannWindow")(_window((0.5, -0.5)))
op("HammingWindow")(_window((25 / 46, -21 / 46)))
op("BlackmanWindow")(_window((0.42, -0.5, 0.08)))
