"""Graph passes for CPU targets."""

from __future__ import annotations

from ....target import Target
from ....topi.cpu.byte_functions import byte_kernels
from ..backend_passes import GraphPasses
from ..simplify_expr import Table
from . import bfloat16, integer_matmuls
from .integer_matmuls import ReadBytes
from .narrow_constants import NarrowConstants
from .pack_dense import PackDense
from .scale_weights import ScaleWeights
from .winograd import WinogradConv2D
from .winograd_tiles import winograd_in_tiles


def _joined(*tables: Table) -> Table:
    """Merge tables of rules; rules of earlier tables come first."""
    names = {name for table in tables for name in table}
    return {name: tuple(rule for table in tables for rule in table.get(name, ())) for name in sorted(names)}


def graph_passes(target: Target) -> GraphPasses:
    return GraphPasses(
        simplify=_joined(integer_matmuls.rules(target), bfloat16.rules(target)),
        layout=(PackDense(target), ReadBytes(target)),
        algorithm=(WinogradConv2D(target), ScaleWeights()),
        before_fusion=(NarrowConstants(),) if byte_kernels(target) is not None else (),
        searched=winograd_in_tiles(target),
        fast_bfloat16=bfloat16.is_fast(target),
    )


__all__ = [
    "NarrowConstants",
    "PackDense",
    "ReadBytes",
    "ScaleWeights",
    "WinogradConv2D",
    "graph_passes",
    "winograd_in_tiles",
]
