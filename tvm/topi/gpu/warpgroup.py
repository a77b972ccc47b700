"""Matmuls with warpgroups (sm_90a): the layout of operands, the intrinsics, and the tiles of the search space.

Four warps multiply matrices in shared memory together and asynchronously: the multiplications of the next block_k slice
are issued while those of the current one run. Operand tiles have rows of 128 bytes: along k if k is contiguous,
otherwise blocks of 128 bytes of elements along m or n.
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
ROW_BYTES = 128
ACCUMULATOR = "float32"
# Tiles (m, n) of a warpgroup, and the numbers of warpgroups of a block along m and n.
TILES = ((64, 256), (128, 192), (128, 128), (64, 128), (128, 64), (64, 64))
COUNTS = ((2, 1), (1, 2), (1, 1), (3, 1), (2, 2))
# The minimum m and n; for smaller matrices a tile would be mostly padding.
MIN_GROUP_TILE = 32
# The number of asynchronous groups of multiplications that are in flight while the program continues.
IN_FLIGHT = 1
# Pipeline stages: more for small tiles than for large ones, which are limited by shared memory.
STAGES = (4, 3, 5, 6, 8)
REGISTERS = 65536


def block_k(dtype: str) -> int:
    """Return the number of elements in a row of 128 bytes."""
    return ROW_BYTES // info(dtype).bytes


def shape(k_contiguous: bool, size: int, k: int, dtype: str) -> tuple[int, ...]:
    """Return the shape of an operand tile of ``size`` along m or n."""
    block = block_k(dtype)
    return (size, k) if k_contiguous else (size // block, k, block)


def index(k_contiguous: bool, i: Any, k: Any, dtype: str) -> tuple[Any, ...]:
    """Return the index of element (i, k) in an operand tile; i is along m or n."""
    block = block_k(dtype)
    return (i, k) if k_contiguous else (te.indexdiv(i, block), k, te.indexmod(i, block))


def coordinates(k_contiguous: bool, at: tuple[Any, ...], dtype: str) -> tuple[Any, Any]:
    """Return the (i, k) of an index in an operand tile."""
    return at if k_contiguous else (at[0] * block_k(dtype) + at[2], at[1])  # type: ignore[return-value]


def operand_bytes(tile: tuple[int, int], stages: int) -> int:
    """Return the bytes of shared memory of the operand tiles of all pipeline stages."""
    return stages * sum(tile) * ROW_BYTES


def _buffer(tensor: Tensor, name: str, **more: Any) -> Buffer:
    strides = [te.var(f"{name}_stride{i}") for i in range(len(tensor.shape) - 1)]
    return tir.decl_buffer(tensor.shape, tensor.dtype, name=name, strides=[*strides, 1], offset_factor=1, **more)


def _call(name: str, *args: Any) -> PrimExpr:
    return tir.call_intrin("void", f"tir.{name}", *args)


@functools.cache
def multiply(tile: tuple[int, int], lhs_k_contiguous: bool, rhs_k_contiguous: bool, dtype: str) -> TensorIntrin:
    """Return an intrinsic that accumulates the matmul of one block_k slice in a warpgroup. Accumulators are complete
    only after a wait."""
    count = block_k(dtype)
    a = te.placeholder(shape(lhs_k_contiguous, tile[0], count, dtype), dtype, name="a")
    b = te.placeholder(shape(rhs_k_contiguous, tile[1], count, dtype), dtype, name="b")
    k = te.reduce_axis((0, count), name="k")

    def term(i: Any, j: Any) -> Any:
        x, y = a(*index(lhs_k_contiguous, i, k, dtype)), b(*index(rhs_k_contiguous, j, k, dtype))
        return te.sum(x.astype(ACCUMULATOR) * y.astype(ACCUMULATOR), axis=k)

    c = te.compute(tile, term, name="c")
    binds = {a: _buffer(a, "left", scope="shared.dyn"), b: _buffer(b, "right", scope="shared.dyn"),
             c: _buffer(c, "sum", scope="wmma.accumulator")}  # fmt: skip

    def body(ins: list[Buffer], outs: list[Buffer]) -> Any:
        total = outs[0]
        sums = total.data, *tile, count
        start = tir.call_intrin("handle", "tir.tvm_fill_fragment", *sums, 0, tir.const(0, ACCUMULATOR))
        matrices = [
            x
            for buffer, k_contiguous in zip(ins, (lhs_k_contiguous, rhs_k_contiguous))
            for x in (buffer.access_ptr("r"), int(k_contiguous), buffer.strides[0])
        ]
        step = _call("ptx_wgmma", dtype, *tile, count, total.data, 0, *matrices)
        update = tir.SeqStmt([tir.Evaluate(step), tir.Evaluate(_call("ptx_wgmma_wait", IN_FLIGHT))])
        return tir.SeqStmt([tir.Evaluate(start), update]), start, update

    return te.decl_tensor_intrin(c.op, body, "multiply_by_warpgroup", binds=binds)


@functools.cache
def store(tile: tuple[int, int], dtype: str) -> TensorIntrin:
    """Return an intrinsic that writes the accumulators of a warpgroup to memory; ``dtype`` is that of the operands."""
    x = te.placeholder(tile, ACCUMULATOR, name="x")
    y = te.compute(tile, lambda i, j: x[i, j], name="y")
    source, target = _buffer(x, "source", scope="wmma.accumulator"), _buffer(y, "target", data_alignment=16)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Any:
        sums = ins[0].data, *tile, block_k(dtype), 0
        memory = outs[0].access_ptr("w"), outs[0].strides[0], "row_major"
        return tir.call_intrin("handle", "tir.tvm_store_matrix_sync", *sums, *memory)

    return te.decl_tensor_intrin(y.op, body, "store_of_warpgroup", binds={x: source, y: target})
