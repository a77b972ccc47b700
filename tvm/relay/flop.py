"""Operations of graphs, counted as the direct computation does them."""

from __future__ import annotations

from typing import Any

from ..ir.op import Op
from ..ir.visit import post_order
from .expr import Call


def macs(expr: Any) -> int:
    """Multiplications followed by an addition of all calls in a typed expression, as the records of operators count
    them."""
    calls = (n for n in post_order(expr) if type(n) is Call and isinstance(n.op, Op) and n.op.has_attr("macs"))
    return sum(int(c.op.get_attr("macs")(c.attrs, [a.checked_type_ for a in c.args], c.checked_type_)) for c in calls)


def of_function(function: Any) -> float:
    """Floating-point operations of all calls in a typed function."""
    return 2.0 * macs(function.body)


__all__ = ["macs", "of_function"]
