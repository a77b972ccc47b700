"""Lookup tables of quantized unary functions, indexed by the stored integer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ir.module import IRModule
from ...expr import Call, Constant, RelayExpr, const
from ...interpreter import create_executor
from ...op import transform as layout
from . import qnn

_MAX_BITS = 16


def run_const_expr(expr: RelayExpr) -> np.ndarray:
    """Evaluate an expression without free variables.

    Parameters
    ----------
    expr : Expr
        The expression.

    Returns
    -------
    numpy.ndarray
    """
    return create_executor("debug", IRModule.from_expr(expr)).evaluate()().numpy()


def create_integer_lookup_table(
    floating_point_func: Callable[[np.ndarray], np.ndarray],
    input_scale: RelayExpr,
    input_zero_point: RelayExpr,
    output_scale: RelayExpr,
    output_zero_point: RelayExpr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> np.ndarray:
    """Tabulate a float function for every stored integer of the input type.

    Parameters
    ----------
    floating_point_func : callable
        The float function, over NumPy arrays.
    input_scale, input_zero_point : Expr
        The quantization parameters of the input, constant scalars.
    output_scale, output_zero_point : Expr
        The quantization parameters of the output, constant scalars.
    in_axis, out_axis : int, optional
        The channel axes of the parameters.
    in_dtype, out_dtype : str, optional
        The stored integer types. The input type has at most 16 bits.

    Returns
    -------
    numpy.ndarray
        The output integers, indexed by the bits of the input integer as an unsigned number.

    Raises
    ------
    ValueError
        A data type is not an integer type, or the input type has more than 16 bits.
    """
    for dtype in (in_dtype, out_dtype):
        if np.dtype(dtype).kind not in "iu":
            raise ValueError(f"create_integer_lookup_table: integer data types are required, got {dtype}")
    bits = 8 * np.dtype(in_dtype).itemsize
    if bits > _MAX_BITS:
        raise ValueError(f"create_integer_lookup_table: {in_dtype} needs a table of 2^{bits} entries; "
                         f"at most {_MAX_BITS} bits are supported")  # fmt: skip
    stored = const(np.arange(1 << bits, dtype=f"uint{bits}").view(in_dtype))
    real = run_const_expr(qnn.dequantize(stored, input_scale, input_zero_point, in_axis))
    with np.errstate(all="ignore"):
        wanted = np.asarray(floating_point_func(real), "float32")
    return run_const_expr(qnn.quantize(const(wanted), output_scale, output_zero_point, out_axis, out_dtype))


def create_integer_lookup_op(
    input_arg: RelayExpr,
    floating_point_func: Callable[[np.ndarray], np.ndarray],
    in_scale: RelayExpr,
    in_zero_point: RelayExpr,
    out_scale: RelayExpr,
    out_zero_point: RelayExpr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> Call:
    """Compute a unary function of a quantized tensor by a lookup table.

    Parameters
    ----------
    input_arg : Expr
        The quantized input.
    floating_point_func : callable
        The float function, over NumPy arrays.
    in_scale, in_zero_point, out_scale, out_zero_point : Expr
        The quantization parameters of input and output, constants with one element each.
    in_axis, out_axis : int, optional
        The channel axes of the parameters.
    in_dtype, out_dtype : str, optional
        The stored integer types of input and output.

    Returns
    -------
    Expr
        The quantized output, of the shape of the input.

    Raises
    ------
    ValueError
        A quantization parameter is not a constant with one element, or a data type is not a small integer type.
    """
    scales = [const(_number(e, name), "float32") for e, name in ((in_scale, "in_scale"), (out_scale, "out_scale"))]
    zeros = [const(_number(e, name), "int32")
             for e, name in ((in_zero_point, "in_zero_point"), (out_zero_point, "out_zero_point"))]  # fmt: skip
    table = create_integer_lookup_table(
        floating_point_func, scales[0], zeros[0], scales[1], zeros[1], in_axis, out_axis, in_dtype, out_dtype
    )
    bits = 8 * np.dtype(in_dtype).itemsize
    return layout.take(const(table), layout.reinterpret(input_arg, f"uint{bits}"), axis=0, mode="fast")


def _number(value: RelayExpr, name: str) -> float:
    if not isinstance(value, Constant) or value.data.numpy().size != 1:
        raise ValueError(f"create_integer_lookup_op: {name} must be a constant with one element, got {value}")
    return value.data.numpy().item()


__all__ = ["create_integer_lookup_op", "create_integer_lookup_table", "run_const_expr"]
