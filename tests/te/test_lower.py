"""Loops of reductions: starts and updates under the same guards."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, tir
from tvm.error import ScheduleError
from tvm.ir.visit import post_order


@pytest.mark.parametrize("order", ["as split", "inner first"])
def test_a_start_is_not_repeated_by_loops_that_run_past_their_extent(order):
    a = te.placeholder((13, 5), "int32", "a")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((13,), lambda i: te.sum(a[i, k], k), "b")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 2)
    first, second = s[b].split(outer, 3)
    # Two times two iterations for the three of ``second``: the fourth is the first of the next ``first``.
    high, low = s[b].split(second, nparts=2)
    if order == "inner first":
        s[b].reorder(high, low, first, inner, k)
    data = np.arange(65, dtype="int32").reshape(13, 5)
    out = tvm.nd.array(np.full(13, -7, "int32"))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(data), out)
    np.testing.assert_array_equal(out.numpy(), data.sum(1))


@pytest.mark.parametrize("cached", [False, True])
def test_the_statement_of_a_schedule_becomes_a_function(cached):
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    if cached:
        s.cache_write(c, "local")
    s = s.normalize()
    stmt = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    assert isinstance(stmt, tir.ProducerRealize)
    func = te.schedule.SchedulePostProcToPrimFunc([a, c], stmt, None)
    assert [buffer.name for buffer in func.buffer_map.values()] == ["A", "C"]
    out = tvm.nd.array(np.zeros(8, "float32"))
    tvm.build(tvm.tir.transform.StorageFlatten(64)(tvm.IRModule.from_expr(func)), target="llvm")(
        tvm.nd.array(np.arange(8, dtype="float32")), out
    )
    np.testing.assert_array_equal(out.numpy(), (np.arange(8) + 1) * 2)


def test_aligned_strides_reach_the_memory():
    a = te.placeholder((8, 16), name="a")
    b = te.compute((8, 16), lambda i, j: a[i, j] + 1, name="b")
    c = te.compute((8, 16), lambda i, j: b[i, j] * 2, name="c")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].fuse())
    s[b].storage_align(b.op.axis[0], 8, 1)
    sizes = [n.extents[0].value for n in post_order(tvm.lower(s, [a, c])["main"].body) if isinstance(n, tir.Allocate)]
    assert sizes == [8 * 17]


def test_a_loop_of_one_iteration_on_a_wider_thread_axis_runs_once():
    a = te.placeholder((5, 1), name="A")
    k = te.reduce_axis((0, 1), name="k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(k, te.thread_axis((0, 4), "threadIdx.x"))
    text = str(tvm.lower(s, [a, b], simple_mode=True))
    assert "T.tvm_thread_allreduce(T.uint32(1), T.if_then_else(threadIdx_x < 1, " in text


def test_a_reduction_in_shared_memory_by_every_thread_is_refused():
    a = te.placeholder((8, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8,), lambda i: b[i] + b[7 - i], name="C")

    def scheduled(bound: bool):
        s = te.create_schedule(c.op)
        thread = te.thread_axis("threadIdx.x")
        s[c].bind(c.op.axis[0], thread)
        s[b].compute_at(s[c], c.op.axis[0])
        s[b].set_scope("shared")
        if bound:
            s[b].bind(b.op.axis[0], thread)
        return s

    with pytest.raises(ScheduleError, match="stage B is a reduction in scope shared inside threadIdx.x, whose 8 "):
        tvm.lower(scheduled(False), [a, c])
    assert tvm.lower(scheduled(True), [a, c])


def test_a_reduction_in_shared_memory_before_the_threads_of_its_kernel_is_refused():
    a = te.placeholder((16, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    b = te.compute((16,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((16,), lambda i: b[i] + 1, name="C")

    def scheduled(bound: bool):
        s = te.create_schedule(c.op)
        block, lane = s[c].split(c.op.axis[0], factor=8)
        s[c].bind(block, te.thread_axis("blockIdx.x"))
        s[c].bind(lane, te.thread_axis("threadIdx.x"))
        s[b].compute_at(s[c], block)
        if bound:
            s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
        return s

    with pytest.raises(ScheduleError, match="B is a reduction in scope shared in a kernel with threadIdx.x, whose 8 "):
        tvm.lower(scheduled(False), [a, c])
    assert tvm.lower(scheduled(True), [a, c])


def rows_of(lengths):
    """Sums of rows of different lengths, which lie one after the other."""
    starts = te.placeholder((len(lengths) + 1,), "int32", "starts")
    data = te.placeholder((sum(lengths),), "int32", "data")

    def sum_of(row):
        k = te.reduce_axis((0, starts[row + 1] - starts[row]), "k")
        return te.sum(data[starts[row] + k], k)

    sums = te.compute((len(lengths),), sum_of, "sums")
    return starts, data, sums, te.compute((len(lengths),), lambda i: sums[i] * 2, "out")


def _split_rows(s, sums, out):
    s[sums].split(sums.op.axis[0], 4)


def _split_terms(s, sums, out):
    s[sums].split(sums.op.reduce_axis[0], 3)


def _split_both(s, sums, out):
    outer, inner = s[sums].split(sums.op.axis[0], 2)
    k_outer, k_inner = s[sums].split(sums.op.reduce_axis[0], 2)
    s[sums].reorder(outer, inner, k_outer, k_inner)
    s[sums].parallel(outer)


def _inside_of_the_reader(s, sums, out):
    outer, _ = s[out].split(out.op.axis[0], 3)
    s[sums].compute_at(s[out], outer)


def _one_by_one(s, sums, out):
    s[sums].compute_at(s[out], out.op.axis[0])


@pytest.mark.parametrize(
    "change", [_split_rows, _split_terms, _split_both, _inside_of_the_reader, _one_by_one], ids=lambda f: f.__name__
)
def test_the_length_of_a_reduction_may_be_decided_by_data(change):
    lengths = [3, 0, 5, 1, 2, 7, 0]
    starts, data, sums, out = rows_of(lengths)
    s = te.create_schedule(out.op)
    change(s, sums, out)
    numbers = np.arange(sum(lengths), dtype="int32")
    ends = np.cumsum([0, *lengths]).astype("int32")
    got = tvm.nd.array(np.full(len(lengths), -7, "int32"))
    tvm.build(s, [starts, data, out], "llvm")(tvm.nd.array(ends), tvm.nd.array(numbers), got)
    expected = [2 * numbers[a:b].sum() for a, b in zip(ends, ends[1:])]
    np.testing.assert_array_equal(got.numpy(), expected)


def test_a_factored_reduction_has_as_many_terms_as_its_element():
    starts, values = te.placeholder((5,), "int32", name="starts"), te.placeholder((40,), name="values")

    def total(row):
        k = te.reduce_axis((0, starts[row + 1] - starts[row]), name="k")
        return te.sum(values[starts[row] + k], axis=k)

    out = te.compute((4,), total, name="out")
    s = te.create_schedule(out.op)
    outer, inner = s[out].split(s[out].op.reduce_axis[0], factor=4)
    with pytest.raises(tvm.TVMError, match="the extent of k.outer depends on the element, so it cannot"):
        s.rfactor(out, outer)
    s.rfactor(out, inner)
    other = te.create_schedule(out.op)
    other[out].split(out.op.axis[0], factor=2)
    with pytest.raises(tvm.TVMError, match="the extent of k depends on the element; call cache_write before"):
        other.cache_write(out, "local")
    function = tvm.build(s, [starts, values, out], "llvm")
    places, numbers = np.array([0, 0, 7, 8, 40], "int32"), np.arange(40, dtype="float32")
    result = tvm.nd.empty((4,))
    function(tvm.nd.array(places), tvm.nd.array(numbers), result)
    np.testing.assert_allclose(result.numpy(), [numbers[a:b].sum() for a, b in zip(places, places[1:])])


@pytest.mark.parametrize("split", [False, True])
def test_what_is_computed_in_a_fused_loop_needs_no_guard_at_any_size(split, rng):
    """Rows as a convolution of stride 2 has them: that a quotient and a remainder lie in their ranges does not follow
    from their values. A loop that runs past its end does need one."""
    n, m = te.size_var("n", "int64"), te.size_var("m", "int64")
    rows = (m - 1) // 2 + 1
    a = te.placeholder((n, m, 8), name="a")
    b = te.compute((n, rows, 8), lambda i, j, k: a[i, 2 * j, k] + 1.0, "b")
    c = te.compute((n, rows, 8), lambda i, j, k: b[i, j, k] * 2.0, "c")
    s = te.create_schedule(c.op)
    fused = s[c].fuse(*c.op.axis[:2])
    at = s[c].split(fused, 4)[1] if split else fused
    s[b].compute_at(s[c], at)
    assert ("if" in str(tvm.lower(s, [a, c]))) == split
    run = tvm.build(s, [a, c], "llvm")
    for size in ((2, 5), (3, 4), (1, 1), (0, 3)):
        data = rng.standard_normal((*size, 8)).astype("float32")
        out = tvm.nd.empty((size[0], (size[1] + 1) // 2, 8))
        run(tvm.nd.array(data), out)
        np.testing.assert_allclose(out.numpy(), (data[:, ::2] + 1) * 2, rtol=1e-6)


@pytest.mark.parametrize("height, width", [(1, 1), (3, 7), (4, 8), (9, 13)])
def test_axes_of_a_guarded_fused_axis_of_unknown_length_need_no_guards(height, width):
    """Quotient and remainder of a number below ``h * w`` are below ``h`` and ``w``, also where those are half of
    something."""
    h, w = te.size_var("h"), te.size_var("w")
    a = te.placeholder((h, w), "float32", "a")
    b = te.compute(((h - 1) // 2 + 1, (w - 1) // 2 + 1), lambda y, x: a[y * 2, x * 2] + 1, "b")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].fuse(*b.op.axis), 5)
    high, _ = s[b].split(outer, 2)
    s[b].parallel(high)
    s[b].unroll(inner)
    stmt = te.schedule.ScheduleOps(s.normalize(), te.schedule.InferBound(s.normalize()))
    tests = [n for n in post_order(stmt) if isinstance(n, tir.Call) and n.op.name == "tir.likely"]
    assert len(tests) == 2 and not any(
        isinstance(n, (tir.FloorMod, tir.FloorDiv)) for t in tests for n in post_order(t.args[0].a)
    )
    data = np.random.default_rng(0).standard_normal((height, width), dtype="float32")
    out = tvm.nd.array(np.full(((height + 1) // 2, (width + 1) // 2), -7, "float32"))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(data), out)
    np.testing.assert_array_equal(out.numpy(), data[::2, ::2] + 1)


@pytest.mark.parametrize("height, width", [(1, 1), (3, 7), (4, 8), (9, 13)])
def test_results_begin_once_where_a_fused_axis_of_unknown_length_is_of_the_result_and_the_reduction(height, width):
    """The loops that set results first are none of the reduction, so that they ask for the axis of the result."""
    h, w = te.size_var("h"), te.size_var("w")
    a = te.placeholder((h, w), "int32", "a")
    k = te.reduce_axis((0, w), "k")
    b = te.compute((h,), lambda y: te.max(a[y, k], axis=k), "b")
    s = te.create_schedule(b.op)
    s[b].split(s[b].fuse(*b.op.axis, *b.op.reduce_axis), 5)
    stmt = te.schedule.ScheduleOps(s.normalize(), te.schedule.InferBound(s.normalize()))
    ends = [c for c in post_order(stmt) if isinstance(c, tir.IfThenElse) and "likely" in str(c.condition)]
    guarded = [n for c in ends for n in post_order(c)]
    stores = [n for n in post_order(stmt) if isinstance(n, tir.ProducerStore)]
    # The first is for reductions without steps, in loops of its own.
    assert [store in guarded for store in stores] == [False, True, True]
    data = np.random.default_rng(0).integers(-9, 9, (height, width)).astype("int32")
    out = tvm.nd.array(np.full(height, 100, "int32"))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(data), out)
    np.testing.assert_array_equal(out.numpy(), data.max(axis=1))


@pytest.mark.parametrize("rows", [0, 1, 3, 7])
def test_guards_of_loops_that_set_results_speak_of_the_loops_around_both_parts(rows):
    """The copy has (n - 1) // 3 + 1 runs where its axis has (n + 2) // 3, guarded in both parts."""
    n = te.size_var("n")
    a = te.placeholder((n, 7), "int32", "a")
    k = te.reduce_axis((0, 7), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), "b")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], 3)
    copy = s.cache_write(b, "local")
    s[b].split(b.op.axis[0], 5)
    outer, inner = s[copy].op.axis
    s[copy].reorder(outer, *s[copy].op.reduce_axis, inner)
    data = np.random.default_rng(rows).integers(-9, 9, (rows, 7)).astype("int32")
    out = tvm.nd.empty((rows,), "int32")
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(data), out)
    np.testing.assert_array_equal(out.numpy(), data.sum(axis=1))


@pytest.mark.parametrize("rows, columns", [(3, 0), (0, 4), (3, 1), (3, 4)])
def test_results_of_reductions_without_steps_where_an_axis_is_fused_from_both(rows, columns):
    h, w = te.size_var("h"), te.size_var("w")
    a = te.placeholder((h, w), "int32", "a")
    k = te.reduce_axis((0, w), "k")
    b = te.compute((h,), lambda y: te.max(a[y, k], axis=k), "b")
    s = te.create_schedule(b.op)
    s[b].fuse(*b.op.axis, *b.op.reduce_axis)
    data = np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype("int32")
    out = tvm.nd.array(np.full(rows, 100, "int32"))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(data), out)
    np.testing.assert_array_equal(out.numpy(), data.max(axis=1, initial=-(2**31)))
