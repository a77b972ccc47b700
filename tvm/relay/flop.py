"""Operations of graphs, counted as the direct computation does them."""

from __future__ import annotations

from typing import Any

from ..ir.op import Op
from ..ir.visit import post_order
from .expr import Call


def macs_of_call(call: Call) -> int:
    """Multiplications followed by an addition of a typed call, as its operator's record counts them."""
    count = call.op.get_attr("macs") if isinstance(call.op, Op) else None
    return 0 if count is None else int(count(call.attrs, [arg.checked_type_ for arg in call.args], call.checked_type_))


def macs(expr: Any) -> int:
    """Multiplications followed by an addition of all calls in a typed expression."""
    return sum(macs_of_call(node) for node in post_order(expr) if type(node) is Call)


def of_function(function: Any) -> float:
    """Floating-point operations of all calls in a typed function."""
    return 2.0 * macs(function.body)


__all__ = ["macs", "macs_of_call", "of_function"]
