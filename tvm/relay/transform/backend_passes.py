"""What a back end adds to the graph pipeline (``relay/pipeline.py``), phase by phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...ir.transform import Pass
from ...target import Target
from ...target.backend import find_backend, load
from ..expr import Call, Constant, RelayExpr
from .simplify_expr import Table

# An operator over its data and its weights.
Operator = Callable[[RelayExpr, RelayExpr], Call]
# Another algorithm for an operator of a kernel whose second operand is a constant: what becomes of the constant, and
# the operator that takes it; None where the operator stays.
SearchedForm = Callable[[Call, Constant], tuple[Constant, Operator] | None]


class GraphPasses(NamedTuple):
    """Each field is a place in the pipeline; the record of a back end names a function that makes this for a target."""

    # Rules that SimplifyExpr applies after its own.
    simplify: Table = {}
    # Layouts of data and weights, after AlterOpLayout.
    layout: tuple[Pass, ...] = ()
    # Operators that become one, where reshapes stand where they cost nothing.
    combine: tuple[Pass, ...] = ()
    # Other algorithms for operators, when all constants are folded.
    algorithm: tuple[Pass, ...] = ()
    # Passes that prepare graphs for fusion, the last of all.
    before_fusion: tuple[Pass, ...] = ()
    # The algorithm of an operator in kernels that a search schedules.
    searched: SearchedForm | None = None
    # Whether bfloat16 matmuls compute in bfloat16; false where float32 matmuls are faster on the target.
    fast_bfloat16: bool = True


def passes_of(target: Target) -> GraphPasses:
    """The passes of the target's back end."""
    backend = find_backend(target)
    return load(backend.graph_passes)(target) if backend is not None and backend.graph_passes else GraphPasses()
