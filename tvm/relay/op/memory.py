"""Operators for explicit memory in Relay: storage, tensors in storage, and conversion of tuples to lists of tensors.

Passes and printed programs use these operators. The compiler rejects them, because it plans memory in the compiled
program.
"""

from __future__ import annotations

from typing import Any

from ...error import TVMError
from ...ir.tensor_type import TensorType
from ...ir.type import GlobalTypeVar, TupleType, Type, TypeCall
from ..expr import Constant, RelayExpr, Tuple, TupleGetItem
from .record import OPAQUE, CallAttrs, as_expr, call, device_text, op
from .tensor import device_copy

# The type of a storage, defined in core.rly.
STORAGE = TypeCall(GlobalTypeVar("Storage"), ())


def refused(name: str):
    """Return a rule that raises an error when the operator ``name`` is compiled."""

    def refuse(attrs, args, types):
        raise TVMError(f"{name} cannot be compiled: memory is planned in the compiled program; leave the operator out "
                       "and compile with relay.vm.compile, whose bytecode shows every alloc_storage")  # fmt: skip

    return refuse


def _scalar(name: str, what: str, t: Type) -> None:
    if not isinstance(t, TensorType) or t.shape:
        raise TVMError(f"{name}: {what} must be an integer scalar, got {t}")


def _storage_type(attrs: CallAttrs, types: list[Type]) -> Type:
    for what, t in zip(("size", "alignment"), types):
        _scalar("memory.alloc_storage", what, t)
    return STORAGE


def _tensor_type(attrs: CallAttrs, types: list[Type]) -> Type:
    storage, offset, shape = types
    if not isinstance(storage, TypeCall) or storage.func.name_hint != STORAGE.func.name_hint:
        raise TVMError(f"memory.alloc_tensor: storage must be of type Storage, got {storage}")
    _scalar("memory.alloc_tensor", "offset", offset)
    if not isinstance(shape, (TensorType, TupleType)):
        raise TVMError(f"memory.alloc_tensor: shape must be a tensor of integers, got {shape}")
    sizes = attrs.assert_shape
    if attrs.const_shape is not None:
        sizes = [int(d) for d in attrs.const_shape.data.numpy().reshape(-1)]
    return TensorType(tuple(sizes), attrs.dtype)


@op(
    "memory.alloc_storage", 2, pattern=OPAQUE, type_rule=_storage_type, expand=refused("memory.alloc_storage"),
    TOpIsStateful=True,
)  # fmt: skip
def alloc_storage(size, alignment, device, dtype="float32"):
    """Allocate storage on a device.

    Parameters
    ----------
    size : Expr
        The size in bytes.
    alignment : Expr
        The alignment in bytes.
    device : VirtualDevice, Device or str
        The device.
    dtype : str, optional
        The data type of the elements to be stored.

    Returns
    -------
    Expr
        The storage.
    """
    return call("memory.alloc_storage", size, alignment, dtype=str(dtype), device=device_text(device))


@op(
    "memory.alloc_tensor", 3, pattern=OPAQUE, type_rule=_tensor_type, expand=refused("memory.alloc_tensor"),
    TOpIsStateful=True,
)  # fmt: skip
def _alloc_tensor(storage, offset, shape, dtype="float32", const_shape=None, assert_shape=()):
    """Create a tensor in storage."""
    return call("memory.alloc_tensor", storage, offset, shape, dtype=str(dtype), const_shape=const_shape,
                assert_shape=tuple(assert_shape))  # fmt: skip


def alloc_tensor(storage, offset, shape, dtype="float32", assert_shape=None):
    """Create a tensor in storage.

    Parameters
    ----------
    storage : Expr
        The storage.
    offset : Expr
        The byte offset of the tensor.
    shape : Expr
        The shape, as a tensor of integers.
    dtype : str, optional
        The data type.
    assert_shape : list of int, optional
        The shape in the type of the tensor; required unless ``shape`` is a constant.

    Returns
    -------
    Expr
        The tensor.

    Raises
    ------
    TVMError
        ``shape`` is not a constant, and ``assert_shape`` is not given.
    """
    shape = as_expr(shape)
    known = shape if isinstance(shape, Constant) and not assert_shape else None
    if known is None and assert_shape is None:
        raise TVMError("memory.alloc_tensor: the shape is computed at run time; give assert_shape=[...] for its type")
    return _alloc_tensor(storage, offset, shape, dtype, known, assert_shape or ())


@op(
    "memory.kill", 1, pattern=OPAQUE, type_rule=lambda attrs, types: TupleType(()), expand=refused("memory.kill"),
    TOpIsStateful=True,
)  # fmt: skip
def kill(data):
    """End the lifetime of a tensor or of storage.

    Parameters
    ----------
    data : Expr
        The tensor or storage.

    Returns
    -------
    Expr
        The empty tuple.
    """
    return call("memory.kill", data)


def flatten_tuple_type(ty: Type) -> list[TensorType]:
    """Return the tensor types in a type, in order.

    Parameters
    ----------
    ty : Type
        A tensor type, or a (nested) tuple type of tensors.

    Returns
    -------
    list of TensorType
        The tensor types.

    Raises
    ------
    TVMError
        The type contains other types than tensors and tuples.
    """
    if isinstance(ty, TensorType):
        return [ty]
    if not isinstance(ty, TupleType):
        raise TVMError(f"flatten_tuple_type: {ty} is neither a tensor nor a tuple")
    return [t for field in ty.fields for t in flatten_tuple_type(field)]


def from_tuple_type(ty: Type, expr: RelayExpr) -> list[RelayExpr]:
    """Return the tensors of an expression, in the order of ``flatten_tuple_type``.

    Parameters
    ----------
    ty : Type
        The type of the expression.
    expr : Expr
        The expression.

    Returns
    -------
    list of Expr
        The tensors.
    """
    if not isinstance(ty, TupleType):
        flatten_tuple_type(ty)
        return [expr]
    return [e for i, field in enumerate(ty.fields) for e in from_tuple_type(field, TupleGetItem(expr, i))]


def to_tuple_type(ty: Type, exprs: list[RelayExpr]) -> RelayExpr:
    """Return an expression of a type, built from its tensors in order.

    Parameters
    ----------
    ty : Type
        The type of the expression.
    exprs : list of Expr
        The tensors.

    Returns
    -------
    Expr
        The expression.

    Raises
    ------
    TVMError
        The number of tensors differs from that of the type.
    """
    wanted = len(flatten_tuple_type(ty))
    if len(exprs) != wanted:
        raise TVMError(f"to_tuple_type: type {ty} requires {wanted} tensors, got {len(exprs)}")
    rest = iter(exprs)

    def made(t: Type) -> Any:
        return Tuple([made(field) for field in t.fields]) if isinstance(t, TupleType) else next(rest)

    return made(ty)


__all__ = [
    "alloc_storage", "alloc_tensor", "device_copy", "flatten_tuple_type", "from_tuple_type", "kill", "to_tuple_type",
]  # fmt: skip
