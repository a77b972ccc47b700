"""A graph without names: what an executor of kernels runs has no lets and no calls of graph functions."""

from __future__ import annotations

from ...ir.module import GlobalVar, IRModule
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.visit import post_order, rewrite
from ..expr import Call, Function, Let
from ..infer import infer_module
from ..substitute import substitute_vars
from .inline import fresh, is_recursive
from .normal_form import to_graph_normal_form

# Functions that are kernels, or meant for another compiler: their calls stay.
KEPT = ("Primitive", "Composite", "Compiler", "SkipOptimization")


def _is_plain(f) -> bool:
    return isinstance(f, Function) and not any(f.attrs.get(name) for name in KEPT)


def straighten(func: Function, mod: IRModule) -> Function:
    """``func`` with the values of lets where their names are used, and the bodies of functions where they are called.
    Values used several times stay one expression. Functions that call themselves stay."""
    known: dict[str, bool] = {}

    def callee(op):
        if type(op) is not GlobalVar:
            return op if _is_plain(op) else None
        name = op.name_hint
        if name not in known:
            known[name] = name in mod and _is_plain(mod[name]) and not is_recursive(mod, name)
        return mod[name] if known[name] else None

    def post(node):
        if type(node) is not Call:
            return None
        found = callee(node.op)
        if found is None or len(found.params) != len(node.args):
            return None
        inner = fresh(found)
        return substitute_vars(inner.body, dict(zip(inner.params, node.args)))

    while True:
        straight = to_graph_normal_form(func) if any(type(n) is Let for n in post_order(func)) else func
        body = rewrite(straight.body, post, lambda n: n if type(n) is Function and not _is_plain(n) else None)
        if body is func.body:
            return func
        func = func.replace(body=body)


def StraightGraph() -> ModulePass:
    """Lets and calls of graph functions in ``main`` replaced by what they stand for."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        if "main" not in mod or not isinstance(mod["main"], Function):
            return mod
        main = straighten(mod["main"], mod)
        if main is mod["main"]:
            return mod
        new = mod.clone()
        new["main"] = main
        return infer_module(new)

    return ModulePass(run, PassInfo(0, "StraightGraph"))


__all__ = ["StraightGraph", "straighten"]
