"""Partition a module for an external code generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.transform import Pass, PassContext, run_pipeline
from .codegen import CODEGENS, Codegen, load_codegens
from .register import get_pattern_table


def codegen_named(name: str) -> Codegen:
    """Return a code generator, after importing the installed package that provides it.

    Raises
    ------
    TVMError
        No code generator has this name.
    """
    if name not in CODEGENS:
        load_codegens(name)
    if name not in CODEGENS:
        known = ", ".join(CODEGENS.names()) or "none"
        raise TVMError(f"no code generator is named '{name}'; registered code generators: {known}")
    return CODEGENS[name]


def partition_for(
    name: str, mod: IRModule, params: Mapping[str, Any] | None = None, mod_name: str = "default", **options: Any
) -> IRModule:
    """Move the subgraphs that a code generator supports into partitions.

    Weights become constants; then the passes of the code generator, InferType, MergeComposite with its patterns,
    AnnotateTarget, MergeCompilerRegions and PartitionGraph run.

    Parameters
    ----------
    name : str
        The name of the code generator.
    mod : IRModule
        The module.
    params : dict of str to NDArray, optional
        The weights by name.
    mod_name : str, optional
        The module name, which is part of the names of partitions.
    **options
        The options of the code generator.

    Returns
    -------
    IRModule

    Raises
    ------
    TVMError
        No code generator has this name, or it has no such option.
    """
    from ...backend.external.options import typed_options
    from ...build_module import bind_params_by_name
    from ...transform import AnnotateTarget, InferType, MergeCompilerRegions, MergeComposite, PartitionGraph

    codegen = codegen_named(name)
    options = typed_options(name, options)
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    if codegen.partition is not None:
        return codegen.partition(mod, params, mod_name=mod_name, **options)
    passes: tuple[Pass, ...] = (
        *codegen.passes,
        InferType(),
        MergeComposite(get_pattern_table(name) or []),
        AnnotateTarget([name]),
        MergeCompilerRegions(),
        PartitionGraph(mod_name),
    )
    return run_pipeline(mod, passes, PassContext.current())


__all__ = ["codegen_named", "partition_for"]
