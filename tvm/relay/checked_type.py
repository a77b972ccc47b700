"""Set the types of expressions: ``checked_type_`` is the only slot that is written after a node is created.

Type inference computes the types of whole functions. A pass that creates a node from typed operands sets its type here:
the type of the node that it replaces, or the type that follows from the operands.
"""

from __future__ import annotations

from ..ir.module import RelayExpr
from ..ir.op import Op
from ..ir.type import TupleType, Type
from .expr import Call, Tuple, TupleGetItem, Var
from .size_values import with_slice_sizes


def with_type(e, t: Type | None):
    """Set the type of an expression to ``t`` and return the expression."""
    e.checked_type_ = t
    return e


def with_type_of(new, old: RelayExpr):
    """Set the type of an expression that replaces ``old``, if it has none."""
    return with_type(new, old.checked_type_) if new is not old and new.checked_type_ is None else new


def typed_var(name: str, t: Type) -> Var:
    """Return a variable with a known type of any kind; the constructor itself sets only tensor types."""
    made = Var(name, t)
    return with_type(made, made.type_annotation)


def operands_of(e: RelayExpr) -> tuple[RelayExpr, ...] | None:
    """Return the expressions whose types determine the type of ``e``; None if type inference is needed."""
    if type(e) is Call and isinstance(e.op, Op):
        return e.args
    return e.fields if type(e) is Tuple else (e.tuple_value,) if type(e) is TupleGetItem else None


def with_derived_type(e):
    """Set the type of an operator call, a tuple or a tuple access from its typed operands."""
    if type(e) is Call:
        return with_type(e, with_slice_sizes(e, e.op.attrs["type_rule"](e.attrs, [a.checked_type_ for a in e.args])))
    if type(e) is Tuple:
        return with_type(e, TupleType(tuple([f.checked_type_ for f in e.fields])))
    return with_type(e, e.tuple_value.checked_type_.fields[e.index])
