"""Inline function calls, and lift inner functions to the module."""

from __future__ import annotations

import itertools

from ...ir.adt import Constructor
from ...ir.module import GlobalVar, IRModule
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.type import TypeCall, TypeVar
from ...ir.visit import post_order, rewrite
from ..call_graph import CallGraph
from ..expr import Call, Function, Let, RelayExpr, Var
from ..infer import infer_module
from ..infer_adt import substitute_types
from ..substitute import free_vars, substitute_vars
from .function_pass import is_typed, typed_module


def fresh(function: Function) -> Function:
    """Return a copy of a function with new variables, so that its body can occur several times."""
    table: dict[Var, Var] = {}
    for node in post_order(function):
        for v in node.params if type(node) is Function else [node.var] if type(node) is Let else []:
            table[v] = Var(v.name_hint, v.type_annotation)
    return substitute_vars(function, table)


def inline_function(func: Function, mod: IRModule, chosen: set[str]) -> Function:
    """Inline calls of the ``chosen`` functions recursively.

    Functions with the attribute ``Primitive`` or ``Compiler`` are not expanded; their call then contains the function
    itself."""

    def taken(e) -> bool:
        return type(e) is GlobalVar and e.name_hint in chosen

    def literal(e):
        """Replace a chosen function that is used as a value by a copy of the function."""
        return rewrite(fresh(mod[e]), post) if taken(e) else e

    def post(node):
        if type(node) is not Call:
            return node.map_children(literal)
        args = tuple(literal(a) for a in node.args)
        if not taken(node.op):
            return node.replace(args=args) if any(a is not b for a, b in zip(args, node.args)) else None
        callee = fresh(mod[node.op])
        if callee.attrs.get("Primitive") or "Compiler" in callee.attrs:
            return Call(callee, args, node.attrs, node.type_args, node.span)
        return substitute_vars(rewrite(callee.body, post), dict(zip(callee.params, args)))

    return rewrite(func, post)


def _without_uncalled(mod: IRModule, names: set[str]) -> IRModule:
    """Remove the functions with these names that no function calls."""
    calls = CallGraph(mod)
    return mod.map_functions(lambda var, f: f if var.name_hint not in names or calls.ref_count(var) else None)


def Inline() -> ModulePass:
    """Inline the functions with the attribute ``Inline``, and remove those that are no longer called.

    A function that was never called is an entry point of the module and is kept. An untyped module stays untyped."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        marked = {v.name_hint for v, f in mod.functions.items() if isinstance(f, Function) and f.attrs.get("Inline")}
        calls = CallGraph(mod)
        chosen = marked - calls.recursive
        new = mod.map_functions(lambda var, f: inline_function(f, mod, chosen) if isinstance(f, Function) else f)
        new = _without_uncalled(new, {name for name in chosen if calls.ref_count(name)})
        return infer_module(new) if is_typed(mod) else new

    return ModulePass(run, PassInfo(1, "InlineGlobals", ["InferType"]))


def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> ModulePass:
    """Replace constructors and global functions that are used as values by functions that call them.

    Parameters
    ----------
    expand_constructor : bool, optional
        Whether constructors are expanded.
    expand_global_var : bool, optional
        Whether global functions are expanded.

    Returns
    -------
    ModulePass
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = typed_module(mod)

        def wrap(node: RelayExpr, types, result, variables) -> Function:
            params = [Var(f"eta_expand_param_{i}", t) for i, t in enumerate(types)]
            return Function(params, Call(node, params), result, variables)

        def expand(f: Function) -> Function:
            def operand(e):
                if expand_global_var and type(e) is GlobalVar and isinstance(mod[e], Function):
                    callee = mod[e]
                    return wrap(e, [p.type_annotation for p in callee.params], callee.ret_type, callee.type_params)
                if expand_constructor and isinstance(e, Constructor):
                    own = {v: TypeVar(v.name_hint, v.kind) for v in mod.type_definitions[e.belong_to].type_vars}
                    types = [substitute_types(t, own) for t in e.inputs]
                    return wrap(e, types, TypeCall(e.belong_to, tuple(own.values())), tuple(own.values()))
                return e

            def post(node):
                if type(node) is not Call:
                    return node.map_children(operand)
                args = tuple(operand(a) for a in node.args)
                return node.replace(args=args) if any(a is not b for a, b in zip(args, node.args)) else None

            return rewrite(f, post)

        return infer_module(mod.map_functions(lambda var, f: expand(f) if isinstance(f, Function) else f))

    return ModulePass(run, PassInfo(1, "EtaExpand", ["InferType"]))


class _Lifted:
    """Lifts inner functions to the module. A function with free variables becomes a function that takes them and
    returns the inner function. A recursive local function becomes a recursive global function."""

    def __init__(self, taken: set[str]) -> None:
        self.names = (name for i in itertools.count() if (name := f"lifted_name{i}") not in taken)
        self.made: dict[GlobalVar, Function] = {}
        self.values: dict[int, tuple[Function, RelayExpr]] = {}

    def lift(self, function: Function, own: Var | None = None) -> RelayExpr:
        """Return the expression that replaces a function; a function that occurs several times is lifted once."""
        key = id(function)
        if key not in self.values:
            self.values[key] = (function, self.value(function, own))
        return self.values[key][1]

    def value(self, function: Function, own: Var | None) -> RelayExpr:
        needs = [v for v in free_vars(function) if v is not own]
        name = GlobalVar(next(self.names))
        value = Call(name, tuple(needs)) if needs else name
        if own is not None:
            function = substitute_vars(function, {own: value})
        # The type of a recursive function is taken from its let variable.
        kind = None if own is None else getattr(own, "checked_type_", None) or own.type_annotation
        whole = Function(needs, function, kind) if needs else function
        self.made[name] = fresh(whole).with_attr("Closure", 1)
        return value

    def post(self, node: RelayExpr) -> RelayExpr | None:
        if type(node) is Let and _is_liftable(node.value):
            return node.replace(value=self.lift(node.value, node.var), body=self.operand(node.body))
        return node.map_children(self.operand)

    def operand(self, e: RelayExpr) -> RelayExpr:
        return self.lift(e) if _is_liftable(e) else e

    def inside(self, body: RelayExpr) -> RelayExpr:
        """Lift all inner functions of a function body. Kernels (primitive functions) stay."""

        def kernel(e):
            return e if type(e) is Function and not _is_liftable(e) else None

        return self.operand(rewrite(body, self.post, kernel))

    def function(self, f: Function) -> Function:
        """Lift the inner functions of a global function; of a function lifted before, those of the function that it
        returns."""
        if f.attrs.get("Closure") and type(f.body) is Function:
            body = f.body.replace(body=self.inside(f.body.body))
            return f if body.body is f.body.body else f.replace(body=body)
        body = self.inside(f.body)
        return f if body is f.body else Function(f.params, body, f.ret_type, f.type_params, f.attrs, f.span)


def _is_liftable(e: RelayExpr) -> bool:
    return type(e) is Function and not e.attrs.get("Primitive")


def LambdaLift() -> ModulePass:
    """Lift inner functions to functions of the module."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = typed_module(mod)
        lifted = _Lifted({v.name_hint for v in mod.functions})
        new = mod.clone()
        for var, f in mod.functions.items():
            if isinstance(f, Function) and not f.attrs.get("Primitive"):
                new[var] = lifted.function(f)
        for var, f in lifted.made.items():
            new[var] = f
        return infer_module(new) if lifted.made else mod

    return ModulePass(run, PassInfo(1, "LambdaLift", ["InferType"]))


def inline_primitives(func: Function, mod: IRModule) -> Function:
    """Replace calls of primitive functions by name with calls of the functions themselves."""
    named: dict[Var, Function] = {}

    def kernel(op) -> Function | None:
        found = mod[op] if type(op) is GlobalVar and op in mod.functions else named.get(op) if type(op) is Var else None
        return found if isinstance(found, Function) and found.attrs.get("Primitive") else None

    for node in post_order(func):
        if type(node) is Let and type(node.value) is Function and node.value.attrs.get("Primitive"):
            named[node.var] = node.value

    def post(node):
        if type(node) is Let and node.var in named:
            return node.body
        found = kernel(node.op) if type(node) is Call else None
        return None if found is None else Call(found, node.args, node.attrs, node.type_args, node.span)

    return rewrite(func, post)


def InlinePrimitives() -> ModulePass:
    """Replace calls of primitive functions by name with direct calls, and remove uncalled primitive functions from the
    module."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        new = mod.map_functions(lambda var, f: inline_primitives(f, mod) if isinstance(f, Function) else f)
        functions = {v.name_hint: f for v, f in new.functions.items() if isinstance(f, Function)}
        kernels = {name for name, f in functions.items() if f.attrs.get("Primitive")}
        return infer_module(_without_uncalled(new, kernels - {"main"}))

    return ModulePass(run, PassInfo(1, "InlinePrimitives", ["InferType"]))


__all__ = ["EtaExpand", "Inline", "InlinePrimitives", "LambdaLift", "fresh"]
