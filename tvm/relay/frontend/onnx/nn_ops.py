"""Converters of operators of neural networks."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .table import op


def pads(ctx, data, attrs, kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Padding of a windowed operator: befores, then afters."""
    n = len(kernel)
    mode = attrs.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return list(attrs.get("pads", [0] * 2 * n))
    if mode == "VALID":
        return [0] * 2 * n
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise TVMError(f"auto_pad '{mode}' is not supported")
    before, after = [], []
    for size, k, s, d in zip(ctx.known_shape(data)[2:], kernel, strides, dilations):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        low = total // 2 if mode == "SAME_UPPER" else total - total // 2
        before.append(low)
        after.append(total - low)
    return before + after


@op("Conv")
def conv(ctx, inputs, attrs):
    data, weight = inputs[:2]
    shape = ctx.known_shape(weight)
    kernel = list(attrs.get("kernel_shape", shape[2:]))
    n = len(kernel)
    strides, dilations = attrs.get("strides", [1] * n), attrs.get("dilations", [1] * n)
    function = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}.get(n)
    if function is None:
        raise TVMError(f"convolutions over {n} dimensions are not supported")
    out = function(
        data,
        weight,
        strides=tuple(strides),
        padding=tuple(pads(ctx, data, attrs, kernel, strides, dilations)),
        dilation=tuple(dilations),
        groups=attrs.get("group", 1),
        channels=shape[0],
        kernel_size=tuple(kernel),
    )
    if len(inputs) > 2 and inputs[2] is not None:
        out = relay.nn.bias_add(out, inputs[2])
    return out


@op("Relu")
def relu(ctx, inputs, attrs):
    return relay.nn.relu(inputs[0])


@op("GlobalAveragePool")
def global_average_pool(ctx, inputs, attrs):
    if ctx.rank(inputs[0]) == 4:
        return relay.nn.global_avg_pool2d(inputs[0])
    return relay.mean(inputs[0], axis=tuple(range(2, ctx.rank(inputs[0]))), keepdims=True)


@op("GlobalMaxPool")
def global_max_pool(ctx, inputs, attrs):
    if ctx.rank(inputs[0]) == 4:
        return relay.nn.global_max_pool2d(inputs[0])
    return relay.max(inputs[0], axis=tuple(range(2, ctx.rank(inputs[0]))), keepdims=True)


def _pool(ctx, inputs, attrs, kind: str):
    data = inputs[0]
    kernel = attrs["kernel_shape"]
    n = len(kernel)
    if n != 2:
        raise TVMError(f"pooling over {n} dimensions is not supported")
    strides, dilations = attrs.get("strides", [1] * n), attrs.get("dilations", [1] * n)
    padding = tuple(pads(ctx, data, attrs, kernel, strides, dilations))
    ceil = bool(attrs.get("ceil_mode", 0))
    if kind == "max":
        return relay.nn.max_pool2d(data, tuple(kernel), tuple(strides), tuple(dilations), padding, ceil_mode=ceil)
    return relay.nn.avg_pool2d(data, tuple(kernel), tuple(strides), tuple(dilations), padding, ceil_mode=ceil,
                               count_include_pad=bool(attrs.get("count_include_pad", 0)))


@op("MaxPool")
def max_pool(ctx, inputs, attrs):
    if len(ctx.node.output) > 1 and ctx.node.output[1]:
        raise TVMError("the places of the maxima (second output) are not supported")
    return _pool(ctx, inputs, attrs, "max")


@op("AveragePool")
def average_pool(ctx, inputs, attrs):
    return _pool(ctx, inputs, attrs, "avg")


@op("BatchNormalization")
def batch_normalization(ctx, inputs, attrs):
    if attrs.get("training_mode", 0):
        raise TVMError("training mode is not supported")
    return relay.nn.batch_norm(*inputs[:5], epsilon=attrs.get("epsilon", 1e-5))[0]


@op("Gemm")
def gemm(ctx, inputs, attrs):
    a, b = inputs[:2]
    alpha, beta = attrs.get("alpha", 1.0), attrs.get("beta", 1.0)
    dtype = ctx.dtype(a)
    if attrs.get("transA", 0):
        a = relay.transpose(a, (1, 0))
    if not attrs.get("transB", 0):
        b = relay.transpose(b, (1, 0))
    if alpha != 1.0:
        a = relay.multiply(a, const(alpha, dtype))
    out = relay.nn.dense(a, b)
    if len(inputs) > 2 and inputs[2] is not None and beta != 0.0:
        c = inputs[2] if beta == 1.0 else relay.multiply(inputs[2], const(beta, dtype))
        out = relay.add(out, c)
    return out


@op("MatMul")
def matmul(ctx, inputs, attrs):
    a, b = inputs
    x, y = ctx.known_shape(a), ctx.known_shape(b)
    if len(x) == 1 or len(y) == 1:
        a = relay.reshape(a, (1, -1)) if len(x) == 1 else a
        b = relay.reshape(b, (-1, 1)) if len(y) == 1 else b
        out = matmul(ctx, [a, b], attrs)
        shape = [*x[:-1], *(y[:-2] if len(y) > 1 else ()), *y[-1:]] if len(x) > 1 and len(y) > 1 else (
            [*y[:-2], y[-1]] if len(x) == 1 and len(y) > 1 else list(x[:-1]))
        return relay.reshape(out, tuple(shape) or (1,)) if shape else relay.squeeze(out)
    if len(y) == 2:
        flat = relay.reshape(a, (-1, x[-1])) if len(x) > 2 else a
        out = relay.nn.dense(flat, relay.transpose(b, (1, 0)))
        return relay.reshape(out, (*x[:-1], y[-1])) if len(x) > 2 else out
    from ...op.rules import broadcast_dims

    batch = broadcast_dims(x[:-2], y[:-2])
    a = relay.reshape(relay.broadcast_to(a, (*batch, *x[-2:])) if tuple(batch) != tuple(x[:-2]) else a, (-1, *x[-2:]))
    b = relay.reshape(relay.broadcast_to(b, (*batch, *y[-2:])) if tuple(batch) != tuple(y[:-2]) else b, (-1, *y[-2:]))
    out = relay.nn.batch_matmul(a, b, transpose_b=False)
    return relay.reshape(out, (*batch, x[-2], y[-1]))


@op("Softmax")
def softmax_1(ctx, inputs, attrs):
    shape = ctx.known_shape(inputs[0])
    axis = attrs.get("axis", 1) % max(len(shape), 1)
    rows = 1
    for d in shape[:axis]:
        rows *= d
    if axis == len(shape) - 1:
        return relay.nn.softmax(inputs[0], -1)
    flat = relay.nn.softmax(relay.reshape(inputs[0], (rows, -1)), -1)
    return relay.reshape(flat, shape)


@op("Softmax", since=13)
def softmax(ctx, inputs, attrs):
    return relay.nn.softmax(inputs[0], attrs.get("axis", -1))


@op("Pad")
def pad_2(ctx, inputs, attrs):
    return _pad(
        inputs[0], attrs.get("pads", attrs.get("paddings")), attrs.get("value", 0.0), attrs.get("mode", "constant")
    )


@op("Pad", since=11)
def pad(ctx, inputs, attrs):
    value = ctx.array(inputs[2], "the padding value") if len(inputs) > 2 else None
    amounts = ctx.ints(inputs[1], "the padding")
    rank = ctx.rank(inputs[0])
    if len(inputs) > 3 and inputs[3] is not None:
        axes = [a % rank for a in ctx.ints(inputs[3], "the axes")]
        full = [0] * 2 * rank
        for i, axis in enumerate(axes):
            full[axis], full[axis + rank] = amounts[i], amounts[i + len(axes)]
        amounts = full
    return _pad(inputs[0], amounts, 0 if value is None else value.item(), attrs.get("mode", "constant"))


def _pad(data, amounts, value, mode: str):
    n = len(amounts) // 2
    return relay.nn.pad(data, tuple((amounts[i], amounts[i + n]) for i in range(n)), value, mode)


@op("HardSigmoid")
def hard_sigmoid(ctx, inputs, attrs):
    dtype = ctx.dtype(inputs[0])
    out = relay.add(
        relay.multiply(inputs[0], const(attrs.get("alpha", 0.2), dtype)), const(attrs.get("beta", 0.5), dtype)
    )
    return relay.clip(out, 0.0, 1.0)


@op("LeakyRelu")
def leaky_relu(ctx, inputs, attrs):
    dtype = ctx.dtype(inputs[0])
    x = inputs[0]
    return relay.where(relay.less(x, const(0, dtype)), relay.multiply(x, const(attrs.get("alpha", 0.01), dtype)), x)
