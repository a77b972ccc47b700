"""Split parameters of tuple type into one parameter for each field, for executors whose inputs are tensors."""

from __future__ import annotations

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.type import TupleType, Type
from ..checked_type import typed_var
from ..expr import Function, RelayExpr, Tuple, Var
from ..substitute import substitute_vars


def with_flat_params(mod: IRModule) -> IRModule:
    """Replace each parameter of tuple type of ``main`` by parameters for its fields.

    A parameter ``p`` with two fields becomes ``p_0`` and ``p_1``; the fields of a nested tuple become ``p_0_0`` and so
    on. The module is returned unchanged if ``main`` has no such parameter."""
    main = mod["main"]
    if not any(isinstance(p.type_annotation, TupleType) for p in main.params):
        return mod
    params: list[Var] = []
    table: dict[Var, RelayExpr] = {}
    for p in main.params:
        if isinstance(p.type_annotation, TupleType):
            table[p] = _parts(p.name_hint, p.type_annotation, params)
        else:
            params.append(p)
    names = [p.name_hint for p in params]
    twice = next((p for p in names if names.count(p) > 1), None)
    if twice is not None:
        raise TVMError(f"a field of a tuple parameter gets the name of the parameter '{twice}'; rename one of them")
    flat = mod.clone()
    flat["main"] = Function(
        params, substitute_vars(main.body, table), main.ret_type, main.type_params, main.attrs, main.span
    )
    return flat


def _parts(name: str, t: Type, params: list[Var]) -> RelayExpr:
    """Return an expression of a type, built from new parameters that are appended to ``params``."""
    if isinstance(t, TupleType):
        return Tuple([_parts(f"{name}_{i}", field, params) for i, field in enumerate(t.fields)])
    params.append(typed_var(name, t))
    return params[-1]


__all__ = ["with_flat_params"]
