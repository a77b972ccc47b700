"""Matmuls with quantized weights of 8 or 4 bits, with one scale for each group of features of a unit.

A 4-bit weight stores two signed features in a byte, the first one in the lower four bits.
"""

from __future__ import annotations

from typing import Any

from ... import te, tir
from ...error import TVMError
from ..utils import get_const_int

# The number of features in a byte of the weight, by bits per feature.
IN_BYTE = {8: 1, 4: 2}


def unpacked(byte: Any, bits: int, place: Any) -> Any:
    """Return the integer at a position in a byte, as int32."""
    whole = byte.astype("int32")
    if bits == 8:
        return whole
    return tir.Select(place == 0, (whole << 28) >> 28, whole >> 4)


def check_nbits(data, weight, scale, bits: int, group_size: int) -> tuple[int, int]:
    """Check the arguments. Return the number of features of a data row, and the number of groups.

    Raises
    ------
    TVMError
        ``bits`` is not 8 or 4, or the shapes do not match.
    """
    if bits not in IN_BYTE:
        raise TVMError(f"dense_nbits: bits must be 8 or 4, got {bits}")
    if group_size < 1 or group_size % IN_BYTE[bits]:
        raise TVMError(f"dense_nbits: a group must fill whole bytes; {group_size} features of {bits} bits do not")
    features, groups = get_const_int(data.shape[-1]), -(-get_const_int(data.shape[-1]) // group_size)
    have = tuple(get_const_int(t.shape[1]) for t in (weight, scale))
    if have != (groups * group_size // IN_BYTE[bits], groups):
        raise TVMError(
            f"dense_nbits: {features} features in groups of {group_size} do not match a weight of {have[0]} bytes and "
            f"{have[1]} scales for each unit"
        )
    return features, groups


def feature(data, lead: Any, k: Any, features: int, padded: int) -> Any:
    """Return a feature of a row; features that pad the last group are zero."""
    value = data(*lead, k if features == padded else te.min(k, features - 1))
    return value if features == padded else tir.if_then_else(k < features, value, tir.const(0, data.dtype))


def dense_nbits(data, weight, scale, bits=8, group_size=32, units=None, out_dtype=None):
    """A dense layer with quantized weights: ``data`` times the transpose of the integer weights multiplied by their
    scales.

    Parameters
    ----------
    data : Tensor
        (..., features)
    weight : Tensor
        int8: (units, bytes of the features, padded to whole groups), or in panels (units / n, bytes, n).
    scale : Tensor
        (units, groups), or in panels (units / n, groups, n)
    bits : int
        8 or 4.
    group_size : int
        The number of features that share a scale.
    units : int, optional
        The number of units, if the weight is padded to more.
    out_dtype : str, optional
        The dtype of accumulation and output. Default: that of the data.

    Returns
    -------
    Tensor
        (..., units)

    Raises
    ------
    TVMError
        ``bits`` is not 8 or 4, or the shapes do not match.
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
