"""Converters of pooling, normalization, quantization and dequantization."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import tensorflow_ops as alike
from ..common.context import check_count
from .conv_ops import same_or_valid
from .elementwise import activated
from .fixed import times_root
from .integer_tables import softmax_16
from .quantization import (
    RANGES,
    centered,
    finished,
    limits,
    real_array,
    rescaled,
    to_integers,
    to_real,
)
from .table import Context, is_quantized, op, quantized

# -- pooling ----------------------------------------------------------------------------------------------------------


def _window(ctx: Context, x: RelayExpr, options) -> dict:
    kernel, strides = (options.filter_height, options.filter_width), (options.stride_h, options.stride_w)
    sizes = ctx.known_shape(x)[1:3]
    padding = same_or_valid(options.padding, sizes, kernel, strides, (1, 1))
    return {"pool_size": kernel, "strides": strides, "padding": padding, "layout": "NHWC"}


@op("AVERAGE_POOL_2D")
def average_pool(ctx, inputs, options):
    return activated(ctx, relay.nn.avg_pool2d(inputs[0], **_window(ctx, inputs[0], options)), options)


@op("MAX_POOL_2D")
def max_pool(ctx, inputs, options):
    return activated(ctx, relay.nn.max_pool2d(inputs[0], **_window(ctx, inputs[0], options)), options)


@op("L2_POOL_2D")
def l2_pool(ctx, inputs, options):
    squares = relay.multiply(inputs[0], inputs[0])
    return activated(ctx, relay.sqrt(relay.nn.avg_pool2d(squares, **_window(ctx, inputs[0], options))), options)


@quantized("MAX_POOL_2D")
def integer_max_pool(ctx, inputs, options):
    out = relay.nn.max_pool2d(inputs[0], **_window(ctx, inputs[0], options))
    return _limited(ctx, out, options)


def _limited(ctx: Context, x: RelayExpr, options) -> RelayExpr:
    """Clip integers with the scale of the output to the range of the fused activation."""
    result = ctx.result()
    low, high = limits(result, ctx.activation(options.fused_activation))
    if ctx.dtype(x) == result.dtype:
        return x if (low, high) == RANGES[result.dtype] else relay.clip(x, low, high)
    return relay.cast(relay.clip(x, low, high), result.dtype)


@quantized("AVERAGE_POOL_2D")
def integer_average_pool(ctx, inputs, options):
    """Divide the sum of the integers in each window by its number of elements inside the data; ties round away from
    zero.
    """
    x = inputs[0]
    window = _window(ctx, x, options)
    (height, width), kernel = ctx.known_shape(x)[1:3], window["pool_size"]
    check_count("an image", (height, width))
    if kernel == (height, width) and not any(window["padding"]):
        sums = relay.sum(relay.cast(x, "int32"), axis=(1, 2), keepdims=True)
    else:
        size = kernel[0] * kernel[1]
        if size > 1 << 13:
            raise TVMError(f"windows of {kernel[0]} x {kernel[1]} are too large for quantized average pooling")
        # The mean of such integers, multiplied by their count, differs from the exact sum by less than 0.5.
        kind = "float64" if ctx.dtype(x) == "int16" else "float32"
        means = relay.nn.avg_pool2d(relay.cast(x, kind), **window, count_include_pad=True)
        sums = relay.cast(relay.round(relay.multiply(means, const(float(size), kind))), "int32")
    counts = _counts((height, width), window)
    return _limited(ctx, divided(sums, counts), options)


def _counts(sizes: tuple[int, int], window: dict) -> np.ndarray:
    """Return the number of elements of each window that are inside the data."""
    rows = []
    for axis, size in enumerate(sizes):
        k, s, before = window["pool_size"][axis], window["strides"][axis], window["padding"][axis]
        total = size + before + window["padding"][axis + 2]
        begin = np.arange((total - k) // s + 1) * s - before
        rows.append(np.minimum(begin + k, size) - np.maximum(begin, 0))
    return np.outer(*rows).reshape(1, len(rows[0]), len(rows[1]), 1)


def divided(x: RelayExpr, counts: np.ndarray) -> RelayExpr:
    """Divide integers by positive integers, with ties rounded away from zero."""
    counts = counts.astype("int32")
    if (counts == counts.flat[0]).all():
        counts = counts.flat[:1].reshape(())
    raised = relay.add(relay.abs(x), Constant(counts // 2))
    return relay.multiply(relay.sign(x), relay.floor_divide(raised, Constant(counts)))


# -- normalization ----------------------------------------------------------------------------------------------------


@op("SOFTMAX")
def softmax(ctx, inputs, options):
    x = inputs[0]
    return relay.nn.softmax(x if options.beta == 1 else relay.multiply(x, ctx.like(options.beta, x)), -1)


@quantized("SOFTMAX")
def integer_softmax(ctx, inputs, options):
    """Look up the exponentials of differences from the maximum in a table; ties of the quotient are rounded up."""
    tensor, result = ctx.tensor(0), ctx.result()
    if tensor.dtype == result.dtype == "int16":
        return softmax_16(ctx, inputs, options)
    if tensor.dtype == "int16" or result.dtype != tensor.dtype:
        raise TVMError(f"softmax from {tensor.type} to {result.type} is not supported")
    x, y = ctx.quantization(tensor), ctx.quantization(result)
    step = np.float32(x.scale[0]) * np.float32(options.beta)
    powers = np.exp(-step * np.arange(255, -1, -1, dtype="float32"))
    wide = relay.cast(inputs[0], "int32")
    places = relay.add(relay.subtract(wide, relay.max(wide, axis=-1, keepdims=True)), const(255, "int32"))
    found = relay.take(Constant(powers.astype("float32")), places, mode="clip")
    total = relay.multiply(relay.sum(found, axis=-1, keepdims=True), const(float(y.scale[0])))
    steps = relay.multiply(found, relay.divide(const(1.0), total))
    return finished(relay.cast(relay.floor(relay.add(steps, const(0.5))), "int32"), result)


op("LOG_SOFTMAX")(alike.log_softmax)


@quantized("LOG_SOFTMAX")
def integer_log_softmax(ctx, inputs, options):
    """Look up the exponentials in a table, and compute everything else in float32."""
    tensor, result = ctx.tensor(0), ctx.result()
    if tensor.dtype not in ("int8", "uint8") or result.dtype != tensor.dtype:
        raise TVMError(f"log softmax from {tensor.type} to {result.type} is not supported")
    step, unit = np.float32(ctx.quantization(tensor).scale[0]), np.float32(ctx.quantization(result).scale[0])
    powers = np.exp(-step * np.arange(255, -1, -1, dtype="float32"))
    wide = relay.cast(inputs[0], "int32")
    most = relay.max(wide, axis=-1, keepdims=True)
    places = relay.add(relay.subtract(wide, most), const(255, "int32"))
    total = relay.sum(relay.take(Constant(powers.astype("float32")), places, mode="clip"), axis=-1, keepdims=True)
    start = relay.add(relay.multiply(const(step), relay.cast(most, "float32")), relay.log(total))
    steps = relay.multiply(relay.cast(wide, "float32"), const(np.float32(step / unit)))
    steps = relay.round(relay.subtract(steps, relay.divide(start, const(unit))))
    return finished(relay.cast(steps, "int32"), result)


@quantized("L2_NORMALIZATION")
def integer_l2_normalization(ctx, inputs, options):
    tensor, result = ctx.tensor(0), ctx.result()
    if tensor.dtype not in ("int8", "uint8") or result.dtype != tensor.dtype:
        raise TVMError(f"L2 normalization from {tensor.type} to {result.type} is not supported")
    value = centered(inputs[0], ctx.quantization(tensor))
    total = relay.sum(relay.multiply(value, value), axis=-1, keepdims=True)
    return finished(times_root(value, total, 7), result)


@op("L2_NORMALIZATION")
def l2_normalization(ctx, inputs, options):
    x = inputs[0]
    total = relay.sum(relay.multiply(x, x), axis=-1, keepdims=True)
    norm = relay.maximum(relay.sqrt(total), ctx.like(1e-6, x))
    return activated(ctx, relay.divide(x, norm), options)


@op("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(ctx, inputs, options):
    size = 2 * options.radius + 1
    if not 0 <= options.radius < 1 << 20:
        raise TVMError(f"radius {options.radius} is not supported")
    # Relay's operator divides alpha by the window size, unlike TFLite's.
    return relay.nn.lrn(inputs[0], size, 3, options.bias, options.alpha * size, options.beta)


# -- quantization and dequantization ----------------------------------------------------------------------------------


@op("QUANTIZE")
def unknown_quantize(ctx, inputs, options):
    raise TVMError("the output has no quantization scale")


@quantized("QUANTIZE")
def quantize(ctx, inputs, options):
    tensor, result = ctx.tensor(0), ctx.result()
    y = ctx.quantization(result)
    if not is_quantized(tensor):
        if not ctx.is_float(inputs[0]):
            raise TVMError(f"quantization of {tensor.type} without a scale is not supported")
        return to_integers(relay.cast(inputs[0], "float32"), result)
    x = ctx.quantization(tensor)
    steps = rescaled(centered(inputs[0], x), float(x.scale[0]) / float(y.scale[0]))
    return finished(steps, result)


@op("DEQUANTIZE")
def plain_dequantize(ctx, inputs, options):
    """Convert float16 to float32; constant weights are folded at once."""
    tensor = ctx.tensor(0)
    if not ctx.is_float(inputs[0]) and tensor.quantization is None:
        raise TVMError("the input has no quantization scale")
    array = ctx.value(inputs[0]) if tensor.data is not None else None
    if array is not None:
        found = tensor.quantization
        return Constant(array.astype("float32") if found is None else real_array(array, found))
    if tensor.quantization is None:
        return relay.cast(inputs[0], "float32")
    return to_real(inputs[0], tensor, ctx.rank(inputs[0]))


quantized("DEQUANTIZE")(plain_dequantize)


__all__ = ["divided"]
