"""The types that expressions have: ``checked_type_`` is the one slot written after a node is made, and written here.

Inference finds the types of whole functions. A pass that makes a node above operands with types says here what it has:
the type of the node in whose place it stands, or what the operands give.
"""

from __future__ import annotations

from ..ir.module import RelayExpr
from ..ir.op import Op
from ..ir.type import TupleType, Type
from .expr import Call, Tuple, TupleGetItem, Var
from .size_values import with_slice_sizes


def with_type(e, t: Type | None):
    """An expression of the type ``t``."""
    e.checked_type_ = t
    return e


def with_type_of(new, old: RelayExpr):
    """An expression that stands in the place of ``old``, of its type where none is known."""
    return with_type(new, old.checked_type_) if new is not old and new.checked_type_ is None else new


def typed_var(name: str, t: Type) -> Var:
    """A variable of a type that is known, whatever it is: the constructor takes that of a tensor alone for known."""
    made = Var(name, t)
    return with_type(made, made.type_annotation)


def operands_of(e: RelayExpr) -> tuple[RelayExpr, ...] | None:
    """The expressions from whose types that of ``e`` follows by itself; None where it takes inference."""
    if type(e) is Call and isinstance(e.op, Op):
        return e.args
    return e.fields if type(e) is Tuple else (e.tuple_value,) if type(e) is TupleGetItem else None


def with_derived_type(e):
    """A call of an operator, a tuple or a field of one, with the type that its operands, which have theirs, give."""
    if type(e) is Call:
        return with_type(e, with_slice_sizes(e, e.op.attrs["type_rule"](e.attrs, [a.checked_type_ for a in e.args])))
    if type(e) is Tuple:
        return with_type(e, TupleType(tuple([f.checked_type_ for f in e.fields])))
    return with_type(e, e.tuple_value.checked_type_.fields[e.index])
