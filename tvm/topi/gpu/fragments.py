"""Intrinsics over fragments of matrices, which a warp holds among its threads: load, multiply and add, store."""

from __future__ import annotations

import functools
from typing import Any

from ... import te, tir
from ...ir.prim import PrimExpr
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

# Rows and columns of one product, and its terms by the type of the operands; float32 is taken as tf32.
SIDE = 16
TERMS = {"float16": 16, "bfloat16": 16, "float32": 8}
SUM = "float32"


def _memory(shape: tuple[int, int], dtype: str, name: str) -> Buffer:
    """A part of a matrix in memory whose rows lie apart."""
    stride = te.var(f"{name}_stride")
    return tir.decl_buffer(shape, dtype, name=name, strides=[stride, 1], offset_factor=1, data_alignment=16)


def _held(shape: tuple[int, int], dtype: str, name: str, scope: str) -> Buffer:
    buffer = _memory(shape, dtype, name)
    return tir.decl_buffer(shape, dtype, name=name, strides=buffer.strides, offset_factor=1, scope=scope)


def _number(buffer: Buffer):
    """Which of the fragments of a warp begins where the buffer does: they are counted row by row."""
    rows, columns = (int(d) for d in buffer.shape)
    at = buffer.elem_offset
    return at // (rows * columns) + at % (rows * columns) // columns


def _call(name: str, *args: Any) -> PrimExpr:
    return tir.call_intrin("handle", f"tir.{name}", *args)


@functools.cache
def load(use: str, along: bool, dtype: str) -> TensorIntrin:
    """Fill a fragment of the left ("a") or right ("b") operand from shared memory; ``along`` where rows of memory go
    along the sum."""
    terms = TERMS[dtype]
    shape = (SIDE, terms) if along else (terms, SIDE)
    x = te.placeholder(shape, dtype, name="x")
    y = te.compute(shape, lambda i, j: x[i, j], name="y")
    source = _memory(shape, dtype, "source")
    target = _held(shape, dtype, "target", f"wmma.matrix_{use}")
    layout = "row_major" if along == (use == "a") else "col_major"

    def body(ins, outs):
        held = outs[0].data, SIDE, SIDE, terms, _number(outs[0])
        return _call("tvm_load_matrix_sync", *held, ins[0].access_ptr("r"), ins[0].strides[0], layout)

    return te.decl_tensor_intrin(y.op, body, f"load_{use}", binds={x: source, y: target})


@functools.cache
def multiply(left_along: bool, right_along: bool, dtype: str) -> TensorIntrin:
    """Add the product of two fragments to a third."""
    terms = TERMS[dtype]
    a = te.placeholder((SIDE, terms) if left_along else (terms, SIDE), dtype, name="a")
    b = te.placeholder((SIDE, terms) if right_along else (terms, SIDE), dtype, name="b")
    k = te.reduce_axis((0, terms), name="k")

    def term(i, j):
        x = a[i, k] if left_along else a[k, i]
        y = b[j, k] if right_along else b[k, j]
        return te.sum(x.astype(SUM) * y.astype(SUM), axis=k)

    c = te.compute((SIDE, SIDE), term, name="c")
    binds = {
        a: _held(tuple(map(int, a.shape)), dtype, "left", "wmma.matrix_a"),
        b: _held(tuple(map(int, b.shape)), dtype, "right", "wmma.matrix_b"),
        c: _held((SIDE, SIDE), SUM, "sum", "wmma.accumulator"),
    }

    def body(ins, outs):
        total = outs[0]
        start = _call("tvm_fill_fragment", total.data, SIDE, SIDE, terms, _number(total), tir.const(0, SUM))
        places = [x for y in (total, *ins, total) for x in (y.data, _number(y))]
        step = _call("tvm_mma_sync", *places)
        return tir.SeqStmt([tir.Evaluate(start), tir.Evaluate(step)]), start, step

    return te.decl_tensor_intrin(c.op, body, "multiply", binds=binds)


@functools.cache
def store(dtype: str) -> TensorIntrin:
    """Write a fragment of sums to memory; ``dtype`` is that of the operands."""
    x = te.placeholder((SIDE, SIDE), SUM, name="x")
    y = te.compute((SIDE, SIDE), lambda i, j: x[i, j], name="y")
    source, target = _held((SIDE, SIDE), SUM, "source", "wmma.accumulator"), _memory((SIDE, SIDE), SUM, "target")

    def body(ins, outs):
        held = ins[0].data, SIDE, SIDE, TERMS[dtype], _number(ins[0])
        return _call("tvm_store_matrix_sync", *held, outs[0].access_ptr("w"), outs[0].strides[0], "row_major")

    return te.decl_tensor_intrin(y.op, body, "store", binds={x: source, y: target})
