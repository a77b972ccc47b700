"""Quantized convolutions and matmuls, and the exports of all QNN operators.

The record of a quantized operator has an ``expand`` rule, which rewrites it to plain operators. The simulated operators
are kernels.
"""

from __future__ import annotations

from typing import Any

from ...op import nn
from ...op.nn.convolution import conv_macs
from ...op.nn.dense import matmul_macs
from ...op.nn.transposed import transposed_macs
from ...op.record import OPAQUE, call, op
from ...op.rules import dims
from .elementwise import (
    abs,
    add,
    avg_pool2d,
    concatenate,
    erf,
    exp,
    hardswish,
    leaky_relu,
    log,
    mul,
    rsqrt,
    sigmoid,
    softmax,
    sqrt,
    subtract,
    tanh,
)
from .rules import (
    RequantizeConfig,
    centered,
    check_parameter,
    scale_of,
    zero_of,
)
from .scaling import dequantize, integers, quantize, requantize, simulated_dequantize, simulated_quantize


def requantize_config(**kwargs: Any) -> RequantizeConfig:
    """A context manager that sets the rounding (``rounding``) and the type (``compute_dtype``) of
    requantization."""
    return RequantizeConfig(**kwargs)


# The type of integers after subtracting the zero point. int32 is kept.
_SHIFTED = {"int8": "int16", "uint8": "int16", "int16": "int32", "uint16": "int32", "int32": "int32"}


def _operands(args, types, kernel_axis: int):
    data = centered(args[0], args[2], types[2], types[0], -1, _SHIFTED[types[0].dtype])
    weight = centered(args[1], args[3], types[3], types[1], kernel_axis, _SHIFTED[types[1].dtype])
    return data, weight


def _product_type(plain: str, kernel_axis):
    """Return a type rule: the operands are integers with matching parameters, and the output has the plain operator's
    type."""

    def rule(attrs, types):
        from ....ir.op import Op

        integers(types[0], "the data")
        integers(types[1], "the weight")
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
    """The convolution of integers minus their zero points. The output scale is the product of the input scales."""
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
    """The transposed convolution of integers minus their zero points."""
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


@op(
    "qnn.dense",
    6,
    pattern=OPAQUE,
    type_rule=_product_type("nn.dense", lambda attrs: 0),
    macs=matmul_macs,
    expand=_dense,
)
def dense(data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, units, out_dtype="int32"):
    """The matmul ``data . weight^T`` of integers minus their zero points."""
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
    """The batched matmul of integers minus their zero points. The second operand is transposed."""
    plain = nn.batch_matmul(x, y, out_dtype, False, True)
    return _with_parameters("qnn.batch_matmul", plain, x_zero_point, y_zero_point, x_scale, y_scale)


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
