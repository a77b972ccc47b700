"""What a back end adds to the graph pipeline (``relay/pipeline.py``), phase by phase."""

from __future__ import annotations

from typing import NamedTuple

from ...ir.transform import Pass
from .simplify_expr import Table


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
    # What fusion is to find, the last of all.
    before_fusion: tuple[Pass, ...] = ()
