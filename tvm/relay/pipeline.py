"""The graph pipelines as tuples of passes, which define the order of passes."""

from __future__ import annotations

from ..ir.transform import Pass
from ..target import Target
from ..target.backend import find_backend, load
from .transform.auto_schedule import AutoScheduleKernels, AutoSchedulerLayoutRewrite, PlaceKernels
from .transform.backend_passes import passes_of
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
from .transform.fuse_ops import FuseOps, FusionRules
from .transform.legalize import AlterOpLayout, Legalize
from .transform.simplify_expr import SimplifyExpr
from .transform.simplify_inference import SimplifyInference
from .transform.sink_reshape import SinkReshape
from .transform.straight_graph import StraightGraph
from .transform.wide_sums import WideSums


def optimize(target: Target) -> tuple[Pass, ...]:
    """Return the passes from the original graph to the operators that are compiled, including those of the target's
    back end."""
    own = passes_of(target)
    return (
        *simplify(target),
        AutoScheduleKernels(target),
        AutoSchedulerLayoutRewrite(target),
        AlterOpLayout(fold=True, target=target),
        *own.layout,
        SinkReshape(),
        *own.combine,
        FoldConstant(),
        *own.algorithm,
        FastMath(),
        *own.before_fusion,
    )


def simplify(target: Target) -> tuple[Pass, ...]:
    """Return the passes from the original graph to plain operators, before layouts and algorithms are chosen."""
    return (
        StraightGraph(),
        RemoveUnusedFunctions(),
        InferType(),
        DynamicToStatic(),
        Legalize(),
        SimplifyInference(target),
        ExpandOps(target),
        WideSums(),
        EliminateCommonSubexpr(),
        CombineParallelConv2D(3),
        CombineParallelDense(3, to_batch=False),
        CombineParallelBatchMatmul(3),
        FoldConstant(),
        FoldScaleAxis(known_weights=True),
        CanonicalizeOps(),
        SimplifyExpr(kernels=True, rules=passes_of(target).simplify),
        CanonicalizeCast(),
        FoldConstant(),
    )


def fusion(target: Target) -> tuple[Pass, ...]:
    """Return the passes from operators to kernels, with the fusion rules of the target's back end."""
    backend = find_backend(target)
    rules = load(backend.fusion_rules)(target) if backend is not None and backend.fusion_rules else FusionRules()
    return (FuseOps(rules=rules, target=target), PlaceKernels())
