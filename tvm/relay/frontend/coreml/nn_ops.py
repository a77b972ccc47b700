"""Converters of convolution and matmul."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ..common.matmul import numpy_matmul
from .activations import softmax
from .table import Context, Ints, Many, check_count, constant, half, op

_CONV = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}
_TRANSPOSED = {1: relay.nn.conv1d_transpose, 2: relay.nn.conv2d_transpose, 3: relay.nn.conv3d_transpose}


def window_numbers(values, count: int, what: str, least: int = 1) -> list[int]:
    """Return an integer for each spatial dimension; missing values are 1."""
    found = [1] * count if not values else [int(v) for v in values]
    if len(found) != count or any(v < least or v >= 1 << 31 for v in found):
        raise TVMError(f"{what} must be {count} integers of at least {least}, got {found}")
    return found


def padding_of(ctx: Context, x, kind: str, pad, kernel, strides, dilations) -> tuple[list[int], list[int]]:
    """Return the padding before and after each spatial dimension."""
    count = len(kernel)
    if kind == "valid":
        return [0] * count, [0] * count
    if kind == "custom":
        amounts = [0] * 2 * count if pad is None else [int(v) for v in pad]
        if len(amounts) != 2 * count or any(not 0 <= v < 1 << 31 for v in amounts):
            raise TVMError(f"expected {2 * count} padding amounts, got {amounts}")
        return amounts[0::2], amounts[1::2]
    if kind not in ("same", "same_lower"):
        raise TVMError(f"the padding type '{kind}' is not supported")
    # With stride 1 the padding does not depend on the size.
    sizes = [0] * count if max(strides) == 1 else ctx.spatial(x)
    total = [max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
             for size, k, s, d in zip(sizes, kernel, strides, dilations)]  # fmt: skip
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    return (less, more) if kind == "same" else (more, less)


def biased(ctx: Context, out, bias, axis: int = 1):
    if bias is None:
        return out
    known = ctx.value(bias)
    return out if known is not None and not known.any() else relay.nn.bias_add(out, bias, axis)


@op("conv")
@half
def conv(ctx, x, weight, bias=None, strides: Ints | None = None, pad_type: str = "valid", pad: Ints | None = None,
         dilations: Ints | None = None, groups: int = 1):  # fmt: skip
    shape = ctx.known_shape(weight)
    count = len(shape) - 2
    if count not in _CONV or ctx.rank(x) != count + 2:
        raise TVMError(f"data of {ctx.rank(x)} dimensions does not match weights of {len(shape)} dimensions")
    strides = window_numbers(strides, count, "strides")
    dilations = window_numbers(dilations, count, "dilations")
    before, after = padding_of(ctx, x, pad_type, pad, shape[2:], strides, dilations)
    out = _CONV[count](
        x, weight, strides=tuple(strides), padding=(*before, *after), dilation=tuple(dilations), groups=groups,
        channels=shape[0], kernel_size=shape[2:],
    )  # fmt: skip
    return biased(ctx, out, bias)


def _dilated(ctx: Context, weight, dilations: list[int]):
    """Return the weights of a dilated kernel as a larger dense kernel with zeros."""
    array = ctx.array(weight, "the weights of a dilated transposed convolution")
    shape = [*array.shape[:2], *((k - 1) * d + 1 for k, d in zip(array.shape[2:], dilations))]
    check_count("the weights", shape)
    out = np.zeros(shape, array.dtype)
    out[(slice(None), slice(None), *(slice(None, None, d) for d in dilations))] = array
    return constant(out)


@op("conv_transpose")
@half
def conv_transpose(ctx, x, weight, bias=None, pad: Ints | None = None, output_shape: Ints | None = None,
                   pad_type: str = "valid", strides: Ints | None = None, dilations: Ints | None = None,
                   groups: int = 1, is_lower: bool = False):  # fmt: skip
    count = ctx.rank(weight) - 2
    if count not in _TRANSPOSED or ctx.rank(x) != count + 2:
        raise TVMError(f"data of {ctx.rank(x)} dimensions does not match weights of {count + 2} dimensions")
    strides = window_numbers(strides, count, "strides")
    dilations = window_numbers(dilations, count, "dilations")
    weight = _dilated(ctx, weight, dilations) if max(dilations) > 1 else weight
    shape = ctx.known_shape(weight)
    if output_shape or pad_type in ("same", "same_lower"):
        sizes = ctx.spatial(x)
        wanted = list(output_shape)[-count:] if output_shape else [d * s for d, s in zip(sizes, strides)]
        total = [(d - 1) * s + k - w for d, s, k, w in zip(sizes, strides, shape[2:], wanted)]
        less, more = [max(t, 0) // 2 for t in total], [max(t, 0) - max(t, 0) // 2 for t in total]
        extra = [max(-t, 0) for t in total]
        before, after = (more, less) if is_lower or pad_type == "same_lower" else (less, more)
    else:
        before, after = padding_of(ctx, x, pad_type, pad, shape[2:], strides, dilations)
        extra = [0] * count
    out = _TRANSPOSED[count](
        x, weight, strides=tuple(strides), padding=(*before, *after), groups=groups, channels=shape[1] * groups,
        kernel_size=shape[2:],
    )  # fmt: skip
    if any(extra):
        # Pad the output positions that no input element contributes to.
        check_count("the output", extra)
        out = relay.nn.pad(out, [(0, 0), (0, 0), *((0, e) for e in extra)], ctx.like(0, x))
    return biased(ctx, out, bias)


@op("linear")
@half
def linear(ctx, x, weight, bias=None):
    rank = ctx.rank(x)
    if rank == 0:
        raise TVMError("linear: the input must have at least 1 dimension")
    out = ctx.made(numpy_matmul(ctx, x, ctx.made(relay.transpose(weight, (1, 0)))))
    return biased(ctx, out, bias, rank - 1)


def _transposed_last(ctx: Context, x):
    rank = ctx.rank(x)
    return x if rank < 2 else ctx.made(relay.transpose(x, (*range(rank - 2), rank - 1, rank - 2)))


@op("matmul")
@half
def matmul(ctx, x, y, transpose_x: bool = False, transpose_y: bool = False):
    x, y = _transposed_last(ctx, x) if transpose_x else x, _transposed_last(ctx, y) if transpose_y else y
    if not ctx.is_float(x):
        return ctx.cast(ctx.made(numpy_matmul(ctx, ctx.cast(x, "float32"), ctx.cast(y, "float32"))), ctx.dtype(x))
    return numpy_matmul(ctx, x, y)


@op("einsum")
def einsum(ctx, values: Many, equation: str):
    if ctx.dtype(values[0]) == "float16":
        wide = [ctx.cast(v, "float32") for v in values]
        return ctx.cast(ctx.made(relay.einsum(wide, equation)), "float16")
    return relay.einsum(values, equation)


@op("scaled_dot_product_attention")
@half
def attention(ctx, query, key, value, attn_mask=None):
    scale = 1 / math.sqrt(ctx.known_size(query, -1))
    scores = ctx.made(matmul(ctx, relay.multiply(query, ctx.like(scale, query)), key, False, True))
    if attn_mask is not None:
        if ctx.dtype(attn_mask) == "bool":
            attn_mask = relay.where(attn_mask, ctx.like(0, scores), ctx.like(-math.inf, scores))
        scores = ctx.made(relay.add(scores, attn_mask))
    return numpy_matmul(ctx, ctx.made(softmax(ctx, scores, -1)), value)


__all__ = ["biased", "conv", "conv_transpose", "linear", "matmul", "padding_of", "window_numbers"]
