"""Loop nests around one statement, and affine indices in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ....arith import Analyzer
from ....arith.linear import detect_linear_equation
from ....ir.prim import IntImm, PrimExpr
from ....tir.stmt import AttrStmt, For, Stmt


@dataclass(frozen=True)
class Level:
    """One loop of a nest: its number of iterations, and the step of each index per iteration."""

    extent: int
    steps: tuple[int, ...]


def nest(stmt: Stmt) -> tuple[list[For], Stmt]:
    """Return the loops around the first statement that is no loop, outermost first, and this statement."""
    loops = []
    while isinstance(stmt, (For, AttrStmt)):
        if isinstance(stmt, For):
            loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def levels(loops: list[For], indices: list[PrimExpr]) -> tuple[list[Level], list[PrimExpr]] | None:
    """Return the loops with the steps of the indices, and the indices of the first iteration.

    None if an extent or a step is not constant, or a loop does not start at zero.
    """
    analyzer = Analyzer()
    variables = [loop.loop_var for loop in loops]
    if not all(isinstance(loop.extent, IntImm) and analyzer.can_prove_equal(loop.min, 0) for loop in loops):
        return None
    forms = [detect_linear_equation(analyzer.simplify(index), variables) for index in indices]
    if not all(forms) or any(not isinstance(step, IntImm) for form in forms for step in form[:-1]):
        return None
    steps = zip(*(form[:-1] for form in forms))
    found = [Level(loop.extent.value, tuple(int(s) for s in row)) for loop, row in zip(loops, steps)]
    return found, [analyzer.simplify(form[-1]) for form in forms]


def merged(found: list[Level]) -> list[Level]:
    """Remove loops of one iteration, and merge adjacent loops that are one longer loop for all indices."""
    out: list[Level] = []
    for level in reversed([e for e in found if e.extent != 1]):
        inner = out[-1] if out else None
        if inner is not None and level.steps == tuple(inner.extent * s for s in inner.steps):
            out[-1] = replace(inner, extent=inner.extent * level.extent)
        else:
            out.append(level)
    return out[::-1]


def without_lanes(found: list[Level], lanes: int, accessed: Any) -> list[Level] | None:
    """Remove the innermost loops over the values of one element, whose indices ``accessed`` step by one.

    None if these values are not dense.
    """
    found, size = merged(found), 1
    while size < lanes:
        inner = found.pop() if found else None
        if inner is None or any(inner.steps[k] != size for k in accessed):
            return None
        size *= inner.extent
        if size > lanes:
            count, rest = divmod(size, lanes)
            if rest:
                return None
            found.append(Level(count, tuple(s * (inner.extent // count) for s in inner.steps)))
            size = lanes
    return found
