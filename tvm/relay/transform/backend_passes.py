"""Passes that a back end adds to each phase of the graph pipeline (``relay/pipeline.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...ir.transform import Pass
from ...target import Target
from ...target.backend import find_backend, load
from ..expr import Call, Constant, RelayExpr
from .simplify_expr import Table

# Builds an operator from its data and its weights.
Operator = Callable[[RelayExpr, RelayExpr], Call]
# Returns an alternative algorithm for an operator whose second operand is a constant: the rearranged constant and the
# replacement operator. Returns None to keep the operator.
SearchedForm = Callable[[Call, Constant], tuple[Constant, Operator] | None]


class GraphPasses(NamedTuple):
    """The passes of a back end by pipeline phase; the record of a back end names a function that returns them for a
    target."""

    # Rules that SimplifyExpr applies after its own rules.
    simplify: Table = {}
    # Passes that choose the layouts of data and weights, after AlterOpLayout.
    layout: tuple[Pass, ...] = ()
    # Passes that combine operators, after reshapes have been moved to where they need no copy.
    combine: tuple[Pass, ...] = ()
    # Passes that choose other algorithms for operators, after constant folding.
    algorithm: tuple[Pass, ...] = ()
    # Passes that prepare the graph for fusion; they run last.
    before_fusion: tuple[Pass, ...] = ()
    # The alternative algorithm of an operator in kernels that a search schedules.
    searched: SearchedForm | None = None
    # Whether bfloat16 matmuls compute in bfloat16. False if float32 matmuls are faster on the target.
    fast_bfloat16: bool = True


def passes_of(target: Target) -> GraphPasses:
    """Return the passes of the target's back end."""
    backend = find_backend(target)
    return load(backend.graph_passes)(target) if backend is not None and backend.graph_passes else GraphPasses()
