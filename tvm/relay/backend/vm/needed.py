"""Determine whether a module needs the virtual machine or can run on the graph executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ir.adt import Constructor
from ....ir.module import GlobalVar, IRModule
from ....ir.op import Op
from ....ir.prim import Any_
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType
from ....ir.visit import post_order
from ...adt import Match
from ...build_module import bind_params_by_name
from ...expr import Call, Function, If, RefCreate, RefRead, RefWrite, RelayExpr
from ...infer import infer_module
from ...symbolic import has_dynamic_dims
from ...transform.dynamic_to_static import static_function
from ...transform.fold_constant import FoldConstant
from ...transform.straight_graph import KEPT, straighten
from .lines import used

_WORDS = {
    If: "it contains a branch that depends on run-time values",
    Match: "it matches algebraic data types",
    Function: "it uses a function as a value",
    RefCreate: "it uses references",
    RefRead: "it uses references",
    RefWrite: "it uses references",
}


def needs_vm(mod: IRModule | Function, params: Mapping[str, Any] | None = None) -> str | None:
    """Return why a module needs the virtual machine, such as dynamic shapes, control flow or algebraic data types.

    Parameters
    ----------
    mod : IRModule or Function
        The module, in the form that ``relay.build`` and ``relay.vm.compile`` accept.
    params : dict of str to NDArray, optional
        The weights by name, which may determine shapes and branches.

    Returns
    -------
    str or None
        The reason as text; None if the graph executor can run the module.

    Examples
    --------
    >>> x = relay.var("x", shape=(relay.Any(), 3))
    >>> relay.vm.needs_vm(relay.Function([x], relay.nn.relu(x)))
    "input 'x' has the shape (?, 3)"
    >>> x = relay.var("x", shape=(2, 3))
    >>> relay.vm.needs_vm(relay.Function([x], relay.nn.relu(x))) is None
    True
    """
    mod = IRModule.from_expr(mod) if isinstance(mod, Function) else mod
    if "main" not in mod or not isinstance(mod["main"], Function):
        return "it has no function main"
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    mod = infer_module(mod)
    found = _of_inputs(mod["main"])
    if found is not None:
        return found
    main = straighten(mod["main"], mod)
    if _of_body(main.body, mod) is None:
        return None
    # Constants may determine branches and shapes.
    mod = _with_main(mod, main)
    folded = FoldConstant()(_with_main(mod, static_function(mod["main"], mod)))
    return _of_body(infer_module(folded)["main"].body, mod)


def _with_main(mod: IRModule, main: Function) -> IRModule:
    new = mod.clone()
    new["main"] = main
    return infer_module(new)


def _of_inputs(main: Function) -> str | None:
    for p in main.params:
        t = p.checked_type_ or p.type_annotation
        if not isinstance(t, TensorType):
            return f"input '{p.name_hint}' is not a tensor"
        if has_dynamic_dims(t):
            sizes = [
                "?" if isinstance(d, Any_) and d.name == Any_().name else str(getattr(d, "name", d)) for d in t.shape
            ]
            return f"input '{p.name_hint}' has the shape ({', '.join(sizes)})"
    return None


def _of_body(body: RelayExpr, mod: IRModule) -> str | None:
    """Return why the graph executor cannot run an expression; None if it can. Calls of kernels and of functions for
    external compilers are supported."""
    for e in post_order(body, operands=used):
        if isinstance(e, Function) and any(e.attrs.get(k) for k in KEPT):
            continue
        if type(e) in _WORDS:
            return _WORDS[type(e)]
        found = _of_call(e, mod) if type(e) is Call else None
        if found is not None:
            return found
    return None


def _of_call(e: Call, mod: IRModule) -> str | None:
    if isinstance(e.op, GlobalVar):
        name = e.op.name_hint
        if name in mod and not any(mod[name].attrs.get(k) for k in KEPT):
            return f"function '{name}' is recursive"
    elif isinstance(e.op, Constructor):
        return "it constructs algebraic data types"
    elif not isinstance(e.op, (Op, Function)):
        return "it calls a function that is determined at run time"
    t = e.checked_type_
    if not isinstance(t, (TensorType, TupleType)):
        return "it contains a value that is not a tensor"
    if not has_dynamic_dims(t):
        return None
    what = e.op.name if isinstance(e.op, Op) else "a function"
    return f"the output of {what} has a dynamic shape"


__all__ = ["needs_vm"]
