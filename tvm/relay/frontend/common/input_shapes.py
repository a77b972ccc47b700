"""The shapes of a model's inputs, as users give them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ....error import TVMError
from ....ir.prim import Any_


def given_shape(name: str, given: Any, dims: Sequence | None) -> list:
    """The dimensions that a user gives for an input, -1 or ``Any_`` for dynamic ones.

    ``dims`` are those of the model, whose number must be the same; None where the model has no shape for the input.
    """
    try:
        sizes = [d if isinstance(d, Any_) else -1 if d is None else operator.index(d) for d in given]
    except TypeError as problem:
        raise TVMError(f"shape of input '{name}': a list of numbers is wanted, got {given!r}") from problem
    if dims is not None and len(sizes) != len(dims):
        raise TVMError(f"shape of input '{name}': {len(sizes)} dimensions are given, the model has {len(dims)}")
    return sizes


def dimensions(name: str, sizes: Sequence) -> list:
    """The dimensions with ``Any_`` for -1; other negative sizes are rejected."""
    if any(not isinstance(d, Any_) and d < -1 for d in sizes):
        raise TVMError(f"shape of input '{name}': {list(sizes)} has a negative size")
    return [Any_() if not isinstance(d, Any_) and d == -1 else d for d in sizes]


__all__ = ["dimensions", "given_shape"]
