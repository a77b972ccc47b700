"""Convert ``main`` to a graph without lets, function calls and branches, as executors of kernels require."""

from __future__ import annotations

from ...ir.module import GlobalVar, IRModule
from ...ir.prim import IntImm
from ...ir.tensor_type import TensorType
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.type import TupleType
from ...ir.visit import post_order, rewrite
from ..call_graph import CallGraph
from ..expr import Call, Function, If, Let, RelayExpr, Tuple, TupleGetItem
from ..infer import infer_module
from ..op import where
from ..substitute import substitute_vars
from .inline import fresh
from .normal_form import to_graph_normal_form

# Attributes of kernels and of functions for external compilers; their calls are kept.
KEPT = ("Primitive", "Composite", "Compiler", "SkipOptimization")


def _is_plain(f) -> bool:
    return isinstance(f, Function) and not any(f.attrs.get(name) for name in KEPT)


def straighten(func: Function, mod: IRModule) -> Function:
    """Inline let values and calls of functions into ``func``.

    Values with several uses stay shared. Recursive functions are not inlined.
    """
    recursive = CallGraph(mod).recursive

    def callee(op):
        if type(op) is not GlobalVar:
            return op if _is_plain(op) else None
        name = op.name_hint
        return mod[name] if name in mod and name not in recursive and _is_plain(mod[name]) else None

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


def _both_branches(func: Function) -> Function:
    """Replace each ``if`` of a typed function by the evaluation of both branches and a ``where``.

    Only values with static shapes are converted. Executors of kernels cannot branch.
    """

    new: dict[int, RelayExpr] = {}
    for node in post_order(func.body):
        made = node.map_children(lambda child: new[id(child)])
        if type(node) is If and all(_is_sized(e.checked_type_) for e in (node, *node.children())):
            sides = made.true_branch, made.false_branch
            if isinstance(node.checked_type_, TensorType):
                made = where(made.cond, *sides)
            else:
                count = range(len(node.checked_type_.fields))
                made = Tuple([where(made.cond, *(TupleGetItem(side, i) for side in sides)) for i in count])
        new[id(node)] = made
    return func.replace(body=new[id(func.body)])


def _is_sized(t) -> bool:
    """Return whether a type is a tensor with a static shape, or a tuple of such tensors."""
    if isinstance(t, TupleType):
        return all(isinstance(f, TensorType) and _is_sized(f) for f in t.fields)
    return isinstance(t, TensorType) and all(isinstance(d, IntImm) for d in t.shape)


def _with_main(mod: IRModule, main: Function) -> IRModule:
    new = mod.clone()
    new["main"] = main
    return infer_module(new)


def StraightGraph() -> ModulePass:
    """Inline lets and calls of functions in ``main``, and replace branches by ``where``."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        if "main" not in mod or not isinstance(mod["main"], Function):
            return mod
        main = straighten(mod["main"], mod)
        if main is not mod["main"]:
            mod = _with_main(mod, main)
        if any(type(e) is If for e in post_order(main.body)):
            mod = _with_main(mod, _both_branches(mod["main"]))
        return mod

    return ModulePass(run, PassInfo(0, "StraightGraph"))


__all__ = ["StraightGraph", "straighten"]
