"""Matrix products."""

from __future__ import annotations

from ... import te, tir
from ...error import TVMError
from ...ir.prim import IntImm
from ...target import Target
from ..cpu import tuned
from ..cpu.matmul import Product, plan_product
from ..gpu import gemm
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
    if gemm.wanted((tensor_a, tensor_b), n):
        made = gemm.matmul(tensor_a, tensor_b, out_dtype, transpose_a, transpose_b)
        return made if bias is None else _with_bias(made, bias, out_dtype)
    k = te.reduce_axis((0, ka), name="k")

    def body(*at):
        i, j = at[-2], at[-1]
        a = tensor_a(*at[:-2], *((k, i) if transpose_a else (i, k)))
        b = tensor_b(*((j, k) if transpose_b else (k, j)))
        return te.sum(a.astype(out_dtype) * b.astype(out_dtype), axis=k)

    name = "T_dense" if transpose_b and not transpose_a else "T_matmul_" + ("T" if transpose_a else "N") + (
        "T" if transpose_b else "N")
    out = te.compute((*lead, m, n), body, name=name, tag="dense" if transpose_b and not transpose_a else "matmul")
    return out if bias is None else _with_bias(out, bias, out_dtype)


def _with_bias(out, bias, out_dtype: str):
    return te.compute(out.shape, lambda *at: out(*at) + bias(at[-1]).astype(out_dtype), tag=BROADCAST)


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
    given = tensor_a, tensor_b
    ba, bb = tensor_a.shape[0], tensor_b.shape[0]
    one_a, one_b = getattr(ba, "value", 0) == 1, getattr(bb, "value", 0) == 1
    if not one_a and not one_b and not same_dim(ba, bb):
        raise TVMError(f"batch_matmul: {ba} matrices on the left, {bb} on the right")
    m, ka = tensor_a.shape[1:] if not transpose_a else tensor_a.shape[:0:-1]
    kb, n = tensor_b.shape[1:] if not transpose_b else tensor_b.shape[:0:-1]
    if not same_dim(ka, kb):
        raise TVMError(f"batch_matmul: {ka} columns on the left meet {kb} rows on the right")
    batch = bb if one_a else ba
    if gemm.wanted((tensor_a, tensor_b), n, batch):
        return gemm.batch_matmul(tensor_a, tensor_b, out_dtype, transpose_a, transpose_b)
    k = te.reduce_axis((0, ka), name="k")
    known = all(isinstance(d, IntImm) for d in (batch, m, n, ka))
    plan = plan_product(batch.value, m.value, n.value, transpose_b, out_dtype) if known else Product()
    if plan.panel:
        tensor_b = _in_panels(tensor_b, n, ka, plan.panel, transpose_b)

    def body(b, i, j):
        row = te.min(i, m - 1) if plan.rows else i
        x = tensor_a(0 if one_a else b, *((k, row) if transpose_a else (row, k)))
        at = 0 if one_b else b
        if plan.panel:
            y = tensor_b(at, te.indexdiv(j, plan.panel), k, te.indexmod(j, plan.panel))
        else:
            y = tensor_b(at, *((j, k) if transpose_b else (k, j)))
        return te.sum(x.astype(out_dtype) * y.astype(out_dtype), axis=k)

    # Products are done in whole tiles: of rows by doing the last one again, of columns by zeros in the last panel.
    shape = (batch, plan.rows or m, plan.columns or n)
    attrs: dict = {"panel": plan.panel} if plan.panel else {}
    target = Target.current(allow_none=True)
    if known and (target is None or "cpu" in target.keys):
        sides = tuned.tensor(given[0].shape, given[0].dtype), tuned.tensor(given[1].shape, given[1].dtype)
        attrs["workload"] = ("batch_matmul.x86", *sides, None, out_dtype, bool(transpose_a), bool(transpose_b))
    out = te.compute(shape, body, name="T_batch_matmul", tag="batch_matmul", attrs=attrs)
    if plan.rows or plan.columns:
        whole = out
        out = te.compute((batch, m, n), lambda *at: whole(*at), name="T_batch_matmul_part", tag="injective")
    return out


def _in_panels(tensor, n, k, width: int, transposed: bool):
    """A batch of right operands as panels of ``width`` columns that lie side by side; zeros fill the last."""

    def body(b, panel, kk, j):
        column = panel * width + j
        value = tensor(b, column, kk) if transposed else tensor(b, kk, column)
        return value if n.value % width == 0 else tir.if_then_else(column < n, value, tir.const(0, tensor.dtype))

    shape = (tensor.shape[0], -(-n.value // width), k, width)
    return te.compute(shape, body, name="T_batch_matmul_panels", tag="panels")
