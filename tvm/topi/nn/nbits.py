"""Matmuls with weights of 8 or 4 bits: each group of features of a unit has a scale.

A weight of 4 bits has two features in a byte, the first one in its low half; both are signed.
"""

from __future__ import annotations

from typing import Any

from ... import te, tir
from ...error import TVMError
from ..utils import get_const_int

# Features that a byte of the weight holds, by the bits of one.
IN_BYTE = {8: 1, 4: 2}


def unpacked(byte: Any, bits: int, place: Any) -> Any:
    """The integer at a place of a byte, as int32."""
    whole = byte.astype("int32")
    if bits == 8:
        return whole
    return tir.Select(place == 0, (whole << 28) >> 28, whole >> 4)


def check_nbits(data, weight, scale, bits: int, group_size: int) -> tuple[int, int]:
    """Features of a row of the data, and groups of them.

    Raises
    ------
    TVMError
        Bits are not 8 or 4, or the sizes do not fit each other.
    """
    if bits not in IN_BYTE:
        raise TVMError(f"dense_nbits: weights have 8 or 4 bits, not {bits}")
    if group_size < 1 or group_size % IN_BYTE[bits]:
        raise TVMError(f"dense_nbits: a group has whole bytes of features, {group_size} of {bits} bits are none")
    features, groups = get_const_int(data.shape[-1]), -(-get_const_int(data.shape[-1]) // group_size)
    have = tuple(get_const_int(t.shape[1]) for t in (weight, scale))
    if have != (groups * group_size // IN_BYTE[bits], groups):
        raise TVMError(f"dense_nbits: {features} features in groups of {group_size} do not fit a weight of {have[0]} "
                       f"bytes and {have[1]} scales for each unit")  # fmt: skip
    return features, groups


def feature(data, lead: Any, k: Any, features: int, padded: int) -> Any:
    """A feature of a row; those that fill up the last group are zero."""
    value = data(*lead, k if features == padded else te.min(k, features - 1))
    return value if features == padded else tir.if_then_else(k < features, value, tir.const(0, data.dtype))


def dense_nbits(data, weight, scale, bits=8, group_size=32, units=None, out_dtype=None):
    """data . weight^T, the weight being integers times scales.

    Parameters
    ----------
    data : Tensor
        (..., features)
    weight : Tensor
        int8: (units, bytes of the features, filled up to whole groups), or in panels (units / n, bytes, n).
    scale : Tensor
        (units, groups), or in panels (units / n, groups, n)
    bits : int
        8 or 4.
    group_size : int
        Features that have one scale.
    units : int, optional
        The units that there are, where the weight has more.
    out_dtype : str, optional
        The type of sums and result, that of the data if not given.

    Returns
    -------
    Tensor
        (..., units)

    Raises
    ------
    TVMError
        Bits are not 8 or 4, or the sizes do not fit each other.
    """
    dtype = out_dtype or data.dtype
    features, _ = check_nbits(data, weight, scale, bits, group_size)
    k, in_byte = te.reduce_axis((0, features), name="k"), IN_BYTE[bits]

    width = get_const_int(weight.shape[2]) if len(weight.shape) == 3 else None

    def of_unit(matrix, j, at):
        return matrix(j, at) if width is None else matrix(te.indexdiv(j, width), at, te.indexmod(j, width))

    def body(*at):
        *lead, j = at
        integer = unpacked(of_unit(weight, j, te.indexdiv(k, in_byte)), bits, te.indexmod(k, in_byte))
        real = integer.astype(dtype) * of_unit(scale, j, te.indexdiv(k, group_size)).astype(dtype)
        return te.sum(data(*lead, k).astype(dtype) * real, axis=k)

    shape = (*data.shape[:-1], weight.shape[0] * (width or 1) if units is None else int(units))
    return te.compute(shape, body, name="T_dense_nbits", tag="dense_nbits_plain")


__all__ = ["IN_BYTE", "check_nbits", "dense_nbits", "feature", "unpacked"]
