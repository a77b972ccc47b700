"""Activations."""

from __future__ import annotations

from ... import te, tir
from ...dtype import info
from ...error import TVMError
from ..assumptions import agree
from ..tag import BROADCAST, ELEMWISE


def relu(x):
    """max(x, 0) for every element; NaN stays NaN.

    Examples
    --------
    >>> topi.nn.relu(te.placeholder((2, 3), name="x")).shape
    (2, 3)
    """
    zero = tir.const(0, x.dtype)

    def body(*i):
        v = x(*i)
        if info(x.dtype).is_custom:
            # User-defined dtypes have a maximum, but need not have comparisons.
            return te.max(v, zero)
        return tir.Select(v < zero, zero, v)

    return te.compute(x.shape, body, name="T_relu", tag=ELEMWISE)


def leaky_relu(x, alpha):
    """x for positive elements, alpha * x for the others."""

    def body(*i):
        v = x(*i)
        return tir.Select(v > 0, v, v * tir.const(alpha, x.dtype))

    return te.compute(x.shape, body, name="T_leaky_relu", tag=ELEMWISE)


def prelu(x, slope, axis=1):
    """leaky_relu with one slope for each index along ``axis``.

    Raises
    ------
    TVMError
        ``axis`` is not a dimension, or there is not one slope for each index along it.
    """
    if not 0 <= axis < len(x.shape):
        raise TVMError(f"prelu: axis {axis} is out of range for {len(x.shape)} dimensions")
    if len(slope.shape) != 1 or not agree(slope.shape[0], x.shape[axis], "as many slopes as the size of the axis"):
        raise TVMError("prelu: the slopes must be a vector as long as the axis")

    def body(*i):
        v = x(*i)
        return tir.Select(v > 0, v, v * slope(i[axis]))

    return te.compute(x.shape, body, name="T_prelu", tag=BROADCAST)
