"""Lift local functions that are only called, never used as values, to functions of the module without closures.

Loops inside a function, which some importers generate, then have the form of recursive global functions: all their
calls are visible, and captured variables become invariant parameters.
"""

from __future__ import annotations

from collections import Counter

from ...ir.module import GlobalVar, IRModule
from ...ir.type import FuncType
from ...ir.visit import post_order, rewrite
from ..expr import Call, Function, Let, RelayExpr, Var
from ..infer import infer_module
from ..scopes import operands
from ..substitute import free_vars, substitute_vars
from .inline import fresh


def lift_called(mod: IRModule) -> IRModule:
    """Lift the local functions of a typed module that are only called, and return a typed module."""
    new = mod.clone()
    waiting = [v for v, f in mod.functions.items() if isinstance(f, Function) and not f.attrs.get("Primitive")]
    is_changed = False
    while waiting:
        var = waiting.pop()
        function = rewrite(new[var], _called_inside)
        while (let := _only_called(function)) is not None:
            lifted = GlobalVar(_name(let.var.name_hint, new))
            function, new[lifted] = _lift(function, let, lifted)
            waiting.append(lifted)
            new[var], is_changed = function, True
    return infer_module(new) if is_changed else mod


def _called_inside(e: RelayExpr) -> RelayExpr | None:
    """Move let bindings around a callee out of the call, so that the callee is a variable."""
    if type(e) is not Call or type(e.op) is not Let:
        return None
    inner = e.replace(op=e.op.body)
    return e.op.replace(body=_called_inside(inner) or inner)


def _only_called(function: Function) -> Let | None:
    """Return the let of a local function that is only called and captures no other such function; None if there is
    none."""
    nodes = list(post_order(function))
    lets = [n for n in nodes if type(n) is Let]
    found = [n for n in lets if type(n.value) is Function and not n.value.attrs and not n.value.type_params]
    if not found:
        return None
    times = Counter(n.var for n in lets)
    values = {v for n in nodes for v in _values(n) if type(v) is Var}
    names = {n.var for n in found if n.var not in values and times[n.var] == 1 and _type(n.var) is not None}
    return next((n for n in found if n.var in names and not names & (set(free_vars(n.value)) - {n.var})), None)


def _values(e: RelayExpr) -> list:
    """Return the subexpressions that an expression uses, except the callee of a call."""
    return list(e.args) if type(e) is Call else [e.value, e.body] if type(e) is Let else operands(e)


def _type(v: Var):
    return v.checked_type_ or v.type_annotation


def _lift(function: Function, let: Let, lifted: GlobalVar) -> tuple[Function, Function]:
    """Return a function without one of its local functions, and the lifted local function. The captured variables
    become the first parameters of the lifted function."""
    inner, kind = let.value, _type(let.var)
    around = [v for v in free_vars(inner) if v is not let.var]

    def post(e: RelayExpr) -> RelayExpr | None:
        if type(e) is Let and e.var is let.var:
            return e.body
        is_call = type(e) is Call and e.op is let.var
        return Call(lifted, (*around, *e.args), e.attrs, e.type_args, e.span) if is_call else None

    params = [Var(v.name_hint, _type(v)) for v in around]
    body = substitute_vars(rewrite(inner.body, post), dict(zip(around, params)))
    result = inner.ret_type or (kind.ret_type if isinstance(kind, FuncType) else None)
    return rewrite(function, post), fresh(Function([*params, *inner.params], body, result, span=inner.span))


def _name(wanted: str, mod: IRModule) -> str:
    while wanted in mod:
        wanted += "_"
    return wanted


__all__ = ["lift_called"]
