"""The light bound analysis for code generators: bounds that follow from the form of an expression, without rewriting
it.

The rules are those of the analyzer (`const_bound.py`), without known conditions, sums of terms and modular sets. A
query visits each node once; its result is cached until a variable is bound again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from ..ir.prim import (
    Add,
    Broadcast,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    SizeVar,
    Sub,
    Var,
)
from .const_bound import MAX_DEPTH, Bound, bound_of, dtype_bound, in_type, is_index, raw_bound

_OPERANDS: dict[type[Any], tuple[str, ...]] = {
    **dict.fromkeys((Add, Sub, Mul, Div, FloorDiv, Mod, FloorMod, Min, Max), ("a", "b")),
    Ramp: ("base", "stride"),
    Select: ("true_value", "false_value"),
    Broadcast: ("value",),
    Cast: ("value",),
}


class Ranges:
    """The bounds of variables, and the cached bounds of expressions.

    Arithmetic that overflows its type can have any value. With ``trust_indices``, int32 and int64 sums and products of
    loop variables, dimensions and literals are assumed not to overflow, because they are memory indices.
    """

    light = True
    facts: dict[Any, Any] = {}
    atom_facts: dict[Any, Any] = {}

    def __init__(self, trust_indices: bool = False):
        self.trust_indices = trust_indices
        self.var_bounds: dict[Var, Bound] = {}
        self.bounds: dict[PrimExpr, Bound] = {}
        self._indices: set[Var] = set()

    def bind(self, var: Var, bound: Bound | None, index: bool = False) -> None:
        """Set or remove the bounds of a variable. ``index`` marks it as a loop variable or thread index."""
        self.bounds.clear()
        self._indices.discard(var)
        if bound is None:
            self.var_bounds.pop(var, None)
            return
        self.var_bounds[var] = bound
        if index:
            self._indices.add(var)

    def copy(self) -> Ranges:
        new = Ranges(self.trust_indices)
        new.var_bounds, new._indices = dict(self.var_bounds), set(self._indices)
        return new

    def of(self, e: PrimExpr) -> Bound:
        return bound_of(self, e)

    def of_loop(self, first: PrimExpr, extent: PrimExpr, dtype: str) -> Bound:
        """Return the bounds of the variable of a loop, limited to its type."""
        low, count = self.of(first), self.of(extent)
        return low[0], max(low[0], min(low[1] + count[1] - 1, dtype_bound(dtype)[1]))

    def fits(self, e: PrimExpr) -> bool:
        """Return whether the operation of ``e`` itself cannot overflow, regardless of ``trust_indices``."""
        return e.__class__ is IntImm or in_type(e.dtype, raw_bound(self, e, 0))

    def is_nonnegative(self, e: PrimExpr) -> bool:
        return bound_of(self, e)[0] >= 0

    def overflows(self, e: PrimExpr, bound: Bound) -> bool:
        """Return whether an operation with this bound can overflow its type."""
        return not in_type(e.dtype, bound) and not (self.trust_indices and self._is_index(e, 0))

    def _is_index(self, e: PrimExpr, depth: int) -> bool:
        """Return whether ``e`` consists of loop variables, dimensions and literals, without large constants."""
        cls = e.__class__
        if cls is IntImm:
            return True
        if not is_index(e.dtype) or depth > MAX_DEPTH:
            return False
        if isinstance(e, Var):
            return isinstance(e, SizeVar) or e in self._indices
        operands = [getattr(e, name) for name in _OPERANDS.get(cls, ())]
        if cls is Add or cls is Sub:
            return all(self._is_index(o, depth + 1) or self._is_small(o) for o in operands)
        return bool(operands) and all(self._is_index(o, depth + 1) for o in operands)

    def _is_small(self, e: PrimExpr) -> bool:
        (low, high), limit = bound_of(self, e), dtype_bound(e.dtype)
        return limit[0] // 2 <= low and high <= limit[1] // 2

    @contextmanager
    def known_value(self, var: Var, bound: Bound, modulus: tuple[int, int]):
        """Enter a scope in which the variable of a let has the bounds of its value."""
        before = self.var_bounds.get(var)
        self.bind(var, bound)
        try:
            yield
        finally:
            self.bind(var, before)

    def modular(self, e: PrimExpr, depth: int = 0) -> tuple[int, int]:
        """Return the set of all integers, because this mode does not track divisibility."""
        return 1, 0
