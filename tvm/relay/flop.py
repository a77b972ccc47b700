"""Count the operations of graphs, for the direct computation of each operator."""

from __future__ import annotations

from typing import Any

from ..ir.op import Op
from ..ir.visit import post_order
from .expr import Call


def macs_of_call(call: Call) -> int:
    """Return the number of multiply-adds of a typed call, as its operator record defines it."""
    count = call.op.get_attr("macs") if isinstance(call.op, Op) else None
    return 0 if count is None else int(count(call.attrs, [arg.checked_type_ for arg in call.args], call.checked_type_))


def macs(expr: Any) -> int:
    """Return the number of multiply-adds of all calls in a typed expression."""
    return sum(macs_of_call(node) for node in post_order(expr) if type(node) is Call)


def of_function(function: Any) -> float:
    """Return the number of floating-point operations of all calls in a typed function."""
    return 2.0 * macs(function.body)


__all__ = ["macs", "macs_of_call", "of_function"]
