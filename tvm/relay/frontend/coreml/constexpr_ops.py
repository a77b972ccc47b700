"""Converters of compressed weights, which are decompressed at import time."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from .elementwise import dtype_of
from .table import Array, axis_of, check_count, constant, op
from .values import unpacked


@op("constexpr_cast")
def constexpr_cast(ctx, source_val: Array, output_dtype: str):
    return constant(source_val, dtype_of(output_dtype))


@op("constexpr_affine_dequantize")
def affine_dequantize(ctx, quantized_data: Array, zero_point: Array, scale: Array, axis: int):
    axis = axis_of(axis, quantized_data.ndim)
    column = [-1 if a == axis else 1 for a in range(quantized_data.ndim)]
    rows = []
    for name, vector in (("zero_point", zero_point), ("scale", scale)):
        if vector.size not in (1, quantized_data.shape[axis]):
            raise TVMError(f"{name} has {vector.size} elements for {quantized_data.shape[axis]} channels")
        rows.append(vector.reshape(column if vector.size > 1 else ()).astype("float32"))
    return constant(rows[1] * (quantized_data.astype("float32") - rows[0]), str(scale.dtype))


def _shape(shape: Array) -> tuple[int, ...]:
    sizes = tuple(int(v) for v in shape.reshape(-1))
    check_count("a weight", sizes)
    return sizes


@op("constexpr_lut_to_dense")
def lut_to_dense(ctx, indices: Array, lut: Array, shape: Array | None = None, vector_axis: int | None = None):
    if shape is None:
        return constant(_look_up(indices, lut, vector_axis))
    bits = lut.size.bit_length() - 1
    sizes = _shape(shape)
    if lut.size not in (2, 4, 16, 64, 256):
        raise TVMError(f"a lookup table of {lut.size} values is not supported; the size must be 2, 4, 16, 64 or 256")
    return constant(lut.reshape(-1)[unpacked(indices.astype("uint8").tobytes(), bits, math.prod(sizes))].reshape(sizes))


def _expand_blocks(blocks: Array, shape: tuple[int, ...], what: str) -> Array:
    """Expand an array with one element for each block to one element for each weight."""
    if blocks.ndim != len(shape) or any(not b or d % b for b, d in zip(blocks.shape, shape)):
        raise TVMError(f"{what} of shape {blocks.shape} do not match a weight of shape {shape}")
    for axis, (b, d) in enumerate(zip(blocks.shape, shape)):
        blocks = np.repeat(blocks, d // b, axis)
    return blocks


def _look_up(indices: Array, lut: Array, vector_axis: int | None) -> Array:
    """Look up weights in tables.

    ``lut`` has one axis for each axis of the indices, one for the values and one for vectors.
    """
    rank = indices.ndim
    if lut.ndim != rank + 2:
        raise TVMError(f"a lookup table of {lut.ndim} dimensions does not match indices of {rank} dimensions")
    count, width = lut.shape[-2:]
    if indices.size and int(indices.max()) >= count:
        raise TVMError(f"an index is out of range for a lookup table of {count} values")
    if any(not b or d % b for b, d in zip(lut.shape[:rank], indices.shape)):
        raise TVMError(f"lookup tables of shape {lut.shape} do not match indices of shape {indices.shape}")
    blocks = [np.arange(d) // (d // b) for b, d in zip(lut.shape[:rank], indices.shape)]
    out = lut[(*np.ix_(*blocks), indices)] if rank else lut[indices]
    if width == 1:
        return out[..., 0]
    if vector_axis is None:
        raise TVMError("the input vector_axis is missing")
    axis = axis_of(vector_axis, rank)
    sizes = [d * width if a == axis else d for a, d in enumerate(indices.shape)]
    check_count("a weight", sizes)
    return np.moveaxis(out, -1, axis + 1).reshape(sizes)


@op("constexpr_blockwise_shift_scale")
def blockwise_shift_scale(ctx, data: Array, scale: Array, offset: Array | None = None):
    return constant(_shifted(data, scale, offset), str(scale.dtype))


def _shifted(data: Array, scale: Array, offset: Array | None) -> Array:
    out = data.astype("float32")
    if offset is not None:
        out = out - _expand_blocks(offset.astype("float32"), data.shape, "offsets")
    return out * _expand_blocks(scale.astype("float32"), data.shape, "scales")


@op("constexpr_sparse_to_dense")
def sparse_to_dense(ctx, nonzero_data: Array, mask: Array, shape: Array | None = None):
    if shape is not None:
        sizes = _shape(shape)
        mask = unpacked(mask.astype("uint8").tobytes(), 1, math.prod(sizes)).reshape(sizes)
    return constant(_dense(nonzero_data, mask))


def _dense(values: Array, mask: Array) -> Array:
    where = mask.astype(bool)
    if int(where.sum()) != values.size:
        raise TVMError(f"a sparse weight has {values.size} values for {int(where.sum())} set elements of its mask")
    out = np.zeros(mask.shape, values.dtype)
    out[where] = values.reshape(-1)
    return out


@op("constexpr_sparse_blockwise_shift_scale")
def sparse_blockwise_shift_scale(ctx, data_mask: Array, nonzero_data: Array, scale: Array, offset: Array | None = None):
    full = _shifted(_dense(nonzero_data, data_mask), scale, offset).astype(scale.dtype)
    return [constant(data_mask), constant(full[data_mask.astype(bool)])]


@op("constexpr_lut_to_sparse")
def lut_to_sparse(ctx, indices_mask: Array, indices_nonzero_data: Array, lut: Array, vector_axis: int | None = None):
    full = _look_up(_dense(indices_nonzero_data, indices_mask), lut, vector_axis)
    mask = indices_mask
    if full.shape != mask.shape:
        mask = np.repeat(mask, lut.shape[-1], axis_of(vector_axis or 0, mask.ndim))
    return [constant(mask), constant(full[mask.astype(bool)])]


__all__ = ["affine_dequantize", "lut_to_dense", "sparse_to_dense"]
