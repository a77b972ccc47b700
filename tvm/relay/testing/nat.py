"""Convert integers to and from the natural numbers of ``nat.rly``, and create random arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import ndarray
from ..expr import RelayExpr
from ..interpreter import ConstructorValue
from ..prelude import Prelude


def count(prelude: Prelude, n: Any) -> int:
    """Convert a value of type ``nat`` to an integer."""
    _, zero, successor = prelude.mod.get_type("nat")
    total = 0
    while n.constructor.name_hint == successor.name_hint:
        n, total = n.fields[0], total + 1
    if n.constructor.name_hint != zero.name_hint:
        raise ValueError(f"count: expected a value of type nat, got {n}")
    return total


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """Convert an integer to a value of type ``nat``."""
    _, zero, successor = prelude.mod.get_type("nat")
    made = ConstructorValue(zero.tag, (), zero)
    for _ in range(n):
        made = ConstructorValue(successor.tag, (made,), successor)
    return made


def make_nat_expr(prelude: Prelude, n: int) -> RelayExpr:
    """Convert an integer to an expression of type ``nat``."""
    if n < 0:
        raise ValueError(f"make_nat_expr: {n} is negative")
    _, zero, successor = prelude.mod.get_type("nat")
    made = zero()
    for _ in range(n):
        made = successor(made)
    return made


def rand(dtype: str = "float32", *shape: int) -> Any:
    """Return an array of random numbers between 0 and 1."""
    return ndarray.array(np.random.rand(*shape).astype(dtype))


__all__ = ["count", "make_nat_expr", "make_nat_value", "rand"]
