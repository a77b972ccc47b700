"""Matmuls and dense layers."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import te
from ...error import TVMError
from ...ir.prim import convert
from ..assumptions import agree
from ..broadcast import broadcast_dim, broadcast_index
from ..tag import BROADCAST
from ..utils import refuse_rewritten


def matmul_sizes(tensor_a, tensor_b, transpose_a: bool, transpose_b: bool) -> tuple[Any, Any, Any]:
    """Return m, n and k of a matmul; the left operand may be a stack of matrices."""
    if len(tensor_a.shape) < 2 or len(tensor_b.shape) != 2:
        raise TVMError(
            f"matmul: operands must be matrices, got {len(tensor_a.shape)} and {len(tensor_b.shape)} dimensions"
        )
    m, ka = tensor_a.shape[-2:] if not transpose_a else tensor_a.shape[:-3:-1]
    kb, n = tensor_b.shape if not transpose_b else tensor_b.shape[::-1]
    if not agree(ka, kb, "as many columns on the left as rows on the right"):
        raise TVMError(f"matmul: the left operand has {ka} columns, but the right one has {kb} rows")
    return m, n, ka


def matmul(
    tensor_a,
    tensor_b,
    bias=None,
    out_dtype=None,
    transpose_a=False,
    transpose_b=False,
    auto_scheduler_rewritten_layout="",
    meta_schedule_original_shape=None,
):
    """The matmul of two operands, each optionally transposed, plus a bias for each column. ``tensor_a`` may have more
    leading dimensions."""
    refuse_rewritten("matmul", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    out_dtype = out_dtype or tensor_a.dtype
    m, n, terms = matmul_sizes(tensor_a, tensor_b, transpose_a, transpose_b)
    k = te.reduce_axis((0, terms), name="k")

    def body(*at):
        i, j = at[-2], at[-1]
        a = tensor_a(*at[:-2], *((k, i) if transpose_a else (i, k)))
        b = tensor_b(*((j, k) if transpose_b else (k, j)))
        return te.sum(a.astype(out_dtype) * b.astype(out_dtype), axis=k)

    name = (
        "T_dense"
        if transpose_b and not transpose_a
        else "T_matmul_" + ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    )
    out = te.compute(
        (*tensor_a.shape[:-2], m, n), body, name=name, tag="dense" if transpose_b and not transpose_a else "matmul"
    )
    return with_bias(out, bias, out_dtype)


def with_bias(out, bias, out_dtype: str):
    """Return a matmul with its bias, if it has one."""
    if bias is None:
        return out
    return te.compute(out.shape, lambda *at: out(*at) + bias(at[-1]).astype(out_dtype), tag=BROADCAST)


def dense(
    data, weight, bias=None, out_dtype=None, auto_scheduler_rewritten_layout="", meta_schedule_original_shape=None
):
    """The matmul of ``data`` and the transposed ``weight``, plus ``bias``.

    Examples
    --------
    >>> topi.nn.dense(te.placeholder((2, 8)), te.placeholder((4, 8))).shape
    (2, 4)
    """
    refuse_rewritten("dense", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    return matmul(data, weight, bias, out_dtype, False, True)


class Batch(NamedTuple):
    """A batch of matmuls along the first dimension: the batch size, m, n, k, and the operand that is a single
    matrix."""

    count: Any
    m: Any
    n: Any
    k: Any
    one_a: bool
    one_b: bool


def batch_sizes(tensor_a, tensor_b, transpose_a: bool, transpose_b: bool) -> Batch:
    """Return the dimensions of a batch of matmuls."""
    if len(tensor_a.shape) != 3 or len(tensor_b.shape) != 3:
        raise TVMError(
            f"batch_matmul: operands must have three dimensions, got {len(tensor_a.shape)} and {len(tensor_b.shape)}"
        )
    ba, bb = tensor_a.shape[0], tensor_b.shape[0]
    one_a, one_b = getattr(ba, "value", 0) == 1, getattr(bb, "value", 0) == 1
    count = broadcast_dim(convert(ba), convert(bb), "batch_matmul")
    m, ka = tensor_a.shape[1:] if not transpose_a else tensor_a.shape[:0:-1]
    kb, n = tensor_b.shape[1:] if not transpose_b else tensor_b.shape[:0:-1]
    if not agree(ka, kb, "as many columns on the left as rows on the right"):
        raise TVMError(f"batch_matmul: the left operand has {ka} columns, but the right one has {kb} rows")
    return Batch(count, m, n, ka, one_a, one_b)


def batch_matmul(
    tensor_a,
    tensor_b,
    oshape=None,
    out_dtype=None,
    transpose_a=False,
    transpose_b=True,
    auto_scheduler_rewritten_layout="",
    meta_schedule_original_shape=None,
):
    """Matmuls along the first dimension; an operand with batch size 1 is used for the whole batch.

    Examples
    --------
    >>> topi.nn.batch_matmul(te.placeholder((5, 2, 3)), te.placeholder((5, 4, 3))).shape
    (5, 2, 4)
    """
    refuse_rewritten("batch_matmul", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    out_dtype = out_dtype or tensor_a.dtype
    sizes = batch_sizes(tensor_a, tensor_b, transpose_a, transpose_b)
    k = te.reduce_axis((0, sizes.k), name="k")

    def body(b, i, j):
        own_a, own_b = (broadcast_index(t.shape[:1], [sizes.count], [b])[0] for t in (tensor_a, tensor_b))
        x = tensor_a(own_a, *((k, i) if transpose_a else (i, k)))
        y = tensor_b(own_b, *((j, k) if transpose_b else (k, j)))
        return te.sum(x.astype(out_dtype) * y.astype(out_dtype), axis=k)

    return te.compute((sizes.count, sizes.m, sizes.n), body, name="T_batch_matmul", tag="batch_matmul")
