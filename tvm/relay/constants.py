"""Constants in scripts: ``relay.const``."""

from __future__ import annotations

import numpy as np

from .expr import Constant, narrow_dtype
from .expr import const as exact_const


def const(value, dtype=None, span=None) -> Constant:
    """Create a constant from a number, a bool, an array or nested lists.

    Parameters
    ----------
    value : int, float, bool, array or list
        The value or values.
    dtype : str, optional
        The element type. By default it is the type of the values; int64 and float64 become int32 and float32 if these
        represent all values. ``relay.expr.const``, which importers use, keeps the types of arrays.

    Returns
    -------
    Constant
        The constant.

    Raises
    ------
    ValueError
        ``value`` is not a number, bool or array, or it is an integer that does not fit in ``dtype``.

    Examples
    --------
    >>> relay.const(np.zeros(3)).data.dtype
    'float32'
    """
    if dtype is None and isinstance(value, np.ndarray):
        dtype = narrow_dtype(value)
    return exact_const(value, dtype, span)


__all__ = ["const"]
