"""NumPy reference implementations of gathers, slices, masks and searches."""

from __future__ import annotations

import itertools

import numpy as np


def gather_python(data, axis, indices):
    return np.take_along_axis(data, indices, axis)


def gather_nd_python(a_np, indices_np):
    """The gathered elements; indices that are not integers are truncated."""
    return a_np[tuple(indices_np.astype("int64"))]


def strided_slice_python(data, begin, end, strides, slice_mode="end", axes=None):
    places = list(range(len(begin))) if axes is None else [axis % data.ndim for axis in axes]
    chosen = [slice(None)] * data.ndim
    for n, place in enumerate(places):
        first = begin[n] if n < len(begin) else None
        last = end[n] if n < len(end) else None
        stride = strides[n] if strides is not None and n < len(strides) else 1
        if slice_mode == "size":
            start = 0 if first is None else first % data.shape[place] if first < 0 else first
            last, stride = (None if last is None or last < 0 else start + last), 1
        chosen[place] = slice(first, last, stride)
    return data[tuple(chosen)]


def strided_set_python(data, v, begin, end, strides):
    out = data.copy()
    lists = itertools.zip_longest(begin, end, strides or ())
    out[tuple(slice(*bounds) for bounds in lists)] = v
    return out


def one_hot(indices, on_value, off_value, depth, axis, dtype):
    hot = np.where(np.arange(depth) == indices[..., None], on_value, off_value).astype(dtype)
    return np.moveaxis(hot, -1, axis)


def sequence_mask(data, valid_length, mask_value, axis):
    out = data.copy()
    for batch, length in enumerate(valid_length):
        np.moveaxis(out, axis, 0)[int(length) :, batch] = mask_value
    return out


def matrix_set_diag(input_np, diagonal, k=0, align="RIGHT_LEFT"):
    """The matrix with replaced diagonals, computed element by element."""
    low, high = k if isinstance(k, (tuple, list)) else (k, k)
    above, below = (word == "RIGHT" for word in align.split("_"))
    out = input_np.copy()
    rows, columns = input_np.shape[-2:]
    longest = diagonal.shape[-1]
    for d in range(low, high + 1):
        places = [(r, r + d) for r in range(rows) if 0 <= r + d < columns]
        line = diagonal if low == high else diagonal[..., high - d, :]
        far = (d >= 0 and above) or (d <= 0 and below)
        for n, (r, c) in enumerate(places):
            out[..., r, c] = line[..., n + (longest - len(places) if far else 0)]
    return out


def searchsorted_ref(sorted_sequence, values, right, out_dtype):
    side = "right" if right else "left"
    if sorted_sequence.ndim == 1:
        return np.searchsorted(sorted_sequence, values, side).astype(out_dtype)
    rows = sorted_sequence.reshape(-1, sorted_sequence.shape[-1])
    wanted = values.reshape(len(rows), -1)
    found = [np.searchsorted(row, own, side) for row, own in zip(rows, wanted)]
    return np.stack(found).reshape(values.shape).astype(out_dtype)
