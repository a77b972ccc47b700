"""Quantized element-wise operators, pooling and concatenation."""

from __future__ import annotations

from ....ir.tensor_type import TensorType
from ...expr import RelayExpr, Tuple, TupleGetItem, const
from ...op import nn, transform
from ...op import tensor as tensor_ops
from ...op.record import OPAQUE, as_expr, call, op
from ...op.rules import broadcast_dims, dims, fields
from .rules import (
    RequantizeConfig,
    along,
    centered,
    check_parameter,
    known,
    saturate,
    scale_of,
    size_along,
    zero_of,
)
from .scaling import dequantize, integers, quantize, requantize


def _two_type(attrs, types):
    a, b = integers(types[0], "the left operand"), integers(types[1], "the right operand")
    if a.dtype != b.dtype:
        raise TypeError(f"both operands must have one element type, got {a.dtype} and {b.dtype}")
    for t, size, what in (
        (types[2], size_along(a, attrs.lhs_axis), "lhs"),
        (types[4], size_along(b, attrs.rhs_axis), "rhs"),
    ):
        check_parameter(t, size, "float32", what + "_scale")
    for t, size, what in (
        (types[3], size_along(a, attrs.lhs_axis), "lhs"),
        (types[5], size_along(b, attrs.rhs_axis), "rhs"),
    ):
        check_parameter(t, size, "int32", what + "_zero_point")
    check_parameter(types[6], 1, "float32", "output_scale")
    check_parameter(types[7], 1, "int32", "output_zero_point")
    return TensorType(broadcast_dims(dims(a), dims(b)), a.dtype)


def _sum(function, cancel):
    """Return the expansion of an addition or subtraction.

    In int64, as in Apache TVM, each operand is requantized to the scale and zero point of the output, so that both are
    rounded. ``cancel`` then corrects the zero point, which the output contains twice or not at all. With
    ``compute_dtype`` float32, set by the attribute or the configuration, only the output is rounded.
    """

    def expand(attrs, args, types):
        if attrs.entries.get("compute_dtype", RequantizeConfig.current().compute_dtype) != "int64":
            left = dequantize(args[0], args[2], args[3], attrs.lhs_axis)
            right = dequantize(args[1], args[4], args[5], attrs.rhs_axis)
            return quantize(function(left, right), args[6], args[7], out_dtype=types[0].dtype)
        left, right = (
            requantize(x, scale, zero, args[6], args[7], axis=axis, compute_dtype="int64", out_dtype="int32")
            for x, scale, zero, axis in ((args[0], args[2], args[3], attrs.lhs_axis),
                                         (args[1], args[4], args[5], attrs.rhs_axis))
        )  # fmt: skip
        total, zero = function(left, right), known(args[7])
        if zero is None or zero.any():
            total = cancel(total, along(args[7], types[7], 0, 0))
        return saturate(total, types[0].dtype)

    return expand


def _times(attrs, args, types):
    wide = "int32"
    left = centered(tensor_ops.cast(args[0], wide), args[3], types[3], types[0], attrs.lhs_axis, wide)
    right = centered(tensor_ops.cast(args[1], wide), args[5], types[5], types[1], attrs.rhs_axis, wide)
    product = tensor_ops.multiply(left, right)
    if dims(types[2]) in ((), (1,)) and dims(types[4]) in ((), (1,)):
        scale = tensor_ops.multiply(along(args[2], types[2], 0, 0), along(args[4], types[4], 0, 0))
        return requantize(product, scale, 0, args[6], args[7], out_dtype=types[0].dtype)
    rank = max(len(dims(types[0])), len(dims(types[1])))
    scale = tensor_ops.multiply(
        along(args[2], types[2], rank, attrs.lhs_axis), along(args[4], types[4], rank, attrs.rhs_axis)
    )
    return quantize(
        tensor_ops.multiply(tensor_ops.cast(product, "float32"), scale), args[6], args[7], out_dtype=types[0].dtype
    )


def _two(name: str, expand, doc: str):
    @op("qnn." + name, 8, pattern=OPAQUE, type_rule=_two_type, expand=expand)
    def build(
        lhs,
        rhs,
        lhs_scale,
        lhs_zero_point,
        rhs_scale,
        rhs_zero_point,
        output_scale,
        output_zero_point,
        lhs_axis=-1,
        rhs_axis=-1,
    ):
        return call(
            "qnn." + name,
            lhs,
            rhs,
            scale_of(lhs_scale),
            zero_of(lhs_zero_point),
            scale_of(rhs_scale),
            zero_of(rhs_zero_point),
            scale_of(output_scale),
            zero_of(output_zero_point),
            lhs_axis=int(lhs_axis),
            rhs_axis=int(rhs_axis),
        )

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = doc
    return build


add = _two("add", _sum(tensor_ops.add, tensor_ops.subtract), "The sum of two quantized tensors.")


subtract = _two("subtract", _sum(tensor_ops.subtract, tensor_ops.add), "The difference of two quantized tensors.")


mul = _two("mul", _times, "The element-wise product of two quantized tensors.")


def _one_type(attrs, types):
    data = integers(types[0], "the data")
    for at, dtype, what in (
        (1, "float32", "scale"),
        (2, "int32", "zero_point"),
        (3, "float32", "output_scale"),
        (4, "int32", "output_zero_point"),
    ):
        check_parameter(types[at], 1, dtype, what)
    return data


def _through_float(function):
    """Return an expansion that dequantizes, computes ``function(value, attrs)`` in float and quantizes the output."""

    def expand(attrs, args, types):
        value = function(dequantize(args[0], args[1], args[2]), attrs)
        return quantize(value, args[3], args[4], out_dtype=types[0].dtype)

    return expand


def _one(name: str, function):
    @op("qnn." + name, 5, pattern=OPAQUE, type_rule=_one_type, expand=_through_float(lambda x, attrs: function(x)))
    def build(x, scale, zero_point, output_scale, output_zero_point):
        return call(
            "qnn." + name, x, scale_of(scale), zero_of(zero_point), scale_of(output_scale), zero_of(output_zero_point)
        )

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = f"The {name} of a quantized tensor."
    return build


def _hardswish(x: RelayExpr) -> RelayExpr:
    return x * tensor_ops.clip(x + const(3.0), 0, 6) / const(6.0)


abs, exp, log, sqrt, rsqrt, erf, sigmoid, tanh = (
    _one(name, getattr(tensor_ops, name)) for name in ("abs", "exp", "log", "sqrt", "rsqrt", "erf", "sigmoid", "tanh")
)


hardswish = _one("hardswish", _hardswish)


@op(
    "qnn.leaky_relu",
    5,
    pattern=OPAQUE,
    type_rule=_one_type,
    expand=_through_float(lambda x, attrs: nn.leaky_relu(x, attrs.alpha)),
)
def leaky_relu(x, alpha, input_scale, input_zero_point, output_scale, output_zero_point):
    """The leaky_relu of a quantized tensor."""
    return call(
        "qnn.leaky_relu",
        x,
        scale_of(input_scale),
        zero_of(input_zero_point),
        scale_of(output_scale),
        zero_of(output_zero_point),
        alpha=float(alpha),
    )


@op(
    "qnn.softmax",
    5,
    pattern=OPAQUE,
    type_rule=_one_type,
    expand=_through_float(lambda x, attrs: nn.softmax(x, attrs.axis)),
)
def softmax(x, scale, zero_point, output_scale, output_zero_point, axis=-1):
    """The softmax of a quantized tensor."""
    return call(
        "qnn.softmax",
        x,
        scale_of(scale),
        zero_of(zero_point),
        scale_of(output_scale),
        zero_of(output_zero_point),
        axis=int(axis),
    )


def _pool_type(attrs, types):
    from ....ir.op import Op

    _one_type(attrs, types)
    return Op.get("nn.avg_pool2d").attrs["type_rule"](attrs, types[:1])


def _pool(attrs, args, types):
    value = dequantize(args[0], args[1], args[2])
    pooled = nn.avg_pool2d(
        value,
        attrs.pool_size,
        attrs.strides,
        attrs.dilation,
        attrs.padding,
        attrs.layout,
        attrs.out_layout,
        attrs.ceil_mode,
        attrs.count_include_pad,
    )
    return quantize(pooled, args[3], args[4], out_dtype=types[0].dtype)


@op("qnn.avg_pool2d", 5, pattern=OPAQUE, type_rule=_pool_type, expand=_pool)
def avg_pool2d(
    data,
    input_scale,
    input_zero_point,
    output_scale,
    output_zero_point,
    pool_size,
    strides,
    padding,
    dilation,
    ceil_mode=False,
    count_include_pad=True,
    layout="NHWC",
    out_layout="",
):
    """The average pooling of a quantized tensor."""
    plain = nn.avg_pool2d(data, pool_size, strides, dilation, padding, layout, out_layout, ceil_mode, count_include_pad)
    return call(
        "qnn.avg_pool2d",
        *plain.args,
        scale_of(input_scale),
        zero_of(input_zero_point),
        scale_of(output_scale),
        zero_of(output_zero_point),
        **dict(plain.attrs.entries),
    )


def _concatenate_type(attrs, types):
    from ....ir.op import Op

    parts, scales, zeros = (fields(t) for t in types[:3])
    if not len(parts) == len(scales) == len(zeros):
        raise TypeError(
            f"qnn.concatenate: {len(parts)} tensors do not match {len(scales)} scales and {len(zeros)} zero points"
        )
    for t, s, z in zip(parts, scales, zeros):
        integers(t, "an input")
        check_parameter(s, 1, "float32", "an input scale")
        check_parameter(z, 1, "int32", "an input zero point")
    check_parameter(types[3], 1, "float32", "output_scale")
    check_parameter(types[4], 1, "int32", "output_zero_point")
    return Op.get("concatenate").attrs["type_rule"](attrs, types[:1])


def _concatenate(attrs, args, types):
    def part(whole: RelayExpr, i: int) -> RelayExpr:
        return whole.fields[i] if isinstance(whole, Tuple) else TupleGetItem(whole, i)

    parts = []
    for i, t in enumerate(types[0].fields):
        own = (known(part(args[1], i)), known(part(args[2], i)), known(args[3]), known(args[4]))
        value = part(args[0], i)
        same = all(v is not None for v in own) and own[0].item() == own[2].item() and own[1].item() == own[3].item()
        if not same:
            value = requantize(value, part(args[1], i), part(args[2], i), args[3], args[4], out_dtype=t.dtype)
        parts.append(value)
    return transform.concatenate(parts, attrs.axis)


@op("qnn.concatenate", 5, pattern=OPAQUE, type_rule=_concatenate_type, expand=_concatenate)
def concatenate(data, input_scales, input_zero_points, output_scale, output_zero_point, axis):
    """The concatenation of quantized tensors, requantized to a common scale and zero point."""
    data = as_expr(list(data) if isinstance(data, (list, tuple)) else data)
    scales = as_expr([scale_of(s) for s in input_scales]) if not isinstance(input_scales, RelayExpr) else input_scales
    zeros = (
        as_expr([zero_of(z) for z in input_zero_points])
        if not isinstance(input_zero_points, RelayExpr)
        else input_zero_points
    )
    return call(
        "qnn.concatenate", data, scales, zeros, scale_of(output_scale), zero_of(output_zero_point), axis=int(axis)
    )
