"""Properties of expressions that converters use: types, shapes, values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....error import OpNotImplemented, TVMError
from ....ir.module import IRModule
from ....ir.prim import IntImm
from ....ir.tensor_type import TensorType
from ....runtime import ndarray
from ... import op as relay
from ...expr import Constant, Function, RelayExpr, Var
from ...expr import var as relay_var
from ...infer import infer_type as _infer
from ...substitute import free_vars, substitute_vars
from ...transform import FoldConstant


def infer_type(node: RelayExpr, mod: IRModule | None = None) -> RelayExpr:
    """Infer the types of an expression; ``mod`` contains the functions it calls."""
    return _infer(node, mod)


def infer_shape(inputs: RelayExpr, mod: IRModule | None = None) -> Any:
    """Return the dimensions of a tensor, dynamic ones as expressions; for other values return the type."""
    found = infer_type(inputs, mod).checked_type
    if not isinstance(found, TensorType):
        return found
    return tuple(d.value if isinstance(d, IntImm) else d for d in found.shape)


def infer_channels(inputs: RelayExpr, transpose: bool = False) -> int:
    """Return the number of output channels of a kernel: its first dimension, or the second for a transposed
    convolution.
    """
    return infer_shape(inputs)[1 if transpose else 0]


def infer_value(input_val: RelayExpr, params: Mapping[str, Any], mod: IRModule | None = None) -> ndarray.NDArray:
    """Return the value of an expression for the values of its variables in ``params``."""
    values = {}
    for variable in free_vars(input_val):
        if variable.name_hint not in params:
            raise ValueError(f"infer_value: there is no value for the variable '{variable.name_hint}' in params")
        values[variable] = Constant(params[variable.name_hint])
    folded = fold_constant(substitute_vars(input_val, values), mod)
    if not isinstance(folded, Constant):
        raise ValueError("infer_value: the expression is not constant")
    return folded.data


def try_infer_value(
    val: RelayExpr,
    on_success: Callable[..., Any] | None = None,
    on_failure: Callable[[], Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Any, bool]:
    """Return the value as a NumPy array and True, or the expression and False if it is not constant."""
    try:
        found = infer_value(val, parameters or {}).numpy()
    except (TVMError, ValueError, TypeError):
        return (on_failure() if on_failure is not None else val), False
    return (on_success(found) if on_success is not None else found), True


def fold_constant(node: RelayExpr, mod: IRModule | None = None) -> RelayExpr:
    """Fold the constant parts of an expression."""
    work = IRModule.from_expr(node if isinstance(node, Function) else Function(free_vars(node), node))
    if mod is not None:
        work.update({v: f for v, f in mod.functions.items() if v.name_hint != "main"})
    out = FoldConstant()(work)["main"]
    return out if isinstance(node, Function) else out.body


def new_var(name_hint: str, type_annotation=None, shape=None, dtype: str = "float32") -> Var:
    return relay_var(name_hint, type_annotation, shape, dtype)


def get_relay_op(op_name: str) -> Callable[..., Any]:
    """Return the function that builds calls of an operator, by its name with or without its namespace
    (``nn.conv2d``).
    """
    for family in (relay, relay.nn, relay.image, relay.vision):
        value: Any = family
        for part in op_name.split("."):
            value = getattr(value, part, None)
        if callable(value):
            return value
    raise OpNotImplemented(f"unknown operator '{op_name}'")


def get_name(node: RelayExpr) -> str:
    name = getattr(node, "name_hint", "")
    if not name:
        raise RuntimeError(f"the expression {type(node).__name__} has no name")
    return name


def shape_of(x: RelayExpr, dtype: str = "int64") -> RelayExpr:
    """Return the shape as a tensor, as a constant if it is static."""
    sizes = infer_shape(x)
    if all(isinstance(d, int) for d in sizes):
        return Constant(np.array(sizes, dtype))
    return relay.shape_of(x, dtype)
