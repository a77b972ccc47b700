"""Nominal values of dynamic dimensions, for decisions that need a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ir.prim import IntImm, PrimExpr, Var, const
from ..ir.subst import substitute, variables
from .utils import simplify

# Nominal values of dynamic dimensions. If two numbers of elements are equal with these primes, they are assumed to be
# equal for all dimensions.
PRIMES = (1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097, 1103, 1109, 1117)


class Nominal:
    """Dimensions as numbers: each variable has a separate prime as its value, in order of first use."""

    def __init__(self) -> None:
        self.values: dict[Var, PrimExpr] = {}

    def size(self, d: Any) -> int:
        """Return the nominal value of a dimension; a constant dimension is its own value."""
        if isinstance(d, (int, IntImm)):
            return int(d)
        for var in variables(d):
            if var not in self.values:
                self.values[var] = const(PRIMES[len(self.values) % len(PRIMES)], var.dtype)
        return int(simplify(substitute(d, self.values)))

    def elements(self, shape: Iterable[Any]) -> int:
        """Return the product of dimensions."""
        count = 1
        for d in shape:
            count *= self.size(d)
        return count


def at(d: Any, value: int, among: dict[Var, int] | None = None) -> int:
    """Return the value of a dimension whose variables have the values in ``among``, or else ``value``."""
    if isinstance(d, (int, IntImm)):
        return int(d)
    given = among or {}
    return int(simplify(substitute(d, {v: const(given.get(v, value), v.dtype) for v in variables(d)})))


__all__ = ["Nominal", "at"]
