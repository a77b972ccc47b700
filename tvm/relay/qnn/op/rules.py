"""Helpers of the QNN operators: quantization parameters, types and arithmetic."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ....ir.tensor_type import TensorType
from ....ir.type import Type
from ....ir.visit import pre_order
from ...expr import Constant, RelayExpr, Var, const
from ...op import tensor as tensor_ops
from ...op import transform
from ...op.record import as_expr
from ...op.rules import dims, normalize_axis, tensor

NARROW = ("int8", "uint8", "int16", "uint16", "int32")
LIMITS = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
    "int32": (-2147483648, 2147483647),
}


class RequantizeConfig:
    """The rounding and the compute type of requantization.

    ``with requantize_config(rounding="TONEAREST"):`` changes them.
    """

    stack: ClassVar[list[RequantizeConfig]] = []

    def __init__(self, rounding: str = "UPWARD", compute_dtype: str = "int64"):
        if rounding not in ("UPWARD", "TONEAREST"):
            raise ValueError(f"requantize_config: rounding must be UPWARD or TONEAREST, got '{rounding}'")
        if compute_dtype not in ("int64", "float32", "float64"):
            raise ValueError(
                f"requantize_config: compute_dtype must be int64, float32 or float64, got '{compute_dtype}'"
            )
        self.rounding = rounding
        self.compute_dtype = compute_dtype

    def __enter__(self) -> RequantizeConfig:
        RequantizeConfig.stack.append(self)
        return self

    def __exit__(self, kind, value, trace) -> None:
        RequantizeConfig.stack.pop()

    @staticmethod
    def current() -> RequantizeConfig:
        return RequantizeConfig.stack[-1] if RequantizeConfig.stack else _DEFAULT


_DEFAULT = RequantizeConfig()


def scale_of(value: Any) -> RelayExpr:
    return value if isinstance(value, RelayExpr) else as_expr(const(value, "float32"))


def zero_of(value: Any) -> RelayExpr:
    return value if isinstance(value, RelayExpr) else as_expr(const(value, "int32"))


def check_parameter(t: Type, size: Any, dtype: str, what: str) -> None:
    """Check that a quantization parameter is a scalar, or a vector with one element for each channel."""
    shape = dims(tensor(t, what))
    if t.dtype != dtype:
        raise TypeError(f"{what} must be {dtype}, got {t.dtype}")
    if shape not in ((), (1,)) and (len(shape) != 1 or isinstance(size, int) and shape[0] != size):
        raise TypeError(f"{what} must be a scalar or a vector of {size} elements, got shape {shape}")


def size_along(t: TensorType, axis: int) -> Any:
    return dims(t)[normalize_axis(axis, len(dims(t)))] if dims(t) else 1


def along(value: RelayExpr, t: TensorType, rank: int, axis: int) -> RelayExpr:
    """Reshape a parameter to broadcast along ``axis`` of a tensor with ``rank`` dimensions."""
    if dims(t) == ():
        return value
    if dims(t) == (1,):
        return transform.reshape(value, ())
    after = rank - normalize_axis(axis, rank) - 1
    return transform.expand_dims(value, 1, after) if after else value


def known(value: RelayExpr):
    """Return the value of a constant expression as an array, or None if it is not constant or too large."""
    from ...transform.expand_ops import typed
    from ...transform.fold_constant import FoldConstantExpr

    if not isinstance(value, Constant):
        for count, node in enumerate(pre_order(value)):
            if isinstance(node, Var) or count > 32:
                return None
        value = FoldConstantExpr(typed(value), None)
    return value.data.numpy() if isinstance(value, Constant) else None


def is_zero(value: RelayExpr) -> bool:
    array = known(value)
    return array is not None and not array.any()


def centered(
    value: RelayExpr, zero: RelayExpr, zero_type: TensorType, t: TensorType, axis: int, dtype: str
) -> RelayExpr:
    """Subtract the zero point from integers, in the type ``dtype``."""
    if is_zero(zero):
        return value
    shifted = along(tensor_ops.cast(zero, dtype), zero_type, len(dims(t)), axis)
    return tensor_ops.subtract(tensor_ops.cast(value, dtype), shifted)


def saturate(value: RelayExpr, dtype: str) -> RelayExpr:
    """Clip integers to the range of a type, and cast them to it."""
    low, high = LIMITS[dtype]
    return tensor_ops.cast(value if dtype == "int32" else tensor_ops.clip(value, low, high), dtype)


def fixed_point(number: float) -> tuple[int, int]:
    """Return (m, s) with number = m / 2^31 * 2^s and m in [2^30, 2^31)."""
    if number == 0:
        return 0, 0
    mantissa, exponent = math.frexp(number)
    whole = round(mantissa * (1 << 31))
    return (whole // 2, exponent + 1) if whole == 1 << 31 else (whole, exponent)
