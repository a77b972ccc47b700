"""Facts about the variables of a function that hold before any loop."""

from __future__ import annotations

from ...arith import Analyzer, ConstIntBound
from ...dtype import info, int_range
from ...ir.prim import Var
from ..function import PrimFunc


def size_variables(func: PrimFunc) -> list[Var]:
    """Return the variables that are extents of buffer parameters; they are non-negative."""
    out: dict[Var, None] = {}
    for buffer in func.buffer_map.values():
        for extent in buffer.shape:
            if isinstance(extent, Var) and info(extent.dtype).is_int:
                out[extent] = None
    return list(out)


def analyzer_of(func: PrimFunc) -> Analyzer:
    analyzer = Analyzer()
    for var in size_variables(func):
        analyzer.update(var, ConstIntBound(0, int_range(var.dtype)[1]))
    return analyzer
