"""The shapes of a model's inputs that users pass to an importer."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ....error import TVMError
from ....ir.prim import Any_


def given_shape(name: str, given: Any, dims: Sequence | None) -> list:
    """Return the dimensions that a user passes for an input, -1 or ``Any_`` for dynamic ones.

    ``dims`` are the dimensions in the model, whose number must be the same; None if the model has no shape for the
    input.
    """
    try:
        sizes = [d if isinstance(d, Any_) else -1 if d is None else operator.index(d) for d in given]
    except TypeError as problem:
        raise TVMError(f"the shape of input '{name}' must be a list of integers, got {given!r}") from problem
    if dims is not None and len(sizes) != len(dims):
        raise TVMError(f"the shape of input '{name}' has {len(sizes)} dimensions, but the model declares {len(dims)}")
    return sizes


def dimensions(name: str, sizes: Sequence) -> list:
    """Return the dimensions with ``Any_`` for -1; other negative dimensions are rejected."""
    if any(not isinstance(d, Any_) and d < -1 for d in sizes):
        raise TVMError(f"the shape of input '{name}' has a negative dimension: {list(sizes)}")
    return [Any_() if not isinstance(d, Any_) and d == -1 else d for d in sizes]


__all__ = ["dimensions", "given_shape"]
