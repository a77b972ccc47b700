"""Symbolic shapes: determine which dynamic dimensions of a function are equal or computed from others.

``Any`` is an anonymous dynamic dimension. In the functions of this module, each anonymous dimension of a parameter gets
a variable, and type relations compute output dimensions as expressions over these variables. Dimensions that an
operator assumes to be equal (``topi.assumptions``) are merged into one variable. The remaining assumptions are checked
at run time.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ..error import TVMError
from ..ir.module import GlobalVar, IRModule
from ..ir.prim import Any_, IntImm, PrimExpr, SizeVar, convert
from ..ir.prim import Var as PrimVar
from ..ir.structural import structural_key
from ..ir.subst import substitute, variables
from ..ir.tensor_type import TensorType
from ..ir.type import TupleType, Type
from ..ir.visit import post_order
from ..topi.assumptions import Assumption, noted
from ..topi.utils import simplify
from .adt import Match
from .expr import Function, If, Var
from .infer import infer_function
from .substitute import substitute_vars


class Symbolic(NamedTuple):
    """A function whose parameters have size variables, and the assumptions on their values.

    ``reasons`` maps (index of a tensor among the parameters, dimension) to the reason why this dimension was replaced
    by another variable or a static size.
    """

    function: Function
    assumptions: tuple[Assumption, ...]
    reasons: dict[tuple[int, int], str]


def flatten_type(t: Type) -> list[TensorType]:
    """Return the tensor types in a type, with tuples flattened."""
    if isinstance(t, TensorType):
        return [t]
    if isinstance(t, TupleType):
        return [x for f in t.fields for x in flatten_type(f)]
    raise TVMError(f"inputs and outputs of a kernel must be tensors, got {t}")


def has_dynamic_dims(t: Type) -> bool:
    """Return whether a type has a dynamic dimension."""
    if isinstance(t, TupleType):
        return any(has_dynamic_dims(f) for f in t.fields)
    return isinstance(t, TensorType) and any(not isinstance(d, IntImm) for d in t.shape)


def is_symbolic(function: Function) -> bool:
    """Return whether a parameter or value of a function has a dynamic dimension."""
    if any(has_dynamic_dims(_type(p)) for p in function.params):
        return True
    found = (getattr(node, "checked_type_", None) for node in post_order(function.body))
    return any(has_dynamic_dims(t) for t in found if isinstance(t, (TensorType, TupleType)))


def primitive_form(function: Function) -> Symbolic:
    """Return a fused function with its own size variables n0, n1, ... in the order of its parameters."""
    sizes = _Sizes()
    types = [_type(p) for p in function.params]
    for tensor in (x for t in types for x in flatten_type(t)):
        for d in tensor.shape:
            if isinstance(d, PrimVar):
                sizes.variable(d)
    return _learned(function, [_mapped(t, sizes.own) for t in types], None)


def named_sizes(function: Function, mod: IRModule | None = None, typed: bool = False) -> Function:
    """Return a function whose parameters have variables instead of anonymous dimensions.

    In a function with branches, operators may not run, so their assumptions are not used. ``typed``: whether the
    functions of the module are typed.
    """
    sizes = _Sizes()
    types = [None if (t := _type(p)) is None else _mapped(t, sizes.named) for p in function.params]
    # The return type of a function that may be recursive is its annotation.
    calls = any(isinstance(n, GlobalVar) for n in post_order(function.body))
    result = function.ret_type if calls else None
    if not sizes.count:
        return function
    if any(isinstance(n, (If, Match, Function)) for n in post_order(function.body)):
        return infer_function(with_types(function, types, result), mod, typed)
    return _learned(function, types, result, mod, typed).function


def sizes_by_name(function: Function) -> Function:
    """Return a function whose parameters have one variable for all dynamic dimensions with the same name, as in ONNX
    models."""
    table: dict[str, SizeVar] = {}

    def size(d: PrimExpr) -> PrimExpr:
        if not isinstance(d, Any_) or d.name == Any_().name:
            return d
        return table.setdefault(d.name, SizeVar(d.name, "int64"))

    types = [None if (t := _type(p)) is None else _mapped(t, size) for p in function.params]
    return with_types(function, types, None) if table else function


class _Sizes:
    """Creates new variables: one for each old variable, anonymous dimension or distinct expression."""

    def __init__(self):
        self.count = 0
        self.table: dict[PrimVar, SizeVar] = {}
        self.computed: dict[str, SizeVar] = {}

    def fresh(self) -> SizeVar:
        self.count += 1
        return SizeVar(f"n{self.count - 1}", "int64")

    def variable(self, d: PrimVar) -> SizeVar:
        if d not in self.table:
            self.table[d] = self.fresh()
        return self.table[d]

    def own(self, d: PrimExpr) -> PrimExpr:
        if isinstance(d, IntImm):
            return d
        if isinstance(d, Any_):
            return self.fresh()
        if all(v in self.table for v in variables(d)):
            return substitute(d, self.table)
        key = structural_key(simplify(d))
        if key not in self.computed:
            self.computed[key] = self.fresh()
        return self.computed[key]

    def named(self, d: PrimExpr) -> PrimExpr:
        if isinstance(d, Any_):
            return self.fresh()
        for v in variables(d):
            if v.dtype != "int64" and v not in self.table:
                self.count += 1
                self.table[v] = SizeVar(v.name, "int64")
        return substitute(d, self.table)


def _type(p: Var) -> Type:
    return p.checked_type_ or p.type_annotation


def _mapped(t: Type, size) -> Type:
    if isinstance(t, TupleType):
        return TupleType(tuple(_mapped(f, size) for f in t.fields))
    return TensorType([size(d) for d in t.shape], t.dtype) if isinstance(t, TensorType) else t


def _learned(
    function: Function, types: list, result: Type | None, mod: IRModule | None = None, typed: bool = False
) -> Symbolic:
    """Infer the types of a function with given parameter types, and merge dimensions that are assumed to be equal."""
    first, why = types, {}
    while True:
        known = {v for t in types if t is not None for x in _sizes(t) for v in variables(x)}
        with noted() as found:
            made = infer_function(with_types(function, types, result), mod, typed)
        mine = [a for a in found if all(v in known for v in variables(a.condition))]
        same = next(((a, pair) for a in mine if a.equal is not None for pair in _replaced(*a.equal)), None)
        if same is None:
            return Symbolic(made, tuple({str(a.condition) + a.what: a for a in mine}.values()), _places(first, why))
        table = dict([same[1]])
        why.update(dict.fromkeys(table, same[0].what))
        types = [None if t is None else _mapped(t, partial(_replace, table=table)) for t in types]


def _replace(d: PrimExpr, table: dict[PrimVar, PrimExpr]) -> PrimExpr:
    new = simplify(substitute(d, table))
    return convert(new.value) if isinstance(new, IntImm) else new


def _places(types: list, why: dict[PrimVar, str]) -> dict[tuple[int, int], str]:
    if not why:
        return {}
    found = [x for t in types if t is not None for x in flatten_type(t)]
    return {(k, i): why[d] for k, t in enumerate(found) for i, d in enumerate(t.shape) if d in why}


def _replaced(a: PrimExpr, b: PrimExpr) -> list[tuple[PrimVar, PrimExpr]]:
    """Return the variable to replace and its replacement: the newer variable, or the variable equated with a
    constant."""
    if isinstance(a, PrimVar) and isinstance(b, PrimVar):
        return [(b, a)] if (len(a.name), a.name) <= (len(b.name), b.name) else [(a, b)]
    pairs = ((x, y) for x, y in ((a, b), (b, a)) if isinstance(x, PrimVar) and isinstance(y, IntImm))
    return [(x, y) for x, y in pairs if y.value >= 0][:1]


def _sizes(t: Type) -> list[PrimExpr]:
    if isinstance(t, TupleType):
        return [d for f in t.fields for d in _sizes(f)]
    return list(t.shape) if isinstance(t, TensorType) else []


def with_types(function: Function, types: list, result: Type | None) -> Function:
    """Return an untyped function with other parameter and return types."""
    params = [p if t is None else Var(p.name_hint, t, p.span) for p, t in zip(function.params, types)]
    body = substitute_vars(function.body, dict(zip(function.params, params)))
    return Function(params, body, result, function.type_params, function.attrs, function.span)


__all__ = [
    "Symbolic",
    "has_dynamic_dims",
    "is_symbolic",
    "named_sizes",
    "primitive_form",
    "flatten_type",
    "sizes_by_name",
    "with_types",
]
