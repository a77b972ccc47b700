"""Rewrite kernels to the form that a search schedules: operators with constant weights use the algorithm of the back
end."""

from __future__ import annotations

from typing import Any

from ...ir.visit import post_order
from ...target import Target
from ..expr import Call, Constant, Function, Var
from ..infer import infer_function
from .backend_passes import SearchedForm, passes_of
from .function_pass import rewrite_typed


def searched_form(call: Call, target: Target) -> Call:
    """Return the call of a kernel with the algorithms that a search schedules; the unchanged call if there are none.

    Weights stay arguments, so that a schedule can choose their layout.
    """
    form = passes_of(target).searched
    return call if form is None else _by(form, call)


def _by(form: SearchedForm, call: Call) -> Call:
    function: Function = call.op
    known = dict(zip(function.params, call.args))
    added: dict[Var, Constant] = {}

    def post(node: Any) -> Any:
        operand = node.args[1] if type(node) is Call and len(node.args) == 2 else None
        weights = known.get(operand) if isinstance(operand, Var) else None
        made = form(node, weights) if isinstance(weights, Constant) else None
        if made is None:
            return None
        constant, operator = made
        param = Var(operand.name_hint, constant.checked_type_)
        added[param] = constant
        return operator(node.args[0], param)

    body = rewrite_typed(function.body, post)
    if not added:
        return call
    used = {node for node in post_order(body) if isinstance(node, Var)}
    kept = {param: argument for param, argument in known.items() if param in used}
    whole = infer_function(function.replace(params=(*kept, *added), body=body, ret_type=None))
    return Call(whole, (*kept.values(), *added.values()), None, (), call.span)


__all__ = ["searched_form"]
