"""Converters of pooling operations."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from .nn_ops import padding_of, window_numbers
from .table import Context, Ints, constant, half, op

_MAX = {1: relay.nn.max_pool1d, 2: relay.nn.max_pool2d, 3: relay.nn.max_pool3d}
_AVG = {1: relay.nn.avg_pool1d, 2: relay.nn.avg_pool2d, 3: relay.nn.avg_pool3d}


class Window:
    """A pooling window over the spatial dimensions.

    ``extra`` is the amount by which the last windows exceed the padding when output sizes are rounded up. Elements
    there are ignored.
    """

    def __init__(self, ctx: Context, x, kernel, strides, pad_type: str, pad, ceil_mode: bool):
        self.ctx, self.x = ctx, x
        self.count = ctx.rank(x) - 2
        if self.count not in _MAX:
            raise TVMError(f"pooling over {self.count} dimensions is not supported")
        self.kernel = window_numbers(kernel, self.count, "kernel sizes")
        self.strides = window_numbers(strides, self.count, "strides")
        ones = [1] * self.count
        self.before, self.after = padding_of(ctx, x, pad_type, pad, self.kernel, self.strides, ones)
        self.extra = [0] * self.count
        if ceil_mode:
            self._round_up(ctx.spatial(x))

    def _round_up(self, sizes: tuple[int, ...]) -> None:
        for i, (size, k, s) in enumerate(zip(sizes, self.kernel, self.strides)):
            padded = size + self.before[i] + self.after[i]
            out = -(-(padded - k) // s) + 1
            if self.before[i] + self.after[i] > 0 and (out - 1) * s >= size + self.before[i]:
                out -= 1
            self.extra[i] = max((out - 1) * s + k - padded, 0)

    def settings(self) -> dict:
        after = [a + e for a, e in zip(self.after, self.extra)]
        return {"pool_size": tuple(self.kernel), "strides": tuple(self.strides), "padding": (*self.before, *after)}

    def average(self, x, exclude: bool):
        """Return the mean of each window. Padding counts as zeros unless ``exclude`` is set."""
        out = _AVG[self.count](x, **self.settings(), count_include_pad=not exclude)
        if exclude or not any(self.extra):
            return out
        return relay.multiply(out, constant(self._corrections().astype("float32")))

    def _corrections(self) -> np.ndarray:
        """Return the ratio of the window size to the part of the window inside the padded data."""
        result = np.ones((1,) * (self.count + 2))
        for i, size in enumerate(self.ctx.spatial(self.x)):
            k, s = self.kernel[i], self.strides[i]
            padded = size + self.before[i] + self.after[i]
            starts = np.arange((padded + self.extra[i] - k) // s + 1) * s
            share = k / (np.minimum(starts + k, padded) - starts)
            result = result * share.reshape([-1 if a == i + 2 else 1 for a in range(self.count + 2)])
        return result


@op("max_pool")
@half
def max_pool(ctx, x, kernel_sizes: Ints, pad_type: str = "valid", strides: Ints | None = None, pad: Ints | None = None,
             ceil_mode: bool = False):  # fmt: skip
    window = Window(ctx, x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    return _MAX[window.count](x, **window.settings())


@op("avg_pool")
@half
def avg_pool(ctx, x, kernel_sizes: Ints, pad_type: str = "valid", strides: Ints | None = None, pad: Ints | None = None,
             exclude_padding_from_average: bool = False, ceil_mode: bool = False):  # fmt: skip
    window = Window(ctx, x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    return window.average(x, exclude_padding_from_average)


@op("l2_pool")
@half
def l2_pool(ctx, x, kernel_sizes: Ints, pad_type: str = "valid", strides: Ints | None = None, pad: Ints | None = None,
            ceil_mode: bool = False):  # fmt: skip
    window = Window(ctx, x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    squares = _AVG[window.count](relay.multiply(x, x), **window.settings(), count_include_pad=True)
    return relay.sqrt(relay.multiply(squares, ctx.like(math.prod(window.kernel), x)))


def global_pool(ctx: Context, x, kind: str, count: int):
    """Reduce the last ``count`` dimensions to one value for each channel."""
    axes = tuple(range(ctx.rank(x) - count, ctx.rank(x)))
    if kind == "max":
        return relay.max(x, axes, True)
    if kind == "average":
        return relay.mean(x, axes, True)
    return relay.sqrt(relay.sum(relay.multiply(x, x), axes, True))


__all__ = ["avg_pool", "global_pool", "l2_pool", "max_pool"]
