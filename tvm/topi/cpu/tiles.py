"""Tiles: the matrix registers of CPUs (AMX), as intrinsics that load, multiply and store them.

A product of tiles adds ``(m, k) x (k, n)`` to ``(m, n)`` sums. The rows of the lhs are pixels or rows of a matrix; they
lie in memory a stride apart, so no copy is made. In the rhs the elements that are summed at once lie side by side:
``(k / depth, n, depth)``.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ... import te, tir
from ...ir.prim import PrimExpr
from ...target import Target
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

# The most rows of a tile, the bytes of a row, and the elements of a row of sums.
ROWS, ROW_BYTES, COLUMNS = 16, 64, 16
# Tiles that a CPU holds.
REGISTERS = 8
SCOPES = {"a": "wmma.matrix_a", "b": "wmma.matrix_b", "sums": "wmma.accumulator"}


class Kind(NamedTuple):
    """The types of operands and sums, and the elements of a lane that are summed at once."""

    lhs: str
    rhs: str
    sums: str
    depth: int

    @property
    def k(self) -> int:
        """Elements of a row of a full tile."""
        return COLUMNS * self.depth


BFLOAT16 = Kind("bfloat16", "bfloat16", "float32", 2)


def kind_of(target: Target | None, lhs: str, rhs: str) -> Kind | None:
    """The products of tiles that a target has for operands of two types."""
    if target is None or not target.features.has_llvm_intrinsics:
        return None
    if lhs == rhs == "bfloat16" and target.features.has_amx_bf16:
        return BFLOAT16
    if {lhs, rhs} <= {"int8", "uint8"} and target.features.has_amx_int8:
        return Kind(lhs, rhs, "int32", 4)
    return None


def _memory(shape: tuple[int, ...], dtype: str, name: str, inner: int) -> Buffer:
    """A matrix in memory whose rows have a stride: the last ``inner`` dimensions are a row, those before count rows,
    which are the same distance apart throughout."""
    step = te.var(f"{name}_stride")
    strides: list[Any] = []
    size: Any = 1
    for place, extent in enumerate(reversed(shape)):
        size = step if place == inner else size
        strides.insert(0, size)
        size = size * extent
    return tir.decl_buffer(shape, dtype, name=name, strides=strides, offset_factor=1, data_alignment=1)


def _held(shape: tuple[int, ...], dtype: str, name: str, use: str, inner: int) -> Buffer:
    buffer = _memory(shape, dtype, name, inner)
    return tir.decl_buffer(shape, dtype, name=name, strides=buffer.strides, offset_factor=1, scope=SCOPES[use])


def _number(buffer: Buffer, rows: int, row: int) -> PrimExpr:
    """Which tile of the buffer it is that begins here; tiles are counted row by row."""
    at = buffer.elem_offset
    return tir.indexdiv(at, rows * row) + tir.indexdiv(tir.indexmod(at, rows * row), row)


def _call(name: str, *args: Any) -> PrimExpr:
    return tir.call_intrin("handle", f"tir.{name}", *args)


def _copy(shape: tuple[int, ...], dtype: str):
    x = te.placeholder(shape, dtype, name="x")
    return x, te.compute(shape, lambda *at: x(*at), name="y")


@functools.cache
def load_lhs(rows: int, k: int, n: int, kind: Kind, step: int = 1) -> TensorIntrin:
    """Load rows of k elements: every ``step``-th of those in memory."""
    x = te.placeholder(((rows - 1) * step + 1, k), kind.lhs, name="x")
    y = te.compute((rows, k), lambda i, j: x(i * step, j), name="y")

    def body(ins, outs):
        fragment = outs[0].data, rows, n, k, _number(outs[0], rows, k)
        stride = ins[0].strides[0] * step
        return _call("tvm_load_matrix_sync", *fragment, ins[0].access_ptr("r"), stride, "row_major")

    source = _memory(tuple(map(int, x.shape)), kind.lhs, "source", 1)
    return te.decl_tensor_intrin(y.op, body, "load_lhs", binds={x: source, y: _held((rows, k), kind.lhs, "tile", "a", 1)})


@functools.cache
def load_rhs(m: int, k: int, n: int, kind: Kind) -> TensorIntrin:
    """Load (k / depth, n, depth) elements."""
    shape = (k // kind.depth, n, kind.depth)
    x, y = _copy(shape, kind.rhs)

    def body(ins, outs):
        fragment = outs[0].data, m, n, k, _number(outs[0], shape[0], n * kind.depth)
        return _call("tvm_load_matrix_sync", *fragment, ins[0].access_ptr("r"), ins[0].strides[0], "row_major")

    binds = {x: _memory(shape, kind.rhs, "source", 2), y: _held(shape, kind.rhs, "tile", "b", 2)}
    return te.decl_tensor_intrin(y.op, body, "load_rhs", binds=binds)


@functools.cache
def multiply(rows: int, k: int, n: int, kind: Kind) -> TensorIntrin:
    """Add the product of two tiles to a third."""
    depth = kind.depth
    a = te.placeholder((rows, k), kind.lhs, name="a")
    b = te.placeholder((k // depth, n, depth), kind.rhs, name="b")
    group, inner = te.reduce_axis((0, k // depth), name="group"), te.reduce_axis((0, depth), name="inner")

    def term(i, j):
        x = a(i, group * depth + inner).astype(kind.sums)
        return te.sum(x * b(group, j, inner).astype(kind.sums), axis=[group, inner])

    c = te.compute((rows, n), term, name="c")
    binds = {
        a: _held((rows, k), kind.lhs, "lhs", "a", 1),
        b: _held((k // depth, n, depth), kind.rhs, "rhs", "b", 2),
        c: _held((rows, n), kind.sums, "sums", "sums", 1),
    }

    def body(ins, outs):
        (lhs, rhs), (sums,) = ins, outs
        place = sums.data, _number(sums, rows, n)
        zero = _call("tvm_fill_fragment", sums.data, rows, n, k, place[1], tir.const(0, kind.sums))
        operands = lhs.data, _number(lhs, rows, k), rhs.data, _number(rhs, k // depth, n * depth)
        step = _call("tvm_mma_sync", *place, *operands, *place)
        return tir.SeqStmt([tir.Evaluate(zero), tir.Evaluate(step)]), tir.Evaluate(zero), tir.Evaluate(step)

    return te.decl_tensor_intrin(c.op, body, "multiply_tiles", binds=binds)


@functools.cache
def store(rows: int, k: int, n: int, kind: Kind) -> TensorIntrin:
    """Write a tile of sums to memory."""
    shape = (rows, n)
    x, y = _copy(shape, kind.sums)

    def body(ins, outs):
        fragment = ins[0].data, rows, n, k, _number(ins[0], rows, n)
        return _call("tvm_store_matrix_sync", *fragment, outs[0].access_ptr("w"), outs[0].strides[0], "row_major")

    binds = {x: _held(shape, kind.sums, "tile", "sums", 1), y: _memory(shape, kind.sums, "target", 1)}
    return te.decl_tensor_intrin(y.op, body, "store_tile", binds=binds)


__all__ = [
    "BFLOAT16", "COLUMNS", "REGISTERS", "ROWS", "ROW_BYTES", "SCOPES", "Kind", "kind_of", "load_lhs", "load_rhs",
    "multiply", "store",
]
