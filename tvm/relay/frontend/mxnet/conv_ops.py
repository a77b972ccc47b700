"""Converters of convolution, fully connected and embedding operators."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from ..common.deformable import masked_deformable
from .table import Context, check_count, op

WINDOW = (
    "kernel:dims stride:dims=() dilate:dims=() pad:dims=() num_filter:int num_group:int=1 no_bias:bool={}"
    " layout:str?=None"
)
_PLAIN = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


class Window:
    """The window attributes of an operator over spatial axes.

    The default of kernel, stride and dilation is 1, that of padding 0.
    """

    def __init__(self, attrs):
        self.kernel = tuple(attrs.kernel)
        self.rank = len(self.kernel)
        if self.rank not in (1, 2, 3):
            raise TVMError(
                f"the attribute kernel={self.kernel} has {self.rank} dimensions; only 1, 2 and 3 are supported"
            )
        self.stride = self._of(attrs.stride, "stride", 1, 1)
        self.dilate = self._of(getattr(attrs, "dilate", ()), "dilate", 1, 1)
        self.pad = self._of(attrs.pad, "pad", 0, 0)
        self._of(self.kernel, "kernel", 1, 1)
        self.layout = attrs.layout or _PLAIN[self.rank]
        if self.layout not in (_PLAIN[self.rank], _LAST[self.rank]):
            raise TVMError(f"the attribute layout={attrs.layout} does not match kernel={self.kernel}")
        self.last = self.layout == _LAST[self.rank]
        self.channel = self.rank + 1 if self.last else 1
        self.letters = "DHW"[3 - self.rank :]

    def _of(self, values, what: str, default: int, least: int) -> tuple[int, ...]:
        values = tuple(values) or (default,) * self.rank
        # Larger values exceed any tensor that fits in memory.
        if len(values) != self.rank or any(v is None or not least <= v < 1 << 31 for v in values):
            raise TVMError(f"the attribute {what}={values} does not match kernel={self.kernel}")
        return values

    def padding(self) -> tuple[int, ...]:
        return (*self.pad, *self.pad)

    def kernel_layout(self, first: str) -> str:
        return f"{first[0]}{self.letters}{first[1]}" if self.last else f"{first}{self.letters}"


def with_bias(ctx: Context, out: RelayExpr, inputs: list, place: int, no_bias: bool, axis: int) -> RelayExpr:
    """Add the bias, which is the input with index ``place``, to the output."""
    if no_bias:
        return out
    if len(inputs) <= place:
        raise TVMError("the bias is missing, and no_bias is not set")
    return relay.nn.bias_add(out, inputs[place], axis=axis)


def _conv_shapes(ctx, known, attrs) -> dict:
    window = Window(attrs)
    channels = ctx.known_size(known[0], window.channel)
    inner = channels // max(attrs.num_group, 1)
    weight = (attrs.num_filter, *window.kernel, inner) if window.last else (attrs.num_filter, inner, *window.kernel)
    return {1: weight, 2: (attrs.num_filter,)}


@op("Convolution Convolution_v1", WINDOW.format("False"), shapes=_conv_shapes)
def convolution(ctx, inputs, attrs):
    window = Window(attrs)
    _check_weight(ctx, inputs, attrs, _conv_shapes(ctx, inputs, attrs)[1])
    build = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}[window.rank]
    out = build(
        inputs[0],
        inputs[1],
        strides=window.stride,
        padding=window.padding(),
        dilation=window.dilate,
        groups=attrs.num_group,
        channels=attrs.num_filter,
        kernel_size=window.kernel,
        data_layout=window.layout,
        kernel_layout=window.kernel_layout("OI"),
    )
    return with_bias(ctx, out, inputs, 2, attrs.no_bias, window.channel)


def _check_weight(ctx: Context, inputs: list, attrs, wanted: tuple) -> None:
    if attrs.num_group < 1 or attrs.num_filter < 1 or attrs.num_filter % attrs.num_group:
        raise TVMError(f"num_filter={attrs.num_filter} is not divisible into num_group={attrs.num_group} groups")
    found = ctx.known_shape(inputs[1])
    if found != wanted:
        raise TVMError(f"the weights have shape {found}, but the attributes and the data need {wanted}")


def _deconv_shapes(ctx, known, attrs) -> dict:
    window = Window(attrs)
    channels = ctx.known_size(known[0], window.channel)
    outer = attrs.num_filter // max(attrs.num_group, 1)
    weight = (channels, *window.kernel, outer) if window.last else (channels, outer, *window.kernel)
    return {1: weight, 2: (attrs.num_filter,)}


@op("Deconvolution", WINDOW.format("True") + " adj:dims=() target_shape:dims=()", shapes=_deconv_shapes)
def deconvolution(ctx, inputs, attrs):
    window = Window(attrs)
    _check_weight(ctx, inputs, attrs, _deconv_shapes(ctx, inputs, attrs)[1])
    if any(d != 1 for d in window.dilate):
        return _dilated(ctx, inputs, attrs, window)
    before, extra = _padding_and_extra(ctx, inputs[0], attrs, window)
    return _transposed(ctx, inputs, attrs, window, before, extra)


def _padding_and_extra(ctx: Context, x: RelayExpr, attrs, window: Window) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding and the additional output size at the end. ``target_shape`` determines both if it is set."""
    if not any(attrs.target_shape):
        extra = tuple(attrs.adj) or (0,) * window.rank
        if len(extra) != window.rank or any(e is None or not 0 <= e < s for e, s in zip(extra, window.stride)):
            raise TVMError(f"the attribute adj={extra} does not match stride={window.stride}")
        return window.pad, extra
    if len(attrs.target_shape) != window.rank:
        raise TVMError(f"the attribute target_shape={attrs.target_shape} does not match kernel={window.kernel}")
    first = 1 if window.last else 2
    sizes = [ctx.known_size(x, first + i) for i in range(window.rank)]
    pads, extras = [], []
    for size, k, s, d, wanted in zip(sizes, window.kernel, window.stride, window.dilate, attrs.target_shape):
        total = s * (size - 1) + (k - 1) * d + 1 - wanted
        if total < 0:
            raise TVMError(f"the attribute target_shape={attrs.target_shape} is larger than the output")
        extras.append(total % 2)
        pads.append((total + 1) // 2)
    return tuple(pads), tuple(extras)


def _transposed(ctx: Context, inputs: list, attrs, window: Window, before, extra) -> RelayExpr:
    build = {1: relay.nn.conv1d_transpose, 2: relay.nn.conv2d_transpose, 3: relay.nn.conv3d_transpose}[window.rank]
    data, weight = inputs[:2]
    if window.last:
        data = relay.transpose(data, (0, window.rank + 1, *range(1, window.rank + 1)))
        weight = relay.transpose(weight, (0, window.rank + 1, *range(1, window.rank + 1)))
    out = build(
        data,
        weight,
        strides=window.stride,
        padding=(*before, *before),
        groups=attrs.num_group,
        channels=attrs.num_filter,
        kernel_size=window.kernel,
        output_padding=extra,
    )
    if window.last:
        out = relay.transpose(out, (0, *range(2, window.rank + 2), 1))
    return with_bias(ctx, out, inputs, 2, attrs.no_bias, window.channel)


def _dilated(ctx: Context, inputs: list, attrs, window: Window) -> RelayExpr:
    """Convert a dilated transposed convolution, with the kernel written as a larger dense kernel with zeros."""
    wide = tuple((k - 1) * d + 1 for k, d in zip(window.kernel, window.dilate))
    check_count("the dilated kernel", wide)
    before, extra = _padding_and_extra(ctx, inputs[0], attrs, window)
    strides = (1, *window.dilate, 1) if window.last else (1, 1, *window.dilate)
    weight = ctx.made(relay.nn.dilate(inputs[1], strides))
    window.kernel = wide
    return _transposed(ctx, [inputs[0], weight, *inputs[2:]], attrs, window, before, extra)


_DEFORMABLE = (
    "kernel:dims stride:dims=() dilate:dims=() pad:dims=() num_filter:int num_group:int=1"
    " num_deformable_group:int=1 no_bias:bool=False layout:str?=None"
)


def _deformable_shapes(place: int):
    def shapes(ctx, known, attrs) -> dict:
        channels = ctx.known_size(known[0], 1)
        return {
            place: (attrs.num_filter, channels // max(attrs.num_group, 1), *attrs.kernel),
            place + 1: (attrs.num_filter,),
        }

    return shapes


@op("_contrib_DeformableConvolution", _DEFORMABLE, shapes=_deformable_shapes(2))
def deformable(ctx, inputs, attrs):
    window = Window(attrs)
    if window.rank != 2 or window.last:
        raise TVMError("only 2-D images with channels first are supported")
    data, weight = inputs[0], inputs[2]
    offset = _adjust_offsets(ctx, data, inputs[1], window, attrs.num_deformable_group)
    _check_weight(ctx, [data, weight], attrs, _deformable_shapes(1)(ctx, [data], attrs)[1])
    out = relay.nn.deformable_conv2d(
        data,
        offset,
        weight,
        strides=window.stride,
        padding=window.padding(),
        dilation=window.dilate,
        deformable_groups=attrs.num_deformable_group,
        groups=attrs.num_group,
        channels=attrs.num_filter,
        kernel_size=window.kernel,
    )
    return with_bias(ctx, out, inputs, 3, attrs.no_bias, 1)


@op("_contrib_ModulatedDeformableConvolution", _DEFORMABLE + " im2col_step:int=64", shapes=_deformable_shapes(3))
def modulated_deformable(ctx, inputs, attrs):
    window = Window(attrs)
    if window.rank != 2 or window.last:
        raise TVMError("only 2-D images with channels first are supported")
    data, offset, mask, weight = inputs[:4]
    taps, sets = math.prod(window.kernel), attrs.num_deformable_group
    if [ctx.known_shape(v)[1] for v in (offset, mask)] != [2 * sets * taps, sets * taps]:
        raise TVMError(f"offsets of shape {ctx.known_shape(offset)} and a mask of shape {ctx.known_shape(mask)} do not "
                       f"match kernel={window.kernel} and num_deformable_group={sets}")  # fmt: skip
    _check_weight(ctx, [data, weight], attrs, _deformable_shapes(1)(ctx, [data], attrs)[1])
    out = masked_deformable(
        ctx,
        data,
        offset,
        mask,
        weight,
        attrs.num_group,
        strides=window.stride,
        padding=window.padding(),
        dilation=window.dilate,
        deformable_groups=sets,
    )
    return with_bias(ctx, out, inputs, 4, attrs.no_bias, 1)


def _adjust_offsets(ctx: Context, x: RelayExpr, offset: RelayExpr, window: Window, groups: int) -> RelayExpr:
    """Adjust the offsets of a deformable convolution at the image borders.

    Sampling points outside the image are moved far away, so that they contribute nothing. Points after the last
    element's position are clamped to it.
    """
    batch, channels, *counts = ctx.known_shape(offset)
    taps = math.prod(window.kernel)
    if groups < 1 or channels != 2 * groups * taps:
        raise TVMError(
            f"{channels} offset channels do not match kernel={window.kernel} and num_deformable_group={groups}"
        )
    places = np.zeros((2, *window.kernel, *counts), "float32")
    for axis in (0, 1):
        tap = np.arange(window.kernel[axis]) * window.dilate[axis] - window.pad[axis]
        at = np.arange(counts[axis]) * window.stride[axis]
        shape = [1] * 4
        shape[axis], shape[2 + axis] = len(tap), len(at)
        places[axis] = (tap[:, None] + at[None, :]).reshape(shape)
    base = places.reshape(2, taps, *counts).transpose(1, 0, 2, 3)[None, None]
    split = relay.reshape(offset, (batch, groups, taps, 2, *counts))
    own = relay.add(split, Constant(base))
    sizes = np.array(ctx.spatial(x), "float32").reshape(1, 1, 1, 2, 1, 1)
    last = relay.minimum(own, Constant(sizes - 1))
    outside = relay.logical_or(relay.less(own, ctx.like(0, offset)), relay.greater_equal(own, Constant(sizes)))
    moved = relay.subtract(relay.where(outside, ctx.like(-1e4, offset), last), Constant(base))
    return ctx.made(relay.reshape(moved, (batch, channels, *counts)))


# -- fully connected layers and embeddings ----------------------------------------------------------------------------


def _dense_shapes(ctx, known, attrs) -> dict:
    dims = ctx.known_shape(known[0])
    inner = math.prod(dims[1:]) if attrs.flatten else dims[-1]
    return {1: (attrs.num_hidden, inner), 2: (attrs.num_hidden,)}


DENSE = "num_hidden:int no_bias:bool=False flatten:bool=True"


def flat(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Flatten to a matrix with one row for each batch element."""
    return x if ctx.rank(x) == 2 else relay.nn.batch_flatten(x)


@op("FullyConnected", DENSE, shapes=_dense_shapes)
def fully_connected(ctx, inputs, attrs):
    x, weight = inputs[:2]
    if ctx.known_size(weight, 0) != attrs.num_hidden:
        raise TVMError(f"the weights have shape {ctx.shape(weight)}, but num_hidden is {attrs.num_hidden}")
    if attrs.flatten:
        out = relay.nn.dense(flat(ctx, x), weight, units=attrs.num_hidden)
        return with_bias(ctx, out, inputs, 2, attrs.no_bias, 1)
    rank = ctx.rank(x)
    if rank == 2:
        out = relay.nn.dense(x, weight, units=attrs.num_hidden)
    else:
        rows = relay.reshape(x, (-1, ctx.known_size(x, rank - 1)))
        out = relay.nn.dense(rows, weight, units=attrs.num_hidden)
        out = relay.reshape(out, (*ctx.known_shape(x)[:-1], attrs.num_hidden))
    return with_bias(ctx, ctx.made(out), inputs, 2, attrs.no_bias, rank - 1)


def _table_shapes(ctx, known, attrs) -> dict:
    return {1: (attrs.input_dim, attrs.output_dim)}


@op("Embedding _contrib_SparseEmbedding", "input_dim:int output_dim:int dtype:dtype=float32", shapes=_table_shapes)
def embedding(ctx, inputs, attrs):
    """Look up rows of a table. Indices out of range are clipped."""
    if ctx.known_shape(inputs[1]) != (attrs.input_dim, attrs.output_dim):
        raise TVMError(
            f"the table has shape {ctx.shape(inputs[1])}, but the attributes specify ({attrs.input_dim}, "
            f"{attrs.output_dim})"
        )
    return relay.take(inputs[1], ctx.cast(inputs[0], "int32"), axis=0, mode="clip")


__all__ = ["DENSE", "WINDOW", "Window", "embedding", "flat", "fully_connected", "with_bias"]
