"""Value ranges of element types, for tests of models compiled ahead of time."""

from __future__ import annotations

from ..dtype import info
from ..not_built import name_of as _name_of


def get_dtype_range(dtype: str) -> tuple[int, int]:
    """Return the minimum and maximum of an integer type; -1 and 1 for floats."""
    import numpy as np

    if info(dtype).code not in ("int", "uint"):
        return -1, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def __getattr__(name: str):
    return _name_of(__name__, name)
