"""Splits whose last inner loop ends with the axis: elements are computed again, and none is stored twice that may be
read."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, tir
from tvm.error import ScheduleError
from tvm.te.steps import from_plain, to_plain


def doubled(size):
    a = te.placeholder((3, size), name="a")
    b = te.compute((3, size), lambda i, j: a(i, j) + 1.0, name="b")
    c = te.compute((3, size), lambda i, j: b(i, j) * 2.0, name="c")
    return a, b, c


def overlapped(c, factor):
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[-1], factor=factor)
    s[c].overlap(outer)
    return s, outer, inner


@pytest.mark.parametrize("size", [4, 5, 7, 8, 11])
def test_known_sizes(size):
    a, b, c = doubled(size)
    s, outer, inner = overlapped(c, 4)
    s[b].compute_at(s[c], outer)
    s[c].unroll(inner)
    assert "likely" not in str(tvm.lower(s, [a, c]))
    x, y = tvm.nd.array(np.arange(3.0 * size, dtype="float32").reshape(3, size)), tvm.nd.empty((3, size))
    tvm.build(s, [a, c], "llvm")(x, y)
    np.testing.assert_array_equal(y.numpy(), (x.numpy() + 1) * 2)


def test_an_unknown_size():
    a, b, c = doubled(te.size_var("n"))
    s, outer, _ = overlapped(c, 4)
    s[b].compute_at(s[c], outer)
    program = tvm.build(s, [a, c], "llvm")
    for size in (4, 6, 9, 12):
        x, y = tvm.nd.array(np.random.default_rng(size).random((3, size), "float32")), tvm.nd.empty((3, size))
        program(x, y)
        np.testing.assert_array_equal(y.numpy(), (x.numpy() + 1) * 2)


@pytest.mark.parametrize("in_place", [False, True])
def test_axes_that_were_fused(in_place):
    """Tiles of a matrix as one row, divided into tasks: all of a tile is computed where there is one."""
    m, n = te.size_var("m"), te.size_var("n")
    a = te.placeholder((m, n), name="a")
    b = te.compute((m * n,), lambda p: a(p // n, p % n) + 1.0, name="b")
    c = te.compute((m, n), lambda i, j: b(i * n + j) + a(i, j) if in_place else b(i * n + j), name="c")
    s = te.create_schedule(c.op)
    tile, inner = s[c].split(s[c].fuse(*c.op.axis), factor=4)
    s[c].overlap(tile)
    task, tile = s[c].split(tile, factor=3)
    s[c].parallel(task)
    s[b].compute_at(s[c], tile)
    s[c].unroll(inner)
    text = str(tvm.lower(s, [a, c]))
    assert text.count("likely") == 1 and text.index("likely") < text.index("b_1[")
    assert ("for i_j_fused_inner in range" in text) == in_place
    program = tvm.build(s, [a, c], "llvm")
    for rows, columns in ((1, 4), (2, 3), (3, 3), (5, 5), (13, 1), (4, 6)):
        x = np.random.default_rng(rows).random((rows, columns), "float32")
        y = tvm.nd.empty((rows, columns))
        program(tvm.nd.array(x), y)
        np.testing.assert_array_equal(y.numpy(), x + 1 + (x if in_place else 0))


def test_what_may_be_overwritten_is_read_once():
    a = te.placeholder((11,), name="a")
    c = te.compute((11,), lambda i: a(i) * 2.0, name="c")
    s, *_ = overlapped(c, 4)
    shared = tir.decl_buffer((11,), "float32", "shared")
    x = tvm.nd.array(np.arange(11, dtype="float32"))
    tvm.build(s, [a, c], "llvm", binds={a: shared, c: tir.decl_buffer((11,), "float32", "c")})(x, x)
    np.testing.assert_array_equal(x.numpy(), np.arange(11) * 2)


def test_sums_are_added_to_once():
    a = te.placeholder((5,), "int32", "a")
    k = te.reduce_axis((0, 5), name="k")
    c = te.compute((13,), lambda i: te.sum(a(k), axis=k), name="c")
    s, outer, inner = overlapped(c, 8)
    s[c].reorder(k, outer, inner)
    y = tvm.nd.empty((13,), "int32")
    tvm.build(s, [a, c], "llvm")(tvm.nd.array(np.arange(5, dtype="int32")), y)
    np.testing.assert_array_equal(y.numpy(), np.full(13, 10))


def test_padding_of_a_window_is_decided_by_numbers_inside_a_tile():
    n = te.size_var("n")
    a = te.placeholder((n,), name="a")
    pad = te.compute((n + 2,), lambda i: tir.if_then_else(tir.all(i >= 1, i < n + 1), a(i - 1), 0.0), name="pad")
    k = te.reduce_axis((0, 3), name="k")
    total = te.compute((n,), lambda i: te.sum(pad(i + k), axis=k), name="total")
    out = te.compute((n,), lambda i: total(i) * 2.0, name="out")
    s, outer, inner = overlapped(out, 4)
    s[pad].compute_inline()
    s[total].compute_at(s[out], outer)
    for axis in (*s[total].op.axis, *s[total].op.reduce_axis):
        s[total].unroll(axis)
    s[out].unroll(inner)
    assert "or" in str(tvm.lower(s, [a, out]))
    program = tvm.build(s, [a, out], "llvm")
    for size in (4, 5, 7, 8, 30):
        x, y = np.random.default_rng(size).random(size, "float32"), tvm.nd.empty((size,))
        program(tvm.nd.array(x), y)
        np.testing.assert_allclose(y.numpy(), 2 * np.convolve(x, np.ones(3), "same"), rtol=1e-5)


def test_only_splits_of_the_result_by_a_factor_overlap():
    a = te.placeholder((8, 8), name="a")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8,), lambda i: te.sum(a(i, k), axis=k), name="c")
    s = te.create_schedule(c.op)
    outer, inner_of_result = s[c].split(c.op.axis[0], nparts=2)
    of_sum, inner = s[c].split(k, factor=3)
    of_both, _ = s[c].split(s[c].fuse(inner_of_result, of_sum), factor=2)
    for axis in (outer, of_both, inner):
        with pytest.raises(ScheduleError, match="is not the outer loop of a split of an output dimension by a factor"):
            s[c].overlap(axis)


def test_the_step_is_recorded():
    _, _, c = doubled(11)
    s, *_ = overlapped(c, 4)
    assert to_plain(from_plain(to_plain(s.steps))) == to_plain(s.steps)
    assert [step.kind for step in s.steps] == ["split", "overlap"]
