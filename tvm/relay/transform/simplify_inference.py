"""Operators of training in the simpler form they have when a model only predicts."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Function
from .expand_ops import expand_function
from .function_pass import RelayFunctionPass, function_pass

NAMES = frozenset({"nn.batch_norm", "nn.dropout", "nn.instance_norm", "nn.layer_norm", "nn.group_norm"})


def simplify_function(func: Function, mod: IRModule | None = None) -> Function:
    return expand_function(func, lambda record: record.name in NAMES, mod)


def SimplifyInference() -> RelayFunctionPass:
    """Normalizations and dropout as they are when predicting."""

    @function_pass(opt_level=0, name="SimplifyInference", required=["InferType"])
    def simplify(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return simplify_function(func, mod)

    return simplify
