"""Caches, factored reductions, automatic inlining, and intermediates that are arguments."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import ScheduleError, TVMError
from tvm.te import schedule as schedules


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
    np.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-5)


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
    with pytest.raises(ScheduleError, match="loop j.inner is annotated.*make the cache first"):
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
    np.testing.assert_allclose(out.numpy(), x.sum((1, 2)), rtol=1e-5)


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
    c, d = te.compute((4,), lambda i: (a[i] + 1, a[i] + 2), name="C")
    s = te.create_schedule(c.op)
    assert "C_v1[i] = " in str(tvm.lower(s, [a, c]))
    with pytest.raises(TVMError, match="output C.v1 of the schedule is not among the arguments"):
        tvm.build(s, [a, c], "llvm")


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
