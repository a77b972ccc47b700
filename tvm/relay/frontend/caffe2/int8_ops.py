"""Converters of int8 operators.

The data is uint8 in NHWC layout. The importer stores the scale and the zero point of each blob by its name.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ...qnn import op as qnn
from .conv_ops import Window
from .table import CONVERTERS, Context, op


def _out_params(args: dict[str, Any]) -> tuple[float, int]:
    """Return the scale and the zero point of an operator's output."""
    scale, zero = args.get("Y_scale", 1.0), args.get("Y_zero_point", 0)
    if (
        not isinstance(scale, (int, float))
        or not isinstance(zero, int)
        or not 0 <= zero <= 255
        or not (math.isfinite(scale) and scale > 0)
    ):
        raise TVMError(f"Y_scale {scale!r} and Y_zero_point {zero!r} are not a valid scale and zero point of uint8")
    return float(scale), zero


def _input_params(ctx: Context, place: int, inputs: list[RelayExpr]) -> tuple[float, int]:
    """Return the scale and the zero point of an input."""
    name = ctx.operator.inputs[place]
    if name not in ctx.importer.scales or ctx.dtype(inputs[place]) not in ("uint8", "int32"):
        raise TVMError(f"the input '{name}' has no scale: it is not the output of an int8 operator")
    return ctx.importer.scales[name]


def _store_params(ctx: Context, scale: float, zero: int) -> None:
    ctx.importer.scales[ctx.operator.outputs[0]] = (scale, zero)


def _quantize(ctx: Context, x: RelayExpr, args: dict[str, Any], relu: bool = False) -> RelayExpr:
    """Round values given in units of the output scale, and add the zero point, to get the uint8 output."""
    scale, zero = _out_params(args)
    _store_params(ctx, scale, zero)
    value = relay.add(relay.round(x), const(float(zero)))
    return relay.cast(relay.clip(value, float(zero) if relu else 0.0, 255.0), "uint8")


def _dequantize(ctx: Context, inputs: list[RelayExpr], place: int = 0) -> RelayExpr:
    """Dequantize an input to float32."""
    scale, zero = _input_params(ctx, place, inputs)
    value = relay.subtract(relay.cast(inputs[place], "float32"), const(float(zero)))
    return relay.multiply(value, const(scale))


def _rescale(x: RelayExpr, args: dict[str, Any]) -> RelayExpr:
    return relay.divide(x, const(_out_params(args)[0]))


# -- quantize and dequantize ------------------------------------------------------------------------------------------


@op("Int8Quantize")
def quantize(ctx, inputs, args):
    if len(inputs) > 1:
        raise TVMError("a scale as an input is not supported; it must be the argument Y_scale")
    return _quantize(ctx, _rescale(inputs[0], args), args)


@op("Int8Dequantize")
def dequantize(ctx, inputs, args):
    return _dequantize(ctx, inputs)


@op("Int8GivenTensorFill")
def given(ctx, inputs, args):
    text, shape = args.get("values", b""), args.get("shape", [])
    if not isinstance(text, bytes) or not isinstance(shape, list) or len(text) != math.prod(shape):
        raise TVMError(f"a tensor of shape {shape} does not match the size of its data")
    _store_params(ctx, *_out_params(args))
    return Constant(np.frombuffer(text, "uint8").reshape(shape).copy())


@op("Int8GivenIntTensorFill")
def given_int(ctx, inputs, args):
    scale = args.get("Y_scale", 1.0)
    if not isinstance(scale, float) or not math.isfinite(scale) or args.get("Y_zero_point", 0):
        raise TVMError("an int32 tensor must have a scale and no zero point")
    made = CONVERTERS.find("GivenTensorIntFill", 0)(ctx, [], args)
    _store_params(ctx, scale, 0)
    return made


# -- convolution and matmul -------------------------------------------------------------------------------------------


def _requantize(ctx: Context, sums: RelayExpr, inputs: list[RelayExpr], args: dict[str, Any], relu: bool) -> RelayExpr:
    """Add the int32 bias, which has the scale of the accumulators, and requantize to uint8."""
    factor = _input_params(ctx, 0, inputs)[0] * _input_params(ctx, 1, inputs)[0]
    if len(inputs) > 2:
        if ctx.dtype(inputs[2]) != "int32":
            raise TVMError(f"the bias must be int32, got {ctx.dtype(inputs[2])}")
        sums = relay.add(sums, inputs[2])
    return _quantize(ctx, relay.multiply(relay.cast(sums, "float32"), const(factor / _out_params(args)[0])), args, relu)


def _conv(ctx, inputs, args, relu: bool):
    x, weight = inputs[0], inputs[1]
    shape = ctx.known_shape(weight)
    if not ctx.channels_last(args) or ctx.rank(x) != 4 or len(shape) != 4:
        raise TVMError("Int8Conv needs data and weights of 4 dimensions in the order NHWC")
    window, groups = Window(ctx, x, args, list(shape[1:3])), args.get("group", 1)
    if groups < 1 or shape[3] * groups != window.channels or shape[0] % groups or list(shape[1:3]) != window.kernel:
        raise TVMError(f"weights of shape {shape} in {groups} groups do not match {window.channels} input channels")
    (scale, zero), (weight_scale, weight_zero) = (_input_params(ctx, i, inputs) for i in (0, 1))
    # Transpose to NCHW: a grouped convolution needs the channels before the spatial axes.
    first = qnn.conv2d(
        relay.transpose(x, (0, 3, 1, 2)), relay.transpose(weight, (0, 3, 1, 2)), const(zero), const(weight_zero),
        const(scale), const(weight_scale), tuple(window.kernel), shape[0], tuple(window.strides),
        tuple(window.padding), tuple(window.dilations), groups,
    )  # fmt: skip
    return _requantize(ctx, relay.transpose(first, (0, 2, 3, 1)), inputs, args, relu)


def _fc(ctx, inputs, args, relu: bool):
    x, weight = inputs[0], inputs[1]
    rows, shape = ctx.known_shape(x), ctx.known_shape(weight)
    if len(shape) != 2 or math.prod(rows[1:]) != shape[1]:
        raise TVMError(f"weights of shape {shape} do not match data of shape {rows}")
    (scale, zero), (weight_scale, weight_zero) = (_input_params(ctx, i, inputs) for i in (0, 1))
    flat = relay.reshape(x, (rows[0], shape[1]))
    sums = qnn.dense(flat, weight, const(zero), const(weight_zero), const(scale), const(weight_scale), shape[0])
    return _requantize(ctx, sums, inputs, args, relu)


def _add(ctx, inputs, args, relu: bool):
    if len(inputs) != 2 or ctx.known_shape(inputs[0]) != ctx.known_shape(inputs[1]):
        raise TVMError("expected 2 inputs of equal shape")
    both = relay.add(_dequantize(ctx, inputs), _dequantize(ctx, inputs, 1))
    return _quantize(ctx, _rescale(both, args), args, relu)


def _average(ctx, inputs, args, relu: bool):
    if any(args.get(name) for name in ("pad", "pads", "pad_t", "pad_l", "pad_b", "pad_r")):
        raise TVMError(
            "Int8AveragePool with padding is not supported, because versions of Caffe2 disagree about its average"
        )
    mean = CONVERTERS.find("AveragePool", 0)(ctx, [_dequantize(ctx, inputs)], args)
    return _quantize(ctx, _rescale(mean, args), args, relu)


def _check_same_params(ctx: Context, inputs: list[RelayExpr], args: dict[str, Any]) -> None:
    """Check that the output has the scale and the zero point of the first input."""
    known = _input_params(ctx, 0, inputs)
    said = _out_params({"Y_scale": known[0], "Y_zero_point": known[1], **args})
    if said[1] != known[1] or not math.isclose(said[0], known[0], rel_tol=1e-5):
        raise TVMError(f"scale and zero point {said} of the output must equal those of the input, {known}")
    _store_params(ctx, *known)


def _max(ctx, inputs, args, relu: bool):
    _check_same_params(ctx, inputs, args)
    x = CONVERTERS.find("MaxPool", 0)(ctx, inputs, args)
    return relay.maximum(x, ctx.like(_input_params(ctx, 0, inputs)[1], inputs[0])) if relu else x


for _name, _build in (("Int8Conv", _conv), ("Int8FC", _fc), ("Int8Add", _add), ("Int8Sum", _add),
                      ("Int8AveragePool", _average), ("Int8MaxPool", _max)):  # fmt: skip
    op(_name)(lambda ctx, inputs, args, build=_build: build(ctx, inputs, args, False))
    op(f"{_name}Relu")(lambda ctx, inputs, args, build=_build: build(ctx, inputs, args, True))


# -- element-wise and layout-changing operators -----------------------------------------------------------------------


@op("Int8Relu")
def relu(ctx, inputs, args):
    _check_same_params(ctx, inputs, args)
    return relay.maximum(inputs[0], ctx.like(_input_params(ctx, 0, inputs)[1], inputs[0]))


def _via_float(name: str):
    """Return a converter that dequantizes, applies a float operator and quantizes its output."""

    def convert(ctx, inputs, args):
        return _quantize(ctx, _rescale(CONVERTERS.find(name, 0)(ctx, [_dequantize(ctx, inputs)], args), args), args)

    return convert


for _name in ("Sigmoid", "Softmax", "LeakyRelu"):
    op(f"Int8{_name}")(_via_float(_name))


def _layout_op(name: str):
    """Return a converter that applies a layout-changing operator to uint8 data."""

    def convert(ctx, inputs, args):
        for i in range(len(inputs) if name == "Concat" else 1):
            if _input_params(ctx, i, inputs) != _input_params(ctx, 0, inputs):
                raise TVMError("Int8Concat: all inputs must have the same scale and zero point")
        _check_same_params(ctx, inputs, args)
        return CONVERTERS.find(name, 0)(ctx, inputs, args)

    return convert


for _name in ("Reshape", "Flatten", "Slice", "Transpose", "ChannelShuffle", "ResizeNearest", "Concat"):
    op(f"Int8{_name}")(_layout_op(_name))
