"""Matrix products on a CPU: the computations of ``topi.nn`` in the panels and whole tiles of its template."""

from __future__ import annotations

from typing import Any

from ... import te, tir
from ...autotvm.task.topi_integration import mark
from ...ir.prim import IntImm
from ...target import Target
from ...te.tensor import Tensor
from .. import nn
from ..nn.dense import batch_sizes, with_bias
from ..nn.packed import cut_units, packed_product
from . import tuned
from .machine import Machine
from .matmul import plan_product, row_tile


def batch_matmul(
    tensor_a: Tensor, tensor_b: Tensor, oshape: Any = None, out_dtype: str | None = None, transpose_a: bool = False,
    transpose_b: bool = True, *, target: Target,
) -> Tensor:
    """``topi.nn.batch_matmul`` in whole tiles: rows are filled up by doing the last one again, columns by zeros in the
    last panel of the right operand."""
    dtype = out_dtype or tensor_a.dtype
    sizes = batch_sizes(tensor_a, tensor_b, transpose_a, transpose_b)
    count, m, n, terms = sizes[:4]
    if not all(isinstance(d, IntImm) for d in (count, m, n, terms)):
        return nn.batch_matmul(tensor_a, tensor_b, oshape, out_dtype, transpose_a, transpose_b)
    workload = tuned.batch_matmul_workload(tensor_a, tensor_b, dtype, transpose_a, transpose_b)
    plan = plan_product(count.value, m.value, n.value, transpose_b, dtype, Machine(target))
    right = _in_panels(tensor_b, n, terms, plan.panel, transpose_b) if plan.panel else tensor_b
    k = te.reduce_axis((0, terms), name="k")

    def body(b, i, j):
        row = te.min(i, m - 1) if plan.rows else i
        x = tensor_a(0 if sizes.one_a else b, *((k, row) if transpose_a else (row, k)))
        at = 0 if sizes.one_b else b
        if plan.panel:
            y = right(at, te.indexdiv(j, plan.panel), k, te.indexmod(j, plan.panel))
        else:
            y = right(at, *((j, k) if transpose_b else (k, j)))
        return te.sum(x.astype(dtype) * y.astype(dtype), axis=k)

    attrs: dict[str, Any] = {"panel": plan.panel} if plan.panel else {}
    whole = te.compute((count, plan.rows or m, plan.columns or n), body, name="T_batch_matmul", tag="batch_matmul",
                       attrs={**attrs, "workload": workload})
    if not plan.rows and not plan.columns:
        return whole
    return te.compute((count, m, n), lambda *at: whole(*at), name="T_batch_matmul_part", tag="injective")


def _in_panels(tensor: Tensor, n: Any, k: Any, width: int, transposed: bool) -> Tensor:
    """A batch of right operands as panels of ``width`` columns that lie side by side; zeros fill the last."""

    def body(b, panel, kk, j):
        column = panel * width + j
        value = tensor(b, column, kk) if transposed else tensor(b, kk, column)
        return value if n.value % width == 0 else tir.if_then_else(column < n, value, tir.const(0, tensor.dtype))

    shape = (tensor.shape[0], -(-n.value // width), k, width)
    return te.compute(shape, body, name="T_batch_matmul_panels", tag="panels")


def dense_pack(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None, units: Any = None, *,
    target: Target,
) -> Tensor:
    """``topi.nn.dense_pack`` in whole tiles."""
    dtype = out_dtype or data.dtype
    whole = packed_product(data, weight, dtype, _padded_rows(data, weight, Machine(target)))
    if tuned.is_known(data.shape, weight.shape):
        mark(whole, tuned.dense_workload(data, weight, units or whole.shape[-1], dtype))
    return with_bias(cut_units(whole, data, units), bias, dtype)


def _padded_rows(data: Tensor, weight: Tensor, machine: Machine) -> int | None:
    """The multiple of a tile's rows to compute those of the data in, None where they are one: the last row stands in
    for those that are missing, which costs less than a tile of another size."""
    if len(data.shape) < 2 or not tuned.is_known(data.shape[-2:-1], (weight.shape[0], weight.shape[2])):
        return None
    rows, block = int(data.shape[-2]), int(weight.shape[2])
    tile = row_tile(rows, int(weight.shape[0]) * block, block, machine, data.dtype)
    padded = -(-rows // tile) * tile
    return padded if padded != rows else None


__all__ = ["batch_matmul", "dense_pack"]
