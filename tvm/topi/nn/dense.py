"""Matrix products."""

from __future__ import annotations

from ... import te
from ...error import TVMError
from ..tag import BROADCAST
from ..utils import same_dim


def matmul(tensor_a, tensor_b, bias=None, out_dtype=None, transpose_a=False, transpose_b=False,
           auto_scheduler_rewritten_layout="", meta_schedule_original_shape=None):
    """A . B with either transposed, and a bias for each column. ``tensor_a`` may have more leading dimensions."""
    if len(tensor_a.shape) < 2 or len(tensor_b.shape) != 2:
        raise TVMError(f"matmul: matrices are wanted, got {len(tensor_a.shape)} and {len(tensor_b.shape)} dimensions")
    out_dtype = out_dtype or tensor_a.dtype
    lead = tuple(tensor_a.shape[:-2])
    m, ka = tensor_a.shape[-2:] if not transpose_a else tensor_a.shape[:-3:-1]
    kb, n = tensor_b.shape if not transpose_b else tensor_b.shape[::-1]
    if not same_dim(ka, kb):
        raise TVMError(f"matmul: {ka} columns on the left meet {kb} rows on the right")
    k = te.reduce_axis((0, ka), name="k")

    def body(*at):
        i, j = at[-2], at[-1]
        a = tensor_a(*at[:-2], *((k, i) if transpose_a else (i, k)))
        b = tensor_b(*((j, k) if transpose_b else (k, j)))
        return te.sum(a.astype(out_dtype) * b.astype(out_dtype), axis=k)

    name = "T_dense" if transpose_b and not transpose_a else "T_matmul_" + ("T" if transpose_a else "N") + (
        "T" if transpose_b else "N")
    out = te.compute((*lead, m, n), body, name=name, tag="dense" if transpose_b and not transpose_a else "matmul")
    if bias is not None:
        out = te.compute(out.shape, lambda *at: out(*at) + bias(at[-1]).astype(out_dtype), tag=BROADCAST)
    return out


def dense(
    data, weight, bias=None, out_dtype=None, auto_scheduler_rewritten_layout="", meta_schedule_original_shape=None
):
    """data . weight^T + bias"""
    return matmul(data, weight, bias, out_dtype, False, True)


def batch_matmul(tensor_a, tensor_b, oshape=None, out_dtype=None, transpose_a=False, transpose_b=True,
                 auto_scheduler_rewritten_layout="", meta_schedule_original_shape=None):
    """Products of matrices along the first dimension; a batch of one is used for all."""
    if len(tensor_a.shape) != 3 or len(tensor_b.shape) != 3:
        raise TVMError(
            f"batch_matmul: three dimensions are wanted, got {len(tensor_a.shape)} and {len(tensor_b.shape)}"
        )
    out_dtype = out_dtype or tensor_a.dtype
    ba, bb = tensor_a.shape[0], tensor_b.shape[0]
    one_a, one_b = getattr(ba, "value", 0) == 1, getattr(bb, "value", 0) == 1
    if not one_a and not one_b and not same_dim(ba, bb):
        raise TVMError(f"batch_matmul: {ba} matrices on the left, {bb} on the right")
    m, ka = tensor_a.shape[1:] if not transpose_a else tensor_a.shape[:0:-1]
    kb, n = tensor_b.shape[1:] if not transpose_b else tensor_b.shape[:0:-1]
    if not same_dim(ka, kb):
        raise TVMError(f"batch_matmul: {ka} columns on the left meet {kb} rows on the right")
    k = te.reduce_axis((0, ka), name="k")

    def body(b, i, j):
        x = tensor_a(0 if one_a else b, *((k, i) if transpose_a else (i, k)))
        y = tensor_b(0 if one_b else b, *((j, k) if transpose_b else (k, j)))
        return te.sum(x.astype(out_dtype) * y.astype(out_dtype), axis=k)

    return te.compute((bb if one_a else ba, m, n), body, name="T_batch_matmul", tag="batch_matmul")
