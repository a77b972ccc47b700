"""Ranges of element types; running models compiled ahead of time is to come."""

from __future__ import annotations

from ..dtype import info
from ..not_built import name_of as _name_of


def get_dtype_range(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type; -1 and 1 for floats."""
    import numpy as np

    if info(dtype).code not in ("int", "uint"):
        return -1, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def __getattr__(name: str):
    return _name_of(__name__, name)
