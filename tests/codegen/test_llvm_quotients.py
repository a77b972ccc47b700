"""Divisions by unknown sizes under conditions: done before the loops that do not change them, and never by zero."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tvm import te, tir


def grid(rows: int, columns: int, condition, body):
    """A function of a matrix and of a divisor: ``body(i, j, d)`` where ``condition(j, d, element)`` holds, a task for
    each row."""
    builder = tir.ir_builder.create()
    matrix, d = tir.decl_buffer((rows, columns), "int64", name="matrix"), te.var("d", "int64")
    out = builder.buffer_ptr(matrix)
    with builder.for_range(0, rows, name="i", kind="parallel", dtype="int64") as i:
        with builder.for_range(0, columns, name="j", dtype="int64") as j:
            with builder.if_scope(condition(j, d, out[i, j])):
                out[i, j] = body(i, j, d)
    return tvm.build(tir.PrimFunc([matrix, d], builder.get()), target="llvm")


def test_a_task_divides_before_its_loops():
    value = lambda i, j, d: te.floordiv(i, d) + te.floormod(i, d) + j
    text = grid(64, 64, lambda j, d, element: element > 0, value).get_source("ll")
    blocks = re.split(r"\n(?=[\w.]+:)", next(part for part in text.split("\ndefine") if ".parallel." in part))
    divides = {block.split(":")[0]: bool(re.search(r"[us](div|rem) i64 %", block)) for block in blocks}
    branches = [name for name in divides if name.startswith("then")]
    assert branches and not any(divides[name] for name in branches)
    assert any(divides[block.split(":")[0]] for block in blocks if re.search(r"%i\S* = phi", block))


@pytest.mark.parametrize("divide", [te.floordiv, te.floormod, te.truncdiv, te.truncmod])
def test_division_that_is_not_reached_does_not_trap(divide):
    compiled = grid(6, 5, lambda j, d, element: d > 0, lambda i, j, d: divide(i, d) * 10 + j)
    i, j = np.mgrid[:6, :5]
    for size in (0, 1, 3, 100):
        out = tvm.nd.array(np.full((6, 5), -1, "int64"))
        compiled(out, size)
        whole = np.floor_divide if divide in (te.floordiv, te.truncdiv) else np.mod
        np.testing.assert_array_equal(out.numpy(), whole(i, size) * 10 + j if size else np.full((6, 5), -1))


def test_division_of_negative_numbers():
    value = lambda i, j, d: te.floordiv(i - 6, d) + te.floormod(i - 6, d) * 100
    compiled = grid(12, 4, lambda j, d, element: j > 0, value)
    i, j = np.mgrid[:12, :4]
    for d in (-7, -3, 2, 5):
        out = tvm.nd.array(np.zeros((12, 4), "int64"))
        compiled(out, d)
        np.testing.assert_array_equal(out.numpy(), np.where(j > 0, (i - 6) // d + (i - 6) % d * 100, 0))


def test_division_of_counters_by_negative_numbers():
    compiled = grid(12, 4, lambda j, d, element: j > 0, lambda i, j, d: te.floordiv(i, d) + te.floormod(i, d) * 100)
    i, j = np.mgrid[:12, :4]
    for d in (-7, -1, 1, 5):
        out = tvm.nd.array(np.zeros((12, 4), "int64"))
        compiled(out, d)
        np.testing.assert_array_equal(out.numpy(), np.where(j > 0, i // d + i % d * 100, 0))


def shifted_rows():
    """Rows of several images with one pixel of padding in front, a task for each row."""
    n, h, w = (te.size_var(name, "int64") for name in "nhw")
    images = te.placeholder((n, h, w), name="images")
    out = te.compute(
        (n, h, w + 1), lambda i, y, x: tir.if_then_else(x >= 1, images[i, y, x - 1], tir.const(0, "float32")), "out"
    )
    s = te.create_schedule(out.op)
    i, y, _ = s[out].op.axis
    s[out].parallel(s[out].fuse(i, y))
    return tvm.build(s, [images, out], "llvm")


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (2, 8, 1), (0, 3, 3), (3, 0, 3), (2, 3, 0), (4, 64, 33)])
def test_rows_of_any_size(shape):
    x = np.random.default_rng(0).random(shape, "float32")
    out = tvm.nd.array(np.full((*shape[:2], shape[2] + 1), 7, "float32"))
    shifted_rows()(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), np.pad(x, ((0, 0), (0, 0), (1, 0))))


def test_copies_of_an_unrolled_body_share_terms_only_where_their_variables_agree():
    builder = tir.ir_builder.create()
    source, out = (tir.decl_buffer((64,), "int64", name=name) for name in ("source", "out"))
    d, n = te.var("d", "int64"), te.var("n", "int64")
    with builder.for_range(0, n, name="i", dtype="int64") as i:
        with builder.for_range(0, 4, name="k", kind="unroll", dtype="int64") as k:
            # What is bound in a copy differs from one to the next, though it has one variable.
            x = builder.let("x", i * 3 + k)
            moved = te.truncdiv(x, d) + te.truncdiv(i, d) * 2 + te.truncmod(i + k, d)
            builder.buffer_ptr(out)[i * 4 + k] = builder.buffer_ptr(source)[moved]
    compiled = tvm.build(tir.PrimFunc([source, out, d, n], builder.get()), target="llvm")
    values = np.random.default_rng(3).integers(0, 1000, 64)
    i, k = np.mgrid[:9, :4]
    for size in (2, 3, 7):
        got = tvm.nd.array(np.zeros(64, "int64"))
        compiled(tvm.nd.array(values), got, size, 9)
        wanted = values[(i * 3 + k) // size + i // size * 2 + (i + k) % size]
        np.testing.assert_array_equal(got.numpy()[:36].reshape(9, 4), wanted)
