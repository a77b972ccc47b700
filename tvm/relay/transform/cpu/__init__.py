"""Passes that only graphs for CPUs need."""

from __future__ import annotations

from ....target import Target
from ..backend_passes import GraphPasses
from . import integer_batches, integer_products
from .integer_products import ReadBytes
from .pack_dense import PackDense
from .scale_weights import ScaleWeights
from .winograd import WinogradConv2D
from .winograd_tiles import winograd_in_tiles


def graph_passes(target: Target) -> GraphPasses:
    return GraphPasses(
        simplify={**integer_products.rules(target), **integer_batches.rules(target)},
        layout=(PackDense(target), ReadBytes(target)),
        algorithm=(WinogradConv2D(target), ScaleWeights()),
        searched=winograd_in_tiles(target),
    )


__all__ = ["PackDense", "ReadBytes", "ScaleWeights", "WinogradConv2D", "graph_passes", "winograd_in_tiles"]
