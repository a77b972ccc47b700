"""The region of a buffer that a program accesses."""

from __future__ import annotations

from ...arith.interval_set import IntervalSet, union
from ...ir.prim import Range


def bounded_union(accesses: list[list[IntervalSet]]) -> list[Range] | None:
    """Return the smallest box that contains all accesses, each given by an interval per axis, or None if it is
    unbounded."""
    region = []
    for intervals in zip(*accesses):
        whole = union(list(intervals))
        if not (whole.has_lower_bound() and whole.has_upper_bound()):
            return None
        region.append(whole.range())
    return region
