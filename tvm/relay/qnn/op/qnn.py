"""Quantized operators. Each is written with plain operators: its record has an ``expand`` rule; those that play with
real numbers are kernels of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import topi
from ....ir import primop
from ....ir.prim import PrimExpr
from ....ir.tensor_type import TensorType
from ....topi.assumptions import assume
from ...expr import Call, RelayExpr, Tuple, TupleGetItem, const
from ...op import nn, transform
from ...op import tensor as tensor_ops
from ...op.nn.convolution import conv_macs
from ...op.nn.dense import matmul_macs
from ...op.nn.transposed import transposed_macs
from ...op.record import INJECTIVE, OPAQUE, as_expr, call, op
from ...op.rules import broadcast_dims, dims, fields, normalize_axis, tensor
from .rules import (
    NARROW,
    RequantizeConfig,
    along,
    centered,
    check_parameter,
    fixed_point,
    known,
    saturate,
    scale_of,
    size_along,
    zero_of,
)


def requantize_config(**kwargs: Any) -> RequantizeConfig:
    """How requantization rounds (``rounding``) and computes (``compute_dtype``) inside a ``with`` block."""
    return RequantizeConfig(**kwargs)


def _integers(t, what: str) -> TensorType:
    if tensor(t, what).dtype not in NARROW:
        raise TypeError(f"{what} must be one of {', '.join(NARROW)}, got {t.dtype}")
    return t


# --- between real numbers and integers -----------------------------------------------------------------------------


def _quantize_type(attrs, types):
    data = tensor(types[0], "the data")
    if not data.dtype.startswith("float"):
        raise TypeError(f"the data must be float, got {data.dtype}")
    if attrs.out_dtype not in NARROW:
        raise TypeError(f"out_dtype must be one of {', '.join(NARROW)}, got {attrs.out_dtype}")
    size = size_along(data, attrs.axis)
    check_parameter(types[1], size, "float32", "output_scale")
    check_parameter(types[2], size, "int32", "output_zero_point")
    return TensorType(data.shape, attrs.out_dtype)


def _quantize(attrs, args, types):
    rank = len(dims(types[0]))
    scale = along(args[1], types[1], rank, attrs.axis)
    value = tensor_ops.cast(args[0], "float32") if types[0].dtype != "float32" else args[0]
    rounded = tensor_ops.round(tensor_ops.divide(value, scale))
    # The sum is taken in float: a value beyond int32 must saturate, not wrap.
    zero = tensor_ops.cast(along(args[2], types[2], rank, attrs.axis), "float32")
    return saturate(tensor_ops.add(rounded, zero), attrs.out_dtype)


@op("qnn.quantize", 3, pattern=OPAQUE, type_rule=_quantize_type, expand=_quantize)
def quantize(data, output_scale, output_zero_point, axis=-1, out_dtype="int8"):
    """round(x / scale) + zero point, brought into the range of the type."""
    return call(
        "qnn.quantize", data, scale_of(output_scale), zero_of(output_zero_point), axis=int(axis), out_dtype=out_dtype
    )


def _dequantize_type(attrs, types):
    data = _integers(types[0], "the data")
    size = size_along(data, attrs.axis)
    check_parameter(types[1], size, "float32", "input_scale")
    check_parameter(types[2], size, "int32", "input_zero_point")
    return TensorType(data.shape, attrs.out_dtype)


def _dequantize(attrs, args, types):
    rank = len(dims(types[0]))
    value = tensor_ops.cast(args[0], "int32")
    zero = known(args[2])
    if zero is None or zero.any():
        value = tensor_ops.subtract(value, along(args[2], types[2], rank, attrs.axis))
    made = tensor_ops.multiply(tensor_ops.cast(value, "float32"), along(args[1], types[1], rank, attrs.axis))
    return made if attrs.out_dtype == "float32" else tensor_ops.cast(made, attrs.out_dtype)


@op("qnn.dequantize", 3, pattern=OPAQUE, type_rule=_dequantize_type, expand=_dequantize)
def dequantize(data, input_scale, input_zero_point, axis=-1, out_dtype="float32"):
    """(x - zero point) * scale."""
    return call(
        "qnn.dequantize", data, scale_of(input_scale), zero_of(input_zero_point), axis=int(axis), out_dtype=out_dtype
    )


def _requantize_type(attrs, types):
    data = _integers(types[0], "the data")
    if attrs.out_dtype not in NARROW:
        raise TypeError(f"out_dtype must be one of {', '.join(NARROW)}, got {attrs.out_dtype}")
    size = size_along(data, attrs.axis)
    check_parameter(types[1], size, "float32", "input_scale")
    check_parameter(types[2], size, "int32", "input_zero_point")
    check_parameter(types[3], size, "float32", "output_scale")
    check_parameter(types[4], size, "int32", "output_zero_point")
    return TensorType(data.shape, attrs.out_dtype)


def _rounded(value: RelayExpr, rounding: str) -> RelayExpr:
    half = const(0.5, "float32")
    if rounding == "UPWARD":
        return tensor_ops.floor(tensor_ops.add(value, half))
    return tensor_ops.multiply(tensor_ops.sign(value), tensor_ops.floor(tensor_ops.add(tensor_ops.abs(value), half)))


def _scaled(value: RelayExpr, ratio, rank: int, axis: int, rounding: str) -> RelayExpr:
    """int32 numbers times real ones, in integers. ``ratio`` is an array: one number, or one along the axis."""
    numbers = [fixed_point(float(r)) for r in ratio.ravel()]
    if rounding == "TONEAREST":
        made = _scaled(tensor_ops.abs(value), ratio, rank, axis, "UPWARD")
        return tensor_ops.multiply(tensor_ops.sign(value), made)
    if len(numbers) == 1:
        return tensor_ops.fixed_point_multiply(value, *numbers[0])
    left = [max(s, 0) for _, s in numbers]
    right = [max(-s, 0) for _, s in numbers]
    vectors = [const(v, "int32") for v in ([m for m, _ in numbers], left, right)]
    return tensor_ops.fixed_point_multiply_per_axis(
        value, *vectors, any(left), any(right), (normalize_axis(axis, rank),)
    )


def _requantize(attrs, args, types):
    config = RequantizeConfig.current()
    rounding = config.rounding if attrs.rounding == "None" else attrs.rounding
    compute = config.compute_dtype if attrs.compute_dtype == "None" else attrs.compute_dtype
    rank = len(dims(types[0]))
    value = args[0] if types[0].dtype == "int32" else tensor_ops.cast(args[0], "int32")
    zero = known(args[2])
    if zero is None or zero.any():
        value = tensor_ops.subtract(value, along(args[2], types[2], rank, attrs.axis))
    before, after = known(args[1]), known(args[3])
    target = along(args[4], types[4], rank, attrs.axis)
    if before is not None and after is not None and compute == "int64":
        ratio = np.asarray(before, "float64") / np.asarray(after, "float64")
        if not np.all(ratio == 1):
            value = _scaled(value, ratio, rank, attrs.axis, rounding)
        out_zero = known(args[4])
        if out_zero is None or out_zero.any():
            value = tensor_ops.add(value, target)
        return saturate(value, attrs.out_dtype)
    ratio = tensor_ops.divide(along(args[1], types[1], rank, attrs.axis), along(args[3], types[3], rank, attrs.axis))
    real = _rounded(tensor_ops.multiply(tensor_ops.cast(value, "float32"), ratio), rounding)
    return saturate(tensor_ops.add(real, tensor_ops.cast(target, "float32")), attrs.out_dtype)


@op("qnn.requantize", 5, pattern=OPAQUE, type_rule=_requantize_type, expand=_requantize)
def requantize(
    data,
    input_scale,
    input_zero_point,
    output_scale,
    output_zero_point,
    axis=-1,
    rounding="None",
    compute_dtype="None",
    out_dtype="int8",
):
    """Integers of one scale and zero point as integers of another.

    Raises
    ------
    ValueError
        ``rounding`` is neither UPWARD nor TONEAREST.
    """
    if rounding not in ("None", "UPWARD", "TONEAREST"):
        raise ValueError(f"requantize: rounding is UPWARD or TONEAREST, got '{rounding}'")
    return call(
        "qnn.requantize",
        data,
        scale_of(input_scale),
        zero_of(input_zero_point),
        scale_of(output_scale),
        zero_of(output_zero_point),
        axis=int(axis),
        rounding=rounding,
        compute_dtype=compute_dtype,
        out_dtype=out_dtype,
    )


# --- products ------------------------------------------------------------------------------------------------------

# The integers of 8 bits minus a zero point fit into 16; wider ones are taken as they are.
_SHIFTED = {"int8": "int16", "uint8": "int16", "int16": "int32", "uint16": "int32", "int32": "int32"}


def _operands(args, types, kernel_axis: int):
    data = centered(args[0], args[2], types[2], types[0], -1, _SHIFTED[types[0].dtype])
    weight = centered(args[1], args[3], types[3], types[1], kernel_axis, _SHIFTED[types[1].dtype])
    return data, weight


def _product_type(plain: str, kernel_axis):
    """The type of the plain operator on the same shapes; integers, and parameters that fit them."""

    def rule(attrs, types):
        from ....ir.op import Op

        _integers(types[0], "the data")
        _integers(types[1], "the weight")
        size = dims(types[1])[kernel_axis(attrs)]
        check_parameter(types[2], None, "int32", "input_zero_point")
        check_parameter(types[3], size, "int32", "kernel_zero_point")
        check_parameter(types[4], None, "float32", "input_scale")
        check_parameter(types[5], size, "float32", "kernel_scale")
        return Op.get(plain).attrs["type_rule"](attrs, types[:2])

    return rule


def _filters(attrs) -> int:
    return attrs.kernel_layout.index("O")


def _window(args, types, build, attrs, **more):
    data, weight = _operands(args, types, _filters(attrs))
    return build(
        data,
        weight,
        strides=attrs.strides,
        padding=attrs.padding,
        dilation=attrs.dilation,
        groups=attrs.groups,
        channels=attrs.channels,
        kernel_size=attrs.kernel_size,
        data_layout=attrs.data_layout,
        kernel_layout=attrs.kernel_layout,
        out_layout=attrs.out_layout,
        out_dtype=attrs.out_dtype,
        **more,
    )


@op(
    "qnn.conv2d",
    6,
    pattern=OPAQUE,
    type_rule=_product_type("nn.conv2d", _filters),
    macs=conv_macs,
    expand=lambda attrs, args, types: _window(args, types, nn.conv2d, attrs),
)
def conv2d(
    data,
    kernel,
    input_zero_point,
    kernel_zero_point,
    input_scale,
    kernel_scale,
    kernel_size,
    channels,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    data_layout="NCHW",
    kernel_layout="OIHW",
    out_layout="",
    out_dtype="int32",
):
    """Convolution of integers less their zero points; the result's scale is the product of the scales."""
    plain = nn.conv2d(
        data,
        kernel,
        strides,
        padding,
        dilation,
        groups,
        channels,
        kernel_size,
        data_layout,
        kernel_layout,
        out_layout,
        out_dtype,
    )
    return _with_parameters("qnn.conv2d", plain, input_zero_point, kernel_zero_point, input_scale, kernel_scale)


def _with_parameters(name: str, plain, input_zero_point, kernel_zero_point, input_scale, kernel_scale):
    attributes = dict(plain.attrs.entries)
    return call(
        name,
        *plain.args,
        zero_of(input_zero_point),
        zero_of(kernel_zero_point),
        scale_of(input_scale),
        scale_of(kernel_scale),
        **attributes,
    )


@op(
    "qnn.conv2d_transpose",
    6,
    pattern=OPAQUE,
    type_rule=_product_type("nn.conv2d_transpose", _filters),
    macs=transposed_macs,
    expand=lambda attrs, args, types: _window(
        args, types, nn.conv2d_transpose, attrs, output_padding=attrs.output_padding
    ),
)
def conv2d_transpose(
    data,
    weight,
    input_zero_point,
    kernel_zero_point,
    input_scale,
    kernel_scale,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW",
    kernel_layout="IOHW",
    out_layout="",
    output_padding=(0, 0),
    out_dtype="int32",
):
    """Transposed convolution of integers less their zero points."""
    plain = nn.conv2d_transpose(
        data,
        weight,
        strides,
        padding,
        dilation,
        groups,
        channels,
        kernel_size,
        data_layout,
        kernel_layout,
        out_layout,
        output_padding,
        out_dtype,
    )
    return _with_parameters(
        "qnn.conv2d_transpose", plain, input_zero_point, kernel_zero_point, input_scale, kernel_scale
    )


def _dense(attrs, args, types):
    data, weight = _operands(args, types, 0)
    return nn.dense(data, weight, attrs.units, attrs.out_dtype)


@op("qnn.dense", 6, pattern=OPAQUE, type_rule=_product_type("nn.dense", lambda attrs: 0), macs=matmul_macs,
    expand=_dense)
def dense(data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, units, out_dtype="int32"):
    """data . weight^T of integers less their zero points."""
    plain = nn.dense(data, weight, None if units is None else int(units), out_dtype)
    return _with_parameters("qnn.dense", plain, input_zero_point, kernel_zero_point, input_scale, kernel_scale)


def _batch_matmul(attrs, args, types):
    x, y = _operands(args, types, 1)
    return nn.batch_matmul(x, y, attrs.out_dtype, attrs.transpose_a, attrs.transpose_b)


@op(
    "qnn.batch_matmul",
    6,
    pattern=OPAQUE,
    type_rule=_product_type("nn.batch_matmul", lambda attrs: 1),
    macs=matmul_macs,
    expand=_batch_matmul,
)
def batch_matmul(x, y, x_zero_point, y_zero_point, x_scale, y_scale, out_dtype="int32"):
    """Products of matrices of integers less their zero points; the second ones are transposed."""
    plain = nn.batch_matmul(x, y, out_dtype, False, True)
    return _with_parameters("qnn.batch_matmul", plain, x_zero_point, y_zero_point, x_scale, y_scale)


# --- element by element --------------------------------------------------------------------------------------------


def _two_type(attrs, types):
    a, b = _integers(types[0], "the left side"), _integers(types[1], "the right side")
    if a.dtype != b.dtype:
        raise TypeError(f"both sides must have one element type, got {a.dtype} and {b.dtype}")
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
    """An expansion of a sum or a difference. In int64, as TVM computes it, each operand is requantized to the output's
    scale and zero point, so that both are rounded; ``cancel`` corrects the zero point, which the result then contains
    twice or not at all. In float32, which the attribute ``compute_dtype`` or the configuration asks for, the result
    alone is rounded."""

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
mul = _two("mul", _times, "The product of two quantized tensors.")


def _one_type(attrs, types):
    data = _integers(types[0], "the data")
    for at, dtype, what in (
        (1, "float32", "scale"),
        (2, "int32", "zero_point"),
        (3, "float32", "output_scale"),
        (4, "int32", "output_zero_point"),
    ):
        check_parameter(types[at], 1, dtype, what)
    return data


def _through_float(function):
    """An expansion that computes on real numbers: dequantize, ``function(value, attrs)``, quantize."""

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
    """leaky_relu of a quantized tensor."""
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
    """softmax of a quantized tensor."""
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
    """The mean of each window of a quantized tensor."""
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


# --- joining -------------------------------------------------------------------------------------------------------


def _concatenate_type(attrs, types):
    from ....ir.op import Op

    parts, scales, zeros = (fields(t) for t in types[:3])
    if not len(parts) == len(scales) == len(zeros):
        raise TypeError(f"{len(parts)} tensors with {len(scales)} scales and {len(zeros)} zero points")
    for t, s, z in zip(parts, scales, zeros):
        _integers(t, "a part")
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
    """Quantized tensors one after the other, brought to one scale and zero point."""
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


# --- quantization played with real numbers ---------------------------------------------------------------------------


def _simulated_type(attrs, types):
    data = tensor(types[0], "the data")
    if not data.dtype.startswith("float"):
        raise TypeError(f"the data must be float, got {data.dtype}")
    if dims(tensor(types[1], "the code of the type")) != ():
        raise TypeError(f"the code of the type must be a number, got shape {dims(types[1])}")
    size = size_along(data, attrs.axis)
    for t, what in ((types[2], "the scale"), (types[3], "the zero point")):
        shape = dims(tensor(t, what))
        if len(shape) == 1 and isinstance(shape[0], PrimExpr):
            count = shape[0]
            fits = primop.logical_or(primop.equal(count, 1), primop.equal(count, size))
            assume(fits, f"{what}, which is one number or one for each place along the axis")
        else:
            check_parameter(t, size, t.dtype, what)
    return data


def _simulated(name: str, data: Any, dtype: Any, scale: Any, zero: Any, axis: int) -> Call:
    """The call of an operator whose type of integers is a number that may be known at run time alone."""
    if isinstance(dtype, str):
        codes = topi.nn.SQNN_DTYPE_TO_CODE
        if dtype not in codes:
            known_types = ", ".join(codes)
            raise ValueError(f"{name}: the type of the integers is one of {known_types}, got '{dtype}'")
        dtype = as_expr(const(codes[dtype], "int32"))
    scale, zero = (transform.reshape(part, (-1,)) for part in (scale_of(scale), zero_of(zero)))
    return call(f"qnn.{name}", data, dtype, scale, zero, axis=int(axis))


def _simulated_op(name: str, compute: Callable[..., Any]) -> Callable[[Any], Any]:
    return op(f"qnn.{name}", 4, pattern=INJECTIVE, type_rule=_simulated_type,
              compute=lambda attrs, inputs, out: compute(*inputs, axis=attrs.axis))


@_simulated_op("simulated_quantize", topi.nn.simulated_quantize)
def simulated_quantize(data, output_scale, output_zero_point, axis=-1, out_dtype="int8"):
    """What quantize gives, as real numbers; ``out_dtype`` is a type, or an expression of its code.

    Raises
    ------
    ValueError
        ``out_dtype`` is no type with a code (``tvm.topi.nn.SQNN_DTYPE_TO_CODE``).
    """
    return _simulated("simulated_quantize", data, out_dtype, output_scale, output_zero_point, axis)


@_simulated_op("simulated_dequantize", topi.nn.simulated_dequantize)
def simulated_dequantize(data, input_scale, input_zero_point, axis=-1, in_dtype="int8"):
    """What dequantize gives, from integers kept as real numbers; ``in_dtype`` is a type, or an expression of its code.

    Raises
    ------
    ValueError
        ``in_dtype`` is no type with a code (``tvm.topi.nn.SQNN_DTYPE_TO_CODE``).
    """
    return _simulated("simulated_dequantize", data, in_dtype, input_scale, input_zero_point, axis)


__all__ = [
    "abs",
    "add",
    "avg_pool2d",
    "batch_matmul",
    "concatenate",
    "conv2d",
    "conv2d_transpose",
    "dense",
    "dequantize",
    "erf",
    "exp",
    "hardswish",
    "leaky_relu",
    "log",
    "mul",
    "quantize",
    "requantize",
    "requantize_config",
    "rsqrt",
    "sigmoid",
    "simulated_dequantize",
    "simulated_quantize",
    "softmax",
    "sqrt",
    "subtract",
    "tanh",
]
