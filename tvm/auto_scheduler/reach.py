"""The span of an index: the number of elements of a dimension over which it ranges.

The span of a sum of axes with coefficients follows from the extents of the axes; an index of another form is
approximated by such a sum. Extents are integers, or arrays of integers with an element for each of many states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir.prim import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Sub, Var
from ..ir.visit import post_order

# An integer, or an array of integers.
Number = Any
Extents = Mapping[Var, Number]
Reach = Callable[[Extents], Number]


def least(a: Number, b: Number) -> Number:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def most(a: Number, b: Number) -> Number:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def reach_of(index: PrimExpr) -> Reach:
    """Return the number of elements over which an index ranges, as a function of the extents of its axes."""
    made: dict[int, Reach] = {}
    for node in post_order(index):
        made[id(node)] = _reach(node, made)
    return made[id(index)]


def offset_of(index: PrimExpr) -> int:
    """Return the constant term of a sum of axes, by which the reads of a stencil differ."""
    found, todo = 0, [(index, 1)]
    while todo:
        node, sign = todo.pop()
        if isinstance(node, IntImm):
            found += sign * node.value
        elif isinstance(node, (Add, Sub)):
            todo += [(node.a, sign), (node.b, sign if isinstance(node, Add) else -sign)]
    return found


def _reach(node: PrimExpr, made: dict[int, Reach]) -> Reach:
    if isinstance(node, Var):
        return lambda extents: extents.get(node, 1)
    below = [made[id(child)] for child in node.children() if id(child) in made]
    if not below or isinstance(node, IntImm):
        return lambda extents: 1
    if isinstance(node, (Mul, FloorDiv, FloorMod)) and isinstance(node.b, IntImm):
        inner, number = below[0], abs(node.b.value) or 1
        if isinstance(node, Mul):
            return lambda extents: (inner(extents) - 1) * number + 1
        if isinstance(node, FloorDiv):
            return lambda extents: (inner(extents) - 1) // number + 1
        return lambda extents: least(inner(extents), number)
    if len(below) == 1:
        return below[0]
    if isinstance(node, (Add, Sub)):
        a, b = below
        return lambda extents: a(extents) + b(extents) - 1
    return lambda extents: sum(f(extents) - 1 for f in below) + 1


__all__ = ["Extents", "Number", "Reach", "least", "most", "offset_of", "reach_of"]
