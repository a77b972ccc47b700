"""Loop nests of statement operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tir.ir_builder import IRBuilder

# The annotation of a loop whose iterations are independent, in any order of the surrounding loops.
INDEPENDENT = "independent"


def nest(
    ib: IRBuilder, shape: Sequence, body: Callable[[list], None], kind: str = "serial", independent_axes: Any = False
) -> None:
    """Return loops over a shape, the outermost of ``kind``; ``body`` gets the loop variables. ``independent_axes`` are
    the loops (True: all loops) whose iterations may run in parallel."""
    scopes, indices = [], []
    for axis, dim in enumerate(shape):
        is_independent = independent_axes is True or independent_axes and axis in independent_axes
        notes = {INDEPENDENT: 1} if is_independent else None
        scope = ib.for_range(0, dim, name=f"i{axis}", kind=kind if axis == 0 else "serial", annotations=notes)
        indices.append(scope.__enter__())
        scopes.append(scope)
    body(indices)
    for scope in reversed(scopes):
        scope.__exit__(None, None, None)


__all__ = ["INDEPENDENT", "nest"]
