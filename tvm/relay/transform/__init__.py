"""Relay passes, one file for each, under the names of Apache TVM."""

import sys as _sys

from ...ir.transform import PassContext, PassInfo, Sequential, module_pass
from .annotate_spans import AnnotateSpans, CapturePostDfsIndexInSpans
from .annotate_target import AnnotateTarget
from .auto_schedule import AutoSchedulerLayoutRewrite
from .batches import ChangeBatch, FlexibleShapeDispatch
from .canonicalize import CanonicalizeCast, CanonicalizeOps
from .combine_parallel import CombineParallelBatchMatmul, CombineParallelConv2D, CombineParallelDense
from .dead_code import DeadCodeElimination, RemoveUnusedFunctions
from .defunctionalize import Defunctionalization
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .dynamic_to_static import DynamicToStatic
from .div_to_mul import DivToMul
from .expand_ops import ExpandOps
from .fake_quantization import FakeQuantizationToInteger
from .fast_math import FastMath
from .flatten_atrous import FlattenAtrousConv
from .fold_constant import FoldConstant, FoldConstantExpr
from .fold_padding import FoldExplicitPadding
from .fold_scale_axis import BackwardFoldScaleAxis, FoldScaleAxis, ForwardFoldScaleAxis
from .function_pass import FunctionPass, InferType, InferTypeLocal, build_config, function_pass
from .fuse_ops import DefuseOps, FuseOps
from .simplify_expr import SimplifyExpr
from .name_sizes import NameSizes
from .simplify_inference import SimplifyInference
from .convert_layout import ConvertLayout, LayoutConfig
from .inline import EtaExpand, Inline, InlinePrimitives, LambdaLift
from .legalize import AlterOpLayout, Legalize
from .mixed_precision import ToMixedPrecision
from .normal_form import ToANormalForm, ToANormalFormExpr, ToBasicBlockNormalForm, ToGraphNormalForm
from .partial_evaluate import PartialEvaluate
from .place_copies import PlanDevices
from .recast import recast
from .refused import (
    FirstOrderGradient,
    LazyGradientInit,
    ManifestAlloc,
    ManifestLifetimes,
    MemoryPlan,
    ToCPS,
    gradient,
)
from .external import MergeCompilerRegions, MergeComposite, PartitionGraph
from ...docstring import describe_returns as _describe_returns
from ...not_built import name_of as _name_of
from .split_args import SplitArgs
from . import fake_quantization_to_integer
from .used_memory import AnnotateUsedMemory

_describe_returns(
    list(globals().values()), "The pass, which gives the changed module when it is called with one.", "Pass"
)


def __getattr__(name: str):
    if name == "_ffi_api":
        return _sys.modules[__name__]
    return _name_of(__name__, name)
