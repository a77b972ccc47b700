"""Reference pooling, normalization, softmax and block rearrangements, from their definitions."""

from __future__ import annotations

import math

import numpy as np


def softmax_python(a_np, axis=1):
    shifted = np.exp(a_np - a_np.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


def log_softmax_python(a_np, axis=1):
    shifted = a_np - a_np.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def batch_matmul(x, y, out_dtype=None, trans_x=False, trans_y=True):
    a = x.transpose(0, 2, 1) if trans_x else x
    b = y.transpose(0, 2, 1) if trans_y else y
    return np.matmul(a.astype(out_dtype or x.dtype), b.astype(out_dtype or y.dtype))


def l2_normalize_python(a_np, eps, axis=None):
    total = np.sum(np.square(a_np), axis=None if axis is None else tuple(np.atleast_1d(axis)), keepdims=True)
    return a_np / np.sqrt(np.maximum(total, eps))


def lrn_python(a_np, size, axis, bias, alpha, beta):
    """Each element divided by a power of the mean square of the elements within ``size`` along ``axis``."""
    data = np.moveaxis(a_np.astype("float64"), axis, 0)
    before = (size - 1) // 2
    squares = np.zeros_like(data)
    for i in range(len(data)):
        squares[i] = np.square(data[max(i - before, 0) : i + size - before]).sum(0)
    return np.moveaxis(data / (bias + alpha * squares / size) ** beta, 0, axis).astype(a_np.dtype)


def nll_loss(predictions, targets, weights, reduction="mean", ignore_index=-100):
    valid = targets != ignore_index
    safe = np.where(valid, targets, 0)
    weight = np.where(valid, weights[safe], 0)
    chosen = np.take_along_axis(predictions, np.expand_dims(safe, 1), 1).squeeze(1)
    loss = -chosen * weight
    if reduction == "none":
        return loss.astype(predictions.dtype)
    total = loss.sum()
    return np.asarray(total / weight.sum() if reduction == "mean" else total, predictions.dtype)


def dilate_python(input_np, strides, dilation_value=0.0, out_dtype=None):
    shape = [(n - 1) * s + 1 for n, s in zip(input_np.shape, strides)]
    out = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    out[tuple(slice(None, None, s) for s in strides)] = input_np
    return out


# --- pooling ---


def _spatial(layout: str | None, ndim: int) -> list[int]:
    if layout is None:
        return list(range(2, ndim))
    return [place for place, letter in enumerate(layout) if letter in "DHW"]


def _windows(size, kernel, stride, dilation, before, after, ceil_mode):
    """Return (first, last) of each window in padded coordinates."""
    reach = (kernel - 1) * dilation + 1
    steps = (size + before + after - reach) / stride
    count = (math.ceil(steps) if ceil_mode else math.floor(steps)) + 1
    return [[i * stride + k * dilation - before for k in range(kernel)] for i in range(count)]


def poolnd_python(
    np_data, kernel, strides, dilation, padding_before, padding_after, pool_type, count_include_pad=True,
    ceil_mode=False, dtype="float32", layout=None,
):  # fmt: skip
    """The maximum or mean of windows. If padding is counted, the mean includes the padded elements of the window."""
    axes = _spatial(layout, np_data.ndim)
    windows = [
        _windows(np_data.shape[axis], *values, ceil_mode)
        for axis, values in zip(axes, zip(kernel, strides, dilation, padding_before, padding_after))
    ]
    shape = list(np_data.shape)
    for axis, own in zip(axes, windows):
        shape[axis] = len(own)
    out = np.zeros(shape, dtype)
    for place in np.ndindex(*[len(own) for own in windows]):
        wanted = [own[i] for own, i in zip(windows, place)]
        inside = [[p for p in line if 0 <= p < np_data.shape[axis]] for line, axis in zip(wanted, axes)]
        part = np_data
        for axis, line in zip(axes, inside):
            part = np.take(part, line, axis)
        at = [slice(None)] * np_data.ndim
        for axis, i in zip(axes, place):
            at[axis] = i
        if pool_type == "max":
            # With ceil_mode a window may be outside the tensor; it counts as padding, 0.
            out[tuple(at)] = part.max(tuple(axes)) if part.size else 0
            continue
        padded = [
            [p for p in line if -b <= p < np_data.shape[axis] + a]
            for line, axis, b, a in zip(wanted, axes, padding_before, padding_after)
        ]
        count = math.prod(len(line) for line in (padded if count_include_pad else inside))
        out[tuple(at)] = part.sum(tuple(axes)) / max(count, 1)
    return out


def adaptive_pool(np_data, out_size, pool_type, layout):
    """The pooling over windows that cover the tensor, one for each output element."""
    axes = _spatial(layout, np_data.ndim)
    sizes = [out_size] * len(axes) if isinstance(out_size, int) else list(out_size)
    reduce = np.max if pool_type == "max" else np.mean
    shape = list(np_data.shape)
    for axis, size in zip(axes, sizes):
        shape[axis] = size
    out = np.zeros(shape, np_data.dtype)
    for place in np.ndindex(*sizes):
        at, part = [slice(None)] * np_data.ndim, [slice(None)] * np_data.ndim
        for axis, i, size in zip(axes, place, sizes):
            whole = np_data.shape[axis]
            at[axis], part[axis] = i, slice(i * whole // size, -(-(i + 1) * whole // size))
        out[tuple(at)] = reduce(np_data[tuple(part)], axis=tuple(axes))
    return out


def pool_grad_nchw(a_np, out_grad_np, pool_size, strides, padding, pool_type, ceil_mode, count_include_pad=True):
    """The gradient of each element: the whole gradient of a window for its first maximum, or equal shares."""
    top, left, bottom, right = padding if len(padding) == 4 else (*padding, *padding)
    rows = _windows(a_np.shape[2], pool_size[0], strides[0], 1, top, bottom, ceil_mode)
    columns = _windows(a_np.shape[3], pool_size[1], strides[1], 1, left, right, ceil_mode)
    grad = np.zeros(a_np.shape, "float64")
    for n, c, i, j in np.ndindex(*out_grad_np.shape):
        ys = [y for y in rows[i] if 0 <= y < a_np.shape[2]]
        xs = [x for x in columns[j] if 0 <= x < a_np.shape[3]]
        part = a_np[n, c][np.ix_(ys, xs)]
        if not part.size:
            continue
        if pool_type == "max":
            y, x = np.unravel_index(part.argmax(), part.shape)
            grad[n, c, ys[y], xs[x]] += out_grad_np[n, c, i, j]
        else:
            count = pool_size[0] * pool_size[1] if count_include_pad else part.size
            grad[n, c][np.ix_(ys, xs)] += out_grad_np[n, c, i, j] / count
    return grad.astype(a_np.dtype)


# --- space and depth ---


def depth_to_space_python(data, block_size, mode="DCR"):
    n, c, h, w = data.shape
    b = block_size
    if mode == "DCR":
        parts = data.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = data.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // (b * b), h * b, w * b)


def space_to_depth_python(data, block_size):
    n, c, h, w = data.shape
    b = block_size
    return data.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


def space_to_batch_nd_python(data, block_shape, pad_before, pad_after, pad_value=0):
    m = len(block_shape)
    rest = data.ndim - 1 - m
    padded = np.pad(data, [(0, 0), *zip(pad_before, pad_after), *[(0, 0)] * rest], constant_values=pad_value)
    batch, sizes, last = padded.shape[0], padded.shape[1 : 1 + m], padded.shape[1 + m :]
    split = padded.reshape(batch, *(v for s, b in zip(sizes, block_shape) for v in (s // b, b)), *last)
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, split.ndim)]
    count = math.prod(block_shape)
    return split.transpose(order).reshape(batch * count, *(s // b for s, b in zip(sizes, block_shape)), *last)


def batch_to_space_nd_python(data, block_shape, crop_begin_list, crop_end_list):
    m = len(block_shape)
    batch = data.shape[0] // math.prod(block_shape)
    split = data.reshape(*block_shape, batch, *data.shape[1:])
    order = [m, *(v for i in range(m) for v in (m + 1 + i, i)), *range(2 * m + 1, split.ndim)]
    sizes = [s * b for s, b in zip(data.shape[1 : 1 + m], block_shape)]
    whole = split.transpose(order).reshape(batch, *sizes, *data.shape[1 + m :])
    cut = [slice(b, s - e) for b, e, s in zip(crop_begin_list, crop_end_list, sizes)]
    return whole[(slice(None), *cut)]
