"""``tvm.relay.ty``: Relay types under the module path of Apache TVM."""

from __future__ import annotations

from ..ir.adt import Constructor, TypeData
from ..ir.prim import Any_ as Any
from ..ir.tensor_type import TensorType
from ..ir.type import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
    TypeVar,
)
from ..ir.type import RelayRefType as RefType


def is_dynamic(tensor_type: Type) -> bool:
    """Return whether a type has a dynamic dimension."""
    stack = [tensor_type]
    while stack:
        t = stack.pop()
        if isinstance(t, TensorType) and any(isinstance(size, Any) for size in t.shape):
            return True
        if isinstance(t, TupleType):
            stack.extend(t.fields)
    return False


def ShapeVar(name: str) -> TypeVar:
    """Create a type variable that represents a dimension.

    Parameters
    ----------
    name : str
        The name.

    Returns
    -------
    TypeVar
        The type variable.
    """
    return TypeVar(name, TypeKind.ShapeVar)


def scalar_type(dtype: str) -> TensorType:
    """Return the type of a scalar.

    Parameters
    ----------
    dtype : str
        The element type.

    Returns
    -------
    TensorType
        The type.
    """
    return TensorType((), dtype)


__all__ = [
    "Any", "Constructor", "FuncType", "GlobalTypeVar", "IncompleteType", "RefType", "ShapeVar", "TensorType",
    "TupleType", "Type", "TypeCall", "TypeConstraint", "TypeData", "TypeKind", "TypeRelation", "TypeVar",
    "is_dynamic", "scalar_type",
]  # fmt: skip
