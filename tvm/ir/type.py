"""Types of values and functions."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from .node import Node

if TYPE_CHECKING:
    from .span import Span


class TypeKind(IntEnum):
    """The kind of a type variable."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


class Type(Node):
    """Base class of all types. Unlike other nodes, types compare by content."""

    def _content(self):
        return tuple(getattr(self, f) for f in self._fields)

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self._content() == other._content()

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self):
        return hash((type(self).__name__, self._content()))

    def same_as(self, other: Any) -> bool:
        return self is other


class PrimType(Type, key="PrimType"):
    """A scalar or vector type, defined by its dtype.

    Parameters
    ----------
    dtype : str
        The type, such as "float32".
    """

    dtype: str


class PointerType(Type, key="PointerType"):
    """A pointer to elements of a type, in a storage scope.

    Parameters
    ----------
    element_type : Type
        The type of the elements.
    storage_scope : str, optional
        The memory scope of the elements.
    """

    element_type: Type
    storage_scope: str = ""


class TupleType(Type, key="relay.TupleType"):
    """The type of a tuple.

    Parameters
    ----------
    fields : list of Type
        The types of the fields.
    """

    fields: tuple[Any, ...]


class FuncType(Type, key="relay.FuncType"):
    """The type of a function; the names of its type variables are ignored in comparisons.

    Parameters
    ----------
    arg_types : list of Type
        The types of its parameters.
    ret_type : Type
        The type of its result.
    type_params : list of TypeVar, optional
        The type variables.
    type_constraints : list of TypeConstraint, optional
        The constraints of the types.
    """

    _compared = "type_params! arg_types ret_type type_constraints"

    arg_types: tuple[Any, ...]
    ret_type: Type
    type_params: tuple[Any, ...] = ()
    type_constraints: tuple[Any, ...] = ()

    def __eq__(self, other: object):
        if not self.type_params or type(other) is not FuncType:
            return super().__eq__(other)
        from .structural import structural_equal

        return structural_equal(self, other)

    def __hash__(self):
        return super().__hash__() if not self.type_params else hash((len(self.arg_types), len(self.type_params)))


class VoidType:
    """The type ``void``, which is represented as the empty tuple type."""

    def __new__(cls):
        return TupleType(())


class _NamedType(Type):
    """Base class of types that compare by identity."""

    def __eq__(self, other: object):
        return self is other

    __hash__ = object.__hash__


class TypeVar(_NamedType, key="relay.TypeVar"):
    """A type variable of a polymorphic function.

    Parameters
    ----------
    name_hint : str
        Its name in printed programs.
    kind : TypeKind, optional
        The kind of the variable.
    """

    _variable = True

    name_hint: str
    kind: TypeKind = TypeKind.Type

    def __init__(self, name_hint: str, kind: Any = TypeKind.Type, span: Span | None = None):
        self.name_hint = str(name_hint)
        self.kind = TypeKind(kind)
        self.span = span

    def __call__(self, *args: Any):
        return TypeCall(self, args)


# The lower bits of a constructor's tag are its index among the constructors of its type.
TAG_BITS = 16


class GlobalTypeVar(_NamedType, key="relay.GlobalTypeVar"):
    """The name of a data type defined in a module.

    Parameters
    ----------
    name_hint : str
        The name.
    kind : TypeKind, optional
        The kind of the type.
    """

    name_hint: str
    kind: TypeKind = TypeKind.AdtHandle

    def __init__(self, name_hint: str, kind: Any = TypeKind.AdtHandle, span: Span | None = None):
        self.name_hint = str(name_hint)
        self.kind = TypeKind(kind)
        self.span = span

    def __call__(self, *args: Any):
        return TypeCall(self, args)


class IncompleteType(_NamedType, key="relay.IncompleteType"):
    """A type that has not been inferred yet.

    Parameters
    ----------
    kind : TypeKind, optional
        The kind of the type.
    """

    kind: TypeKind = TypeKind.Type

    def __init__(self, kind: Any = TypeKind.Type, span: Span | None = None):
        self.kind = TypeKind(kind)
        self.span = span


class RelayRefType(Type, key="relay.RefType"):
    """A reference to a value.

    Parameters
    ----------
    value : Type
        The type of the value.
    """

    value: Type


class TypeConstraint(Type):
    """Base class of constraints on types."""


class TypeCall(Type, key="relay.TypeCall"):
    """A type function applied to types.

    Parameters
    ----------
    func : Type
        The type function.
    args : list of Type
        The arguments of the type function.
    """

    func: Any
    args: tuple[Any, ...]


class TypeRelation(TypeConstraint, key="relay.TypeRelation"):
    """``func`` relates the types ``args``, of which the first ``num_inputs`` are input types.

    Parameters
    ----------
    func : EnvFunc
        The relation.
    args : list of Type
        The types.
    num_inputs : int
        The number of input types.
    attrs : Attrs, optional
        The attributes of the operator.
    """

    func: Any
    args: tuple[Any, ...]
    num_inputs: int
    attrs: Any = None

    def __call__(self, *args: Any):
        return self.func(*args)
