"""SplitHostDevice: move device regions to separate functions, which the host calls.

The free variables of a region are the parameters of its function: pointers first, then scalars, each in order of use.
"""

from __future__ import annotations

from typing import Any

from ...ir.module import GlobalVar, IRModule
from ...ir.prim import Call, Var
from ..function import PrimFunc
from ..stmt import AttrStmt, Evaluate, Stmt
from .annotate_device_regions import REGION, annotate_device_regions
from .make_packed_api import undefined_variables
from .statement import StmtRewriter


class Splitter(StmtRewriter):
    def __init__(self, name: str, func: PrimFunc):
        self.name = name
        self.func = func
        self.kernels: dict[GlobalVar, PrimFunc] = {}

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != REGION:
            return self.keep(node)
        return self.split(node.node, node.body)

    def split(self, target: Any, body: Stmt) -> Stmt:
        used = undefined_variables(body, ())
        params = [v for v in used if is_pointer(v)] + [v for v in used if not is_pointer(v)]
        suffix = "_kernel" if not self.kernels else f"_kernel_{len(self.kernels)}"
        var = GlobalVar(self.name + suffix)
        attrs = {"target": without_host(target), "tir.is_global_func": True, "global_symbol": var.name_hint}
        if self.func.attrs.get("tir.noalias"):
            attrs["tir.noalias"] = True
        self.kernels[var] = PrimFunc(params, body, None, {}, attrs)
        return Evaluate(Call("int32", var, tuple(params)))


def is_pointer(var: Var) -> bool:
    return var.dtype == "handle"


def without_host(target: Any) -> Any:
    drop = getattr(target, "without_host", None)
    return drop() if callable(drop) else target


def split_host_device(mod: IRModule) -> IRModule:
    new = IRModule(None, mod.type_definitions, mod.attrs)
    for var, func in mod.functions.items():
        if not isinstance(func, PrimFunc) or func.attrs.get("target") is None or func.attrs.get("tir.is_global_func"):
            new[var] = func
            continue
        name = str(func.attrs.get("global_symbol", var.name_hint))
        splitter = Splitter(name, func)
        host = func.replace(body=splitter.stmt(func.body))
        if not splitter.kernels:
            marked = annotate_device_regions(func)
            host = func.replace(body=splitter.stmt(marked.body))
        new[var] = host
        for kernel, body in splitter.kernels.items():
            new[kernel] = body
    return new
