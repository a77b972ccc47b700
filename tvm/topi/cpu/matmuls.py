"""Matmuls on a CPU: the computations of ``topi.nn`` in the panels and full register tiles of its template."""

from __future__ import annotations

from typing import Any

from ... import te, tir
from ...autotvm.task.topi_integration import mark
from ...ir.prim import IntImm
from ...target import Target
from ...te.tensor import Tensor
from .. import nn, size_class
from ..nn.dense import batch_sizes, with_bias
from ..nn.packed import crop_units, packed_matmul
from . import matmul_int8, tuned
from .dot_products import ACCUMULATOR, dot_product, with_instruction
from .machine import Machine
from .matmul import NOMINAL_ROWS, PACK_FROM_ROWS, plan_matmul, row_tile


def batch_matmul(
    tensor_a: Tensor, tensor_b: Tensor, oshape: Any = None, out_dtype: str | None = None, transpose_a: bool = False,
    transpose_b: bool = True, *, target: Target,
) -> Tensor:
    """``topi.nn.batch_matmul`` in full register tiles: m is padded by repeating the last row, n by zeros in the last
    panel of the rhs."""
    dtype = out_dtype or tensor_a.dtype
    sizes = batch_sizes(tensor_a, tensor_b, transpose_a, transpose_b)
    count, m, n, reduction = sizes[:4]
    if not all(isinstance(d, IntImm) for d in (count, m, n, reduction)):
        return nn.batch_matmul(tensor_a, tensor_b, oshape, out_dtype, transpose_a, transpose_b)
    of_bytes = None if transpose_a else _byte_products(tensor_a, tensor_b, dtype, sizes, transpose_b, target)
    if of_bytes is not None:
        return of_bytes
    workload = tuned.batch_matmul_workload(tensor_a, tensor_b, dtype, transpose_a, transpose_b)
    plan = plan_matmul(count.value, m.value, n.value, transpose_b, dtype, Machine(target))
    rhs = _in_panels(tensor_b, n, reduction, plan.panel, transpose_b) if plan.panel else tensor_b
    k = te.reduce_axis((0, reduction), name="k")

    def body(b, i, j):
        row = te.min(i, m - 1) if plan.rows else i
        x = tensor_a(0 if sizes.one_a else b, *((k, row) if transpose_a else (row, k)))
        at = 0 if sizes.one_b else b
        if plan.panel:
            y = rhs(at, te.indexdiv(j, plan.panel), k, te.indexmod(j, plan.panel))
        else:
            y = rhs(at, *((j, k) if transpose_b else (k, j)))
        return te.sum(x.astype(dtype) * y.astype(dtype), axis=k)

    attrs: dict[str, Any] = {"panel": plan.panel} if plan.panel else {}
    padded = te.compute((count, plan.rows or m, plan.columns or n), body, name="T_batch_matmul", tag="batch_matmul",
                        attrs={**attrs, "workload": workload})
    if not plan.rows and not plan.columns:
        return padded
    return te.compute((count, m, n), lambda *at: padded(*at), name="T_batch_matmul_part", tag="injective")


def _byte_products(a: Tensor, b: Tensor, dtype: str, sizes: Any, transpose_b: bool, target: Target) -> Tensor | None:
    """A batch of products of bytes over whole panels; None where the target has no instruction for it."""
    count, m, n, k = (d.value for d in sizes[:4])
    if dtype != ACCUMULATOR or a.dtype != b.dtype or dot_product(target, a.dtype) is None:
        return None
    if n % matmul_int8.PANEL or 0 in (count, m, n, k):
        return None
    lhs, rhs = matmul_int8.padded_lhs(a, k), matmul_int8.panels(b, n, k, transpose_b)
    out = matmul_int8.products(lhs, rhs, (count, m, n), "T_batch_matmul", bool(sizes.one_a), bool(sizes.one_b))
    return with_instruction(out, lhs, rhs, target)


def _in_panels(tensor: Tensor, n: Any, k: Any, width: int, transposed: bool) -> Tensor:
    """A batch of rhs packed into panels of ``width`` contiguous columns; zeros pad the last."""

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
    """``topi.nn.dense_pack`` in full register tiles; a weight of bytes is in panels of ``matmul_int8``."""
    dtype = out_dtype or data.dtype
    if len(weight.shape) == 5:
        lhs = matmul_int8.padded_lhs(data, int(data.shape[-1]))
        shape = (*data.shape[:-1], int(weight.shape[0]) * int(weight.shape[3]))
        product = with_instruction(matmul_int8.products(lhs, weight, shape, "T_dense_pack"), lhs, weight, target)
        return with_bias(product, bias, dtype)
    if len(data.shape) > 1 and not isinstance(data.shape[-2], IntImm) and tuned.is_known(weight.shape):
        return with_bias(crop_units(_for_any_rows(data, weight, dtype, Machine(target)), data, units), bias, dtype)
    padded = packed_matmul(data, weight, dtype, _padded_rows(data, weight, Machine(target)))
    if tuned.is_known(data.shape, weight.shape):
        mark(padded, tuned.dense_workload(data, weight, units or padded.shape[-1], dtype))
    return with_bias(crop_units(padded, data, units), bias, dtype)


def _for_any_rows(data: Tensor, weight: Tensor, dtype: str, machine: Machine) -> Tensor:
    """A number of rows that is not known, in full register tiles: small ones where rows are few, as memory is the bound
    and what is computed of rows that are missing costs nothing."""
    rows, width = data.shape[-2], int(weight.shape[2])
    tile = PACK_FROM_ROWS
    if not size_class.is_small(rows, tile + 1):
        tile = row_tile(NOMINAL_ROWS, int(weight.shape[0]) * width, width, machine, dtype)
    return packed_matmul(data, weight, dtype, te.indexdiv(rows + (tile - 1), tile) * tile, tile)


def _padded_rows(data: Tensor, weight: Tensor, machine: Machine) -> int | None:
    """m padded to a multiple of the rows of a register tile, None where it is one: the last row is repeated, which
    costs less than a tile of another size."""
    if len(data.shape) < 2 or not tuned.is_known(data.shape[-2:-1], (weight.shape[0], weight.shape[2])):
        return None
    rows, block = int(data.shape[-2]), int(weight.shape[2])
    tile = row_tile(rows, int(weight.shape[0]) * block, block, machine, data.dtype)
    padded = -(-rows // tile) * tile
    return padded if padded != rows else None


__all__ = ["batch_matmul", "dense_pack"]
