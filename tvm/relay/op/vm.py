"""Operators of virtual machine programs: shapes as tensors, and kernel calls that write to given outputs.

``shape_of`` and ``reshape_tensor`` are compiled as the ordinary operators. The compiler rejects the other two, because
it creates kernel calls and shape functions itself.
"""

from __future__ import annotations

from ...error import TVMError
from ...ir.tensor_type import TensorType
from ...ir.type import TupleType, Type
from .memory import refused
from .record import OPAQUE, CallAttrs, call, op
from .rules import tensor
from .transform import reshape
from .transform import shape_of as plain_shape_of


@op(
    "vm.shape_of",
    1,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TensorType((len(tensor(types[0]).shape),), attrs.dtype),
    expand=lambda attrs, args, types: plain_shape_of(args[0], attrs.dtype),
)
def shape_of(expr, dtype="int64"):
    """Return the shape of a tensor, as a tensor.

    Parameters
    ----------
    expr : Expr
        The tensor.
    dtype : str, optional
        The data type of the shape.

    Returns
    -------
    Expr
    """
    return call("vm.shape_of", expr, dtype=str(dtype))


@op(
    "vm.invoke_tvm_op",
    3,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TupleType(()),
    expand=refused("vm.invoke_tvm_op"),
    TOpIsStateful=True,
)
def invoke_tvm_op(func, inputs, outputs):
    """Call a function that writes its outputs to given tensors.

    Parameters
    ----------
    func : Expr
        The function.
    inputs : Expr
        A tuple of the inputs.
    outputs : Expr
        A tuple of the output tensors.

    Returns
    -------
    Expr
        The empty tuple.
    """
    return call("vm.invoke_tvm_op", func, inputs, outputs)


@op(
    "vm.shape_func",
    3,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TupleType(()),
    expand=refused("vm.shape_func"),
    TOpIsStateful=True,
)
def shape_func(func, inputs, outputs, is_inputs):
    """Compute the output shapes of a function.

    Parameters
    ----------
    func : Expr
        The function.
    inputs : Expr
        A tuple of the inputs, or of their shapes.
    outputs : Expr
        A tuple of the tensors to which the shapes are written.
    is_inputs : list of bool
        For each input whether its value is passed; otherwise its shape is passed.

    Returns
    -------
    Expr
        The empty tuple.
    """
    return call("vm.shape_func", func, inputs, outputs, is_input=tuple(bool(i) for i in is_inputs))


def _reshaped_type(attrs: CallAttrs, types: list[Type]) -> Type:
    if tensor(types[1]).dtype not in ("int32", "int64"):
        raise TVMError(f"vm.reshape_tensor: shape must be a tensor of integers, got {types[1]}")
    return TensorType(tuple(attrs.newshape), tensor(types[0]).dtype)


@op(
    "vm.reshape_tensor",
    2,
    pattern=OPAQUE,
    type_rule=_reshaped_type,
    expand=lambda attrs, args, types: reshape(args[0], attrs.newshape),
)
def reshape_tensor(data, shape, newshape):
    """Reshape a tensor to a shape that is given both at run time and as numbers.

    Parameters
    ----------
    data : Expr
        The tensor.
    shape : Expr
        The shape, as a tensor of integers.
    newshape : list of int
        The shape, as a list.

    Returns
    -------
    Expr
    """
    return call("vm.reshape_tensor", data, shape, newshape=tuple(newshape))


__all__ = ["invoke_tvm_op", "reshape_tensor", "shape_func", "shape_of"]
