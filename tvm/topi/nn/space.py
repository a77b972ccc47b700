"""Operators that move elements between space, depth and batch; also dilation, flattening and FIFO buffers."""

from __future__ import annotations

from collections.abc import Sequence

from ... import te, tir
from ...error import TVMError
from ..assumptions import divides
from ..tag import INJECTIVE
from ..utils import equal_const_int, get_const_int, normalize_axis, simplify
from .pad import pad


def dilate(data, strides, dilation_value=0.0, name="DilatedInput"):
    """``data`` with ``dilation_value`` inserted between its elements, which are then ``strides`` apart.

    Raises
    ------
    TVMError
        There is not one stride for each dimension.
    """
    if len(strides) != len(data.shape):
        raise TVMError(f"dilate: pass {len(data.shape)} strides, one for each dimension, got {len(strides)}")
    strides = [get_const_int(s) for s in strides]
    value = dilation_value if isinstance(dilation_value, tir.PrimExpr) else tir.const(dilation_value, data.dtype)

    def body(*at):
        on = [te.indexmod(i, s).equal(0) for i, s in zip(at, strides) if s > 1]
        index = [te.indexdiv(i, s) if s > 1 else i for i, s in zip(at, strides)]
        return tir.if_then_else(tir.all(*on), data(*index), value) if on else data(*index)

    shape = [simplify((d - 1) * s + 1) for d, s in zip(data.shape, strides)]
    return te.compute(shape, body, name=name, tag=INJECTIVE + ",dilate")


def flatten(data):
    """``data`` with all dimensions except the first merged into one."""
    from ..transform import reshape

    size = simplify(_product(data.shape[1:]))
    return reshape(data, (data.shape[0], size))


def _product(values: Sequence):
    total = 1
    for v in values:
        total = total * v
    return total


def _channels(layout: str, what: str) -> tuple[int, int, int]:
    if layout not in ("NCHW", "NHWC"):
        raise TVMError(f"{what}: the layout must be NCHW or NHWC, got '{layout}'")
    return (1, 2, 3) if layout == "NCHW" else (3, 1, 2)


def depth_to_space(data, block_size, layout="NCHW", mode="DCR"):
    """Blocks of channels rearranged to squares of pixels. DCR: channels are (block, depth); CRD: (depth, block).
    Channels after the last whole block are dropped, as in Apache TVM; a dynamic number of channels must be divisible
    into blocks.

    Raises
    ------
    TVMError
        The mode is unknown.
    """
    c, h, w = _channels(layout, "depth_to_space")
    if mode not in ("DCR", "CDR", "CRD"):
        raise TVMError(f"depth_to_space: the mode must be DCR or CRD, got '{mode}'")
    size = get_const_int(block_size)
    divides(data.shape[c], size * size, f"channels divisible into blocks of {size} x {size}")
    shape = list(data.shape)
    depth = shape[c] = simplify(data.shape[c] // (size * size))
    shape[h], shape[w] = simplify(data.shape[h] * size), simplify(data.shape[w] * size)

    def body(*at):
        index = list(at)
        block = te.indexmod(at[h], size) * size + te.indexmod(at[w], size)
        index[c] = block * depth + at[c] if mode == "DCR" else at[c] * (size * size) + block
        index[h], index[w] = te.indexdiv(at[h], size), te.indexdiv(at[w], size)
        return data(*index)

    return te.compute(shape, body, name="depth_to_space", tag=INJECTIVE)


def space_to_depth(data, block_size, layout="NCHW"):
    """Squares of pixels rearranged to blocks of channels.

    Raises
    ------
    TVMError
        The pixels are not divisible into blocks.
    """
    c, h, w = _channels(layout, "space_to_depth")
    size = get_const_int(block_size)
    for place in (h, w):
        if not divides(data.shape[place], size, f"pixels divisible into blocks of {size}"):
            raise TVMError(f"space_to_depth: {data.shape[place]} pixels are not divisible into blocks of {size}")
    shape = list(data.shape)
    depth = data.shape[c]
    # With 0 channels there are no elements to read, but the divisor must not be 0.
    each = 1 if equal_const_int(depth, 0) else depth
    shape[c] = simplify(depth * size * size)
    shape[h], shape[w] = simplify(data.shape[h] // size), simplify(data.shape[w] // size)

    def body(*at):
        index = list(at)
        block = te.indexdiv(at[c], each)
        index[c] = te.indexmod(at[c], each)
        index[h] = at[h] * size + te.indexdiv(block, size)
        index[w] = at[w] * size + te.indexmod(block, size)
        return data(*index)

    return te.compute(shape, body, name="space_to_depth", tag=INJECTIVE)


def space_to_batch_nd(data, block_shape, pad_before, pad_after, pad_value=0.0):
    """Blocks of pixels along the dimensions after the first moved to the batch dimension.

    Raises
    ------
    TVMError
        There is not one block size and one pair of paddings for each spatial dimension, or the pixels are not divisible
        into blocks.
    """
    block = [get_const_int(b) for b in block_shape]
    n, rank = len(block), len(data.shape)
    if len(pad_before) != n or len(pad_after) != n or n >= rank:
        raise TVMError("space_to_batch_nd: pass one block size and one pair of paddings for each spatial dimension")
    lo = [0, *pad_before, *[0] * (rank - n - 1)]
    hi = [0, *pad_after, *[0] * (rank - n - 1)]
    source = pad(data, lo, hi, pad_value) if any(lo) or any(hi) else data
    batch = data.shape[0]
    shape = [simplify(batch * _product(block)), *source.shape[1:]]
    for i, b in enumerate(block):
        if not divides(shape[i + 1], b, f"padded pixels divisible into blocks of {b}"):
            raise TVMError(f"space_to_batch_nd: {shape[i + 1]} padded pixels are not divisible into blocks of {b}")
        shape[i + 1] = simplify(shape[i + 1] // b)

    # An empty batch has no elements, but the divisor must not be 0.
    each = simplify(te.max(batch, 1))

    def body(*at):
        index = list(at)
        offset = te.indexdiv(at[0], each)
        index[0] = te.indexmod(at[0], each)
        for i in reversed(range(n)):
            index[i + 1] = at[i + 1] * block[i] + te.indexmod(offset, block[i])
            offset = te.indexdiv(offset, block[i])
        return source(*index)

    return te.compute(shape, body, name="space_to_batch_nd", tag=INJECTIVE)


def batch_to_space_nd(data, block_shape, crop_begin_list, crop_end_list):
    """Batch elements moved back to blocks of pixels, with the borders cropped. Batch elements after the last whole
    block are dropped, as in Apache TVM; a dynamic batch must be divisible into blocks.

    Raises
    ------
    TVMError
        There is not one block size and one pair of crops for each spatial dimension.
    """
    block = [get_const_int(b) for b in block_shape]
    n = len(block)
    if len(crop_begin_list) != n or len(crop_end_list) != n or n >= len(data.shape):
        raise TVMError("batch_to_space_nd: pass one block size and one pair of crops for each spatial dimension")
    divides(data.shape[0], _product(block), f"a batch divisible into blocks of {block}")
    batch = simplify(data.shape[0] // _product(block))
    shape = [batch, *data.shape[1:]]
    for i, b in enumerate(block):
        shape[i + 1] = simplify(data.shape[i + 1] * b - crop_begin_list[i] - crop_end_list[i])

    def body(*at):
        index = list(at)
        offset = tir.const(0, "int32")
        for i in range(n):
            j = at[i + 1] + crop_begin_list[i]
            offset = offset * block[i] + te.indexmod(j, block[i])
            index[i + 1] = te.indexdiv(j, block[i])
        index[0] = offset * batch + at[0]
        return data(*index)

    return te.compute(shape, body, name="batch_to_space_nd", tag=INJECTIVE)


def fifo_buffer(data, buffer, axis):
    """The newest elements of ``buffer`` followed by ``data``, with the length of the buffer.

    Raises
    ------
    TVMError
        Data and buffer have different numbers of dimensions.
    """
    axis = normalize_axis(axis, len(buffer.shape), "fifo_buffer")
    if len(data.shape) != len(buffer.shape):
        raise TVMError("fifo_buffer: the data and the buffer must have the same number of dimensions")
    length, new = buffer.shape[axis], data.shape[axis]

    def body(*at):
        old, fresh = list(at), list(at)
        old[axis] = at[axis] + new
        fresh[axis] = at[axis] - length + new
        return tir.if_then_else(at[axis] < length - new, buffer(*old), data(*fresh))

    return te.compute(buffer.shape, body, name="new_buffer", tag=INJECTIVE)
