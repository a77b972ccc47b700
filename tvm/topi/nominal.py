"""Numbers that stand for sizes which are not known while compiling, in choices that need one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ir.prim import IntImm, PrimExpr, Var, const
from ..ir.subst import substitute, variables
from .utils import simplify

# Unknown sizes count as these. Two numbers of elements that are equal with them are equal for all sizes.
PRIMES = (1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097, 1103, 1109, 1117)


class Nominal:
    """Sizes as numbers: each variable counts as a prime of its own, the first as the first."""

    def __init__(self) -> None:
        self.values: dict[Var, PrimExpr] = {}

    def size(self, d: Any) -> int:
        """The number that stands for a size; a known size is itself."""
        if isinstance(d, (int, IntImm)):
            return int(d)
        for var in variables(d):
            if var not in self.values:
                self.values[var] = const(PRIMES[len(self.values) % len(PRIMES)], var.dtype)
        return int(simplify(substitute(d, self.values)))

    def elements(self, shape: Iterable[Any]) -> int:
        """The product of sizes."""
        count = 1
        for d in shape:
            count *= self.size(d)
        return count


def at(d: Any, value: int, among: dict[Var, int] | None = None) -> int:
    """A size where its variables have values: those of ``among``, else ``value``."""
    if isinstance(d, (int, IntImm)):
        return int(d)
    given = among or {}
    return int(simplify(substitute(d, {v: const(given.get(v, value), v.dtype) for v in variables(d)})))


__all__ = ["Nominal", "at"]
