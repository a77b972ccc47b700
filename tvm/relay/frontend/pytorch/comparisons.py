"""Converters of comparisons of tensors, numbers and lists."""

from __future__ import annotations

import operator
from typing import Any

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .elementwise import is_number
from .table import Number, op

_COMPARE = {"eq": ("equal", operator.eq), "ne": ("not_equal", operator.ne), "lt": ("less", operator.lt),
            "le": ("less_equal", operator.le), "gt": ("greater", operator.gt),
            "ge": ("greater_equal", operator.ge)}  # fmt: skip


def _of_lists(ctx, name: str, a, b):
    """Compare two lists of numbers, some of which can be known at run time, for equality or inequality."""
    if not all(isinstance(v, (list, tuple)) for v in (a, b)):
        return name == "not_equal"
    if any(isinstance(v, (RelayExpr, list, tuple)) for v in (*a, *b)):
        raise TVMError("comparing nested lists or lists of tensors is not supported")
    same: Any = len(a) == len(b)
    for x, y in zip(a, b) if same is True else ():
        pair = ctx.convert("eq", x, y)
        pair = ctx.number(ctx.infer(pair.expr)) if isinstance(pair, Number) else pair
        if not isinstance(pair, Number) and not pair:
            same = False
            break
        if isinstance(pair, Number):
            same = pair if same is True else Number(ctx.infer(relay.logical_and(same.expr, pair.expr)))
    if isinstance(same, Number):
        return same if name == "equal" else Number(ctx.infer(relay.logical_not(same.expr)))
    return same is (name == "equal")


def _compared(name: str, function):
    def convert(ctx, self, other):
        if isinstance(self, (str, list, tuple)) or self is None or other is None:
            if any(isinstance(v, (RelayExpr, Number)) for v in (*_items(self), *_items(other))):
                return _of_lists(ctx, name, self, other)
            return function(self, other)
        if is_number(self, other) and not isinstance(self, Number) and not isinstance(other, Number):
            return function(self, other)
        x, y = ctx.together(self, other)
        if ctx.dtype(x) == "bool":
            x, y = relay.cast(x, "int32"), relay.cast(y, "int32")
        out = getattr(relay, name)(x, y)
        return Number(out) if is_number(self, other) else out

    return convert


def _items(value) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value]


for _torch_name, (_name, _function) in _COMPARE.items():
    op(*([_torch_name] if _torch_name == "eq" else [_torch_name, _name]))(_compared(_name, _function))
