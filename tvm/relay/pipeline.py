"""The graph pipelines, as literal tuples of passes. Their order is read here and nowhere else."""

from __future__ import annotations

from ..ir.transform import Pass
from ..target import Target
from .transform.canonicalize import CanonicalizeCast, CanonicalizeOps
from .transform.combine_parallel import CombineParallelBatchMatmul, CombineParallelConv2D, CombineParallelDense
from .transform.dead_code import RemoveUnusedFunctions
from .transform.dynamic_to_static import DynamicToStatic
from .transform.eliminate_common_subexpr import EliminateCommonSubexpr
from .transform.expand_ops import ExpandOps
from .transform.fast_math import FastMath
from .transform.fold_constant import FoldConstant
from .transform.fold_scale_axis import FoldScaleAxis
from .transform.function_pass import InferType
from .transform.fuse_ops import FuseOps
from .transform.gpu_layout import GPULayout
from .transform.gpu_operands import GPUOperands, operand_rule
from .transform.gpu_weights import GPUWeights
from .transform.join_products import JoinProducts
from .transform.legalize import AlterOpLayout
from .transform.pack_dense import PackDense
from .transform.scale_weights import ScaleWeights
from .transform.simplify_expr import SimplifyExpr
from .transform.simplify_inference import SimplifyInference
from .transform.sink_reshape import SinkReshape
from .transform.straight_graph import StraightGraph
from .transform.wide_sums import WideSums
from .transform.winograd import WinogradConv2D

OPTIMIZE: tuple[Pass, ...] = (
    StraightGraph(),
    RemoveUnusedFunctions(),
    InferType(),
    DynamicToStatic(),
    SimplifyInference(),
    ExpandOps(),
    WideSums(),
    EliminateCommonSubexpr(),
    CombineParallelConv2D(3),
    CombineParallelDense(3),
    CombineParallelBatchMatmul(3),
    FoldConstant(),
    FoldScaleAxis(known_weights=True),
    CanonicalizeOps(),
    SimplifyExpr(kernels=True),
    CanonicalizeCast(),
    FoldConstant(),
    AlterOpLayout(fold=True),
    GPULayout(),
    GPUWeights(),
    PackDense(),
    SinkReshape(),
    JoinProducts(),
    FoldConstant(),
    WinogradConv2D(),
    ScaleWeights(),
    FastMath(),
    GPUOperands(),
)


def fusion(target: Target) -> tuple[Pass, ...]:
    """From operators to kernels, as the schedules of a target take them."""
    # Kernels of GPUs keep rows in registers: what is done to them costs no trip through memory there.
    return (FuseOps(reads_through=operand_rule(target), rows="gpu" in target.keys, target=target),)
