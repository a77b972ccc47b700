"""The operators quantize, dequantize and requantize, and their simulation in float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import topi
from ....ir import primop
from ....ir.prim import PrimExpr
from ....ir.tensor_type import TensorType
from ....topi.assumptions import assume
from ...expr import Call, RelayExpr, const
from ...op import tensor as tensor_ops
from ...op import transform
from ...op.record import INJECTIVE, OPAQUE, as_expr, call, op
from ...op.rules import dims, normalize_axis, tensor
from .rules import (
    NARROW,
    RequantizeConfig,
    along,
    check_parameter,
    fixed_point,
    known,
    saturate,
    scale_of,
    size_along,
    zero_of,
)


def integers(t, what: str) -> TensorType:
    if tensor(t, what).dtype not in NARROW:
        raise TypeError(f"{what} must be one of {', '.join(NARROW)}, got {t.dtype}")
    return t


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
    # Add in float: a value beyond the int32 range must saturate, not wrap.
    zero = tensor_ops.cast(along(args[2], types[2], rank, attrs.axis), "float32")
    return saturate(tensor_ops.add(rounded, zero), attrs.out_dtype)


@op("qnn.quantize", 3, pattern=OPAQUE, type_rule=_quantize_type, expand=_quantize)
def quantize(data, output_scale, output_zero_point, axis=-1, out_dtype="int8"):
    """The quantized tensor: round(x / scale) + zero point, saturated to the range of the type."""
    return call(
        "qnn.quantize", data, scale_of(output_scale), zero_of(output_zero_point), axis=int(axis), out_dtype=out_dtype
    )


def _dequantize_type(attrs, types):
    data = integers(types[0], "the data")
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
    """The dequantized tensor: (x - zero point) * scale."""
    return call(
        "qnn.dequantize", data, scale_of(input_scale), zero_of(input_zero_point), axis=int(axis), out_dtype=out_dtype
    )


def _requantize_type(attrs, types):
    data = integers(types[0], "the data")
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
    """Multiply int32 values by a real ratio in fixed-point arithmetic.

    ``ratio`` is an array with one element, or one for each channel.
    """
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
    """The integers of one scale and zero point, converted to another scale and zero point.

    Raises
    ------
    ValueError
        ``rounding`` is neither UPWARD nor TONEAREST.
    """
    if rounding not in ("None", "UPWARD", "TONEAREST"):
        raise ValueError(f"requantize: rounding must be UPWARD or TONEAREST, got '{rounding}'")
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


def _simulated_type(attrs, types):
    data = tensor(types[0], "the data")
    if not data.dtype.startswith("float"):
        raise TypeError(f"the data must be float, got {data.dtype}")
    if dims(tensor(types[1], "the type code")) != ():
        raise TypeError(f"the type code must be a scalar, got shape {dims(types[1])}")
    size = size_along(data, attrs.axis)
    for t, what in ((types[2], "the scale"), (types[3], "the zero point")):
        shape = dims(tensor(t, what))
        if len(shape) == 1 and isinstance(shape[0], PrimExpr):
            count = shape[0]
            fits = primop.logical_or(primop.equal(count, 1), primop.equal(count, size))
            assume(fits, f"{what}, which must be a scalar or a vector with one element for each channel")
        else:
            check_parameter(t, size, t.dtype, what)
    return data


def _simulated(name: str, data: Any, dtype: Any, scale: Any, zero: Any, axis: int) -> Call:
    """Build the call of a simulated operator. Its integer type is a type code, which may be known only at run time."""
    if isinstance(dtype, str):
        codes = topi.nn.SQNN_DTYPE_TO_CODE
        if dtype not in codes:
            known_types = ", ".join(codes)
            raise ValueError(f"{name}: the integer type must be one of {known_types}, got '{dtype}'")
        dtype = as_expr(const(codes[dtype], "int32"))
    scale, zero = (transform.reshape(part, (-1,)) for part in (scale_of(scale), zero_of(zero)))
    return call(f"qnn.{name}", data, dtype, scale, zero, axis=int(axis))


def _simulated_op(name: str, compute: Callable[..., Any]) -> Callable[[Any], Any]:
    return op(
        f"qnn.{name}",
        4,
        pattern=INJECTIVE,
        type_rule=_simulated_type,
        compute=lambda attrs, inputs, out: compute(*inputs, axis=attrs.axis),
    )


@_simulated_op("simulated_quantize", topi.nn.simulated_quantize)
def simulated_quantize(data, output_scale, output_zero_point, axis=-1, out_dtype="int8"):
    """The output of quantize, simulated in float. ``out_dtype`` is a type, or an expression of its type code.

    Raises
    ------
    ValueError
        ``out_dtype`` has no type code in ``tvm.topi.nn.SQNN_DTYPE_TO_CODE``.
    """
    return _simulated("simulated_quantize", data, out_dtype, output_scale, output_zero_point, axis)


@_simulated_op("simulated_dequantize", topi.nn.simulated_dequantize)
def simulated_dequantize(data, input_scale, input_zero_point, axis=-1, in_dtype="int8"):
    """The output of dequantize on integers stored as floats. ``in_dtype`` is a type, or an expression of its type code.

    Raises
    ------
    ValueError
        ``in_dtype`` has no type code in ``tvm.topi.nn.SQNN_DTYPE_TO_CODE``.
    """
    return _simulated("simulated_dequantize", data, in_dtype, input_scale, input_zero_point, axis)
