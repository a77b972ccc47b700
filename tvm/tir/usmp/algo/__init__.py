"""Planning algorithms: ``algorithm(buffers, memory_pressure)`` returns the pool and the offset of each buffer."""

from __future__ import annotations

from .greedy import greedy_by_conflicts, greedy_by_size
from .hill_climb import hill_climb
from .search import search

# The algorithms of the option ``tir.usmp.algorithm``.
ALGORITHMS = {
    "search": search,
    "greedy_by_size": greedy_by_size,
    "greedy_by_conflicts": greedy_by_conflicts,
    "hill_climb": hill_climb,
}
DEFAULT = "search"

__all__ = ["ALGORITHMS", "DEFAULT", "greedy_by_conflicts", "greedy_by_size", "hill_climb", "search"]
