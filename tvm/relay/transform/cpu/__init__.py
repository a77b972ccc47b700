"""Passes that only graphs for CPUs need."""

from __future__ import annotations

from ....target import Target
from ..backend_passes import GraphPasses
from .pack_dense import PackDense
from .scale_weights import ScaleWeights
from .winograd import WinogradConv2D


def graph_passes(target: Target) -> GraphPasses:
    return GraphPasses(layout=(PackDense(target),), algorithm=(WinogradConv2D(target), ScaleWeights()))


__all__ = ["PackDense", "ScaleWeights", "WinogradConv2D", "graph_passes"]
