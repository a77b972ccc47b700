"""Dynamic dimensions of model inputs. Dimensions with the same name are equal wherever they occur."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....error import TVMError

_NO_NAMES = ("none", "unknown", "unk", "dynamic", "any")


def sizes_of(value, zero_is_open: bool = False) -> list[int | str | None]:
    """Return the dimensions of a declared value: an integer, the name of a dynamic one, or None for a dynamic one
    without name.
    """
    least = 1 if zero_is_open else 0
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value >= least else _name(d.dim_param)
        for d in value.type.tensor_type.shape.dim
    ]


def _name(text: str) -> str | None:
    """Return the name of a dynamic dimension, or None for placeholders that exporters write for unrelated
    dimensions.
    """
    return text if any(c.isalpha() for c in text) and text.lower() not in _NO_NAMES else None


def named_sizes(values: Sequence, shapes: Mapping) -> dict[str, int]:
    """Return the sizes of named dynamic dimensions from the given shapes. Different sizes for one name are an error."""
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
                    f"the dynamic dimension '{name}' is {first} in the shape of input '{where}' but {size} in that of "
                    f"'{value.name}'; both must be equal"
                )
    return {name: size for name, (size, _) in found.items()}


__all__ = ["named_sizes", "sizes_of"]
