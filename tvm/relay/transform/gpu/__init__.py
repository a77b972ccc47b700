"""Graph passes and fusion rules for GPU targets."""

from __future__ import annotations

from ....target import Target
from ..backend_passes import GraphPasses
from ..combine_parallel import CombineMatmuls
from ..fuse_ops import FusionRules
from . import mixed_precision
from .layout import GPULayout
from .operands import GPUOperands, operand_rule
from .weights import GPUWeights
from .winograd import WinogradConv2D


def graph_passes(target: Target) -> GraphPasses:
    return GraphPasses(
        simplify=mixed_precision.RULES,
        layout=(GPULayout(target), GPUWeights()),
        combine=(CombineMatmuls(),),
        algorithm=(WinogradConv2D(target),),
        before_fusion=(GPUOperands(target),),
    )


def fusion_rules(target: Target) -> FusionRules:
    """Return the fusion rules for GPUs, whose kernels keep rows in registers, so that fused operators need no memory
    access."""
    return FusionRules(reads_through=operand_rule(target), rowwise=True)


__all__ = ["CombineMatmuls", "GPULayout", "GPUOperands", "GPUWeights", "WinogradConv2D", "fusion_rules", "graph_passes"]
