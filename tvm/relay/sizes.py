"""Checks of size attributes and output shapes, which apply to all operators."""

from __future__ import annotations

from typing import Any

from ..ir.prim import Any_, IntImm, Var
from ..ir.tensor_type import TensorType
from ..ir.type import TupleType, Type
from ..topi.assumptions import are_noted, assume

# The minimum value of each attribute, or of each element of it. Smaller values define no valid window.
_LEAST = {
    **dict.fromkeys(
        ("strides", "stride", "stride1", "stride2", "feature_stride", "dilation", "dilations", "kernel_size",
         "pool_size", "window_shape", "output_size", "pooled_size", "crop_size", "size", "block_size", "block_shape",
         "channels", "groups", "deformable_groups", "num_groups"),
        1,
    ),
    **dict.fromkeys(("padding", "paddings", "output_padding", "crops", "max_displacement"), 0),
}  # fmt: skip

# In these operators, strides are the steps of a slice and may be negative.
_SLICES = frozenset({"strided_slice", "strided_set", "dyn.strided_slice"})


def check_sizes(operator: str, attrs: Any) -> None:
    """Raise a ValueError if an attribute of a call is below its minimum."""
    entries = getattr(attrs, "entries", None)
    if not entries or operator in _SLICES:
        return
    for name in entries.keys() & _LEAST.keys():
        least = _LEAST[name]
        if any(number < least for number in _numbers(entries[name])):
            limit = "at least 1" if least else "not negative"
            raise ValueError(f"{name} must be {limit}, got {_shown(entries[name])}")
    for name in entries.keys() & {"scale_d", "scale_h", "scale_w"}:
        if not entries[name] > 0:
            raise ValueError(f"{name} must be greater than 0, got {entries[name]}")


def check_shape(t: Type) -> None:
    """Raise a ValueError if a type has a negative size; dynamic sizes are assumed to be non-negative."""
    if isinstance(t, TupleType):
        for field in t.fields:
            check_shape(field)
    elif isinstance(t, TensorType) and any(d.__class__ is IntImm and d.value < 0 for d in t.shape):
        raise ValueError(f"the output would have the invalid shape {tuple(t.shape)}")
    elif isinstance(t, TensorType) and are_noted():
        for d in t.shape:
            if not isinstance(d, (IntImm, Any_, Var)):
                assume(d >= 0, "output sizes must not be negative")


def _numbers(value: Any) -> list[int]:
    if isinstance(value, (tuple, list)):
        return [number for part in value for number in _numbers(part)]
    value = value.value if isinstance(value, IntImm) else value
    return [value] if isinstance(value, int) else []


def _shown(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_shown(part) for part in value)
    return value.value if isinstance(value, IntImm) else value
