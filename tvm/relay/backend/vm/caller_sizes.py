"""Propagate dimensions of arguments that are equal in all calls of a function to its parameters.

The dynamic dimensions of a function are independent variables (``relay.symbolic.named_sizes``), although its callers
may pass equal or static dimensions: the state of a loop and its input sequence have the same batch size. If all calls
of a function are known, dimensions of its parameters that are equal in all calls share a variable.
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

# A dynamic dimension of a parameter: the index of the parameter, and the axis.
Place = tuple[int, int]
# The known value of each dimension: a static size (int), or a class of equal dimensions (a tuple with its index).
Known = dict[Place, "int | tuple[int]"]


def with_sizes_of_callers(mod: IRModule, entries: list[str]) -> dict[str, Function]:
    """Return the functions whose parameters get shared variables for dimensions that are equal in all their calls, by
    name.

    Functions in the module keep their original types.

    The analysis starts with the dimensions in the first call of a function and weakens them with each further call.
    Recursive calls are analyzed with the current information until nothing changes.
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
    """Return the functions with dynamic dimensions that are never used as values, so that all their calls are in the
    module."""
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
    """Merge the dimensions of a call into the known dimensions of a function; return whether less is known than
    before."""
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
    """Return a static size, or a key that is equal for equal dimensions. The key contains the variables, as names may
    collide."""
    size = simplify(size)
    if isinstance(size, IntImm):
        return int(size.value)
    return place if isinstance(size, Any_) else (str(size), *variables(size))


def _with_known(function: Function, known: Known, mod: IRModule) -> Function:
    """Return the function with the known dimensions in its parameter types. A class with one member stays anonymous."""
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
