"""Replace parameters of a function and rewrite the calls that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from ..expr import Call, Function, RelayExpr, Var
from ..expr_functor import ExprMutator
from ..substitute import free_vars


class _Calls(ExprMutator):
    def __init__(self, rewrite: Callable[[Call, list[RelayExpr]], RelayExpr | None]):
        super().__init__()
        self.rewrite = rewrite

    def visit_call(self, call):
        new = self.rewrite(call, [self.visit(a) for a in call.args])
        return super().visit_call(call) if new is None else new


def with_parameters(
    func: Function,
    made: Mapping[Var, list[Var]],
    old: Mapping[str, Any],
    params: MutableMapping[str, Any],
    rewrite: Callable[[Call, list[RelayExpr]], RelayExpr | None],
) -> Function:
    """Rewrite the calls of ``func``, and replace parameters by the new parameters in ``made``.

    A parameter that is still read is kept; its value is taken from ``old``.
    """
    body = _Calls(rewrite).visit(func.body)
    read = set(free_vars(body))
    inputs = []
    for param in func.params:
        if param not in made or param in read:
            inputs.append(param)
        if param in made and param in read:
            params[param.name_hint] = old[param.name_hint]
        inputs.extend(made.get(param, ()))
    return Function(inputs, body, func.ret_type, func.type_params, func.attrs, func.span)


__all__ = ["with_parameters"]
