"""Rules of ``relay.qnn.transform.Legalize``, which convert quantized operators to integer types with fast
instructions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.attrs import Attrs
from ....ir.op import Op
from ....target import Target, generic_func
from ....target.codegen import target_has_features
from ....topi.utils import is_target
from ...expr import Call, Constant, RelayExpr, const
from ...infer import dims
from ...op import nn, tensor
from ...op.op import register_legalize
from . import qnn
from .canonicalizations import create_integer_lookup_op
from .op import register_qnn_legalize

# The offset that converts 8-bit integers between signed and unsigned.
_SHIFT = {"uint8": 128, "int8": -128}


def hardswish_func(x: np.ndarray) -> np.ndarray:
    """Return x * clip(x + 3, 0, 6) / 6.

    Parameters
    ----------
    x : numpy.ndarray
        The input.

    Returns
    -------
    numpy.ndarray
    """
    return x * np.clip(x + 3.0, 0.0, 6.0) / 6.0


def register_qnn_unary_op_legalize(op_name: str, floating_point_func: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Register a rule of ``qnn.transform.Legalize`` that replaces a quantized unary operator by a lookup table.

    Parameters
    ----------
    op_name : str
        The name of the operator, with the operands (x, scale, zero_point, output_scale, output_zero_point).
    floating_point_func : callable
        The float function, over NumPy arrays.

    Returns
    -------
    callable
        The registered rule.
    """

    def legalize(attrs: Attrs, inputs: list[RelayExpr], types: list) -> RelayExpr | None:
        if not all(isinstance(e, Constant) and e.data.numpy().size == 1 for e in inputs[1:]):
            return None
        dtype = types[0].dtype
        if np.dtype(dtype).itemsize > 2:
            return None
        return create_integer_lookup_op(inputs[0], floating_point_func, *inputs[1:], in_dtype=dtype, out_dtype=dtype)

    return register_qnn_legalize(op_name, legalize)


for _name, _function in (
    ("sqrt", np.sqrt), ("rsqrt", lambda x: 1 / np.sqrt(x)), ("exp", np.exp), ("tanh", np.tanh), ("log", np.log),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("hardswish", hardswish_func), ("abs", np.abs),
    ("erf", np.vectorize(math.erf, otypes=["float32"])),
):  # fmt: skip
    register_qnn_unary_op_legalize(f"qnn.{_name}", _function)


# -- helpers -----------------------------------------------------------------------------------------------------------


def get_scalar_from_constant(expr: RelayExpr) -> int | float:
    """Return the value of a constant int32 or float32 scalar.

    Parameters
    ----------
    expr : Expr
        The constant.

    Returns
    -------
    int or float

    Raises
    ------
    ValueError
        The expression is not such a constant.
    """
    if not isinstance(expr, Constant) or expr.data.shape or expr.data.dtype not in ("int32", "float32"):
        raise ValueError(f"a constant scalar of int32 or float32 is required, got {expr}")
    return expr.data.numpy().item()


def _shifted(data: RelayExpr, zero: RelayExpr, dtype: str) -> tuple[RelayExpr, RelayExpr]:
    """Convert integers and their zero point to the other 8-bit type by adding an offset of 128 or -128."""
    shift = const(_SHIFT[dtype], "int32")
    moved = tensor.cast(tensor.add(tensor.cast(data, "int32"), shift), dtype)
    if isinstance(zero, Constant):
        return moved, const(zero.data.numpy() + _SHIFT[dtype], "int32")
    return moved, tensor.add(zero, shift)


def _in_types(attrs: Attrs, inputs: list[RelayExpr], types: list, relay_op: Callable, *wanted: str) -> Any:
    have = (types[0].dtype, types[1].dtype)
    if have == wanted or not set(have) <= set(_SHIFT):
        return None
    data, kernel, data_zero, kernel_zero, *scales = inputs
    if have[0] != wanted[0]:
        data, data_zero = _shifted(data, data_zero, wanted[0])
    if have[1] != wanted[1]:
        kernel, kernel_zero = _shifted(kernel, kernel_zero, wanted[1])
    return relay_op(data, kernel, data_zero, kernel_zero, *scales, **dict(attrs))


def helper_change_dtypes_to_uint8_int8(
    attrs: Attrs, inputs: list[RelayExpr], types: list, relay_op: Callable
) -> RelayExpr | None:
    """Convert data to uint8 and weights to int8, as the x86 dot product instructions require.

    Parameters
    ----------
    attrs : Attrs
        The attributes of the operator.
    inputs : list of Expr
        The operands of the operator.
    types : list of Type
        The types of the operands and of the output.
    relay_op : callable
        The function that builds the operator.

    Returns
    -------
    Expr or None
        The operator with converted types; None if it has these types already, or none of 8 bits.
    """
    return _in_types(attrs, inputs, types, relay_op, "uint8", "int8")


def helper_change_dtypes_to_int8(
    attrs: Attrs, inputs: list[RelayExpr], types: list, relay_op: Callable
) -> RelayExpr | None:
    """Convert data and weights to int8. Parameters and output are as in ``helper_change_dtypes_to_uint8_int8``."""
    return _in_types(attrs, inputs, types, relay_op, "int8", "int8")


def helper_change_dtypes_to_uint8(
    attrs: Attrs, inputs: list[RelayExpr], types: list, relay_op: Callable
) -> RelayExpr | None:
    """Convert data and weights to uint8. Parameters and output are as in ``helper_change_dtypes_to_uint8_int8``."""
    return _in_types(attrs, inputs, types, relay_op, "uint8", "uint8")


def helper_change_dtypes_to_be_same(
    attrs: Attrs, inputs: list[RelayExpr], types: list, relay_op: Callable
) -> RelayExpr | None:
    """Convert data to the type of the weights.

    Parameters and output are as in ``helper_change_dtypes_to_uint8_int8``.
    """
    return _in_types(attrs, inputs, types, relay_op, types[1].dtype, types[1].dtype)


def _centered(value: RelayExpr, zero: RelayExpr, zero_type: Any, axis: int) -> RelayExpr:
    """Subtract the zero point from integers, in int16."""
    wide, zero = tensor.cast(value, "int16"), tensor.cast(zero, "int16")
    return nn.bias_add(wide, tensor.negative(zero), axis) if dims(zero_type) else tensor.subtract(wide, zero)


def helper_no_fast_int8_hw_legalization(
    attrs: Attrs, inputs: list[RelayExpr], types: list, relay_op: Callable
) -> RelayExpr:
    """Subtract the zero points in int16 and use the plain operator, for processors without int8 dot products.

    Parameters
    ----------
    attrs : Attrs
        The attributes of the operator.
    inputs : list of Expr
        The operands of the operator.
    types : list of Type
        The types of the operands and of the output.
    relay_op : callable
        The function that builds the plain operator.

    Returns
    -------
    Expr
        The plain operator on int16.
    """
    data, kernel, data_zero, kernel_zero, *_ = inputs
    # The output channels are axis O of a convolution's kernel layout, and axis 0 of dense weights.
    axis = attrs.kernel_layout.index("O") if "kernel_layout" in attrs else 0
    return relay_op(_centered(data, data_zero, types[2], 1), _centered(kernel, kernel_zero, types[3], axis),
                    **dict(attrs))  # fmt: skip


def is_fast_int8_on_intel() -> bool:
    """Return whether the current target has vector instructions that multiply uint8 by int8.

    Returns
    -------
    bool
    """
    return target_has_features("sse4.2")


# -- rules -------------------------------------------------------------------------------------------------------------


@generic_func
def qnn_conv2d_legalize(attrs: Attrs, inputs: list[RelayExpr], types: list) -> RelayExpr | None:
    """Convert ``qnn.conv2d`` to the types that the current target prefers.

    None leaves it unchanged. Targets register their own implementation.
    """
    return None


@generic_func
def qnn_conv2d_transpose_legalize(attrs: Attrs, inputs: list[RelayExpr], types: list) -> RelayExpr | None:
    """Convert ``qnn.conv2d_transpose`` to the plain operator on int16. Targets register their own implementation."""
    data, kernel, data_zero, kernel_zero, *_ = inputs
    return nn.conv2d_transpose(_centered(data, data_zero, types[2], 1), _centered(kernel, kernel_zero, types[3], 1),
                               **dict(attrs))  # fmt: skip


@generic_func
def qnn_dense_legalize(attrs: Attrs, inputs: list[RelayExpr], types: list) -> RelayExpr | None:
    """Convert ``qnn.dense`` to the types that the current target prefers.

    None leaves it unchanged. Targets register their own implementation.
    """
    return None


legalize_qnn_conv2d = register_qnn_legalize("qnn.conv2d", qnn_conv2d_legalize)
legalize_qnn_conv2d_transpose = register_qnn_legalize("qnn.conv2d_transpose", qnn_conv2d_transpose_legalize)
legalize_qnn_dense = register_qnn_legalize("qnn.dense", qnn_dense_legalize)


def _keeps_bytes(attrs: Attrs, types: list) -> bool:
    """Return whether Arm processors without dot products have a kernel for the 8-bit convolution:

    NHWC, not depthwise.
    """
    return attrs.data_layout == "NHWC" and not _is_depthwise(attrs, types)


def _is_depthwise(attrs: Attrs, types: list) -> bool:
    channels = dims(types[0])[attrs.data_layout.index("C")]
    kernel = dict(zip(attrs.kernel_layout, dims(types[1])))
    return attrs.groups == channels and 1 in (kernel["O"], kernel["I"]) and channels != 1


def _for_x86(quantized: Callable, plain: Callable) -> Callable:
    def legalize(attrs: Attrs, inputs: list[RelayExpr], types: list) -> RelayExpr | None:
        if is_fast_int8_on_intel():
            return helper_change_dtypes_to_uint8_int8(attrs, inputs, types, quantized)
        return helper_no_fast_int8_hw_legalization(attrs, inputs, types, plain)

    return legalize


def _for_arm(quantized: Callable, plain: Callable, keeps_bytes: Callable[[Attrs, list], bool]) -> Callable:
    def legalize(attrs: Attrs, inputs: list[RelayExpr], types: list) -> RelayExpr | None:
        features = Target.current(allow_none=False).features
        if features.has_asimd and not features.has_dotprod and not keeps_bytes(attrs, types):
            return helper_no_fast_int8_hw_legalization(attrs, inputs, types, plain)
        return helper_change_dtypes_to_be_same(attrs, inputs, types, quantized)

    return legalize


def _for_gpu(quantized: Callable) -> Callable:
    def legalize(attrs: Attrs, inputs: list[RelayExpr], types: list) -> RelayExpr | None:
        if is_target("vulkan"):
            return helper_change_dtypes_to_be_same(attrs, inputs, types, quantized)
        return helper_change_dtypes_to_int8(attrs, inputs, types, quantized) if is_target(("cuda", "rocm")) else None

    return legalize


qnn_conv2d_legalize.register("cpu")(_for_x86(qnn.conv2d, nn.conv2d))
qnn_conv2d_legalize.register("arm_cpu")(_for_arm(qnn.conv2d, nn.conv2d, _keeps_bytes))
qnn_conv2d_legalize.register(["cuda", "gpu"])(_for_gpu(qnn.conv2d))
qnn_dense_legalize.register("cpu")(_for_x86(qnn.dense, nn.dense))
qnn_dense_legalize.register("arm_cpu")(_for_arm(qnn.dense, nn.dense, lambda attrs, types: False))
qnn_dense_legalize.register(["cuda", "gpu"])(_for_gpu(qnn.dense))


@register_legalize("clip")
def legalize_clip(attrs: Attrs, inputs: list[RelayExpr], types: list) -> RelayExpr | None:
    """Remove a ``clip`` after ``qnn.requantize`` whose limits include the whole range of the integer type.

    Parameters
    ----------
    attrs : Attrs
        The attributes of ``clip``, with its limits.
    inputs : list of Expr
        The operand of ``clip``.
    types : list of Type
        The types of the operand and of the output.

    Returns
    -------
    Expr or None
        The operand; None if the limits are inside the range, or the operand is another expression.
    """
    data = inputs[0]
    if not isinstance(data, Call) or not isinstance(data.op, Op) or data.op.name != "qnn.requantize":
        return None
    kind = np.iinfo(types[0].dtype)
    return data if attrs.a_min <= kind.min and attrs.a_max >= kind.max else None


__all__ = [
    "get_scalar_from_constant", "hardswish_func", "helper_change_dtypes_to_be_same", "helper_change_dtypes_to_int8",
    "helper_change_dtypes_to_uint8", "helper_change_dtypes_to_uint8_int8", "helper_no_fast_int8_hw_legalization",
    "is_fast_int8_on_intel", "legalize_clip", "legalize_qnn_conv2d", "legalize_qnn_conv2d_transpose",
    "legalize_qnn_dense", "qnn_conv2d_legalize", "qnn_conv2d_transpose_legalize", "qnn_dense_legalize",
    "register_qnn_unary_op_legalize",
]  # fmt: skip
