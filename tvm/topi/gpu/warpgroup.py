"""Products by warpgroups (sm_90a): how operands lie, the intrinsics, and what may be chosen of tiles.

Four warps multiply matrices in shared memory together, beside the program: while the products of one step are on
their way, those of the next are asked for. Operands come in rows of 128 bytes: as they are where rows go along the sum,
else in blocks of as many columns as 128 bytes hold.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import te, tir
from ...dtype import info
from ...ir.prim import PrimExpr
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

THREADS = 128
ROW = 128
SUM = "float32"
# Results of a warpgroup, and how many a block has along rows and columns.
TILES = ((64, 256), (128, 192), (128, 128), (64, 128), (128, 64), (64, 64))
COUNTS = ((2, 1), (1, 2), (1, 1), (3, 1), (2, 2))
# Rows and columns below which a tile would be filling for the most part.
FEWEST = 32
# Groups of products on their way while the program goes on.
IN_FLIGHT = 1
# Strips under way: of small tiles more than of large ones, which shared memory limits.
STAGES = (4, 3, 5, 6, 8)
REGISTERS = 65536


def terms(dtype: str) -> int:
    """Terms of one step: a row of 128 bytes."""
    return ROW // info(dtype).bytes


def shape(along: bool, size: int, total: int, dtype: str) -> tuple[int, ...]:
    """Of an operand of ``size`` rows (or columns) and ``total`` terms as it lies."""
    block = terms(dtype)
    return (size, total) if along else (size // block, total, block)


def place(along: bool, i: Any, k: Any, dtype: str) -> tuple[Any, ...]:
    """Where term ``k`` of row (or column) ``i`` is."""
    block = terms(dtype)
    return (i, k) if along else (te.indexdiv(i, block), k, te.indexmod(i, block))


def element(along: bool, at: tuple[Any, ...], dtype: str) -> tuple[Any, Any]:
    """The row (or column) and the term of a place."""
    return at if along else (at[0] * terms(dtype) + at[2], at[1])  # type: ignore[return-value]


def strip_bytes(tile: tuple[int, int], stages: int) -> int:
    """Of the shared memory for operands."""
    return stages * sum(tile) * ROW


def _buffer(tensor: Tensor, name: str, **more: Any) -> Buffer:
    strides = [te.var(f"{name}_stride{i}") for i in range(len(tensor.shape) - 1)]
    return tir.decl_buffer(tensor.shape, tensor.dtype, name=name, strides=[*strides, 1], offset_factor=1, **more)


def _call(name: str, *args: Any) -> PrimExpr:
    return tir.call_intrin("void", f"tir.{name}", *args)


@functools.cache
def multiply(tile: tuple[int, int], left_along: bool, right_along: bool, dtype: str) -> TensorIntrin:
    """Add the product of one step to the sums of a warpgroup, which are there only after a wait."""
    count = terms(dtype)
    a = te.placeholder(shape(left_along, tile[0], count, dtype), dtype, name="a")
    b = te.placeholder(shape(right_along, tile[1], count, dtype), dtype, name="b")
    k = te.reduce_axis((0, count), name="k")

    def term(i: Any, j: Any) -> Any:
        x, y = a(*place(left_along, i, k, dtype)), b(*place(right_along, j, k, dtype))
        return te.sum(x.astype(SUM) * y.astype(SUM), axis=k)

    c = te.compute(tile, term, name="c")
    binds = {a: _buffer(a, "left", scope="shared.dyn"), b: _buffer(b, "right", scope="shared.dyn"),
             c: _buffer(c, "sum", scope="wmma.accumulator")}  # fmt: skip

    def body(ins: list[Buffer], outs: list[Buffer]) -> Any:
        total = outs[0]
        sums = total.data, *tile, count
        start = tir.call_intrin("handle", "tir.tvm_fill_fragment", *sums, 0, tir.const(0, SUM))
        matrices = [x for buffer, along in zip(ins, (left_along, right_along))
                    for x in (buffer.access_ptr("r"), int(along), buffer.strides[0])]
        step = _call("ptx_wgmma", dtype, *tile, count, total.data, 0, *matrices)
        update = tir.SeqStmt([tir.Evaluate(step), tir.Evaluate(_call("ptx_wgmma_wait", IN_FLIGHT))])
        return tir.SeqStmt([tir.Evaluate(start), update]), start, update

    return te.decl_tensor_intrin(c.op, body, "multiply_by_warpgroup", binds=binds)


@functools.cache
def store(tile: tuple[int, int], dtype: str) -> TensorIntrin:
    """Write the sums of a warpgroup to memory; ``dtype`` is that of the operands."""
    x = te.placeholder(tile, SUM, name="x")
    y = te.compute(tile, lambda i, j: x[i, j], name="y")
    source, target = _buffer(x, "source", scope="wmma.accumulator"), _buffer(y, "target", data_alignment=16)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Any:
        sums = ins[0].data, *tile, terms(dtype), 0
        memory = outs[0].access_ptr("w"), outs[0].strides[0], "row_major"
        return tir.call_intrin("handle", "tir.tvm_store_matrix_sync", *sums, *memory)

    return te.decl_tensor_intrin(y.op, body, "store_of_warpgroup", binds={x: source, y: target})
