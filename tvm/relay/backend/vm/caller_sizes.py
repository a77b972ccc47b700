"""Sizes of parameters that all callers of a function agree on.

A function of a module sees unknown sizes (``relay.symbolic.named_sizes``), although its callers may know that some are
equal, or numbers: the state of a loop and the sequence it runs over have one batch. Where every call of a function is
known, its parameters share variables as the arguments of all its calls do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from ....ir.module import GlobalVar, IRModule
from ....ir.prim import Any_, IntImm, PrimExpr, SizeVar
from ....ir.subst import variables
from ....ir.tensor_type import TensorType
from ....ir.type import Type
from ....ir.visit import post_order
from ....topi.utils import simplify
from ...expr import Call, Function, Var
from ...infer import infer_function
from ...substitute import substitute_vars
from ...symbolic import named_sizes

# An unknown size of a parameter: the number of the parameter, and the dimension.
Place = tuple[int, int]
# What is known of each: a number (an int), or a class of equal sizes (a tuple of its number).
Known = dict[Place, "int | tuple[int]"]


def with_sizes_of_callers(mod: IRModule, entries: list[str]) -> dict[str, Function]:
    """Functions whose parameters have one variable for sizes that are equal in all their calls, by name; others are not
    among them. In the module they keep their types, which are those of any call.

    What is known of a function is first what its first call says, and less with every call that says less; calls in the
    function itself are looked at with what is known so far, until nothing changes.
    """
    functions = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, Function)}
    called = _only_called(functions) - set(entries)
    found: dict[str, Known] = {}
    waiting = [name for name in functions if name not in called] if called else []
    while waiting:
        name = waiting.pop()
        function = functions[name]
        named = named_sizes(_with_known(function, found.get(name, {}), mod), mod, typed=True)
        for call in post_order(named.body):
            callee = call.op.name_hint if isinstance(call, Call) and isinstance(call.op, GlobalVar) else ""
            if callee in called and _less_known(functions[callee], call, found, callee) and callee not in waiting:
                waiting.append(callee)
    return {name: _with_known(functions[name], known, mod) for name, known in found.items()}


def _only_called(functions: dict[str, Function]) -> set[str]:
    """Functions of tensors with unknown sizes that are no values: all their calls are written in the module."""
    values: set[str] = set()
    for function in functions.values():
        for node in post_order(function):
            children = node.args if isinstance(node, Call) else node.children()
            values.update(c.name_hint for c in children if isinstance(c, GlobalVar))
    return {name for name, f in functions.items()
            if name not in values and _places(f) and not f.type_params and not f.attrs.get("Closure")}  # fmt: skip


def _type(p: Var) -> Type:
    return p.checked_type_ or p.type_annotation


def _places(function: Function) -> list[Place]:
    types = [_type(p) for p in function.params]
    return [(i, d) for i, t in enumerate(types) if isinstance(t, TensorType)
            for d, size in enumerate(t.shape) if isinstance(size, Any_)]  # fmt: skip


def _less_known(function: Function, call: Call, found: dict[str, Known], name: str) -> bool:
    """Take what a call says of the sizes into account; whether less is known than before."""
    places, before = _places(function), found.get(name)
    said: dict[Place, Hashable] = {}
    for place in places:
        t = call.args[place[0]].checked_type_
        said[place] = _said(t.shape[place[1]], place) if isinstance(t, TensorType) else place
    numbers: dict[Hashable, tuple[int]] = {}
    known: Known = {}
    for place in places:
        old, new = before[place] if before is not None else said[place], said[place]
        if isinstance(old, int) and old == new:
            known[place] = old
        else:
            known[place] = numbers.setdefault((old, new), (len(numbers),))
    found[name] = known
    return known != before


def _said(size: PrimExpr, place: Place) -> Hashable:
    """What an argument says of a size: a number, or what is the same for equal sizes. Names of variables may meet."""
    size = simplify(size)
    if isinstance(size, IntImm):
        return int(size.value)
    return place if isinstance(size, Any_) else (str(size), *variables(size))


def _with_known(function: Function, known: Known, mod: IRModule) -> Function:
    """The function over parameters with these sizes. A class of one size alone stays unknown."""
    if not known:
        return function
    members = Counter(known.values())
    sizes = {c: SizeVar(f"s{c[0]}", "int64") for c in members if isinstance(c, tuple) and members[c] > 1}
    params: list[Var] = []
    for i, p in enumerate(function.params):
        t = _type(p)
        if isinstance(t, TensorType):
            shape = [_size(known.get((i, d)), old, sizes) for d, old in enumerate(t.shape)]
            p = Var(p.name_hint, TensorType(shape, t.dtype), p.span)
        params.append(p)
    body = substitute_vars(function.body, dict(zip(function.params, params)))
    made = Function(params, body, function.ret_type, function.type_params, function.attrs, function.span)
    return infer_function(made, mod, typed=True)


def _size(known: int | tuple[int] | None, old: PrimExpr, sizes: dict[tuple[int], SizeVar]) -> PrimExpr:
    if known is None:
        return old
    return IntImm("int64", known) if isinstance(known, int) else sizes.get(known, old)


__all__ = ["with_sizes_of_callers"]
