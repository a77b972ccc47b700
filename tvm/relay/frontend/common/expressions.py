"""Questions about expressions that converters ask."""

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
    """The expression with types; ``mod`` holds the functions it calls."""
    return _infer(node, mod)


def infer_shape(inputs: RelayExpr, mod: IRModule | None = None) -> Any:
    """The sizes of a tensor, open ones as expressions; the type of anything else."""
    found = infer_type(inputs, mod).checked_type
    if not isinstance(found, TensorType):
        return found
    return tuple(d.value if isinstance(d, IntImm) else d for d in found.shape)


def infer_channels(inputs: RelayExpr, transpose: bool = False) -> int:
    """The number of channels that a kernel gives: its first size, of a transposed convolution its second."""
    return infer_shape(inputs)[1 if transpose else 0]


def infer_value(input_val: RelayExpr, params: Mapping[str, Any], mod: IRModule | None = None) -> ndarray.NDArray:
    """The value of an expression whose variables ``params`` gives by name."""
    values = {}
    for variable in free_vars(input_val):
        if variable.name_hint not in params:
            raise ValueError(f"infer_value: the value of '{variable.name_hint}' is not known")
        values[variable] = Constant(params[variable.name_hint])
    folded = fold_constant(substitute_vars(input_val, values), mod)
    if not isinstance(folded, Constant):
        raise ValueError("infer_value: the expression does not depend on constants alone")
    return folded.data


def try_infer_value(
    val: RelayExpr,
    on_success: Callable[..., Any] | None = None,
    on_failure: Callable[[], Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Any, bool]:
    """The value as a NumPy array and True, or the expression and False."""
    try:
        found = infer_value(val, parameters or {}).numpy()
    except (TVMError, ValueError, TypeError):
        return (on_failure() if on_failure is not None else val), False
    return (on_success(found) if on_success is not None else found), True


def fold_constant(node: RelayExpr, mod: IRModule | None = None) -> RelayExpr:
    """The expression with what depends on constants alone computed."""
    work = IRModule.from_expr(node if isinstance(node, Function) else Function(free_vars(node), node))
    if mod is not None:
        work.update({v: f for v, f in mod.functions.items() if v.name_hint != "main"})
    out = FoldConstant()(work)["main"]
    return out if isinstance(node, Function) else out.body


def new_var(name_hint: str, type_annotation=None, shape=None, dtype: str = "float32") -> Var:
    return relay_var(name_hint, type_annotation, shape, dtype)


def get_relay_op(op_name: str) -> Callable[..., Any]:
    """The function that builds calls of an operator, by its name with or without its family (``nn.conv2d``)."""
    for family in (relay, relay.nn, relay.image, relay.vision):
        value: Any = family
        for part in op_name.split("."):
            value = getattr(value, part, None)
        if callable(value):
            return value
    raise OpNotImplemented(f"there is no operator '{op_name}'")


def get_name(node: RelayExpr) -> str:
    name = getattr(node, "name_hint", "")
    if not name:
        raise RuntimeError(f"the expression {type(node).__name__} has no name")
    return name


def shape_of(x: RelayExpr, dtype: str = "int64") -> RelayExpr:
    """The shape as a tensor, a constant if it is known."""
    sizes = infer_shape(x)
    if all(isinstance(d, int) for d in sizes):
        return Constant(np.array(sizes, dtype))
    return relay.shape_of(x, dtype)
