"""Caches, factored reductions, automatic inlining, and intermediates that are arguments."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import ScheduleError, TVMError
from tvm.te import schedule as schedules
from tvm.te.steps import apply, from_plain, to_plain


def matmul(m=20, n=24, k=8):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return a, b, c


def check_matmul(s, a, b, c):
    rng = np.random.default_rng(0)
    x, y = (rng.random([int(d) for d in t.shape], dtype="float32") for t in (a, b))
    out = tvm.nd.array(np.zeros([int(d) for d in c.shape], "float32"))
    tvm.build(s, [a, b, c], "llvm")(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-5, atol=1e-5)


def test_cache_write_after_reorder_stores_in_loop_order():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    s[c].reorder(c.op.axis[1], c.op.axis[0])
    cache = s.cache_write(c, "local")
    assert [int(d) for d in cache.shape] == [24, 20]
    assert list(s[c].leaf_iter_vars) == list(c.op.axis)
    check_matmul(s, a, b, c)


@pytest.mark.parametrize("factors", [(4, 8), (8, 7), (32, 5)])
def test_cache_write_after_splits_stores_in_tiles(factors):
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    tiles = s[c].tile(*c.op.axis, *factors)
    s[c].split(c.op.reduce_axis[0], factor=3)
    s[c].fuse(tiles[0], tiles[1])
    cache = s.cache_write(c, "local")
    assert len(cache.shape) == 3
    assert [x.var.name for x in s[cache].leaf_iter_vars[3:]] == ["r.outer", "r.inner"]
    check_matmul(s, a, b, c)
    again = te.replay(s.steps, [c.op])
    assert str(tvm.lower(again, [a, b, c])) == str(tvm.lower(s, [a, b, c]))


def test_cache_write_of_an_elementwise_stage_after_an_uneven_split_reads_nothing_outside():
    a = te.placeholder((10,), name="A")
    c = te.compute((10,), lambda i: a[i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=4)
    s.cache_write(c, "local")
    out = tvm.nd.array(np.zeros(10, "float32"))
    tvm.build(s, [a, c], "llvm")(tvm.nd.array(np.arange(10, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(10) * 2)
    assert "< 10" in str(tvm.lower(s, [a, c], simple_mode=True))


def test_cache_write_refuses_loops_that_are_annotated():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[1], factor=8)
    s[c].vectorize(inner)
    steps = len(s.steps)
    with pytest.raises(ScheduleError, match="loop j.inner is annotated.*call cache_write first"):
        s.cache_write(c, "local")
    assert len(s.steps) == steps and inner in s[c].leaf_iter_vars


def test_rfactor_keeps_whole_axes_first_and_the_variables_of_divided_ones():
    a = te.placeholder((6, 8, 9), name="A")
    k1, k2 = te.reduce_axis((0, 8), "k1"), te.reduce_axis((0, 9), "k2")
    b = te.compute((6,), lambda i: te.sum(a[i, k1, k2], axis=[k1, k2]), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k1, factor=4)
    factored = s.rfactor(b, inner)
    first, second = factored.op.reduce_axis
    assert first is k2 and second.var is outer.var
    x = np.random.default_rng(0).random((6, 8, 9), dtype="float32")
    out = tvm.nd.array(np.zeros(6, "float32"))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), x.sum((1, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", ["root", "inside"])
def test_an_intermediate_among_the_arguments_is_written_there(how):
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    if how == "inside":
        s[b].compute_at(s[c], c.op.axis[0])
    x = np.arange(5, dtype="float32")
    middle, out = tvm.nd.array(np.zeros(5, "float32")), tvm.nd.array(np.zeros(5, "float32"))
    tvm.build(s, [a, b, c], "llvm")(tvm.nd.array(x), middle, out)
    np.testing.assert_array_equal(middle.numpy(), x + 1)
    np.testing.assert_array_equal(out.numpy(), (x + 1) * 2)
    assert "allocate" not in str(tvm.lower(s, [a, b, c]))


def test_lower_shows_a_function_without_its_output_but_build_refuses_it():
    a = te.placeholder((4,), name="A")
    c = te.compute((4,), lambda i: a[i] + 1, name="C")
    s = te.create_schedule(c.op)
    assert "C_1[i] = " in str(tvm.lower(s, [a]))
    with pytest.raises(TVMError, match="output C of the schedule is not among the arguments"):
        tvm.build(s, [a], "llvm")


def test_outputs_that_are_not_arguments_live_inside_when_something_else_comes_out():
    a = te.placeholder((4,), name="A")
    c, d = te.compute((4,), lambda i: (a[i] + 1, a[i] + 2), name="C")
    e = te.compute((4,), lambda i: c[i] * 2, name="E")
    x = np.arange(4, dtype="float32")
    for ops, last, want in (([c.op], d, x + 2), ([c.op, e.op], e, (x + 1) * 2)):
        out = tvm.nd.array(np.zeros(4, "float32"))
        tvm.build(te.create_schedule(ops), [a, last], "llvm")(tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), want)


def chain(second):
    a, b = te.placeholder((4, 5), name="A"), te.placeholder((4,), name="B")
    t = te.compute((4, 5), lambda i, j: second(a, b, i, j), name="T")
    u = te.compute((4, 5), lambda i, j: t[i, j] + 1, name="U")
    return te.create_schedule(u.op), t


KINDS = {
    "elementwise": lambda a, b, i, j: a[i, j] * 2,
    "broadcast": lambda a, b, i, j: a[i, j] * b[i],
    "injective": lambda a, b, i, j: a[i, 4 - j],
}
INLINES = {
    "AutoInlineElemWise": {"elementwise"},
    "AutoInlineBroadcast": {"elementwise", "broadcast"},
    "AutoInlineInjective": {"elementwise", "broadcast", "injective"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", INLINES)
def test_auto_inline_takes_its_own_kind(function, kind):
    s, t = chain(KINDS[kind])
    assert s[t].attach_type == 1
    getattr(schedules, function)(s)
    assert s[t].attach_type == (2 if kind in INLINES[function] else 1)


def test_auto_inline_leaves_scheduled_stages_and_outputs():
    s, t = chain(KINDS["elementwise"])
    s[t].parallel(t.op.axis[0])
    schedules.AutoInlineInjective(s)
    assert [stage.attach_type for stage in s.stages] == [1] * 3


def test_a_reduction_whose_length_depends_on_the_row_can_be_cached():
    a = te.placeholder((10,), name="A")

    def row(n):
        k = te.reduce_axis((0, n), "k")
        # Both the start and the combination speak of the row.
        total = te.comm_reducer(lambda x, y: te.max(x + y, n.astype("float32")), lambda t: n.astype(t) * 0)
        return total(a[k], axis=k)

    b = te.compute((10,), row, name="B")
    x = np.random.default_rng(0).random(10, dtype="float32") * 3
    want = []
    for n in range(10):
        got = np.float32(0)
        for v in x[:n]:
            got = max(got + v, np.float32(n))
        want.append(got)
    for cached in (False, True):
        s = te.create_schedule(b.op)
        if cached:
            s.cache_write(b, "local")
        out = tvm.nd.array(np.zeros(10, "float32"))
        tvm.build(s, [a, b], "llvm")(tvm.nd.array(x), out)
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", ["data outside", "reduction outside"])
@pytest.mark.parametrize("factor", [None, 7])
def test_data_fused_with_reduction_starts_at_the_first_step_of_each_element(order, factor):
    a = te.placeholder((6, 5), name="A")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    axes = (b.op.axis[0], k)
    if order == "reduction outside":
        axes = axes[::-1]
        s[b].reorder(*axes)
    fused = s[b].fuse(*axes)
    with pytest.raises(ScheduleError, match="i.*fused is a reduction axis"):
        s[b].parallel(fused)
    if factor:
        s[b].split(fused, factor=factor)
    x = np.random.default_rng(0).random((6, 5), dtype="float32")
    out = tvm.nd.array(np.full(6, 9, "float32"))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), x.sum(1), rtol=1e-6, atol=1e-6)
    with pytest.raises(ScheduleError, match="is fused from data and reduction"):
        s.rfactor(b, s[b].leaf_iter_vars[0])
    with pytest.raises(ScheduleError, match="is fused from data and reduction"):
        s.cache_write(b, "local")


def test_data_fused_with_reduction_keeps_the_order_of_its_loops():
    a = te.placeholder((6, 5), name="A")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].fuse(b.op.axis[0], k), factor=4)
    with pytest.raises(ScheduleError, match="fused from data and reduction axes; its loops must keep their order"):
        s[b].reorder(inner, outer)
    assert list(s[b].leaf_iter_vars) == [outer, inner]


def test_data_fused_with_reduction_is_not_passed_by_a_loop_that_reorder_does_not_name():
    a = te.placeholder((4, 8, 7), name="A")
    k, r = te.reduce_axis((0, 7), "k"), te.reduce_axis((0, 4), "r")
    b = te.compute((8,), lambda i: te.min(a[r, i, k], axis=[k, r]), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].fuse(b.op.axis[0], k), factor=2)
    first, second = s[b].split(outer, factor=2)
    order = list(s[b].leaf_iter_vars)
    assert order == [first, second, inner, r]
    # The place of r, where ``second`` would go, lies behind ``inner``.
    with pytest.raises(ScheduleError, match="its loops must keep their order"):
        s[b].reorder(first, r, second)
    assert list(s[b].leaf_iter_vars) == order
    s[b].reorder(first, r, second, inner)
    assert list(s[b].leaf_iter_vars) == [first, r, second, inner]


def test_an_uneven_split_of_a_part_reads_only_what_is_computed_for_that_part():
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: a[i] + 1, name="B")
    c = te.compute((9,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    part, rest = s[c].split(c.op.axis[0], nparts=2)
    s[c].split(rest, factor=2)
    s[b].compute_at(s[c], part)
    text = te.hybrid.build(s, [a], [c]).get_source()
    assert "allocate((5,)" in text
    # As Python, an index past the five elements is an error.
    x = np.arange(9, dtype="float32")
    np.testing.assert_array_equal(te.hybrid.build(s, [a], [c])(x), (x + 1) * 2)


def test_a_record_of_primitives_is_kept_when_asked_for():
    a, b, c = matmul()
    assert te.create_schedule(c.op).primitive_record == te.create_schedule(c.op).schedule_record == []
    with tvm.transform.PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(c.op)
        s[c].tile(*c.op.axis, 4, 8)
        s.cache_write(c, "local")
        assert s.primitive_record == ["vanilla", "split", "split", "reorder", "cache_write"]
        loops = [[len(stage.leaf_iter_vars) for stage in one.stages] for one in s.schedule_record]
    assert loops == [[0, 0, 3], [0, 0, 4], [0, 0, 5], [0, 0, 5], [0, 0, 5, 2]]


def test_of_two_vectorized_loops_the_outer_makes_vectors_also_where_a_guard_makes_it_serial():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 3, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=5)
    rest, middle = s[b].split(outer, factor=2)
    s[b].vectorize(middle)
    s[b].vectorize(s[b].split(inner, factor=2)[1])
    for size in (1, 9, 10, 23):
        x = np.arange(size, dtype="float32")
        out = tvm.nd.array(np.zeros(size, "float32"))
        tvm.build(s, [a, b], "llvm")(tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), x * 3)


def test_operators_with_numbers_are_elementwise_and_between_tensors_broadcast():
    a, b = te.placeholder((4, 5), name="A"), te.placeholder((5,), name="B")
    assert {(a + 1).op.tag, (2 * a).op.tag, (a - te.var("n")).op.tag} == {"elemwise"}
    assert {(a + b).op.tag, (b * a).op.tag, (a + a).op.tag} == {"broadcast"}


def test_create_prim_func_refuses_a_scan_by_its_kind():
    state = te.placeholder((4, 5), "int32", name="state")
    start = te.compute((1, 5), lambda _, i: i)
    step = te.compute((4, 5), lambda t, i: state[t - 1, i] + 1)
    with pytest.raises(TypeError, match="scan is a ScanOp; only placeholder, compute and extern are supported"):
        te.create_prim_func([te.scan(start, step, state, name="scan")])


@pytest.mark.parametrize("factors", [(1, 1, 1), (16, 16, 16), (7, 5, 3), (1, 32, 1), (20, 24, 8)])
def test_padded_sums_are_those_of_the_operands(factors):
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    left, right, total = s.pad(c, factors)
    rounded = [-(-size // factor) * factor for size, factor in zip((20, 24, 8), factors)]
    assert [int(d) for d in total.shape] == rounded[:2]
    assert [int(d) for d in left.shape] == [rounded[0], rounded[2]] and int(right.shape[0]) == rounded[2]
    assert [t.op.name for t in (left, right, total)] == ["A.pad", "B.pad", "C.pad"]
    s[left].compute_inline()
    outer, _ = s[c].split(s[c].op.axis[0], factor=6)
    s[total].compute_at(s[c], outer)
    check_matmul(s, a, b, c)
    assert apply_again(s, a, b, c) == s.steps


def apply_again(s, a, b, c):
    """The steps of a schedule, written and read, on a fresh one."""
    again = te.create_schedule(c.op)
    for step in from_plain(to_plain(s.steps)):
        apply(again, step)
    check_matmul(again, a, b, c)
    return again.steps


def test_padded_windows_read_zeros_past_the_end():
    a, w = te.placeholder((12, 5), name="A"), te.placeholder((3, 5, 4), name="W")
    y, k = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 5), "k")
    c = te.compute((10, 4), lambda i, j: te.sum(a[i + y, k] * w[y, k, j], axis=[y, k]), name="C")
    s = te.create_schedule(c.op)
    assert [tuple(map(int, t.shape)) for t in s.pad(c, [8, 8, 1, 4])] == [(18, 8), (3, 8, 8), (16, 8)]
    rng = np.random.default_rng(0)
    x, f = (rng.random([int(d) for d in t.shape], dtype="float32") for t in (a, w))
    out = tvm.nd.array(np.zeros((10, 4), "float32"))
    tvm.build(s, [a, w, c], "llvm")(tvm.nd.array(x), tvm.nd.array(f), out)
    expected = sum(x[n : n + 10] @ f[n] for n in range(3))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)


def test_sums_that_padding_would_change_are_not_padded():
    a, b = te.placeholder((8, 12), name="A"), te.placeholder((12, 8), name="B")

    def refused(term, reducer=te.sum, shape=(8, 8), terms=10):
        k = te.reduce_axis((0, terms), "k")
        c = te.compute(shape, lambda *at: reducer(term(*at, k), axis=k), name="C")
        s = te.create_schedule(c.op)
        with pytest.raises(ScheduleError) as error:
            s.pad(c, [4] * (len(shape) + 1))
        return str(error.value)

    # The operands have two rows more than the sum takes.
    assert refused(lambda i, j, k: a[i, k] * b[k, j]) == "pad of C: an operand extends past the end of k"
    assert "before its first element" in refused(lambda i, j, k: a[5 - i, k] * b[k, j], shape=(6, 8), terms=12)
    for term, reducer in ((lambda i, j, k: a[i, k] + b[k, j], te.sum), (lambda i, j, k: a[i, k] * b[k, j], te.max),
                          (lambda i, j, k: a[i, k] * a[j, k], te.sum)):  # fmt: skip
        assert refused(term, reducer) == "pad of C: it is not a sum of products of two tensors"


@pytest.mark.parametrize("change", [
    lambda s, c: s[c].reorder(c.op.axis[1], c.op.axis[0]), lambda s, c: s[c].split(c.op.axis[0], factor=4),
    lambda s, c: s[c].unroll(c.op.axis[1]),
    lambda s, c: s[s.cache_read(c.op.input_tensors[0], "local", [c])].compute_at(s[c], c.op.axis[0])])  # fmt: skip
def test_loops_that_are_changed_are_not_padded(change):
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    change(s, c)
    with pytest.raises(ScheduleError, match="pad of C: its loops have been changed, or other stages are"):
        s.pad(c, [16, 16, 16])
    check_matmul(s, a, b, c)
