"""oneDNN as a code generator: ``partition_for_dnnl`` moves the operators that oneDNN supports into partitions.

The partitions run with ``libtvm_dnnl`` (``csrc/dnnl``), which opens oneDNN version 3 at the first run: the package
``onednn-cpu-gomp``, or the file that the environment variable ``TVM_DNNL_LIBRARY`` names. Building a model does not
need oneDNN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .....ir.module import IRModule
from .....ir.transform import PassContext
from .....ir.visit import post_order
from .....target.kinds import Option
from ....expr import Call, Function
from ..codegen import Codegen, register_codegen
from ..partition import partition_for
from .describe import BINARY, COMPUTE, CONVOLUTIONS, ELTWISE, MATMULS, describe, name_of, single, supports
from .patterns import (
    append_eltwise_ops,
    make_conv_bias_sum_relu_pattern,
    make_conv_pattern,
    make_dense_bias_sum_pattern,
    make_dense_pattern,
    make_dnnl_pattern,
    make_qnn_conv2d_pattern,
    make_qnn_dense_pattern,
    pattern_table,
    supported_post_elts,
)

NAME = "dnnl"
_POOLS = [f"nn.{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)]
_SINGLE = (
    *ELTWISE,
    *BINARY,
    *_POOLS,
    *(f"nn.global_{kind}_pool2d" for kind in ("max", "avg")),
    "nn.softmax",
    "nn.log_softmax",
)


def is_valid_subgraph(body: Any) -> bool:
    """Return whether a partition contains a convolution or matmul. Other partitions are faster in the kernels of the
    target, which fuses their operators with their neighbours.

    Parameters
    ----------
    body : RelayExpr
        The partition.

    Returns
    -------
    bool
    """
    return any(name_of(e) in COMPUTE for e in post_order(body))


def prune_dnnl_subgraphs(mod: IRModule) -> IRModule:
    """Move partitions without a convolution or matmul back into their callers.

    Parameters
    ----------
    mod : IRModule
        The module after PartitionGraph.

    Returns
    -------
    IRModule
    """
    from ....backend.external.inline import without_partitions

    pruned = {
        var.name_hint
        for var, function in mod.functions.items()
        if isinstance(function, Function) and function.attrs.get("Compiler") == NAME and not is_valid_subgraph(function)
    }
    return without_partitions(mod, pruned) if pruned else mod


def _partition(mod: IRModule, params: Mapping[str, Any] | None, mod_name: str = "default", **options: Any) -> IRModule:
    from ....transform import (
        AnnotateTarget,
        CanonicalizeOps,
        FoldConstant,
        FoldScaleAxis,
        InferType,
        MergeCompilerRegions,
        MergeComposite,
        PartitionGraph,
        SimplifyInference,
    )

    passes = [
        CanonicalizeOps(),
        InferType(),
        SimplifyInference(),
        FoldConstant(),
        FoldScaleAxis(),
        FoldConstant(),
        InferType(),
    ]
    passes += [
        MergeComposite(pattern_table()),
        AnnotateTarget([NAME]),
        MergeCompilerRegions(),
        PartitionGraph(mod_name),
    ]
    # FoldScaleAxis, which moves batch normalizations into weights, has level 3.
    current = PassContext.current()
    with PassContext(opt_level=3, config=dict(current.config), disabled_pass=list(current.disabled_pass)):
        for each in passes:
            mod = each(mod)
    return prune_dnnl_subgraphs(mod) if options["prune_subgraphs"] else mod


def partition_for_dnnl(
    mod: IRModule, params: Mapping[str, Any] | None = None, alter_layout: bool = True, prune_subgraphs: bool = True
) -> IRModule:
    """Move the operators that oneDNN supports into partitions.

    Parameters
    ----------
    mod : IRModule
        The module.
    params : dict of str to NDArray, optional
        The weights by name.
    alter_layout : bool, optional
        Whether oneDNN chooses the layouts inside a partition. Only True is supported.
    prune_subgraphs : bool, optional
        Whether partitions without a convolution or matmul are left to the target.

    Returns
    -------
    IRModule

    Raises
    ------
    ValueError
        ``alter_layout`` is False.
    """
    if not alter_layout:
        raise ValueError(
            "partition_for_dnnl: alter_layout=False is not supported; oneDNN chooses the layouts at run time"
        )
    return partition_for(NAME, mod, params, prune_subgraphs=prune_subgraphs)


def _compile(function: Function) -> Any:
    """Return the module of a partition."""
    from ....backend.external import json_module

    return json_module(function, lambda call: describe(call) or {})


def _is_single(call: Call) -> bool:
    return single(call) is not None


register_codegen(
    Codegen(
        NAME,
        _compile,
        operators={**dict.fromkeys(_SINGLE, _is_single), **dict.fromkeys((*CONVOLUTIONS, *MATMULS), supports)},
        patterns=pattern_table,
        options={"prune_subgraphs": Option(bool, True)},
        partition=_partition,
    )
)

__all__ = [
    "append_eltwise_ops",
    "is_valid_subgraph",
    "make_conv_bias_sum_relu_pattern",
    "make_conv_pattern",
    "make_dense_bias_sum_pattern",
    "make_dense_pattern",
    "make_dnnl_pattern",
    "make_qnn_conv2d_pattern",
    "make_qnn_dense_pattern",
    "partition_for_dnnl",
    "pattern_table",
    "prune_dnnl_subgraphs",
    "supported_post_elts",
]
