"""Padding of tensors."""

from __future__ import annotations

from ... import te, tir
from ...error import TVMError
from ..tag import INJECTIVE
from ..utils import equal_const_int


def pad(data, pad_before, pad_after=None, pad_value=0.0, name="PadInput", attrs=None):
    """A tensor padded with a constant; negative padding crops.

    Raises
    ------
    TVMError
        The padding does not have one value at the start and the end of each dimension.

    Examples
    --------
    >>> topi.nn.pad(te.placeholder((2, 3)), [1, 0], [1, 0]).shape
    (4, 3)
    """
    n = len(data.shape)
    pad_after = pad_after if pad_after is not None else pad_before
    if len(pad_before) != n or len(pad_after) != n:
        raise TVMError(f"pad: pass {n} values for the start and the end, got {len(pad_before)} and {len(pad_after)}")
    shape = tuple(_simple(d + b + a) for d, b, a in zip(data.shape, pad_before, pad_after))
    value = pad_value if isinstance(pad_value, tir.PrimExpr) else tir.const(pad_value, data.dtype)

    def body(*at):
        index, inside = [], []
        for i, (before, after) in enumerate(zip(pad_before, pad_after)):
            if equal_const_int(before, 0) and equal_const_int(after, 0):
                index.append(at[i])
                continue
            index.append(at[i] - before)
            if not equal_const_int(before, 0):
                inside.append(at[i] >= before)
            if not equal_const_int(after, 0):
                inside.append(at[i] < data.shape[i] + before)
        if inside:
            return tir.if_then_else(tir.all(*inside), data(*index), value)
        return data(*index)

    return te.compute(shape, body, name=name, tag=INJECTIVE + ",pad", attrs=attrs)


def _simple(e):
    from ..utils import simplify

    return simplify(e)


def mirror_pad(data, pad_before, pad_after=None, mode="SYMMETRIC", name="MirrorPadInput"):
    """A tensor padded with its mirror image: SYMMETRIC repeats the edge, REFLECT does not.

    Raises
    ------
    TVMError
        The padding does not have one value at the start and the end of each dimension, or the mode is unknown.
    """
    n = len(data.shape)
    pad_after = pad_after if pad_after is not None else pad_before
    if len(pad_before) != n or len(pad_after) != n:
        raise TVMError(f"mirror_pad: pass {n} values for the start and the end")
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise TVMError(f"mirror_pad: the mode must be SYMMETRIC or REFLECT, got '{mode}'")
    edge = 1 if mode == "SYMMETRIC" else 0
    shape = tuple(_simple(d + b + a) for d, b, a in zip(data.shape, pad_before, pad_after))

    def body(*at):
        index = []
        for i in range(n):
            size = data.shape[i]
            j = at[i] - pad_before[i]
            low = tir.Select(j < 0, -j - edge, j)
            index.append(tir.Select(low >= size, 2 * size - 2 + edge - low, low))
        return data(*index)

    return te.compute(shape, body, name=name, tag=INJECTIVE)
