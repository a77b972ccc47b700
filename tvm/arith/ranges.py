"""The light mode of the bound analysis, for code generators: what the form of an expression says; nothing is rewritten.

The rules are those of the analyzer (`const_bound.py`). There are no known conditions, no sums of terms and no moduli
here, so a question costs one visit of each node, whose answer is kept until a variable is bound again.
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
    """The bounds of variables, and of expressions as they are asked for.

    Arithmetic that leaves its type can have any value. With ``trust_indices``, sums and products of loop variables,
    sizes and literals in int32 and int64 are excepted: they are places in memory, and do not overflow.
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
        """Give a variable its bounds, or none; ``index`` says that it counts a loop or threads."""
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
        """Bounds of the variable of a loop, which stays in its type."""
        low, count = self.of(first), self.of(extent)
        return low[0], max(low[0], min(low[1] + count[1] - 1, dtype_bound(dtype)[1]))

    def fits(self, e: PrimExpr) -> bool:
        """Whether the operation of ``e`` itself cannot overflow, whatever is trusted."""
        return e.__class__ is IntImm or in_type(e.dtype, raw_bound(self, e, 0))

    def is_nonnegative(self, e: PrimExpr) -> bool:
        return bound_of(self, e)[0] >= 0

    def overflows(self, e: PrimExpr, bound: Bound) -> bool:
        """Whether an operation with this bound can leave its type."""
        return not in_type(e.dtype, bound) and not (self.trust_indices and self._is_index(e, 0))

    def _is_index(self, e: PrimExpr, depth: int) -> bool:
        """Whether ``e`` is made of loop variables, sizes and literals, with nothing large added to them."""
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
        """Inside the block the variable of a let has the bounds of its value."""
        before = self.var_bounds.get(var)
        self.bind(var, bound)
        try:
            yield
        finally:
            self.bind(var, before)

    def modular(self, e: PrimExpr, depth: int = 0) -> tuple[int, int]:
        """Every integer: divisibility is not looked at."""
        return 1, 0
