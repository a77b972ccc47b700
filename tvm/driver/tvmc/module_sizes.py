"""Dynamic dimensions of a module's inputs, and modules with fixed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...ir.prim import Any_, IntImm
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from .dynamic_dims import Dims, is_open, settled, shown
from .model import TVMCModel


def sizes_of(t: TensorType) -> Dims:
    """Return the dimensions of a type."""
    unnamed = Any_().name
    return [
        d.value if isinstance(d, IntImm) else None if getattr(d, "name", unnamed) == unnamed else str(d.name)
        for d in t.shape
    ]


def inputs_of(mod: Any, params: Iterable[str]) -> dict[str, Dims]:
    """Return the dimensions of a module's inputs other than weights."""
    known = set(params)
    types = {p.name_hint: p.type_annotation for p in mod["main"].params if p.name_hint not in known}
    return {name: sizes_of(t) for name, t in types.items() if isinstance(t, TensorType)}


def fixed(mod: Any, params: Iterable[str], batch: int = 1) -> tuple[Any, dict[str, list[int]]]:
    """Return a module with a fixed batch instead of the dynamic one, and the inputs that had a dynamic batch. An error
    names other dynamic dimensions."""
    rows = inputs_of(mod, params)
    if not any(is_open(dims) for dims in rows.values()):
        return mod, {}
    shapes, batches = settled(rows, {}, batch)
    return with_shapes(mod, {name: shapes[name] for name in batches}), {name: shapes[name] for name in batches}


def with_shapes(mod: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Return a module whose inputs have these shapes; other shapes are inferred from them."""
    from ...relay.expr import Function, Var, bind
    from ...relay.transform import DynamicToStatic, InferType

    main = mod["main"]
    new = {
        p: Var(p.name_hint, TensorType(tuple(shapes[p.name_hint]), p.type_annotation.dtype))
        for p in main.params
        if p.name_hint in shapes
    }
    body = bind(main, new).body
    made = mod.clone()
    made["main"] = Function([new.get(p, p) for p in main.params], body, None, main.type_params, main.attrs, main.span)
    with PassContext(opt_level=3):
        return DynamicToStatic()(InferType()(made))


def with_batch_of_one(model: TVMCModel, doing: str) -> Any:
    """Return the module of a model with its dynamic batch set to 1, for tuning; print a note about it."""
    mod, batches = fixed(model.mod, model.params)
    for name, shape in batches.items():
        print(
            f"input '{name}' has no fixed batch; {doing} for batch 1 "
            f'(--input-shapes "{name}:[{shown(shape)}]" sets another)'
        )
    return mod


__all__ = ["fixed", "inputs_of", "sizes_of", "with_batch_of_one", "with_shapes"]
