"""Parameters of tuple type as one parameter for each field: executors that set inputs by name take tensors."""

from __future__ import annotations

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.type import TupleType, Type
from ..checked_type import typed_var
from ..expr import Function, RelayExpr, Tuple, Var
from ..substitute import substitute_vars


def with_flat_params(mod: IRModule) -> IRModule:
    """The module, ``main`` without parameters of tuple type: ``p`` of two fields becomes ``p_0`` and ``p_1``, and a
    field that is a tuple itself ``p_0_0`` and so on. The module itself where ``main`` has no such parameter."""
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
        raise TVMError(f"a field of a parameter of tuple type is named like the parameter '{twice}'; rename one")
    flat = mod.clone()
    flat["main"] = Function(
        params, substitute_vars(main.body, table), main.ret_type, main.type_params, main.attrs, main.span
    )
    return flat


def _parts(name: str, t: Type, params: list[Var]) -> RelayExpr:
    """The value of a type made of new parameters."""
    if isinstance(t, TupleType):
        return Tuple([_parts(f"{name}_{i}", field, params) for i, field in enumerate(t.fields)])
    params.append(typed_var(name, t))
    return params[-1]


__all__ = ["with_flat_params"]
