"""Converters of convolutions and matmuls. Data keeps the channels-last layout."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np

from ....error import TVMError
from ... import op as relay
from ... import qnn
from ...expr import Constant, RelayExpr
from .elementwise import activated
from .hybrid import activations, is_hybrid, weight_scale, whole_weight
from .quantization import finished, real_array, rescaled, rescaled_wide, rounded_away
from .table import Context, argument, is_quantized, op, quantized

_PADDINGS = ("SAME", "VALID")


def same_or_valid(number: int, sizes, kernel, strides, dilations) -> tuple[int, ...]:
    """Return the padding of a window: begin of each axis, then end of each axis."""
    if not 0 <= number < 2:
        raise TVMError(f"unknown padding code {number}")
    if any(v < 1 for v in (*kernel, *strides, *dilations)):
        raise TVMError(
            f"a window of {list(kernel)} with strides {list(strides)} and dilations {list(dilations)} is "
            "not valid: all values must be positive"
        )
    if _PADDINGS[number] == "VALID":
        return (0,) * (2 * len(kernel))
    before, after = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    return (*before, *after)


def weight_array(ctx: Context, inputs: list, index: int, real: bool) -> np.ndarray | None:
    """Return the array of a constant input, dequantized if ``real``; None if the input is not constant."""
    array = ctx.value(inputs[index])
    found = ctx.tensor(index)
    if array is None or not real or array.dtype == "float32":
        return array
    if found.quantization is not None:
        return real_array(array, found.quantization)
    return array.astype("float32")


def moved_weight(ctx: Context, inputs: list, index: int, axes: tuple[int, ...], real: bool) -> RelayExpr:
    """Return the weights of a convolution with permuted axes."""
    if ctx.rank(inputs[index]) != len(axes):
        raise TVMError(f"weights must have {len(axes)} dimensions, got {ctx.rank(inputs[index])}")
    array = weight_array(ctx, inputs, index, real)
    if array is None:
        if is_quantized(ctx.tensor(index)) and real:
            raise TVMError("quantized weights must be constants")
        return relay.transpose(inputs[index], axes)
    return Constant(np.ascontiguousarray(array.transpose(axes)))


def biased(ctx: Context, out: RelayExpr, inputs: list, index: int) -> RelayExpr:
    bias = argument(inputs, index)
    if bias is None:
        return out
    kind = ctx.dtype(ctx.made(out))
    return relay.add(out, bias if ctx.dtype(bias) == kind else relay.cast(bias, kind))


def scales(ctx: Context, data: int = 0, weight: int = 1) -> np.ndarray:
    """Return the factor from integer sums to quantization steps of the output: one, or one per channel."""
    x, w = ctx.quantization(ctx.tensor(data)).scale, ctx.tensor(weight).quantization
    if w is None:
        raise TVMError("the weights have no quantization scale")
    out = ctx.quantization(ctx.result()).scale.astype("float64")
    if ctx.tensor(weight).dtype == "uint8":
        # The reference kernels for uint8 weights multiply the scales in float32.
        return (x * w.scale).astype("float64") / out
    return x.astype("float64") * w.scale.astype("float64") / out


def zero_points(ctx: Context, data: int = 0, weight: int = 1) -> tuple:
    """Return the arguments of a QNN matmul or convolution: the zero points, and 1 as scales because the output is
    unscaled.
    """
    w = ctx.tensor(weight).quantization
    if w is None or not w.is_single and w.zero_point.any():
        raise TVMError("weights with per-channel zero points are not supported")
    zero = int(w.zero_point[0])
    return int(ctx.quantization(ctx.tensor(data)).zero_point[0]), zero, 1.0, 1.0


def check_integers(ctx: Context, data: int = 0, weight: int = 1) -> None:
    """Reject combinations of types that LiteRT does not have.

    int16 data requires 8-bit weights, or for matmuls int16 weights, and an int16 output.
    """
    types = [ctx.tensor(data).type, ctx.tensor(weight).type]
    short = ctx.tensor(weight).dtype in ("int8", "uint8")
    short = short or types == ["int16", "int16"] and ctx.node.operator in ("BATCH_MATMUL", "FULLY_CONNECTED")
    if not is_quantized(ctx.result()) or (types[0] == "int16") != (ctx.result().type == "int16") or not short:
        raise TVMError(
            f"the operator is not supported for {' and '.join(types)} operands with a {ctx.result().type} output"
        )


def integer_sums(ctx: Context, inputs: list, data: int, weight: int, real, quantum, attrs: dict) -> RelayExpr:
    """Return integer sums: ``quantum`` is used for 8-bit data, and ``real``, which supports wide types, for
    int16 data.
    """
    if ctx.tensor(data).type != "int16":
        return quantum(inputs[data], inputs[weight], *zero_points(ctx, data, weight), **attrs)
    if any(zero_points(ctx, data, weight)[:2]):
        raise TVMError("int16 data with a zero point is not supported")
    array = ctx.value(inputs[weight])
    # The sums of most layers fit into int32, which is faster.
    most = 1 << 40 if array is None else int(np.abs(array.astype("int64")).sum()) << 15
    kind = "int32" if most < 1 << 31 else "int64"
    return relay.cast(real(*(relay.cast(inputs[i], kind) for i in (data, weight)), **attrs, out_dtype=kind), "int64")


def requantized_sums(ctx: Context, sums: RelayExpr, inputs: list, index: int, factors: np.ndarray) -> RelayExpr:
    """Add the bias to integer sums and rescale them to quantization steps of the output."""
    bias, total = argument(inputs, index), biased(ctx, sums, inputs, index)
    if ctx.dtype(ctx.made(sums)) == "int64" and (bias is None or ctx.dtype(bias) == "int64"):
        return rescaled_wide(total, factors)
    return rescaled(relay.cast(total, "int32"), factors)


def _window(ctx: Context, options, sizes, kernel) -> dict:
    strides, dilations = (options.stride_h, options.stride_w), (options.dilation_h, options.dilation_w)
    padding = same_or_valid(options.padding, sizes, kernel, strides, dilations)
    return {"strides": strides, "padding": padding, "dilation": dilations, "kernel_size": kernel, "data_layout": "NHWC"}


def _plain(ctx: Context, inputs: list, options, real: bool) -> tuple[RelayExpr, dict]:
    """Return the weights and the attributes of a convolution."""
    outputs, height, width, depth = ctx.known_shape(inputs[1])
    channels = ctx.known_size(inputs[0], 3)
    if not depth or channels % depth or outputs % max(channels // depth, 1):
        raise TVMError(
            f"the number of channels of the data, {channels}, must be divisible by that of the weights, {depth}"
        )
    attrs = _window(ctx, options, ctx.known_shape(inputs[0])[1:3], (height, width))
    weight = moved_weight(ctx, inputs, 1, (1, 2, 3, 0), real)
    return weight, {**attrs, "groups": channels // depth, "channels": outputs, "kernel_layout": "HWIO"}


def _depthwise(ctx: Context, inputs: list, options, real: bool) -> tuple[RelayExpr, dict]:
    one, height, width, outputs = ctx.known_shape(inputs[1])
    channels = ctx.known_size(inputs[0], 3)
    if one != 1 or not channels or outputs % channels:
        raise TVMError(f"depthwise weights with {outputs} output channels do not match data with {channels} channels")
    attrs = _window(ctx, options, ctx.known_shape(inputs[0])[1:3], (height, width))
    array = weight_array(ctx, inputs, 1, real)
    shape = (height, width, channels, outputs // channels)
    weight = relay.reshape(inputs[1], shape) if array is None else Constant(np.ascontiguousarray(array).reshape(shape))
    # With one channel this is a plain convolution, where the multiplier axis is the output axis.
    layout = "HWOI" if channels > 1 else "HWIO"
    return weight, {**attrs, "groups": channels, "channels": outputs, "kernel_layout": layout}


def _real(form):
    def convert(ctx, inputs, options):
        data, scale = inputs[0], None
        if is_hybrid(ctx, inputs):
            single = ctx.tensor(1).quantization.is_single and ctx.node.operator == "CONV_2D"
            data, scale = activations(ctx, data, (1, 2, 3), single)
            inputs = [data, Constant(whole_weight(ctx, inputs)), *inputs[2:]]
        weight, attrs = form(ctx, inputs, options, scale is None)
        out = relay.nn.conv2d(data, weight, **attrs)
        out = out if scale is None else relay.multiply(out, relay.multiply(scale, weight_scale(ctx)))
        return activated(ctx, biased(ctx, out, inputs, 2), options)

    return convert


def _integer(form):
    def convert(ctx, inputs, options):
        check_integers(ctx)
        weight, attrs = form(ctx, inputs, options, False)
        sums = integer_sums(ctx, [inputs[0], weight], 0, 1, relay.nn.conv2d, qnn.op.conv2d, attrs)
        steps = requantized_sums(ctx, sums, inputs, 2, scales(ctx))
        return finished(steps, ctx.result(), ctx.activation(options.fused_activation))

    return convert


for _name, _form in (("CONV_2D", _plain), ("DEPTHWISE_CONV_2D", _depthwise)):
    op(_name)(_real(_form))
    quantized(_name)(_integer(_form))


@op("CONV_3D")
def conv_3d(ctx, inputs, options):
    *kernel, channels, outputs = ctx.known_shape(inputs[1])
    strides = (options.stride_d, options.stride_h, options.stride_w)
    dilations = (options.dilation_d, options.dilation_h, options.dilation_w)
    padding = same_or_valid(options.padding, ctx.known_shape(inputs[0])[1:4], kernel, strides, dilations)
    out = relay.nn.conv3d(
        inputs[0], inputs[1], strides=strides, padding=padding, dilation=dilations,
        groups=ctx.known_size(inputs[0], 4) // channels, channels=outputs, kernel_size=tuple(kernel),
        data_layout="NDHWC", kernel_layout="DHWIO",
    )  # fmt: skip
    return activated(ctx, biased(ctx, out, inputs, 2), options)


# -- transposed -------------------------------------------------------------------------------------------------------


def _transposed(ctx: Context, inputs: list, options, real: bool, build) -> RelayExpr:
    """Convert a transposed convolution: input 0 is the output shape, input 1 the weights, input 2 the data."""
    shape, sizes = ctx.ints(inputs[0], "the output shape"), ctx.known_shape(inputs[2])
    strides, axes, order = (options.stride_h, options.stride_w), (3, 0, 1, 2), (1, 2)
    outputs_at = 0
    if ctx.node.operator == "CONV_3D_TRANSPOSE":
        strides, axes, order, outputs_at = (options.stride_d, *strides), (4, 3, 0, 1, 2), (0, 1, 2), 3
    known = ctx.known_shape(inputs[1])
    if not len(shape) == len(sizes) == len(known) == len(axes):
        raise TVMError(f"the output shape must have {len(axes)} dimensions, got {shape}")
    outputs, kernel = known[outputs_at], tuple(known[i] for i in order)
    same_or_valid(options.padding, kernel, kernel, strides, (1,) * len(kernel))
    befores, afters, extra = [], [], []
    for size, out, k, s in zip(sizes[1:-1], shape[1:-1], kernel, strides):
        if _PADDINGS[options.padding] == "SAME":
            total = max((size - 1) * s + k - out, 0)
        else:
            total = 0
        befores.append(total // 2)
        afters.append(total - total // 2)
        # Outputs after the last window are zeros, as if they were computed by an additional window.
        extra.append(out - ((size - 1) * s + k - total))
    if min(extra) < 0:
        raise TVMError(f"the output shape {shape} is smaller than the transposed convolution of {list(sizes)}")
    weight = moved_weight(ctx, inputs, 1, axes, real)
    last = len(kernel) + 1
    data = relay.transpose(inputs[2], (0, last, *range(1, last)))
    fits = all(e < s for e, s in zip(extra, strides))
    out = build(
        data, weight, strides=strides, padding=(*befores, *afters), channels=outputs, kernel_size=kernel,
        output_padding=tuple(extra) if fits else (0,) * len(kernel),
    )  # fmt: skip
    out = relay.transpose(out, (0, *range(2, last + 1), 1))
    return out if fits else relay.nn.pad(out, ((0, 0), *((0, e) for e in extra), (0, 0)))


@op("TRANSPOSE_CONV")
def transpose_conv(ctx, inputs, options):
    out = _transposed(ctx, inputs, options, True, relay.nn.conv2d_transpose)
    return activated(ctx, biased(ctx, out, inputs, 3), options)


@op("CUSTOM Convolution2DTransposeBias")
def transpose_conv_bias(ctx, inputs, options):
    """Convert MediaPipe's transposed convolution of data, weights and bias; its options are three int32 numbers."""
    raw = ctx.node.custom_options
    if raw is None or len(raw) < 12:
        raise TVMError("the options must contain the padding and the strides")
    padding, width, height = struct.unpack_from("<3i", raw)
    # The padding codes of this operator begin with one for an unknown padding.
    window = SimpleNamespace(padding=padding - 1, stride_w=width, stride_h=height)
    batch, *sizes, _ = ctx.known_shape(inputs[0])
    outputs, *kernel, _ = ctx.known_shape(inputs[1])
    same_or_valid(window.padding, kernel, kernel, (height, width), (1, 1))
    more = [0 if _PADDINGS[window.padding] == "SAME" else max(k - s, 0) for k, s in zip(kernel, (height, width))]
    shape = [batch, *(d * s + m for d, s, m in zip(sizes, (height, width), more)), outputs]
    given = [Constant(np.array(shape, "int32")), inputs[1], inputs[0]]
    return biased(ctx, _transposed(ctx, given, window, True, relay.nn.conv2d_transpose), inputs, 2)


@op("CONV_3D_TRANSPOSE")
def conv_3d_transpose(ctx, inputs, options):
    if (options.dilation_d, options.dilation_h, options.dilation_w) != (1, 1, 1):
        raise TVMError("dilated transposed convolutions are not supported")
    out = _transposed(ctx, inputs, options, True, relay.nn.conv3d_transpose)
    return activated(ctx, biased(ctx, out, inputs, 3), options)


@quantized("TRANSPOSE_CONV")
def integer_transpose_conv(ctx, inputs, options):
    if not is_quantized(ctx.tensor(2)):
        return transpose_conv(ctx, inputs, options)
    check_integers(ctx, 2, 1)

    def build(data, weight, **attrs):
        given = [inputs[0], weight, data]
        return integer_sums(ctx, given, 2, 1, relay.nn.conv2d_transpose, qnn.op.conv2d_transpose, attrs)

    sums = _transposed(ctx, inputs, options, False, build)
    steps = requantized_sums(ctx, sums, inputs, 3, scales(ctx, 2, 1))
    return finished(steps, ctx.result(), ctx.activation(options.fused_activation))


# -- matmul -----------------------------------------------------------------------------------------------------------


def _matrix_and_shape(ctx: Context, inputs: list, options) -> tuple[RelayExpr, tuple]:
    """Return the data as a matrix, and the output shape."""
    if getattr(options, "weights_format", 0):
        raise TVMError(f"weights of format {options.weights_format} are not supported")
    units, depth = ctx.known_shape(inputs[1])
    shape = ctx.known_shape(inputs[0])
    count = int(np.prod(shape))
    if not depth or count % depth:
        raise TVMError(f"data of shape {shape} cannot be reshaped to rows of size {depth}")
    rows = (*shape[:-1], units) if options.keep_num_dims else (count // depth, units)
    if options.keep_num_dims and shape[-1:] != (depth,):
        raise TVMError(f"the last axis of the data, which has the shape {shape}, must have size {depth}")
    data = inputs[0] if len(shape) == 2 and shape[1] == depth else relay.reshape(inputs[0], (count // depth, depth))
    return data, rows


def _shaped(ctx: Context, out: RelayExpr, shape: tuple) -> RelayExpr:
    return out if len(shape) == 2 else relay.reshape(out, shape)


@op("FULLY_CONNECTED")
def fully_connected(ctx, inputs, options):
    data, shape = _matrix_and_shape(ctx, inputs, options)
    if is_hybrid(ctx, inputs):
        data, scale = activations(ctx, data, (1,), not options.asymmetric_quantize_inputs)
        out = relay.nn.dense(data, Constant(whole_weight(ctx, inputs)))
        out = relay.multiply(out, relay.multiply(scale, weight_scale(ctx)))
    else:
        out = relay.nn.dense(data, moved_weight(ctx, inputs, 1, (0, 1), True))
    out = biased(ctx, out, inputs, 2)
    return activated(ctx, _shaped(ctx, out, shape), options)


@quantized("FULLY_CONNECTED")
def integer_fully_connected(ctx, inputs, options):
    check_integers(ctx)
    data, shape = _matrix_and_shape(ctx, inputs, options)
    sums = integer_sums(ctx, [data, inputs[1]], 0, 1, relay.nn.dense, qnn.op.dense, {"units": shape[-1]})
    if ctx.tensor(0).dtype == "uint8" or ctx.tensor(1).dtype == "int16":
        steps = requantized_sums(ctx, sums, inputs, 2, scales(ctx))
    else:
        # The kernel rounds the product of float64 values.
        total = relay.cast(biased(ctx, sums, inputs, 2), "float64")
        steps = relay.cast(rounded_away(relay.multiply(total, Constant(scales(ctx))), "float64"), "int32")
    return finished(_shaped(ctx, steps, shape), ctx.result(), ctx.activation(options.fused_activation))


def _matrices(ctx: Context, inputs: list, options) -> tuple[RelayExpr, RelayExpr, tuple]:
    """Return the operands with one batch axis, the right one transposed, and the output shape."""
    a, b = inputs[:2]
    a = _swapped(ctx, a) if options.adj_x else a
    b = b if options.adj_y else _swapped(ctx, b)
    x, y = ctx.known_shape(a), ctx.known_shape(b)
    if len(x) < 2 or len(y) < 2 or x[-1] != y[-1]:
        raise TVMError(f"cannot multiply matrices of shapes {x} and {y} (transposed)")
    batch = np.broadcast_shapes(x[:-2], y[:-2])
    count = int(np.prod(batch))
    a = relay.reshape(relay.broadcast_to(a, (*batch, *x[-2:])), (count, *x[-2:]))
    b = relay.reshape(relay.broadcast_to(b, (*batch, *y[-2:])), (count, *y[-2:]))
    return a, b, (*batch, x[-2], y[-2])


def _swapped(ctx: Context, x: RelayExpr) -> RelayExpr:
    rank = ctx.rank(x)
    return relay.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


@op("BATCH_MATMUL")
def batch_matmul(ctx, inputs, options):
    if not is_hybrid(ctx, inputs):
        right = weight_array(ctx, inputs, 1, True) if is_quantized(ctx.tensor(1)) else None
        a, b, shape = _matrices(ctx, inputs if right is None else [inputs[0], Constant(right)], options)
        return relay.reshape(relay.nn.batch_matmul(a, b), shape)
    a, b, shape = _matrices(ctx, [inputs[0], Constant(whole_weight(ctx, inputs))], options)
    a, scale = activations(ctx, a, (2,), not options.asymmetric_quantize_inputs)
    product = relay.multiply(relay.nn.batch_matmul(a, b), relay.multiply(scale, weight_scale(ctx)))
    return relay.reshape(product, shape)


@quantized("BATCH_MATMUL")
def integer_batch_matmul(ctx, inputs, options):
    check_integers(ctx)
    a, b, shape = _matrices(ctx, inputs, options)
    sums = integer_sums(ctx, [a, b], 0, 1, relay.nn.batch_matmul, qnn.op.batch_matmul, {})
    return finished(requantized_sums(ctx, relay.reshape(sums, shape), [], 2, scales(ctx)), ctx.result())


__all__ = ["biased", "same_or_valid", "weight_array"]
