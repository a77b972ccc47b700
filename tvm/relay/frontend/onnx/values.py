"""Values of an ONNX graph: tensors, sequences, optionals, and choices between two values by a run-time condition.

A tensor is an expression. A sequence of static length is a list of expressions at compile time and leaves nothing in
the program; otherwise it is an expression of type ``List``. An optional is its content or ``Nothing`` if that is known
at compile time, otherwise an expression of type ``Option``. A ``Choice`` contains two values of different ranks, of
which a run-time condition selects one: operators are converted for both until the ranks are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....error import TVMError
from ....ir.prim import Any_
from ....ir.structural import structural_equal
from ....ir.tensor_type import TensorType
from ....ir.type import IncompleteType, TupleType, Type, TypeCall
from ...expr import RelayExpr
from ..common.incremental import opened


class Sequence(NamedTuple):
    """A sequence of tensors with static length; see sequence_ops.py."""

    items: tuple


class Nothing(NamedTuple):
    """An empty optional. ``type`` is the type of its possible content, as far as the model declares it."""

    type: Type


class Choice(NamedTuple):
    """The value ``yes`` or ``no``, selected by a run-time condition."""

    condition: RelayExpr
    yes: Any
    no: Any


def mapped(value, change: Callable[[RelayExpr], RelayExpr]):
    """Return the value with ``change`` applied to each of its expressions."""
    if isinstance(value, Sequence):
        return Sequence(tuple(mapped(item, change) for item in value.items))
    if isinstance(value, Choice):
        return Choice(change(value.condition), mapped(value.yes, change), mapped(value.no, change))
    return value if isinstance(value, Nothing) else change(value)


def is_type(t: Any, name: str) -> bool:
    """Return whether a type is an instance of the data type ``name``."""
    return isinstance(t, TypeCall) and getattr(t.func, "name_hint", None) == name


def is_list(value) -> bool:
    """Return whether a value is a sequence whose length is known at run time."""
    return isinstance(value, RelayExpr) and is_type(value.checked_type_, "List")


def is_option(value) -> bool:
    """Return whether a value is an optional whose content is known at run time."""
    return isinstance(value, RelayExpr) and is_type(value.checked_type_, "Option")


def is_tensor(value) -> bool:
    return isinstance(value, RelayExpr) and not is_list(value) and not is_option(value)


# -- types --------------------------------------------------------------------------------------------------------


def in_words(t: Any) -> str:
    """Return a type in words, for messages."""
    if isinstance(t, TensorType):
        return f"{t.dtype} of shape ({', '.join(str(d) for d in t.shape)})"
    if isinstance(t, TypeCall) and t.args:
        return f"{'a sequence' if is_type(t, 'List') else 'an optional'} of {in_words(t.args[0])}"
    return "tensors of unknown type" if isinstance(t, IncompleteType) else str(t)


def joined_type(a: Type, b: Type) -> Type:
    """Return the common type of values of two types; dimensions that differ become dynamic.

    A value that is not an optional is treated as a non-empty optional if the other one is an optional.
    """
    if isinstance(a, IncompleteType):
        return b
    if isinstance(b, IncompleteType):
        return a
    if is_type(a, "Option") != is_type(b, "Option"):
        option, held = (a, b) if is_type(a, "Option") else (b, a)
        return TypeCall(option.func, (joined_type(option.args[0], held),))
    if isinstance(a, TypeCall) and isinstance(b, TypeCall) and a.func is b.func:
        return TypeCall(a.func, tuple(joined_type(x, y) for x, y in zip(a.args, b.args)))
    if not (isinstance(a, TensorType) and isinstance(b, TensorType)):
        raise TVMError(
            f"a value is {in_words(a)} or {in_words(b)}, depending on a run-time condition; this is not supported"
        )
    if a.dtype != b.dtype or len(a.shape) != len(b.shape):
        raise TVMError(f"a value is {in_words(a)} or {in_words(b)}, depending on a run-time condition; "
                       "element types and numbers of dimensions must be the same")  # fmt: skip
    return TensorType([_joined_size(x, y) for x, y in zip(a.shape, b.shape)], a.dtype)


def _joined_size(a: Any, b: Any) -> Any:
    return a if _same_size(a, b) else Any_()


def same_type(a: Type, b: Type) -> bool:
    """Return whether two types are equal; dynamic dimensions are equal to each other."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return a.dtype == b.dtype and len(a.shape) == len(b.shape) and all(map(_same_size, a.shape, b.shape))
    if isinstance(a, TypeCall) and isinstance(b, TypeCall):
        return a.func is b.func and all(map(same_type, a.args, b.args))
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.fields) == len(b.fields) and all(map(same_type, a.fields, b.fields))
    return isinstance(a, IncompleteType) and isinstance(b, IncompleteType)


def _same_size(a: Any, b: Any) -> bool:
    return a is b or isinstance(a, Any_) and isinstance(b, Any_) or structural_equal(a, b)


__all__ = [
    "Choice", "Nothing", "Sequence", "in_words", "is_list", "is_option", "is_tensor", "is_type", "joined_type",
    "mapped", "opened", "same_type",
]  # fmt: skip
