"""Passes over graphs, one file each, under TVM's names."""

from ...ir.transform import PassContext, PassInfo, Sequential, module_pass
from .fold_constant import FoldConstant, FoldConstantExpr
from .function_pass import FunctionPass, InferType, InferTypeLocal, build_config, function_pass
from .fuse_ops import DefuseOps, FuseOps
from .simplify_inference import SimplifyInference
