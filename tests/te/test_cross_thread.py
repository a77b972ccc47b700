"""Reductions that threads share, each of them going through terms of its own first."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_emulator
from tvm import te
from tvm.error import ScheduleError
from tvm.ir.visit import post_order
from tvm.tir import For


def rows(columns: int, threads: int, reduce=te.sum):
    """A reduction of each row by the threads of a block."""
    a = te.placeholder((5, columns), name="A")
    k = te.reduce_axis((0, columns), name="k")
    b = te.compute((5,), lambda i: reduce(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, threads)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    return s, [a, b]


@needs_emulator
@pytest.mark.parametrize("columns, threads", [(64, 16), (45, 16), (100, 64), (7, 8)])
def test_terms_that_threads_take_in_turn_are_all_counted_once(columns, threads, rng):
    x = rng.standard_normal((5, columns)).astype("float32")
    for reduce, wanted in ((te.sum, x.sum(1)), (te.max, x.max(1))):
        schedule, args = rows(columns, threads, reduce)
        got = cuda_emulator.run(schedule, args, [x, np.zeros(5, "float32")])[1]
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@needs_emulator
def test_two_values_are_reduced_together(rng):
    """The place of a maximum goes with the maximum."""
    x = rng.permutation(5 * 50).reshape(5, 50).astype("float32")
    a = te.placeholder((5, 50), name="A")

    def better(x, y):
        return te.if_then_else(x[1] >= y[1], x[0], y[0]), te.if_then_else(x[1] >= y[1], x[1], y[1])

    largest = te.comm_reducer(better, lambda t0, t1: (tvm.tir.const(-1, t0), te.min_value(t1)), name="largest")
    k = te.reduce_axis((0, 50), name="k")
    found, most = te.compute((5,), lambda i: largest((k.var, a[i, k]), axis=k), name="found")
    s = te.create_schedule(found.op)
    _, inner = s[found].split(k, 16)
    s[found].bind(found.op.axis[0], te.thread_axis("blockIdx.x"))
    s[found].bind(inner, te.thread_axis("threadIdx.x"))
    got = cuda_emulator.run(s, [a, found, most], [x, np.zeros(5, "int32"), np.zeros(5, "float32")])
    assert got[1].tolist() == x.argmax(1).tolist() and got[2].tolist() == x.max(1).tolist()


@needs_emulator
def test_a_consumer_has_the_result_in_all_threads(rng):
    a = te.placeholder((6, 40), name="A")
    k = te.reduce_axis((0, 40), name="k")
    total = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="total")
    out = te.compute((6, 40), lambda i, j: a[i, j] / total[i], name="out")
    s = te.create_schedule(out.op)
    _, inner = s[out].split(out.op.axis[1], 16)
    s[out].bind(out.op.axis[0], te.thread_axis("blockIdx.x"))
    s[out].bind(inner, te.thread_axis("threadIdx.x"))
    _, terms = s[total].split(k, 16)
    s[total].bind(terms, te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[out], out.op.axis[0])
    x = rng.random((6, 40), dtype="float32")
    got = cuda_emulator.run(s, [a, out], [x, np.zeros((6, 40), "float32")])[1]
    np.testing.assert_allclose(got, x / x.sum(1, keepdims=True), rtol=1e-4)


def test_loops_over_data_inside_of_serial_terms_are_refused():
    a = te.placeholder((5, 8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((5, 8), lambda i, j: te.sum(a[i, j, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k, 16)
    s[b].reorder(b.op.axis[0], outer, b.op.axis[1], inner)
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match="data loop j is inside reduction loop k.outer"):
        tvm.lower(s, [a, b])


def test_a_loop_with_more_iterations_than_there_are_threads_around_it_is_refused():
    a = te.placeholder((8, 64), name="A")
    b = te.compute((8, 64), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 64), lambda i, j: b[i, 63 - j], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[1], 16)
    s[c].reorder(inner, c.op.axis[0], outer)
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].set_scope("shared")
    s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], outer)
    assert tvm.lower(s, [a, c])
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(ScheduleError, match="64 iterations for threadIdx.x, but .* bind only 16 threads"):
        tvm.lower(s, [a, c])


def window():
    """Sums of three neighbours: for each, threads fetch two elements each of what is padded at both ends."""
    a = te.placeholder((14,), name="A")
    padded = te.compute((16,), lambda i: te.if_then_else(te.all(i >= 1, i < 15), a[i - 1], 0.0), name="padded")
    r = te.reduce_axis((0, 3), name="r")
    b = te.compute((14,), lambda i: te.sum(padded[i + r], axis=r), name="B")
    s = te.create_schedule(b.op)
    local = s.cache_write(b, "local")
    shared = s.cache_read(padded, "shared", [local])
    s[padded].compute_inline()
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[b], b.op.axis[0])
    s[shared].compute_at(s[local], local.op.reduce_axis[0])
    outer, lanes = s[shared].split(shared.op.axis[0], 2)
    _, thread = s[shared].split(outer, 14)
    s[shared].bind(thread, te.thread_axis("threadIdx.x"))
    s[shared].vectorize(lanes)
    return s, [a, b]


def test_all_threads_take_as_many_steps_with_barriers():
    schedule, args = window()
    loops = [n for n in post_order(tvm.lower(schedule, args)["main"].body) if isinstance(n, For)]
    assert loops and all(isinstance(loop.extent, tvm.tir.IntImm) for loop in loops)


@needs_emulator
def test_padding_fetched_as_vectors_in_a_loop_with_barriers(rng):
    x = rng.random(14, dtype="float32")
    got = cuda_emulator.run(*window(), [x, np.zeros(14, "float32")])[1]
    np.testing.assert_allclose(got, np.convolve(x, np.ones(3, "float32"), "same"), rtol=1e-5)
