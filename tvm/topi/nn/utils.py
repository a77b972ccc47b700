"""Padding and layout parameters of windowed operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import TVMError
from ..utils import get_const_int, get_const_tuple


def spatial(value: Any, n: int, what: str, least: int = 1) -> tuple[int, ...]:
    """Return one value for each spatial dimension, given one for all or one for each; no value may be below
    ``least``."""
    values = spread(value, n, what)
    if min(values, default=least) < least:
        limit = f"at least {least}" if least else "not negative"
        raise TVMError(f"{what} must be {limit}, got {values}")
    return values


def spread(value: Any, n: int, what: str) -> tuple[int, ...]:
    """Return one value for each spatial dimension, given one for all or one for each."""
    if isinstance(value, (tuple, list)) or hasattr(value, "__iter__"):
        values = tuple(get_const_int(v) for v in value)
        if len(values) == 2 and n == 1 and what.endswith("output_padding") and values[0] == values[1]:
            # Scripts also pass two equal values for a single dimension.
            return values[:1]
        if len(values) == 1:
            return values * n
        if len(values) != n:
            raise TVMError(f"{what}: pass {n} values, one for each spatial dimension, got {len(values)}")
        return values
    return (get_const_int(value),) * n


def pads(padding: Any, kernel: Sequence[int], n: int, what: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding at the start and the end of each spatial dimension. Accepted forms: "VALID", "SAME", one
    value, n values, 2n values (all starts, then all ends); ``kernel`` is the dilated size."""
    before, after = spread_pads(padding, kernel, n, what)
    if min((*before, *after), default=0) < 0:
        raise TVMError(f"{what}: padding must not be negative, got {(*before, *after)}")
    return before, after


def spread_pads(padding: Any, kernel: Sequence[int], n: int, what: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding like ``pads``, but accept negative values."""
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return (0,) * n, (0,) * n
        if padding.upper() == "SAME":
            total = [k - 1 for k in kernel]
            before = tuple((t + 1) // 2 for t in total)
            return before, tuple(t - b for t, b in zip(total, before))
        raise TVMError(f"{what}: padding must be numbers, VALID or SAME, got '{padding}'")
    if isinstance(padding, (tuple, list)) or hasattr(padding, "__iter__"):
        values = tuple(get_const_int(p) for p in padding)
        if len(values) == 1:
            return values * n, values * n
        if len(values) == n:
            return values, values
        if len(values) == 2 * n:
            return values[:n], values[n:]
        raise TVMError(f"{what}: padding must have 1, {n} or {2 * n} values, got {len(values)}")
    p = get_const_int(padding)
    return (p,) * n, (p,) * n


def get_pad_tuple(padding, kernel):
    """The padding (top, left, bottom, right) of a 2D operator.

    Returns
    -------
    tuple of int
    """
    before, after = pads(padding, [get_const_int(k) for k in kernel], 2, "padding")
    return (*before, *after)


def get_pad_tuple1d(padding, kernel):
    """The padding (left, right) of a 1D operator.

    Returns
    -------
    tuple of int
    """
    before, after = pads(padding, [get_const_int(k) for k in kernel], 1, "padding")
    return (*before, *after)


def get_pad_tuple3d(padding, kernel):
    """The padding (front, top, left, back, bottom, right) of a 3D operator.

    Returns
    -------
    tuple of int
    """
    before, after = pads(padding, [get_const_int(k) for k in kernel], 3, "padding")
    return (*before, *after)


def get_pad_tuple_generic(padding, kernel):
    """The padding at the start and the end, for any number of dimensions."""
    sizes = [get_const_int(k) for k in kernel]
    return pads(padding, sizes, len(sizes), "padding")


def infer_pad(data, data_pad):
    """The numbers of rows and columns that were added on one side."""
    if data_pad is None:
        return 0, 0
    _, _, ih, iw = get_const_tuple(data.shape)
    _, _, th, tw = get_const_tuple(data_pad.shape)
    return (th - ih) // 2, (tw - iw) // 2
