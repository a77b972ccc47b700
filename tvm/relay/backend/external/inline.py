"""Moving partitions back into the functions that call them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ....ir.module import GlobalVar, IRModule
from ....ir.visit import rewrite
from ...expr import Call, Function, RelayExpr
from ...infer import infer_module
from ...substitute import substitute_vars


def without_partitions(mod: IRModule, symbols: Container[str]) -> IRModule:
    """Return the module with the bodies of partitions in place of their calls. The target compiles their operators.

    Parameters
    ----------
    mod : IRModule
        The module after PartitionGraph.
    symbols : container of str
        The names of the partitions.

    Returns
    -------
    IRModule
    """

    def post(e: Any) -> Any:
        if not (isinstance(e, Call) and isinstance(e.op, GlobalVar) and e.op.name_hint in symbols):
            return None
        function = mod[e.op]
        return substitute_vars(without_composites(function.body), dict(zip(function.params, e.args)))

    new = IRModule(None, mod.type_definitions)
    for var, function in mod.functions.items():
        if var.name_hint not in symbols:
            new[var] = rewrite(function, post) if isinstance(function, Function) else function
    return infer_module(new)


def without_composites(body: RelayExpr) -> RelayExpr:
    """Return an expression with the bodies of composite functions in place of their calls."""

    def post(e: Any) -> Any:
        if not (isinstance(e, Call) and isinstance(e.op, Function) and "Composite" in e.op.attrs):
            return None
        return substitute_vars(e.op.body, dict(zip(e.op.params, e.args)))

    return rewrite(body, post)


__all__ = ["without_composites", "without_partitions"]
