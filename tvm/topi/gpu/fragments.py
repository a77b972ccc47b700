"""Intrinsics on fragments, the small matrices in the registers of a warp: load, multiply-accumulate, store."""

from __future__ import annotations

import functools
from typing import Any

from ... import te, tir
from ...ir.prim import PrimExpr
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

# The m and n of one fragment multiplication, and its k by operand type; float32 is computed as tf32.
SIDE = 16
K = {"float16": 16, "bfloat16": 16, "float32": 8}
ACCUMULATOR = "float32"


def _memory(shape: tuple[int, int], dtype: str, name: str) -> Buffer:
    """Return a buffer of a matrix tile whose rows have a stride."""
    stride = te.var(f"{name}_stride")
    return tir.decl_buffer(shape, dtype, name=name, strides=[stride, 1], offset_factor=1, data_alignment=16)


def _held(shape: tuple[int, int], dtype: str, name: str, scope: str) -> Buffer:
    buffer = _memory(shape, dtype, name)
    return tir.decl_buffer(shape, dtype, name=name, strides=buffer.strides, offset_factor=1, scope=scope)


def _fragment_index(buffer: Buffer):
    """Return the index of the warp's fragment at the start of the buffer; fragments are counted in row-major order."""
    rows, columns = (int(d) for d in buffer.shape)
    at, stride = buffer.elem_offset, buffer.strides[0]
    return at // (rows * stride) * (stride // columns) + at % (rows * stride) // columns


def _call(name: str, *args: Any) -> PrimExpr:
    return tir.call_intrin("handle", f"tir.{name}", *args)


@functools.cache
def load(use: str, k_contiguous: bool, dtype: str, name: str = "load") -> TensorIntrin:
    """Return an intrinsic that loads an lhs ("a") or rhs ("b") fragment from shared memory."""
    depth = K[dtype]
    shape = (SIDE, depth) if k_contiguous else (depth, SIDE)
    x = te.placeholder(shape, dtype, name="x")
    y = te.compute(shape, lambda i, j: x[i, j], name="y")
    source = _memory(shape, dtype, "source")
    target = _held(shape, dtype, "target", f"wmma.matrix_{use}")
    layout = "row_major" if k_contiguous == (use == "a") else "col_major"

    def body(ins, outs):
        held = outs[0].data, SIDE, SIDE, depth, _fragment_index(outs[0])
        return _call("tvm_load_matrix_sync", *held, ins[0].access_ptr("r"), ins[0].strides[0], layout)

    return te.decl_tensor_intrin(y.op, body, name, binds={x: source, y: target})


@functools.cache
def multiply(
    lhs_k_contiguous: bool, rhs_k_contiguous: bool, dtype: str, accumulator: str = ACCUMULATOR, name: str = "multiply"
) -> TensorIntrin:
    """Return an intrinsic that adds the matmul of two fragments to a third."""
    depth = K[dtype]
    a = te.placeholder((SIDE, depth) if lhs_k_contiguous else (depth, SIDE), dtype, name="a")
    b = te.placeholder((SIDE, depth) if rhs_k_contiguous else (depth, SIDE), dtype, name="b")
    k = te.reduce_axis((0, depth), name="k")

    def term(i, j):
        x = a[i, k] if lhs_k_contiguous else a[k, i]
        y = b[j, k] if rhs_k_contiguous else b[k, j]
        return te.sum(x.astype(accumulator) * y.astype(accumulator), axis=k)

    c = te.compute((SIDE, SIDE), term, name="c")
    binds = {
        a: _held(tuple(map(int, a.shape)), dtype, "left", "wmma.matrix_a"),
        b: _held(tuple(map(int, b.shape)), dtype, "right", "wmma.matrix_b"),
        c: _held((SIDE, SIDE), accumulator, "sum", "wmma.accumulator"),
    }

    def body(ins, outs):
        total = outs[0]
        zero = tir.const(0, accumulator)
        start = _call("tvm_fill_fragment", total.data, SIDE, SIDE, depth, _fragment_index(total), zero)
        matrices = [x for y in (total, *ins, total) for x in (y.data, _fragment_index(y))]
        step = _call("tvm_mma_sync", *matrices)
        return tir.SeqStmt([tir.Evaluate(start), tir.Evaluate(step)]), start, step

    return te.decl_tensor_intrin(c.op, body, name, binds=binds)


@functools.cache
def store(dtype: str, accumulator: str = ACCUMULATOR, name: str = "store") -> TensorIntrin:
    """Return an intrinsic that stores a fragment of accumulators to memory; ``dtype`` is that of the operands."""
    x = te.placeholder((SIDE, SIDE), accumulator, name="x")
    y = te.compute((SIDE, SIDE), lambda i, j: x[i, j], name="y")
    source = _held((SIDE, SIDE), accumulator, "source", "wmma.accumulator")
    target = _memory((SIDE, SIDE), accumulator, "target")

    def body(ins, outs):
        held = ins[0].data, SIDE, SIDE, K[dtype], _fragment_index(ins[0])
        return _call("tvm_store_matrix_sync", *held, outs[0].access_ptr("w"), outs[0].strides[0], "row_major")

    return te.decl_tensor_intrin(y.op, body, name, binds={x: source, y: target})
