"""Matmuls on a CPU: the operators of ``topi.nn``, computed with the panels and full register tiles of the templates."""

from __future__ import annotations

from math import prod
from typing import Any

from ... import te, tir
from ...autotvm.task.topi_integration import mark
from ...dtype import info
from ...ir.prim import IntImm, convert
from ...target import Target
from ...te.tensor import Tensor
from .. import nn, size_class
from ..nn.dense import Batch, batch_sizes, with_bias
from ..nn.packed import crop_units, packed_matmul, row_or_last
from ..utils import same_dim, simplify
from . import byte_windows, matmul_dots, matmul_pairs, matmul_tiles, tiles, tuned
from .byte_functions import byte_kernels
from .dot_products import dot_product, with_instruction
from .machine import Machine
from .matmul import (
    DOT_PRODUCT_ROWS,
    MANY_ROWS,
    NOMINAL_ROWS,
    PACK_FROM_ROWS,
    cache_blocks,
    plan_any_size,
    plan_matmul,
    row_columns,
    row_tile,
    rows_that_fit,
)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Any = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.batch_matmul`` in full register tiles: the last row is repeated to pad m, and zeros pad n in the
    last panel of the rhs."""
    dtype = out_dtype or tensor_a.dtype
    sizes = batch_sizes(tensor_a, tensor_b, transpose_a, transpose_b)
    if not tuned.is_known(tensor_a.shape, tensor_b.shape):
        made = _dynamic_batch_matmul(tensor_a, tensor_b, sizes, dtype, (transpose_a, transpose_b), Machine(target))
        if made is not None:
            return made
        return nn.batch_matmul(tensor_a, tensor_b, oshape, out_dtype, transpose_a, transpose_b)
    for products in () if transpose_a else (_with_tiles, _with_dots):
        made = products(tensor_a, tensor_b, dtype, sizes, transpose_b, target)
        if made is not None:
            return made
    count, m, n = (d.value for d in sizes[:3])
    plan = plan_matmul(count, m, n, transpose_b, dtype, Machine(target))
    padded = (plan.rows or sizes.m, plan.columns or sizes.n)
    workload = tuned.batch_matmul_workload(tensor_a, tensor_b, dtype, transpose_a, transpose_b)
    attrs = {"panel": 0} if transpose_b and m <= DOT_PRODUCT_ROWS else {"workload": workload}
    return _in_tiles(tensor_a, tensor_b, sizes, dtype, (transpose_a, transpose_b), plan.panel, padded, attrs)


def _dynamic_batch_matmul(
    a: Tensor, b: Tensor, sizes: Batch, dtype: str, transposed: tuple[bool, bool], machine: Machine
) -> Tensor | None:
    """Return a batched matmul with dynamic dimensions that are padded to full register tiles at run time. Return None
    if it has too few rows for packing the rhs, or if the batch may be broadcast at run time. A matmul with one row, as
    in token-by-token decoding, reads the rhs without packing."""
    m, n = (d.value if isinstance(d, IntImm) else None for d in (sizes.m, sizes.n))
    if not (sizes.one_a or sizes.one_b or same_dim(a.shape[0], b.shape[0])):
        return None
    columns = row_columns(dtype, machine) if n is None and not transposed[1] else 0
    is_one_row = [sizes.m < 2] * (m is None) + [sizes.n >= columns] * (columns > 0)
    if m in (None, 1) and is_one_row and size_class.which([tir.all(*is_one_row)]):
        attrs = {"panel": 0} if transposed[1] else {"columns": columns}
        return _in_tiles(a, b, sizes, dtype, transposed, 0, (1, sizes.n), attrs)
    if m is not None and m < PACK_FROM_ROWS or n == 0:
        return None
    panel, tile = plan_any_size(m, n, transposed[1], dtype, machine)
    padded = (_whole(sizes.m, tile), _whole(sizes.n, panel) if panel else sizes.n)
    return _in_tiles(a, b, sizes, dtype, transposed, panel, padded, {} if m is not None else {"rows": tile})


def _whole(size: Any, tile: int) -> Any:
    """Return a dimension rounded up to whole tiles."""
    return simplify(te.indexdiv(size + (tile - 1), tile) * tile)


def _in_tiles(
    lhs: Tensor,
    rhs: Tensor,
    sizes: Batch,
    dtype: str,
    transposed: tuple[bool, bool],
    panel: int,
    padded: tuple[Any, Any],
    attrs: dict[str, Any],
) -> Tensor:
    """Return the requested part of the matmul over ``padded`` rows and columns."""
    count, m, n, reduction = sizes[:4]
    is_whole = [same_dim(convert(have), convert(want)) for have, want in zip(padded, (m, n))]
    is_one_row = same_dim(convert(padded[0]), convert(1))
    rhs = _in_panels(rhs, n, reduction, panel, transposed[1]) if panel else rhs
    k = te.reduce_axis((0, reduction), name="k")

    def body(b, i, j):
        row = i if is_whole[0] or is_one_row else row_or_last(i, m, attrs.get("rows"))
        x = lhs(0 if sizes.one_a else b, *((k, row) if transposed[0] else (row, k)))
        at = 0 if sizes.one_b else b
        if panel:
            y = rhs(at, te.indexdiv(j, panel), k, te.indexmod(j, panel))
        else:
            y = rhs(at, *((j, k) if transposed[1] else (k, j)))
        return te.sum(x.astype(dtype) * y.astype(dtype), axis=k)

    attrs = {**({"panel": panel} if panel else {}), **attrs}
    product = te.compute((count, *padded), body, name="T_batch_matmul", tag="batch_matmul", attrs=attrs)
    if all(is_whole):
        return product
    return te.compute((count, m, n), lambda b, i, j: product(b, 0 if is_one_row else i, j),
                      name="T_batch_matmul_part", tag="injective")  # fmt: skip


def _with_dots(a: Tensor, b: Tensor, dtype: str, sizes: Any, transpose_b: bool, target: Target) -> Tensor | None:
    """Return a batch of matmuls with 2x2 matmul or dot product instructions over whole panels, or None if the target
    has no suitable instruction."""
    count, m, n, k = (d.value for d in sizes[:4])
    pairs = matmul_pairs.instruction_for(target, a.dtype, b.dtype, dtype, m)
    instruction = pairs or dot_product(target, a.dtype, b.dtype, matmul_dots.PANEL)
    if instruction is None or instruction.sums != dtype:
        return None
    if n % matmul_dots.PANEL or 0 in (count, m, n, k):
        return None
    rhs = matmul_dots.panels(b, n, k, transpose_b, instruction.depth)
    if pairs is not None:
        return matmul_pairs.products(a, rhs, pairs, "T_batch_matmul", bool(sizes.one_a), bool(sizes.one_b))
    lhs = matmul_dots.padded_lhs(a, k)
    out = matmul_dots.products(lhs, rhs, (count, m, n), "T_batch_matmul", bool(sizes.one_a), bool(sizes.one_b))
    return with_instruction(out, lhs, rhs, target, matmul_dots.PANEL)


def _with_tiles(a: Tensor, b: Tensor, dtype: str, sizes: Any, transpose_b: bool, target: Target) -> Tensor | None:
    """Return a batch of matmuls with matrix registers, or None if the target has none for these types."""
    count, m, n, k = (d.value for d in sizes[:4])
    kind, width = tiles.kind_of(target, a.dtype, b.dtype), matmul_tiles.panel_width(n)
    if kind is None or width is None or kind.sums != dtype or 0 in (count, m, n, k):
        return None
    rhs = matmul_tiles.packed_rhs(b, n, k, width, transpose_b, kind)
    return matmul_tiles.products(a, rhs, n, kind, True, bool(sizes.one_a), bool(sizes.one_b))


def _in_panels(tensor: Tensor, n: Any, k: Any, width: int, transposed: bool) -> Tensor:
    """Return a batch of rhs matrices packed into panels of ``width`` contiguous columns; zeros pad the last panel."""

    def body(b, panel, kk, j):
        column = panel * width + j
        value = tensor(b, column, kk) if transposed else tensor(b, kk, column)
        is_full = isinstance(n, IntImm) and n.value % width == 0
        return value if is_full else tir.if_then_else(column < n, value, tir.const(0, tensor.dtype))

    count = -(-n.value // width) if isinstance(n, IntImm) else te.indexdiv(n + (width - 1), width)
    shape = (tensor.shape[0], count, k, width)
    return te.compute(shape, body, name="T_batch_matmul_panels", tag="panels")


def dense_pack(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    units: Any = None,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.dense_pack`` in full register tiles. A weight with five dimensions is packed for
    ``matmul_tiles`` if the target has suitable matrix registers, else for ``matmul_pairs`` or ``matmul_dots``,
    depending on its last dimension."""
    dtype = out_dtype or data.dtype
    if len(weight.shape) == 5 and byte_kernels(target) is not None:
        return with_bias(byte_windows.dense_int8(data, weight, target), bias, dtype)
    kind = tiles.kind_of(target, data.dtype, weight.dtype) if len(weight.shape) == 5 else None
    if kind is not None:
        columns = int(units or int(weight.shape[0]) * int(weight.shape[3]))
        return with_bias(matmul_tiles.products(data, weight, columns, kind), bias, dtype)
    if len(weight.shape) == 5:
        pairs = matmul_pairs.instruction_for(target, data.dtype, weight.dtype, dtype, data.shape[-2])
        if pairs is not None and int(weight.shape[4]) == pairs.depth:
            return with_bias(matmul_pairs.products(data, weight, pairs, "T_dense_pack"), bias, dtype)
        lhs = matmul_dots.padded_lhs(data, int(data.shape[-1]))
        shape = (*data.shape[:-1], int(weight.shape[0]) * int(weight.shape[3]))
        product = matmul_dots.products(lhs, weight, shape, "T_dense_pack")
        if int(weight.shape[4]) == matmul_dots.depth_of(weight.dtype):
            product = with_instruction(product, lhs, weight, target, matmul_dots.PANEL)
        return with_bias(product, bias, dtype)
    if len(data.shape) > 1 and not isinstance(data.shape[-2], IntImm) and tuned.is_known(weight.shape):
        return with_bias(crop_units(_dynamic_dense(data, weight, dtype, Machine(target)), data, units), bias, dtype)
    padded = packed_matmul(data, weight, dtype, _padded_rows(data, weight, Machine(target)))
    if tuned.is_known(data.shape, weight.shape):
        mark(padded, tuned.dense_workload(data, weight, units or padded.shape[-1], dtype))
    return with_bias(crop_units(padded, data, units), bias, dtype)


def _dynamic_dense(data: Tensor, weight: Tensor, dtype: str, machine: Machine) -> Tensor:
    """Return a dense layer with a dynamic number of rows in full register tiles.

    - A single row is computed separately.
    - If weights stay in the L2 caches, few rows use small tiles, provided that the tiles for many rows are larger.
      Otherwise the kernel is bound by memory, and computing missing rows costs little.
    - If many rows need blocks of k, the rows that fit the L2 cache with all of k are a size class without blocks.
      Otherwise there are no blocks, and none for tiles of few rows: a size class only for row blocks or for prefetched
      panels costs more compile time than it saves."""
    rows, width, k = data.shape[-2], int(weight.shape[2]), int(weight.shape[1])
    tile = row_tile(NOMINAL_ROWS, int(weight.shape[0]) * width, width, machine, dtype)
    is_cached = prod(map(int, weight.shape)) * info(dtype).bytes <= machine.l2_bytes * machine.threads
    few = (1, PACK_FROM_ROWS) if tile > PACK_FROM_ROWS and is_cached else (1,)
    classes = [rows < most + 1 for most in few]
    fitting = rows_that_fit(width, dtype, machine, k)
    is_blocked = cache_blocks(width, dtype, machine, tile, MANY_ROWS, k).get("k_block", k) < k
    if is_blocked and tile > PACK_FROM_ROWS and PACK_FROM_ROWS < fitting < MANY_ROWS:
        classes.append(rows <= fitting)
    chosen = size_class.which(classes)
    tile = few[chosen - 1] if 0 < chosen <= len(few) else tile
    fits = chosen > len(few) or chosen == 0 and not is_blocked
    return packed_matmul(data, weight, dtype, _whole(rows, tile), tile, {"fits": True} if fits else {})


def _padded_rows(data: Tensor, weight: Tensor, machine: Machine) -> int | None:
    """Return m padded to a multiple of the rows of a register tile, or None if it is a multiple. Padding repeats the
    last row, which costs less than a tile of another size."""
    if len(data.shape) < 2 or not tuned.is_known(data.shape[-2:-1], (weight.shape[0], weight.shape[2])):
        return None
    rows, block = int(data.shape[-2]), int(weight.shape[2])
    tile = row_tile(rows, int(weight.shape[0]) * block, block, machine, data.dtype)
    padded = -(-rows // tile) * tile
    return padded if padded != rows else None


__all__ = ["batch_matmul", "dense_pack"]
