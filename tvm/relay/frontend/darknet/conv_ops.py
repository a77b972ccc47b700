"""Converters of layers with weights: convolution, matmul and normalization."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.context import check_count, check_steps
from .activations import activated
from .table import Context, Normalization, layer


class Convolution:
    """The weights of a convolution, with its batch normalization folded in."""

    def __init__(self, ctx: Context, channels: int, filters: int, size: int, groups: int = 1):
        if channels % groups or filters % groups:
            raise TVMError(f"{channels} channels and {filters} filters are not divisible into {groups} groups")
        self.ctx, self.groups, self.filters, self.size = ctx, groups, filters, size
        bias = ctx.take("biases", filters).astype("float64")
        norm = Normalization(ctx, filters) if ctx.flag("batch_normalize") else None
        depth = channels // groups
        if ctx.flag("flipped"):
            weight = ctx.take("weights", depth * size * size, filters).T.reshape(filters, depth, size, size)
        else:
            weight = ctx.take("weights", filters, depth, size, size)
        if norm is not None:
            weight, bias = weight * norm.factor[:, None, None, None], bias + norm.addend
        self.weight, self.bias = ctx.constant(weight), ctx.constant(bias)

    def __call__(self, x: RelayExpr, strides, padding: int, dilation: int, activation: str) -> RelayExpr:
        out = relay.nn.conv2d(
            x,
            self.weight,
            strides=strides,
            padding=(padding, padding),
            groups=self.groups,
            dilation=(dilation, dilation),
            channels=self.filters,
            kernel_size=(self.size, self.size),
        )
        return activated(self.ctx, relay.nn.bias_add(out, self.bias), activation)


def strides_of(ctx: Context, default: int = 1) -> tuple[int, int]:
    stride = ctx.positive("stride", default)
    return ctx.positive("stride_y", stride), ctx.positive("stride_x", stride)


def padding_of(ctx: Context, size: int) -> int:
    found = size // 2 if ctx.flag("pad") else ctx.section.int("padding", 0)
    if found < 0:
        raise TVMError(f"padding={found} must not be negative")
    return found


@layer("convolutional")
def convolutional(ctx, x):
    channels = ctx.image(x)[1]
    size = ctx.positive("size", 1)
    padding, dilation = padding_of(ctx, size), ctx.positive("dilation", 1) if size > 1 else 1
    if dilation > 1 and 2 * padding != size - 1:
        raise TVMError(
            f"dilation={dilation} with padding {padding} and kernel size {size} is not supported, because "
            "DarkNet reads outside the image"
        )
    conv = Convolution(ctx, channels, ctx.positive("filters", 1), size, ctx.positive("groups", 1))
    return conv(x, strides_of(ctx), padding * dilation, dilation, ctx.section.text("activation", "logistic"))


class Product:
    """The weights of a fully connected layer (matmul)."""

    def __init__(self, ctx: Context, inputs: int, outputs: int):
        self.ctx = ctx
        bias = ctx.take("biases", outputs).astype("float64")
        if ctx.importer.weights.transposed:
            weight = ctx.take("weights", inputs, outputs).T
        else:
            weight = ctx.take("weights", outputs, inputs)
        if ctx.flag("batch_normalize"):
            norm = Normalization(ctx, outputs)
            weight, bias = weight * norm.factor[:, None], bias + norm.addend
        self.weight, self.bias = ctx.constant(weight), ctx.constant(bias)

    def __call__(self, x: RelayExpr, activation: str = "linear") -> RelayExpr:
        return activated(self.ctx, relay.nn.bias_add(relay.nn.dense(x, self.weight), self.bias), activation)


def flat(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Flatten to a matrix with one row for each batch element."""
    return ctx.made(relay.nn.batch_flatten(x)) if ctx.rank(x) != 2 else x


@layer("connected")
def connected(ctx, x):
    x = flat(ctx, x)
    product = Product(ctx, ctx.known_shape(x)[1], ctx.positive("output", 1))
    return product(x, ctx.section.text("activation", "logistic"))


@layer("local")
def local(ctx, x):
    """Convert a locally connected layer: a convolution with separate weights for each position."""
    batch, channels, height, width = ctx.image(x)
    filters, size, stride = (ctx.positive(k, 1) for k in ("filters", "size", "stride"))
    padded = ctx.flag("pad")
    if padded and size != 3:
        raise TVMError(f"pad=1 with kernel size {size} is not supported, because DarkNet pads as for size 3")
    edge = 1 if padded else size
    rows, columns = ((s - edge) // stride + 1 for s in (height, width))
    if min(rows, columns) < 1:
        raise TVMError(f"a kernel of size {size} does not fit an image of {height} x {width}")
    check_steps("a window", size * size)
    bias = ctx.take("biases", filters, rows, columns)
    weight = ctx.take("weights", rows * columns, filters, channels * size * size)
    around = ((0, 0), (0, 0), (1, 1), (1, 1)) if padded else None
    data = x if around is None else relay.nn.pad(x, around)
    parts = [
        relay.strided_slice(
            data, [i, j], [i + (rows - 1) * stride + 1, j + (columns - 1) * stride + 1], [stride, stride], [2, 3]
        )
        for i in range(size)
        for j in range(size)
    ]
    windows = relay.transpose(relay.stack(parts, 2), (3, 4, 0, 1, 2))
    windows = relay.reshape(windows, (rows * columns, batch, channels * size * size))
    out = relay.nn.batch_matmul(windows, ctx.constant(weight))
    out = relay.reshape(relay.transpose(out, (1, 2, 0)), (batch, filters, rows, columns))
    return activated(ctx, relay.add(out, ctx.constant(bias[None])), ctx.section.text("activation", "logistic"))


@layer("batchnorm")
def batchnorm(ctx, x):
    channels = ctx.image(x)[1]
    norm = Normalization(ctx, channels)
    factor, addend = (ctx.constant(v[:, None, None]) for v in (norm.factor, norm.addend))
    return relay.add(relay.multiply(x, factor), addend)


@layer("l2norm")
def l2norm(ctx, x):
    ctx.image(x)
    return relay.divide(x, relay.sqrt(relay.sum(relay.multiply(x, x), axis=1, keepdims=True)))


@layer("normalization")
def normalization(ctx, x):
    """Convert local response normalization across channels.

    DarkNet computes a running sum: the sum for channel 0 covers half a window, and each following channel adds one
    channel and subtracts one. A channel inside the window is therefore missing, which is reproduced here.
    """
    channels = ctx.image(x)[1]
    size = ctx.positive("size", 5)
    alpha, beta, kappa = (ctx.section.float(k, d) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("kappa", 1.0)))
    check_count("the weight matrix", [channels, channels])
    rows = np.zeros((channels, channels))
    rows[0, : size // 2] = alpha
    for k in range(1, channels):
        rows[k] = rows[k - 1]
        last, following = k - (size - 1) // 2 - 1, k + size // 2
        if last >= 0:
            rows[k, last] -= alpha
        if following < channels:
            rows[k, following] += alpha
    sums = relay.nn.conv2d(
        relay.multiply(x, x), ctx.constant(rows[:, :, None, None]), channels=channels, kernel_size=(1, 1)
    )
    return relay.multiply(x, relay.power(relay.add(sums, ctx.like(kappa, x)), ctx.like(-beta, x)))


__all__ = ["Convolution", "Product", "flat", "strides_of"]
