"""Loads of elements of buffers and tensors."""

from __future__ import annotations

from typing import Any

from ...dtype import info, with_lanes
from ...error import TVMError
from .base import PrimExpr, PrimExprWithOp


def _load_dtype(buffer: Any, indices: Any) -> str:
    if len(indices) != len(buffer.shape):
        raise TVMError(f"Buffer {buffer.name} is {len(buffer.shape)}-dimensional, cannot be indexed with "
                       f"{len(indices)} indices")  # fmt: skip
    lanes = 1
    for index in indices:
        lanes *= info(index.dtype).lanes
    if lanes == 1:
        return buffer.dtype
    return with_lanes(buffer.dtype, lanes * info(buffer.dtype).lanes)


class BufferLoad(
    PrimExprWithOp,
    key="tir.BufferLoad",
    derived={"dtype": "_load_dtype(buffer, indices)"},
    scope={"_load_dtype": _load_dtype},
):
    """A load of an element, or of several with a vector index, from a buffer.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    indices : tuple of PrimExpr
        The index along each dimension.
    """

    buffer: Any
    indices: tuple[PrimExpr, ...]


class ProducerLoad(PrimExprWithOp, key="tir.ProducerLoad", derived={"dtype": "producer.dtype"}):
    """A load of an element of a tensor that does not have a buffer yet.

    Parameters
    ----------
    producer : Tensor
        The tensor.
    indices : tuple of PrimExpr
        The index along each dimension.
    """

    producer: Any
    indices: tuple[PrimExpr, ...]


__all__ = ["BufferLoad", "ProducerLoad"]
