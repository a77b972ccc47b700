"""Sizes of inputs that a model leaves open. Those of one name are one size, wherever they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....error import TVMError

_NO_NAMES = ("none", "unknown", "unk", "dynamic", "any")


def sizes_of(value, zero_is_open: bool = False) -> list[int | str | None]:
    """The sizes of a declared value: a number, the name of an open one, or None for an open one without a name."""
    least = 1 if zero_is_open else 0
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value >= least else _name(d.dim_param)
        for d in value.type.tensor_type.shape.dim
    ]


def _name(text: str) -> str | None:
    """Exporters write some words for any open size; only the others say that two sizes are one."""
    return text if any(c.isalpha() for c in text) and text.lower() not in _NO_NAMES else None


def named_sizes(values: Sequence, shapes: Mapping) -> dict[str, int]:
    """The open sizes that given shapes answer, by name. Two answers for one name are an error."""
    found: dict[str, tuple[int, str]] = {}
    for value in values:
        if value.name not in shapes:
            continue
        for name, size in zip(sizes_of(value), shapes[value.name]):
            if not isinstance(name, str) or not isinstance(size, int):
                continue
            first, where = found.setdefault(name, (size, value.name))
            if first != size:
                raise TVMError(
                    f"the dynamic dimension '{name}' is {first} in the shape of input '{where}' and {size} in that of "
                    f"'{value.name}'; it is one size"
                )
    return {name: size for name, (size, _) in found.items()}


__all__ = ["named_sizes", "sizes_of"]
