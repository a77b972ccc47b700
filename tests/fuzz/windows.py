"""Random calls of operators with windows, with attributes of every kind, and what NumPy says of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np

from tvm import relay

LAYOUT = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


class Refused(Exception):
    """The attributes have no meaning."""


class Call:
    """A call of an operator: ``build(*variables)`` makes it, ``wanted()`` is its value or raises Refused."""

    def __init__(self, label: str, build: Callable, arrays: list, wanted: Callable):
        self.label, self.build, self.arrays, self.wanted = label, build, arrays, wanted


def _spots(size: int, window: int, stride: int, dilation: int, ceil: bool = False) -> int:
    """How many places a window has in padded data."""
    span = size - ((window - 1) * dilation + 1)
    if span < 0:
        raise Refused
    return (-(-span // stride) if ceil else span // stride) + 1


def _taps(x, window, strides, dilation, out):
    """One array for each point of the window: the elements it meets at all places, shaped as the result is."""
    for offset in itertools.product(*map(range, window)):
        cut = [slice(o * d, o * d + (n - 1) * s + 1, s) for o, d, n, s in zip(offset, dilation, out, strides)]
        yield offset, x[(slice(None), slice(None), *cut)]


def _refuse_below(least: int, *groups) -> None:
    if any(v < least for group in groups for v in group):
        raise Refused


def _padded(x, before, after, value):
    return np.pad(x, [(0, 0), (0, 0), *zip(before, after)], constant_values=value)


def convolved(x, w, strides, before, after, dilation, groups):
    _refuse_below(1, strides, dilation, (groups,), w.shape[2:])
    _refuse_below(0, before, after)
    if w.shape[0] == x.shape[1] == groups > 1:
        # Depthwise: the filters of each channel may be a dimension of their own.
        w = w.reshape(-1, 1, *w.shape[2:])
    if w.shape[0] % groups or w.shape[1] * groups != x.shape[1]:
        raise Refused
    x = _padded(x, before, after, 0)
    out = [_spots(*sizes) for sizes in zip(x.shape[2:], w.shape[2:], strides, dilation)]
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    each, filters = w.shape[1], w.shape[0] // groups
    for offset, tap in _taps(x, w.shape[2:], strides, dilation, out):
        point = w[(slice(None), slice(None), *offset)]
        for g in range(groups):
            own = slice(g * filters, (g + 1) * filters)
            y[:, own] += np.einsum("nc...,oc->no...", tap[:, g * each : (g + 1) * each], point[own])
    return y


def spread(x, w, strides, before, after, dilation, groups, extra):
    """Transposed convolution: every element adds its window to the result."""
    _refuse_below(1, strides, dilation, (groups,), w.shape[2:])
    _refuse_below(0, before, after, extra)
    too_much = any(e and e >= max(s, d) for e, s, d in zip(extra, strides, dilation))
    if x.shape[1] % groups or w.shape[0] != x.shape[1] or too_much:
        raise Refused
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(x.shape[2:], strides, w.shape[2:], dilation)]
    y = np.zeros((x.shape[0], w.shape[1] * groups, *[f + e for f, e in zip(full, extra)]), x.dtype)
    each, filters = x.shape[1] // groups, w.shape[1]
    for offset, tap in _taps(y, w.shape[2:], strides, dilation, x.shape[2:]):
        point = w[(slice(None), slice(None), *offset)]
        for g in range(groups):
            own = slice(g * each, (g + 1) * each)
            tap[:, g * filters : (g + 1) * filters] += np.einsum("nc...,co->no...", x[:, own], point[own])
    cut = [slice(lo, n - hi) for lo, hi, n in zip(before, after, y.shape[2:])]
    if any(c.stop - c.start < 1 for c in cut):
        raise Refused
    return y[(slice(None), slice(None), *cut)]


def pooled(x, kind, window, strides, before, after, dilation, ceil, count_pad):
    _refuse_below(1, window, strides, dilation)
    _refuse_below(0, before, after)
    sizes = [n + lo + hi for n, lo, hi in zip(x.shape[2:], before, after)]
    out = [_spots(*s, ceil) for s in zip(sizes, window, strides, dilation)]
    over = [hi + s for hi, s in zip(after, strides)]
    taps = [t for _, t in _taps(_padded(x, before, over, -np.inf), window, strides, dilation, out)]
    if kind == "max":
        return np.max(taps, 0)
    # What counts is the data, or the data and its padding; never what lies behind the padding.
    seen = _padded(np.ones_like(x), before, after, float(count_pad))
    seen = _padded(seen, [0] * len(window), strides, 0)
    counts = np.sum([t for _, t in _taps(seen, window, strides, dilation, out)], 0)
    return np.sum(np.where(np.isinf(taps), 0, taps), 0) / np.maximum(counts, 1)


def adaptive(x, kind, output):
    _refuse_below(1, [o for o in output if o is not None])
    for axis, size in enumerate(output, 2):
        n = x.shape[axis]
        size = n if size is None else size
        edges = [(i * n // size, -(-(i + 1) * n // size)) for i in range(size)]
        parts = [x.take(range(lo, hi), axis) for lo, hi in edges]
        x = np.stack([p.max(axis) if kind == "max" else p.mean(axis) for p in parts], axis)
    return x


class Draw:
    """Draws calls; ``bold`` is the chance that a number is any, also one that has no meaning."""

    def __init__(self, seed: int, bold: float):
        self.random, self.bold = random.Random(seed), bold
        self.numbers = np.random.default_rng(seed)

    def size(self, low: int, high: int) -> int:
        return self.random.randint(-3, 5) if self.random.random() < self.bold else self.random.randint(low, high)

    def sizes(self, n: int, low: int, high: int) -> tuple:
        return tuple(self.size(low, high) for _ in range(n))

    def data(self, *shape) -> np.ndarray:
        return self.numbers.integers(-8, 9, shape).astype("float32")

    def call(self) -> Call:
        n = self.random.choice((1, 2, 2, 3))
        return getattr(self, self.random.choice(("conv", "transposed", "pool", "adaptive", "blocks")))(n)

    def _window(self, n: int) -> dict:
        return {
            "strides": self.sizes(n, 1, 3),
            "dilation": self.sizes(n, 1, 2),
            "padding": self.sizes(2 * n, 0, 2),
        }

    def conv(self, n: int) -> Call:
        groups = self.random.choice((1, 1, 2, 4))
        x = self.data(1, 4, *[self.random.randint(3, 8) for _ in range(n)])
        w = self.data(4, 4 // groups, *[self.random.randint(1, 3) for _ in range(n)])
        attrs = {**self._window(n), "groups": self.size(groups, groups)}

        def wanted():
            pad = attrs["padding"]
            return convolved(x, w, attrs["strides"], pad[:n], pad[n:], attrs["dilation"], attrs["groups"])

        name = f"conv{n}d"
        return Call(f"{name} {attrs}", lambda d, k: getattr(relay.nn, name)(d, k, **attrs), [x, w], wanted)

    def transposed(self, n: int) -> Call:
        groups = self.random.choice((1, 1, 2))
        x = self.data(1, 4, *[self.random.randint(2, 5) for _ in range(n)])
        w = self.data(4, 2, *[self.random.randint(1, 3) for _ in range(n)])
        attrs = {**self._window(n), "groups": self.size(groups, groups), "output_padding": self.sizes(n, 0, 1)}

        def wanted():
            pad = attrs["padding"]
            return spread(
                x, w, attrs["strides"], pad[:n], pad[n:], attrs["dilation"], attrs["groups"], attrs["output_padding"]
            )

        name = f"conv{n}d_transpose"
        return Call(f"{name} {attrs}", lambda d, k: getattr(relay.nn, name)(d, k, **attrs), [x, w], wanted)

    def pool(self, n: int) -> Call:
        kind = self.random.choice(("max", "avg"))
        x = self.data(1, 2, *[self.random.randint(3, 8) for _ in range(n)])
        attrs = {**self._window(n), "pool_size": self.sizes(n, 1, 3), "ceil_mode": self.random.random() < 0.3}
        more = {"count_include_pad": self.random.random() < 0.5} if kind == "avg" else {}

        def wanted():
            pad = attrs["padding"]
            return pooled(
                x,
                kind,
                attrs["pool_size"],
                attrs["strides"],
                pad[:n],
                pad[n:],
                attrs["dilation"],
                attrs["ceil_mode"],
                more.get("count_include_pad"),
            )

        name = f"{kind}_pool{n}d"
        return Call(f"{name} {attrs} {more}", lambda d: getattr(relay.nn, name)(d, **attrs, **more), [x], wanted)

    def adaptive(self, n: int) -> Call:
        kind = self.random.choice(("max", "avg"))
        x = self.data(1, 2, *[self.random.randint(1, 8) for _ in range(n)])
        output = tuple(self.random.choice((None, self.size(1, 6))) for _ in range(n))
        name = f"adaptive_{kind}_pool{n}d"
        return Call(
            f"{name} {x.shape} {output}",
            lambda d: getattr(relay.nn, name)(d, output),
            [x],
            lambda: adaptive(x, kind, output),
        )

    def blocks(self, n: int) -> Call:
        """Squares of points become channels."""
        size = self.size(1, 3)
        x = self.data(1, 2, 6, 6)

        def wanted():
            if size < 1 or 6 % size:
                raise Refused
            parts = x.reshape(1, 2, 6 // size, size, 6 // size, size)
            return parts.transpose(0, 3, 5, 1, 2, 4).reshape(1, -1, 6 // size, 6 // size)

        return Call(f"space_to_depth {size}", lambda d: relay.nn.space_to_depth(d, size), [x], wanted)
