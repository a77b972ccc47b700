"""Converters of signal processing: transforms as products with known matrices."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import const
from ..common import run_time
from . import run_time_signal
from .declared import shape_of_output
from .load import onnx_dtype
from .table import argument, axis_of, op


def _waves(length: int, size: int, dtype: str, inverse: bool):
    """Cosines and sines, one row for each frequency."""
    angle = 2 * np.pi * np.outer(np.arange(length), np.arange(size)) / length
    sign = 1 if inverse else -1
    return np.cos(angle).astype(dtype), (sign * np.sin(angle)).astype(dtype)


def fourier(ctx, x, axis: int, length: int, inverse: bool, onesided: bool):
    """The transform of a tensor whose last dimension holds real (and imaginary) parts."""
    if ctx.dtype(x) in ("float16", "float32"):
        # Waves cancel: sums of doubles keep small frequencies right.
        return relay.cast(fourier(ctx, relay.cast(x, "float64"), axis, length, inverse, onesided), ctx.dtype(x))
    shape = ctx.known_shape(x)
    parts = shape[-1]
    dtype = ctx.dtype(x)
    half = inverse and onesided
    size = min(shape[axis], length // 2 + 1 if half else length)
    if shape[axis] > size:
        x = relay.strided_slice(x, [0], [size], [1], [axis])
    cosine, sine = _waves(length, size, dtype, inverse)
    rank = len(shape)
    order = [i for i in range(rank - 1) if i != axis] + [axis]
    flat_shape = [ctx.known_shape(x)[i] for i in order]

    def side(k: int):
        moved = relay.transpose(relay.take(x, const(k, "int64"), rank - 1), order)
        return relay.reshape(moved, (-1, size))

    real = side(0)
    imaginary = side(1) if parts == 2 else None
    if half:
        # Frequencies above the middle are the conjugates of those below it.
        weight = np.array([1.0 if i == 0 or 2 * i == length else 2.0 for i in range(size)], dtype)
        cosine, sine = cosine * weight, sine * weight
    re = relay.nn.dense(real, const(cosine))
    im = relay.nn.dense(real, const(sine))
    if imaginary is not None:
        re = relay.subtract(re, relay.nn.dense(imaginary, const(sine)))
        im = relay.add(im, relay.nn.dense(imaginary, const(cosine)))
    if inverse:
        re, im = (relay.divide(v, const(float(length), dtype)) for v in (re, im))
    out = [re] if half else [re, im]
    back = [order.index(i) for i in range(rank - 1)]
    made = [relay.transpose(relay.reshape(v, (*flat_shape[:-1], length)), back) for v in out]
    if onesided and not inverse:
        made = [relay.strided_slice(v, [0], [length // 2 + 1], [1], [axis]) for v in made]
    return relay.stack(made, rank - 1)


@op("DFT")
def dft_17(ctx, inputs, attrs):
    return _dft(ctx, inputs, attrs, attrs.get("axis", 1))


@op("DFT", since=20)
def dft(ctx, inputs, attrs):
    inverse, onesided = bool(attrs.get("inverse", 0)), bool(attrs.get("onesided", 0))
    if ctx.is_late(argument(inputs, 2), argument(inputs, 1)):
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
    return fourier(ctx, inputs[0], axis, length, inverse, onesided)


@op("STFT")
def stft(ctx, inputs, attrs):
    signal, window = inputs[0], argument(inputs, 2)
    if ctx.is_late(inputs[1], argument(inputs, 3)) or not isinstance(ctx.shape(signal)[1], int):
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
    return fourier(ctx, frames, 2, length, False, bool(attrs.get("onesided", 1)))


@op("MelWeightMatrix")
def mel_weight_matrix(ctx, inputs, attrs):
    if ctx.is_late(*inputs):
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
