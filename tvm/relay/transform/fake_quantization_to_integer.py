"""Helpers of rules that users register for ``FakeQuantizationToInteger``, under TVM's path.

A rule is a function of a call over integers and of the affine types of its operands and of its output; it returns an
expression over integers and the affine type of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ir.affine_type import AffineType, TensorAffineType
from ...ir.module import IRModule
from ...ir.structural import structural_equal
from ..expr import Call, Constant, RelayExpr, const
from ..infer import dims, infer_type
from ..op.op import register_fake_quantization_to_integer, register_optional_fake_quantization_to_integer
from ..qnn.op import qnn
from .fold_constant import FoldConstantExpr

Types = Mapping[RelayExpr, AffineType]


def fold_constant(expr: RelayExpr) -> RelayExpr:
    """An expression with its constant parts computed.

    Parameters
    ----------
    expr : Expr
        The expression.

    Returns
    -------
    Expr
    """
    return FoldConstantExpr(infer_type(expr), IRModule())


def get_zeros(scale: RelayExpr) -> RelayExpr:
    """Zero points of int32 in the shape of a scale.

    Parameters
    ----------
    scale : Expr
        The scale.

    Returns
    -------
    Expr
    """
    return infer_type(const(np.zeros([int(n) for n in infer_shape(scale)], "int32")))


def infer_shape(expr: RelayExpr) -> tuple:
    """The shape of a tensor.

    Parameters
    ----------
    expr : Expr
        The tensor.

    Returns
    -------
    tuple
    """
    return dims(infer_type(expr).checked_type)


def approx_equal(x: RelayExpr, y: RelayExpr) -> bool:
    """Whether two scales or zero points are close as constants, or the same expression.

    Parameters
    ----------
    x : Expr
        The first one.
    y : Expr
        The other one.

    Returns
    -------
    bool
    """
    x, y = fold_constant(x), fold_constant(y)
    if isinstance(x, Constant) and isinstance(y, Constant):
        return x.data.shape == y.data.shape and bool(np.allclose(x.data.numpy(), y.data.numpy()))
    return structural_equal(x, y)


def register_unary_identity(op_name: str) -> Any:
    """Let an operator of one operand work on the stored integers as it works on real numbers.

    Parameters
    ----------
    op_name : str
        The operator.

    Returns
    -------
    callable
        The rule.
    """

    def identity(expr: Call, type_map: Types) -> list:
        return [expr, type_map[expr.args[0]]]

    return register_fake_quantization_to_integer(op_name, identity)


def register_unary_qnn(op_name: str, op: Callable[..., RelayExpr]) -> Any:
    """Let a quantized operator compute an operator of one operand.

    Parameters
    ----------
    op_name : str
        The operator on real numbers.
    op : callable
        The quantized one: ``(x, scale, zero_point, output_scale, output_zero_point)``.

    Returns
    -------
    callable
        The rule.
    """

    def unary(expr: Call, type_map: Types) -> list:
        x, out = expr.args[0], _tensor(type_map, expr)
        have = _tensor(type_map, x)
        return [op(x, have.scale, have.zero_point, out.scale, out.zero_point), _of_dtype(out, have.dtype)]

    return register_fake_quantization_to_integer(op_name, unary)


def get_binary_types(expr: Call, type_map: Types) -> tuple[RelayExpr, RelayExpr, Any, Any, Any]:
    """The operands of an operator of two as integers: a constant in float is quantized like the other operand.

    Parameters
    ----------
    expr : Call
        The call over integers.
    type_map : Mapping[Expr, AffineType]
        The affine types of its operands and of its output.

    Returns
    -------
    tuple
        The operands, their affine types, and that of the output.

    Raises
    ------
    NotImplementedError
        Neither operand is quantized, or the float operand is not a constant.
    """
    left, right = expr.args
    types = [type_map.get(left), type_map.get(right)]
    if types[0] is None and types[1] is None:
        raise NotImplementedError(f"{expr.op}: neither operand is quantized")
    out: Any = type_map[expr]
    operands = [left, right]
    for i in (0, 1):
        if types[i] is None:
            if not isinstance(operands[i], Constant):
                raise NotImplementedError(f"{expr.op}: an operand is neither quantized nor a constant")
            like: Any = types[1 - i]
            operands[i] = qnn.quantize(operands[i], like.scale, like.zero_point, out_dtype=like.dtype, axis=like.axis)
            types[i] = like
    return operands[0], operands[1], types[0], types[1], out


def register_binary_qnn(op_name: str, op: Callable[..., RelayExpr]) -> Any:
    """Let a quantized operator compute an operator of two operands.

    Parameters
    ----------
    op_name : str
        The operator on real numbers.
    op : callable
        ``(left, right, left_type, right_type, output_type)``, which returns the quantized operator.

    Returns
    -------
    callable
        The rule.
    """

    def binary(expr: Call, type_map: Types) -> list:
        left, right, left_type, right_type, out = get_binary_types(expr, type_map)
        return [op(left, right, left_type, right_type, out), out]

    return register_fake_quantization_to_integer(op_name, binary)


def _tensor(type_map: Types, expr: RelayExpr) -> TensorAffineType:
    found = type_map.get(expr)
    if not isinstance(found, TensorAffineType):
        raise NotImplementedError("the operand is not quantized")
    return found


def _of_dtype(t: TensorAffineType, dtype: str) -> TensorAffineType:
    return TensorAffineType(t.scale, t.zero_point, dtype, t.axis)


__all__ = [
    "approx_equal", "fold_constant", "get_binary_types", "get_zeros", "infer_shape", "register_binary_qnn",
    "register_fake_quantization_to_integer", "register_optional_fake_quantization_to_integer",
    "register_unary_identity", "register_unary_qnn",
]  # fmt: skip
