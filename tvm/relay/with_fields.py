"""Functions that copy expressions with some fields replaced: ``CallWithFields(call, args=[x])``.

Fields that are omitted or None are kept. If no field differs, the expression itself is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..docstring import docstring
from .checked_type import with_type
from .expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var


def _with_fields(kind: type) -> Callable[..., Any]:
    names = (*kind._fields, "virtual_device", "span")

    def change(node: Any, *values: Any, **named: Any) -> Any:
        if not isinstance(node, kind):
            raise TypeError(f"{change.__name__}: expected a {kind.__name__}, got {type(node).__name__}")
        given = {**dict(zip(names, values)), **named}
        unknown = [name for name in given if name not in names]
        if unknown or len(values) > len(names):
            raise TypeError(f"{change.__name__} accepts {', '.join(names)}; got {unknown or len(values)}")
        given = {name: value for name, value in given.items() if value is not None}
        device = given.pop("virtual_device", node.virtual_device_)
        changed = {n: v for n, v in given.items() if not _same(getattr(node, n), v)}
        if not changed and device is node.virtual_device_:
            return node
        made = kind(**{**{n: getattr(node, n) for n in kind._fields}, "span": node.span, **changed})
        made.virtual_device_ = device
        if not changed:
            with_type(made, node.checked_type_)
        return made

    change.__name__ = change.__qualname__ = f"{kind.__name__}WithFields"
    entries = [
        ("node", kind.__name__, "What is changed."),
        ("*values", "object", "New values, in the order of the fields; None keeps one."),
        ("**named", "object", "New values by name."),
    ]
    sentence = f"A {kind.__name__} with some of {', '.join(names)} changed."
    raises = ("TypeError", f"``node`` is no {kind.__name__}, or has no such field.")
    change.__doc__ = docstring(sentence, entries, kind.__name__, raises)
    return change


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, tuple) and isinstance(new, (list, tuple)):
        return len(old) == len(new) and all(a is b for a, b in zip(old, new))
    return old is new


CallWithFields = _with_fields(Call)
ConstantWithFields = _with_fields(Constant)
FunctionWithFields = _with_fields(Function)
IfWithFields = _with_fields(If)
LetWithFields = _with_fields(Let)
RefCreateWithFields = _with_fields(RefCreate)
RefReadWithFields = _with_fields(RefRead)
RefWriteWithFields = _with_fields(RefWrite)
TupleGetItemWithFields = _with_fields(TupleGetItem)
TupleWithFields = _with_fields(Tuple)
VarWithFields = _with_fields(Var)

__all__ = [
    "CallWithFields", "ConstantWithFields", "FunctionWithFields", "IfWithFields", "LetWithFields",
    "RefCreateWithFields", "RefReadWithFields", "RefWriteWithFields", "TupleGetItemWithFields", "TupleWithFields",
    "VarWithFields",
]  # fmt: skip
