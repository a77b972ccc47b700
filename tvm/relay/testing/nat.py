"""Natural numbers of ``nat.rly`` as expressions and values; random arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import ndarray
from ..expr import RelayExpr
from ..interpreter import ConstructorValue
from ..prelude import Prelude


def count(prelude: Prelude, n: Any) -> int:
    """The number a value stands for."""
    _, zero, successor = prelude.mod.get_type("nat")
    total = 0
    while n.constructor.name_hint == successor.name_hint:
        n, total = n.fields[0], total + 1
    if n.constructor.name_hint != zero.name_hint:
        raise ValueError(f"count: a natural number is wanted, got {n}")
    return total


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """The number as a value."""
    _, zero, successor = prelude.mod.get_type("nat")
    made = ConstructorValue(zero.tag, (), zero)
    for _ in range(n):
        made = ConstructorValue(successor.tag, (made,), successor)
    return made


def make_nat_expr(prelude: Prelude, n: int) -> RelayExpr:
    """The number as an expression."""
    if n < 0:
        raise ValueError(f"make_nat_expr: {n} is no natural number")
    _, zero, successor = prelude.mod.get_type("nat")
    made = zero()
    for _ in range(n):
        made = successor(made)
    return made


def rand(dtype: str = "float32", *shape: int) -> Any:
    """An array of numbers between 0 and 1."""
    return ndarray.array(np.random.rand(*shape).astype(dtype))


__all__ = ["count", "make_nat_expr", "make_nat_value", "rand"]
