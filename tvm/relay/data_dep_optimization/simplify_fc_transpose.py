"""Replace weights that a graph transposes for ``nn.dense`` by parameters that are already transposed."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from ...ir.visit import post_order
from ...runtime import ndarray
from ..expr import Call, Function, Var, var
from ..infer import infer_type
from ..op.nn import dense
from .utils import with_parameters


def _transposed(node: Any) -> Var | None:
    """Return the variable that a call of ``nn.dense`` reads, transposed, as its weights, or None."""
    if type(node) is not Call or getattr(node.op, "name", "") != "nn.dense":
        return None
    weight = node.args[1]
    if type(weight) is not Call or getattr(weight.op, "name", "") != "transpose" or type(weight.args[0]) is not Var:
        return None
    return weight.args[0] if tuple(weight.attrs.axes or (1, 0)) in ((1, 0), (-1, 0), (1, -2), (-1, -2)) else None


def convert(func: Function, params: MutableMapping[str, Any]) -> tuple[Function, MutableMapping[str, Any]]:
    """Replace transposed weights of ``nn.dense`` by parameters named ``name.T``, which are already transposed.

    Parameters
    ----------
    func : Function
        The function.
    params : dict of str to NDArray
        The parameters of the function, which are modified in place.

    Returns
    -------
    tuple
        The function and the parameters.
    """
    found = [w for node in post_order(func) if (w := _transposed(node)) is not None and w.name_hint in params]
    old, made = dict(params), {}
    for weight in dict.fromkeys(found):
        value = params.pop(weight.name_hint).numpy().T.copy()
        made[weight] = [var(f"{weight.name_hint}.T", shape=value.shape, dtype=str(value.dtype))]
        params[f"{weight.name_hint}.T"] = ndarray.array(value)

    def rewrite(call, args):
        weight = _transposed(call)
        return dense(args[0], made[weight][0], **call.attrs) if weight in made else None

    return infer_type(with_parameters(func, made, old, params, rewrite)), params


__all__ = ["convert"]
