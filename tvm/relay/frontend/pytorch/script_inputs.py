"""The types of the inputs of TorchScript, from input_infos and from the types that the graph declares."""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ....ir.prim import Any_
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType, Type
from ...expr import RelayExpr, TupleGetItem
from .dtypes import dtype_name
from .table import Number

_NUMBERS = {"IntType": "int64", "FloatType": "float64", "BoolType": "bool"}
_NAMES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
# TorchScript types with fields or elements.
WITH_FIELDS = ("TupleType", "ListType")


def kind_of(declared) -> str:
    """Return the kind of a TorchScript type; a value without a declared type is a tensor."""
    return "TensorType" if declared is None else str(declared.kind())


def input_type(name: str, info, declared, default_dtype: str) -> Type:
    """Return the type of the input ``name``, which can be a tuple type.

    Parameters
    ----------
    name : str
        The name of the input, for messages.
    info : tuple
        A shape, or a shape and an element type. For a tuple or a list, the shapes (or shapes and element types) of its
        fields, or these and a common element type.
    declared : optional
        The type that the graph declares, or None.
    default_dtype : str
        The element type of floats if neither ``info`` nor ``declared`` contains one.
    """
    kind, dtype = kind_of(declared), None
    if not isinstance(info, (list, tuple)):
        raise TypeError(f"from_pytorch: the input '{name}' has the shape {info!r}, which must be a tuple of integers")
    if len(info) == 2 and isinstance(info[0], (list, tuple)) and not isinstance(info[1], (list, tuple)):
        info, dtype = info
    if kind in WITH_FIELDS or info and all(isinstance(field, (list, tuple)) for field in info):
        return _with_fields(name, info, declared, dtype_name(dtype) if dtype is not None else default_dtype)
    dims = [d if isinstance(d, Any_) else int(d) for d in info]
    return TensorType(dims, dtype_name(_declared_dtype(declared, kind) or default_dtype if dtype is None else dtype))


def _with_fields(name: str, infos, declared, default_dtype: str) -> TupleType:
    kind = kind_of(declared)
    if declared is not None and kind not in WITH_FIELDS:
        raise TVMError(
            f"from_pytorch: the input '{name}' is a {declared}, but input_infos contains {len(infos)} shapes for it"
        )
    declared_fields: list[Any] = [None] * len(infos)
    if kind == "TupleType":
        declared_fields = list(declared.elements())
    elif kind == "ListType":
        declared_fields = [declared.getElementType()] * len(infos)
    if len(declared_fields) != len(infos) or not all(isinstance(info, (list, tuple)) for info in infos):
        fields = f" of {len(declared_fields)} fields" if kind == "TupleType" else ""
        raise TVMError(
            f"from_pytorch: the input '{name}' is a {declared}{fields}; input_infos must give the shape of "
            f"each field, as ('{name}', ((1, 3), (1, 3))), got {infos!r}"
        )
    return TupleType(
        [
            input_type(f"{name}.{i}", info, field, default_dtype)
            for i, (info, field) in enumerate(zip(infos, declared_fields))
        ]
    )


def input_parts(typer, value: RelayExpr, t: Type, declared):
    """Return an input as the model uses it: tuples and lists of its fields, and numbers."""
    kind = kind_of(declared)
    if isinstance(t, TupleType):
        fields = (
            list(declared.elements())
            if kind == "TupleType"
            else [declared.getElementType() if kind == "ListType" else None] * len(t.fields)
        )
        parts = [input_parts(typer, TupleGetItem(value, i), f, d) for i, (f, d) in enumerate(zip(t.fields, fields))]
        return parts if kind == "ListType" else tuple(parts)
    made = typer.infer(value)
    return Number(made) if kind in (*_NUMBERS, "NumberType") else made


def _declared_dtype(declared, kind: str) -> str | None:
    """Return the element type that the graph declares for an input, or None."""
    if declared is None or kind in _NUMBERS:
        return _NUMBERS.get(kind)
    return _NAMES.get(getattr(declared, "scalarType", lambda: None)() or "")


__all__ = ["WITH_FIELDS", "input_parts", "input_type", "kind_of"]
