"""Converters of neural network operators: convolutions, matmuls, activations and softmax."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ..common import run_time
from ..common.formulas import log_softmax
from ..common.matmul import numpy_matmul
from ..common.windows import same_padded
from .table import argument, axis_of, op


def window_of(attrs, kernel: list[int]) -> tuple[list[int], list[int]]:
    """Return the strides and dilations of a window, and check that they are positive integers, one for each
    dimension.
    """
    n = len(kernel)
    rows = [list(attrs.get(name, [1] * n)) for name in ("strides", "dilations")]
    for name, values in (("kernel_shape", kernel), ("strides", rows[0]), ("dilations", rows[1])):
        if len(values) != n or any(v < 1 for v in values):
            raise TVMError(f"{name} must be {n} positive integers, got {values}")
    amounts = attrs.get("pads")
    if amounts is not None and len(amounts) != 2 * n:
        raise TVMError(f"pads must have {2 * n} elements, two for each dimension of the window, got {list(amounts)}")
    return rows[0], rows[1]


def pads(ctx, data, attrs, kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Return the padding of a windowed operator: begin of each axis, then end of each axis."""
    n = len(kernel)
    mode = attrs.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return list(attrs.get("pads", [0] * 2 * n))
    if mode == "VALID":
        return [0] * 2 * n
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise TVMError(f"auto_pad '{mode}' is not supported")
    before, after = [], []
    # With stride 1, the SAME padding does not depend on the size of the data.
    sizes = [0] * n if max(strides) == 1 else ctx.spatial(data)
    for size, k, s, d in zip(sizes, kernel, strides, dilations):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        low = total // 2 if mode == "SAME_UPPER" else total - total // 2
        before.append(low)
        after.append(total - low)
    return before + after


def padded_for(ctx, data, attrs, kernel: list[int], strides: list[int], dilations: list[int], value=0):
    """Return the data of a windowed operator and its remaining padding.

    If the padding depends on dynamic dimensions, the data is padded at run time and the remaining padding is 0.
    """
    mode = attrs.get("auto_pad", "NOTSET")
    sizes = ctx.shape(data)[2:]
    if mode in ("SAME_UPPER", "SAME_LOWER") and max(strides) > 1 and not all(isinstance(d, int) for d in sizes):
        if len(sizes) != len(kernel):
            raise TVMError(f"the window has {len(kernel)} dimensions, but the data has {len(sizes)} spatial dimensions")
        upper, fill = mode == "SAME_UPPER", ctx.like(value, data)
        data = same_padded(ctx, data, kernel, strides, dilations, upper, fill)
        return data, [0] * 2 * len(kernel)
    return data, pads(ctx, data, attrs, kernel, strides, dilations)


def biased(out, bias):
    return out if bias is None else relay.nn.bias_add(out, bias)


def convolved(ctx, data, weight, attrs, shape: tuple, **more):
    """Convert a 1-D to 3-D convolution with weights of the given shape, with the attributes of ONNX's ``Conv``."""
    kernel = list(attrs.get("kernel_shape", shape[2:]))
    strides, dilations = window_of(attrs, kernel)
    function = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}.get(len(kernel))
    if function is None:
        raise TVMError(f"convolutions with {len(kernel)} spatial dimensions are not supported")
    data, amounts = padded_for(ctx, data, attrs, kernel, strides, dilations)
    return function(
        data,
        weight,
        strides=tuple(strides),
        padding=tuple(amounts),
        dilation=tuple(dilations),
        groups=attrs.get("group", 1),
        channels=shape[0],
        kernel_size=tuple(kernel),
        **more,
    )


@op("Conv")
def conv(ctx, inputs, attrs):
    data, weight = inputs[:2]
    shape = ctx.known_shape(weight)
    n = len(attrs.get("kernel_shape", shape[2:]))
    data, weight, scale = _integer_operands(ctx, data, weight, 0, (-1, *[1] * n), (-1, *[1] * (n + 1)))
    is_half = ctx.dtype(data) == "float16"
    if is_half:
        data, weight = relay.cast(data, "float32"), relay.cast(weight, "float32")
    out = convolved(ctx, data, weight, attrs, shape)
    out = relay.cast(out, "float16") if is_half else out
    bias = argument(inputs, 2)
    if scale is None:
        return biased(out, bias)
    whole = _integer_bias(ctx, bias, scale, (-1, *[1] * n))
    if bias is None or whole is not None:
        ctx.sums = (out if whole is None else relay.add(out, whole), scale)
    return biased(relay.multiply(out, scale), bias)


def _integer_bias(ctx, bias, scale, column: tuple):
    """Return the integers of a dequantized bias as a ``column``; None if the bias is not quantized with ``scale``."""
    known = ctx.importer.integers
    if bias is None or id(bias) not in known:
        return None
    x, own, zero, _ = known[id(bias)][1]
    if zero is not None and (ctx.value(zero) is None or ctx.value(zero).any()):
        return None
    steps, wanted = ctx.value(own), ctx.value(scale)
    if steps is None or wanted is None or not np.allclose(steps.reshape(-1), wanted.reshape(-1), rtol=1e-4, atol=0):
        return None
    return relay.reshape(relay.cast(x, "float32"), column)


def _integer_operands(ctx, data, weight, filters: int, column: tuple, inner: tuple):
    """Return the integers of dequantized data and weights as floats, and the scale of their product.

    Accumulating the integers is exact, so the output is rounded as in integer arithmetic. Weights can have one scale
    per index of the axis ``filters``; ``column`` is its shape in the output, and ``inner`` is the shape of the zero
    point in the weights. If the operands are not quantized suitably, return them unchanged and None as the scale.
    """
    known = ctx.importer.integers
    if id(data) not in known or id(weight) not in known:
        return data, weight, None
    (x, x_scale, x_zero, _), (w, w_scale, w_zero, axis) = known[id(data)][1], known[id(weight)][1]
    scales = ctx.shape(w_scale)
    if "int32" in (ctx.dtype(x), ctx.dtype(w)):
        return data, weight, None
    single = scales in ((), (1,))
    if ctx.shape(x_scale) not in ((), (1,)) or not single and axis_of(axis, ctx.rank(w)) != filters:
        return data, weight, None
    scale = relay.multiply(relay.reshape(x_scale, ()), relay.reshape(w_scale, () if single else column))
    return centered(ctx, x, x_zero, ()), centered(ctx, w, w_zero, inner), scale


def centered(ctx, x, zero, column: tuple):
    """Return integers minus their zero point as floats; a zero point per channel gets the shape ``column``."""
    whole = relay.cast(x, "float32")
    if zero is None:
        return whole
    shape = column if ctx.shape(zero) not in ((), (1,)) else ()
    return relay.subtract(whole, relay.cast(relay.reshape(zero, shape), "float32"))


@op("ConvTranspose")
def conv_transpose(ctx, inputs, attrs):
    """Convert ConvTranspose to a Relay operator, or to a convolution of the strided and padded data with a flipped
    kernel.
    """
    data, weight = inputs[:2]
    shape = ctx.known_shape(weight)
    n = len(shape) - 2
    kernel = list(attrs.get("kernel_shape", shape[2:]))
    strides, dilations = window_of(attrs, kernel)
    extra, groups = attrs.get("output_padding", [0] * n), attrs.get("group", 1)
    before, after = _transposed_pads(ctx, data, attrs, kernel, strides, dilations, extra)
    function = {1: "conv1d_transpose", 2: "conv2d_transpose", 3: "conv3d_transpose"}.get(n)
    if function is None:
        raise TVMError(f"transposed convolutions with {n} spatial dimensions are not supported")
    if hasattr(relay.nn, function) and set(dilations) == {1} and min(before + after) >= 0:
        out = getattr(relay.nn, function)(
            data,
            weight,
            strides=tuple(strides),
            padding=tuple(before + after),
            output_padding=tuple(extra),
            channels=shape[1] * groups,
            kernel_size=tuple(kernel),
            groups=groups,
        )
        return biased(out, argument(inputs, 2))
    out = _as_convolution(ctx, data, weight, groups, kernel, strides, dilations, before, after, extra)
    return biased(out, argument(inputs, 2))


def _transposed_pads(ctx, data, attrs, kernel, strides, dilations, extra) -> tuple[list[int], list[int]]:
    n = len(kernel)
    mode = attrs.get("auto_pad", "NOTSET")
    wanted = attrs.get("output_shape")
    if wanted is None and mode in ("NOTSET", "", "VALID"):
        pads = attrs.get("pads", [0] * 2 * n) if mode != "VALID" else [0] * 2 * n
        return list(pads[:n]), list(pads[n:])
    # The padding of a window with one output per stride step; it does not depend on the size of the data.
    total = [e + (k - 1) * l + 1 - s for s, e, k, l in zip(strides, extra, kernel, dilations)]
    if wanted is not None:
        total = [t + s * d - w for t, s, d, w in zip(total, strides, ctx.spatial(data), list(wanted)[-n:])]
    less = [t // 2 for t in total]
    more = [t - h for t, h in zip(total, less)]
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def _as_convolution(ctx, data, weight, groups, kernel, strides, dilations, before, after, extra):
    n = len(kernel)
    spatial = list(range(2, n + 2))
    if any(s > 1 for s in strides):
        wide = data
        for i, s in reversed(list(enumerate(strides))):
            if s > 1:
                wide = relay.expand_dims(wide, 3 + i)
        pads, codes, at = [(0, 0), (0, 0)], [0, 0], []
        for d, s in zip(ctx.shape(data)[2:], strides):
            pads += [(0, 0), (0, s - 1)] if s > 1 else [(0, 0)]
            codes.append(-3 if s > 1 else 0)
            # Exclude the zeros after the last element.
            at.append((d - 1) * s + 1 if isinstance(d, int) else 1 - s or run_time.FAR)
        data = relay.reshape(relay.nn.pad(wide, pads, ctx.like(0, data)), codes)
        data = relay.strided_slice(data, [0] * n, at, [1] * n, spatial)
    amounts = [
        0,
        0,
        *((k - 1) * l - b for k, l, b in zip(kernel, dilations, before)),
        0,
        0,
        *((k - 1) * l - a + e for k, l, a, e in zip(kernel, dilations, after, extra)),
    ]
    from .shape_ops import padded

    data = padded(ctx, data, amounts, ctx.like(0, data), "constant")
    for axis in spatial:
        weight = relay.reverse(weight, axis)
    inputs, outputs = ctx.known_shape(weight)[:2]
    weight = relay.reshape(weight, (groups, inputs // groups, outputs, *kernel))
    weight = relay.transpose(weight, (0, 2, 1, *range(3, n + 3)))
    weight = relay.reshape(weight, (groups * outputs, inputs // groups, *kernel))
    function = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}[n]
    return function(
        data,
        weight,
        strides=(1,) * n,
        padding=(0,) * n,
        dilation=tuple(dilations),
        groups=groups,
        channels=groups * outputs,
        kernel_size=tuple(kernel),
    )


# -- matmul -----------------------------------------------------------------------------------------------------------


@op("Gemm")
def gemm(ctx, inputs, attrs):
    a, b = inputs[:2]
    alpha, beta = attrs.get("alpha", 1.0), attrs.get("beta", 1.0)
    if alpha == beta == 1.0 and not attrs.get("transA", 0):
        whole = _integer_matmul(ctx, a, b, argument(inputs, 2), bool(attrs.get("transB", 0)))
        if whole is not None:
            return whole
    if attrs.get("transA", 0):
        a = relay.transpose(a, (1, 0))
    if not attrs.get("transB", 0):
        b = relay.transpose(b, (1, 0))
    out = relay.nn.dense(a, b)
    if alpha != 1.0:
        out = relay.multiply(out, ctx.like(alpha, a))
    c = argument(inputs, 2)
    if c is not None and beta != 0.0:
        out = relay.add(out, c if beta == 1.0 else relay.multiply(c, ctx.like(beta, a)))
    return out


@op("MatMul")
def matmul(ctx, inputs, attrs):
    whole = _integer_matmul(ctx, inputs[0], inputs[1])
    return numpy_matmul(ctx, inputs[0], inputs[1]) if whole is None else whole


def _integer_matmul(ctx, a, b, bias=None, transposed: bool = False):
    """Return the matmul of dequantized matrices as an integer-valued matmul times one scale per column.

    Accumulating the integers is exact. Return None if an operand is not quantized suitably.
    """
    known = ctx.importer.integers
    if id(a) not in known or id(b) not in known:
        return None
    (x, x_scale, x_zero, _), (w, w_scale, w_zero, axis) = known[id(a)][1], known[id(b)][1]
    rank = ctx.rank(w)
    if "int32" in (ctx.dtype(x), ctx.dtype(w)) or ctx.shape(x_scale) not in ((), (1,)) or min(rank, ctx.rank(x)) < 2:
        return None
    columns, is_one = rank - 2 if transposed else rank - 1, ctx.shape(w_scale) in ((), (1,))
    if not is_one and (rank != 2 or axis_of(axis, rank) != columns):
        return None
    scale = relay.multiply(relay.reshape(x_scale, ()), relay.reshape(w_scale, () if is_one else (-1,)))
    lead = ctx.shape(x)[:-1]
    is_flat = rank == 2 and len(lead) > 1 and all(isinstance(d, int) for d in ctx.shape(x))
    if is_flat:
        # Reshape the int8 values before the zero point is subtracted: they are smaller than the float32 difference.
        x = ctx.made(relay.reshape(x, (int(np.prod(lead)), ctx.shape(x)[-1]), True))
    left, right = centered(ctx, x, x_zero, ()), centered(ctx, w, w_zero, (-1, 1) if transposed else (-1,))
    right = relay.transpose(right, (1, 0)) if transposed else right
    out = numpy_matmul(ctx, ctx.made(left), ctx.made(right))
    out = relay.reshape(out, (*lead, ctx.shape(w)[0 if transposed else 1]), True) if is_flat else out
    whole = _integer_bias(ctx, bias, scale, (-1,))
    if bias is None or whole is not None:
        ctx.sums = (out if whole is None else relay.add(out, whole), scale)
    real = relay.multiply(out, scale)
    return real if bias is None else relay.add(real, bias)


# -- softmax --------------------------------------------------------------------------------


def _flat(function):
    """Flatten the input to a matrix at ``axis``, as operator sets before 13 specify."""

    def convert(ctx, inputs, attrs):
        shape = ctx.shape(inputs[0])
        axis = attrs.get("axis", 1) % max(len(shape), 1)
        if axis == len(shape) - 1:
            return function(ctx, inputs[0], axis)
        if not all(isinstance(d, int) for d in shape):
            matrix = ctx.convert("Flatten", inputs[0], axis=axis)
            return relay.reshape_like(function(ctx, ctx.made(matrix), 1), inputs[0])
        rows = int(np.prod(shape[:axis]))
        out = function(ctx, relay.reshape(inputs[0], (rows, int(np.prod(shape[axis:])))), 1)
        return relay.reshape(out, shape)

    return convert


def _along(function):
    def convert(ctx, inputs, attrs):
        return function(ctx, inputs[0], axis_of(attrs.get("axis", -1), max(ctx.rank(inputs[0]), 1)))

    return convert


def _softmax(ctx, x, axis: int):
    if ctx.dtype(x) == "float16":
        # The ONNX definition rounds each step to float16; only the reduction accumulates in float32.
        powers = relay.exp(relay.subtract(x, relay.max(x, axis=axis, keepdims=True)))
        total = relay.sum(relay.cast(powers, "float32"), axis=axis, keepdims=True)
        return relay.divide(powers, relay.cast(total, "float16"))
    return relay.nn.softmax(x, axis)


def _hardmax(ctx, x, axis: int):
    places = run_time.along(ctx, run_time.counted(ctx, run_time.size_of(ctx, x, axis)), axis, ctx.rank(x))
    if isinstance(ctx.shape(x)[axis], int):
        place = relay.cast(relay.argmax(x, axis=axis, keepdims=True), "int64")
    else:
        # For an axis of size 0 the maximum has no position; that is no error here because the output is empty too.
        below = relay.less(x, relay.max(x, axis=axis, keepdims=True))
        none = const(np.iinfo("int64").max, "int64")
        place = relay.min(relay.where(below, none, places), axis=axis, keepdims=True)
    return relay.cast(relay.equal(place, places), ctx.dtype(x))


def _log_softmax(ctx, x, axis: int):
    return log_softmax(x, axis)


for _name, _function in (("Softmax", _softmax), ("LogSoftmax", _log_softmax), ("Hardmax", _hardmax)):
    op(_name)(_flat(_function))
    op(_name, since=13)(_along(_function))
