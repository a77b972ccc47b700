"""Signal processing with run-time lengths, steps and axes: transforms are matmuls with matrices that the program
computes.
"""

from __future__ import annotations

import math

from ... import op as relay
from ...expr import RelayExpr, const
from ..common import run_time
from ..common.run_time import number


def _real(value: float) -> RelayExpr:
    return const(value, "float64")


def _wide(e) -> RelayExpr:
    return relay.cast(e, "float64")


def fourier(ctx, rows, length, inverse: bool, onesided: bool):
    """Return the Fourier transform along the middle axis of (rows, samples, real and imaginary parts)."""
    kept = ctx.dtype(rows)
    # Terms cancel: float64 accumulation keeps small frequency components accurate.
    rows = ctx.made(_wide(rows)) if kept != "float64" else rows
    half = inverse and onesided
    above = ctx.made(relay.add(relay.floor_divide(length, number(2)), number(1)))
    limit = above if half else length
    size = ctx.made(relay.minimum(run_time.size_of(ctx, rows, 1), limit))
    ends = (number([0]), run_time.joined(ctx, [size]), number([1]))
    rows = run_time.sharpened(ctx, relay.strided_slice(rows, *ends, axes=[1]), [None, None, ctx.shape(rows)[2]])
    frequencies, samples = run_time.counted(ctx, length), run_time.counted(ctx, size)
    turns = relay.multiply(relay.expand_dims(frequencies, 1), relay.expand_dims(samples, 0))
    turns = relay.floor_mod(turns, relay.maximum(length, number(1)))
    angle = relay.divide(relay.multiply(_wide(turns), _real(2 * math.pi)), _wide(length))
    cosine, sine = relay.cos(angle), relay.multiply(relay.sin(angle), _real(1.0 if inverse else -1.0))
    if half:
        # Frequencies above half of the sampling rate are the conjugates of those below it.
        middle = relay.equal(relay.multiply(samples, number(2)), length)
        once = relay.logical_or(relay.equal(samples, number(0)), middle)
        weight = relay.expand_dims(relay.where(once, _real(1.0), _real(2.0)), 0)
        cosine, sine = relay.multiply(cosine, weight), relay.multiply(sine, weight)
    cosine, sine = ctx.made(cosine), ctx.made(sine)
    real = ctx.made(relay.take(rows, number(0), 2))
    re, im = relay.nn.dense(real, cosine), relay.nn.dense(real, sine)
    if ctx.shape(rows)[2] == 2:
        imaginary = ctx.made(relay.take(rows, number(1), 2))
        re = relay.subtract(re, relay.nn.dense(imaginary, sine))
        im = relay.add(im, relay.nn.dense(imaginary, cosine))
    if inverse:
        re, im = (relay.divide(v, _wide(length)) for v in (re, im))
    out = ctx.made(relay.stack([re] if half else [re, im], 2))
    if onesided and not inverse:
        ends = (number([0]), run_time.joined(ctx, [above]), number([1]))
        out = run_time.sharpened(ctx, relay.strided_slice(out, *ends, axes=[1]), [None, None, 2])
    return ctx.made(relay.cast(out, kept)) if kept != "float64" else out


def dft(ctx, data, axis, length, inverse: bool, onesided: bool):
    """Return the transform along a run-time axis, which is moved behind the other axes by index and back afterwards."""
    rank, parts = ctx.rank(data) - 1, ctx.known_size(data, -1)
    # The axis can also count the last dimension (real and imaginary parts), along which no transform exists.
    axis = run_time.axes_from_start(ctx, run_time.scalar(ctx, axis), rank + 1)
    is_signal = ctx.made(relay.less(axis, number(rank)))
    axis = run_time.checked(ctx, axis, is_signal, "the transform axis must not be the last axis")
    hit = ctx.made(relay.equal(number(range(rank)), axis))
    sizes = run_time.shape_of(ctx, data)
    sizes = ctx.made(relay.strided_slice(sizes, [0], [rank], [1], [0]))
    own = ctx.made(relay.where(hit, number(1), sizes))
    gone = ctx.made(relay.where(hit, sizes, number(1)))
    places = [run_time.places(ctx, part, sizes, rank) for part in (own, gone)]
    index = ctx.made(relay.add(relay.expand_dims(places[0], 1), relay.expand_dims(places[1], 0)))
    flat = ctx.made(relay.reshape(data, (-1, parts)))
    rows = run_time.sharpened(ctx, relay.take(flat, index, 0), [None, None, parts])
    if length is None:
        length = ctx.made(relay.prod(gone, axis=0))
        if inverse and onesided:
            length = ctx.made(relay.multiply(relay.subtract(length, number(1)), number(2)))
    else:
        length = run_time.at_least(ctx, run_time.scalar(ctx, length), 1, "the length of the transform")
    out = fourier(ctx, rows, length, inverse, onesided)
    count, new = run_time.size_of(ctx, out, 1), ctx.shape(out)[2]
    shape = ctx.made(relay.where(hit, count, sizes))
    back = _inverse_indices(ctx, shape, own, hit, count, rank)
    flat = ctx.made(relay.take(relay.reshape(out, (-1, new)), back, 0))
    target = run_time.joined(ctx, [shape, number([new])])
    return run_time.sharpened(ctx, relay.reshape(flat, target, True), [None] * rank + [new])


def _inverse_indices(ctx, shape, own, hit, count, rank: int) -> RelayExpr:
    """Return, for each element of ``shape``, its index in the tensor whose transform axis is behind the others."""
    at, out = run_time.counted(ctx, ctx.made(relay.prod(shape, axis=0))), None
    inner = outer = number(1)
    for d in reversed(range(rank)):
        size = run_time.element(ctx, shape, d)
        along = relay.floor_mod(relay.floor_divide(at, inner), relay.maximum(size, number(1)))
        step = relay.where(run_time.element(ctx, hit, d), number(1), relay.multiply(outer, count))
        part = relay.multiply(along, step)
        out = part if out is None else relay.add(out, part)
        inner = ctx.made(relay.maximum(relay.multiply(inner, size), number(1)))
        outer = ctx.made(relay.multiply(outer, run_time.element(ctx, own, d)))
    return ctx.made(out)


def stft(ctx, signal, step, window, length, onesided: bool):
    """Multiply each frame of a signal (batch, samples, parts) by the window and transform it."""
    step = run_time.at_least(ctx, run_time.scalar(ctx, step), 1, "the step between frames")
    length = run_time.size_of(ctx, window, 0) if length is None else run_time.scalar(ctx, length)
    length = run_time.at_least(ctx, length, 1, "the length of a frame")
    left = ctx.made(relay.subtract(run_time.size_of(ctx, signal, 1), length))
    left = run_time.at_least(ctx, left, 0, "the length of the signal minus the length of a frame")
    count = relay.add(relay.floor_divide(left, relay.maximum(step, number(1))), number(1))
    begins = relay.multiply(run_time.counted(ctx, ctx.made(count)), step)
    places = relay.add(relay.expand_dims(begins, 1), relay.expand_dims(run_time.counted(ctx, length), 0))
    frames = ctx.made(relay.take(signal, ctx.made(places), 1))
    if window is not None:
        frames = ctx.made(relay.multiply(frames, relay.expand_dims(window, 1)))
    rows = ctx.made(relay.reshape(frames, (-3, -2)))
    out = fourier(ctx, rows, length, False, onesided)
    return run_time.unflattened(ctx, out, frames, 2)


def window(ctx, size, weights: tuple[float, ...], periodic: bool, dtype: str):
    """Return a window that is a weighted sum of cosines over one period."""
    size = run_time.at_least(ctx, run_time.scalar(ctx, size), 0, "the size of the window")
    period = size if periodic else relay.subtract(size, number(1))
    at = relay.multiply(_wide(run_time.counted(ctx, size)), _real(2 * math.pi))
    angle = relay.divide(at, _wide(relay.maximum(period, number(1))))
    out = None
    for k, weight in enumerate(weights):
        part = relay.multiply(relay.cos(relay.multiply(angle, _real(float(k)))), _real(weight))
        out = part if out is None else relay.add(out, part)
    return relay.cast(out, dtype)


def mel_weights(ctx, bins, length, rate, low, high, dtype: str):
    """Return triangular filters over the spectrum, one for each bin, with corners equally spaced on the mel scale."""
    bins = run_time.at_least(ctx, run_time.scalar(ctx, bins), 0, "the number of bins")
    length = run_time.at_least(ctx, run_time.scalar(ctx, length), 1, "the length of the transform")
    rate = run_time.at_least(ctx, run_time.scalar(ctx, rate), 1, "the sample rate")
    rate, low, high = (run_time.scalar(ctx, v, "float64") for v in (rate, low, high))

    def mel(e):
        return relay.multiply(_real(2595.0), relay.log10(relay.add(_real(1.0), relay.divide(e, _real(700.0)))))

    corners = relay.add(bins, number(2))
    first = mel(low)
    step = relay.divide(relay.subtract(mel(high), first), _wide(corners))
    at = relay.add(relay.multiply(_wide(run_time.counted(ctx, ctx.made(corners))), step), first)
    hertz = relay.power(_real(10.0), relay.divide(at, _real(2595.0)))
    hertz = relay.multiply(_real(700.0), relay.subtract(hertz, _real(1.0)))
    places = relay.floor(relay.divide(relay.multiply(_wide(relay.add(length, number(1))), hertz), rate))
    places = ctx.made(places)
    named = run_time.counted(ctx, bins)
    left, middle, right = (
        relay.expand_dims(relay.take(places, ctx.made(relay.add(named, number(k))), 0), 0) for k in range(3)
    )
    count = relay.add(relay.floor_divide(length, number(2)), number(1))
    here = relay.expand_dims(_wide(run_time.counted(ctx, ctx.made(count))), 1)
    up, down = relay.subtract(middle, left), relay.subtract(right, middle)
    one, none = _real(1.0), _real(0.0)
    rising = relay.divide(relay.subtract(here, left), relay.maximum(up, one))
    rising = relay.where(relay.equal(up, none), one, rising)
    rises = relay.logical_and(relay.greater_equal(here, left), relay.less_equal(here, middle))
    falling = relay.divide(relay.subtract(right, here), relay.maximum(down, one))
    falls = relay.logical_and(relay.greater_equal(here, middle), relay.less(here, right))
    return relay.cast(relay.where(falls, falling, relay.where(rises, rising, none)), dtype)


__all__ = ["dft", "fourier", "mel_weights", "stft", "window"]
