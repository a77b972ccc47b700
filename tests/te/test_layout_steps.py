"""transform_layout and rolling_buffer: what is stored where, with NumPy as the oracle."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.driver.build_module import schedule_to_module
from tvm.error import ExprValueError, ScheduleError, TVMError
from tvm.ir.prim import BufferLoad
from tvm.ir.visit import post_order
from tvm.tir.stmt import Allocate, BufferRealize, BufferStore

SHAPE = (4, 6, 40)
# By name: the map of indices, the same of arrays.
MAPS = {
    "none": (lambda *i: i, lambda x: x),
    "reverse": (lambda *i: i[::-1], lambda x: x.T),
    "flat": (lambda i, j, k: [i * 240 + j * 40 + k], lambda x: x.reshape(-1)),
    "factor": (lambda *i, n: [*i, n // 4, n % 4], lambda x: x.reshape(4, 6, 10, 4)),
}


def program(shape=SHAPE):
    a = te.placeholder(shape, "int32", name="A")
    m = te.compute(shape, lambda *i: a(*i) * 3, name="M")
    b = te.compute(shape, lambda *i: m(*i) + 1, name="B")
    return a, m, b, te.create_schedule(b.op)


def run(s, args, inputs, shape):
    out = tvm.nd.array(np.full(shape, -7, "int32"))
    tvm.build(s, args, "llvm")(*[tvm.nd.array(np.ascontiguousarray(x)) for x in inputs], out)
    return out.numpy()


def of(kind, func):
    return [n for n in post_order(func.body) if type(n) is kind]


def after(how, s, b, made):
    if how == "reorder":
        s[b].reorder(*made[::-1])
    elif how == "split":
        s[b].vectorize(s[b].split(made[-1], factor=3)[1])
    elif how == "fuse":
        s[b].parallel(s[b].fuse(*made[:2]))


@pytest.mark.parametrize("how, shift", [("", 0), ("reorder", 1), ("split", 2), ("fuse", 3)])
def test_arguments_have_the_shape_of_their_layout_and_loops_its_axes(how, shift):
    x = np.arange(960, dtype="int32").reshape(SHAPE)
    for (of_a, lay_a), (of_b, lay_b) in zip(MAPS.values(), [*MAPS.values()][shift:] + [*MAPS.values()][:shift]):
        a, m, b, s = program()
        assert s[a].transform_layout(of_a) is None
        made = s[b].transform_layout(of_b)
        assert tuple(int(i.dom.extent) for i in s[b].leaf_iter_vars) == lay_b(x).shape
        assert list(s[b].leaf_iter_vars) == list(made)
        after(how, s, b, made)
        s[m].compute_inline()
        np.testing.assert_array_equal(run(s, [a, b], [lay_a(x)], lay_b(x).shape), lay_b(x) * 3 + 1)


def test_the_caller_gives_the_shape_of_the_layout():
    a, m, b, s = program()
    s[a].transform_layout(MAPS["factor"][0])
    func = tvm.build(s, [a, b], "llvm")
    x = tvm.nd.array(np.zeros(SHAPE, "int32"))
    with pytest.raises(Exception, match="expected"):
        func(x, x)


def test_an_intermediate_keeps_its_shape_until_the_pass():
    a, m, b, s = program()
    s[m].transform_layout(MAPS["factor"][0])
    mod = schedule_to_module(s, [a, b])
    (realize,) = of(BufferRealize, mod["main"])
    assert realize.buffer.shape == SHAPE
    (realize,) = of(BufferRealize, tvm.tir.transform.ApplyLayoutTransforms()(mod)["main"])
    uses = [n.buffer for n in of(BufferLoad, mod["main"]) + of(BufferStore, mod["main"]) if n.buffer.name == "M"]
    assert realize.buffer.shape == (4, 6, 10, 4) and len(set(uses)) == 1


def test_a_part_of_a_layout_is_computed_inside_a_loop():
    """Tiles that do not begin where the blocks of the layout do."""
    a = te.placeholder((40, 8), "int32", name="A")
    m = te.compute((40, 8), lambda i, j: a[i, j] * 3, name="M")
    b = te.compute((38, 8), lambda i, j: m[i, j] + m[i + 2, j], name="B")
    x = np.random.default_rng(0).integers(0, 99, (40, 8)).astype("int32")
    for factor in (3, 5, 16):
        s = te.create_schedule(b.op)
        s[m].transform_layout(lambda i, j: [i // 4, j, i % 4])
        s[m].compute_at(s[b], s[b].split(b.op.axis[0], factor=factor)[0])
        np.testing.assert_array_equal(run(s, [a, b], [x], (38, 8)), 3 * x[:-2] + 3 * x[2:])


@pytest.mark.parametrize("cached", ["", "read", "write", "both", "rfactor"])
def test_layouts_and_changes_of_the_dataflow(cached):
    a = te.placeholder((8, 12), "int32", name="A")
    k = te.reduce_axis((0, 12), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[a].transform_layout(lambda i, j: [j // 4, i, j % 4])
    outer, inner = s[b].transform_layout(lambda i: [i % 2, i // 2])
    s[b].reorder(k, inner, outer)
    if cached in ("read", "both"):
        s.cache_read(a, "global", [b])
    if cached in ("write", "both"):
        s.cache_write(b, "global")
    if cached == "rfactor":
        s.rfactor(b, s[b].split(k, factor=4)[1])
    x = np.random.default_rng(0).integers(0, 99, (8, 12)).astype("int32")
    got = run(s, [a, b], [x.reshape(8, 3, 4).transpose(1, 0, 2)], (2, 4))
    np.testing.assert_array_equal(got, x.sum(1).reshape(4, 2).T)


def test_layouts_of_scans_and_externs():
    x = np.random.default_rng(0).integers(0, 99, (5, 4)).astype("int32")
    a, state = te.placeholder((5, 4), "int32", name="A"), te.placeholder((5, 4), "int32")
    first = te.compute((1, 4), lambda _, i: a[0, i])
    update = te.compute((5, 4), lambda t, i: state[t - 1, i] + a[t, i], name="update")
    total = te.scan(first, update, state, inputs=[a])

    def double(ins, outs):
        ib = tvm.tir.ir_builder.create()
        with ib.for_range(0, 5) as i, ib.for_range(0, 4) as j:
            ib.emit(outs[0].vstore([i, j], ins[0].vload([i, j]) * 2))
        return ib.get()

    twice = te.extern((5, 4), [a], double, name="twice", dtype="int32")
    for result, want in ((total, x.cumsum(0)), (twice, x * 2)):
        s = te.create_schedule(result.op)
        for tensor in (a, result):
            s[tensor].transform_layout(lambda t, i: [i, t])
        np.testing.assert_array_equal(run(s, [a, result], [x.T], (4, 5)), want.T)
    s = te.create_schedule(total.op)
    for tensor in (update, first):
        with pytest.raises(ScheduleError, match="transform the layout of the scan"):
            s[tensor].transform_layout(lambda t, i: [i, t])


def test_an_extern_that_takes_a_pointer_has_no_layout():
    a = te.placeholder((5, 4), "int32", name="A")

    def call(ins, outs):
        return tvm.tir.call_packed("f", ins[0].access_ptr("r"), outs[0])

    b = te.extern((5, 4), [a], call, name="B", dtype="int32")
    s = te.create_schedule(b.op)
    s[a].transform_layout(lambda i, j: [j, i])
    with pytest.raises(TVMError, match="transform_layout of A: an extern or intrinsic uses the pointer"):
        tvm.lower(s, [a, b])


def test_layouts_with_sizes_known_at_run_time():
    n = te.size_var("n")
    a = te.placeholder((n, 8), "int32", name="A")
    b = te.compute((n, 8), lambda i, j: a[i, j] + 1, name="B")
    x = np.arange(40, dtype="int32").reshape(5, 8)
    s = te.create_schedule(b.op)
    s[a].transform_layout(lambda i, j: [j, i])
    s[b].transform_layout(lambda i, j: [i, j // 4, j % 4])
    np.testing.assert_array_equal(run(s, [a, b], [x.T], (5, 2, 4)), (x + 1).reshape(5, 2, 4))


def test_an_input_may_have_padding():
    a = te.placeholder((14,), "int32", name="A")
    b = te.compute((14,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[a].transform_layout(lambda i: [i // 4, i % 4])
    s[a].transform_layout(lambda i, j: [j, i])
    x = np.zeros((4, 4), "int32")
    x.reshape(-1)[:14] = np.arange(14)
    np.testing.assert_array_equal(run(s, [a, b], [x.T], (14,)), np.arange(14) + 1)


def test_strides_are_aligned_along_axes_of_the_layout():
    a, m, b, s = program((8, 6))
    made = s[m].transform_layout(lambda i, j: [j, i])
    with pytest.raises(ScheduleError, match="axis i0 is not an axis of its layout"):
        s[m].storage_align(m.op.axis[0], 16, 1)
    s[m].storage_align(made[0], 16, 1)
    (allocate,) = of(Allocate, tvm.lower(s, [a, b])["main"])
    assert allocate.extents == (6 * 17,)
    x = np.arange(48, dtype="int32").reshape(8, 6)
    np.testing.assert_array_equal(run(s, [a, b], [x], (8, 6)), x * 3 + 1)


@pytest.mark.parametrize(
    "mapping, error, words",
    [
        (
            lambda i: [i // 4, i % 4],
            ScheduleError,
            r"not bijective on \(14\): the extent 14 is padded to a multiple of 4",
        ),
        (lambda i: [i // 2], ScheduleError, "not bijective"),
        (
            lambda i: [i, te.AXIS_SEPARATOR],
            ScheduleError,
            r"axis separators must be between axes; they are at \[1\] of 1",
        ),
        (lambda i, j: [i, j], ExprValueError, "takes 2 indices, not 1"),
    ],
)
def test_layouts_that_are_refused(mapping, error, words):
    *_, b, s = program((14,))
    with pytest.raises(error, match=words):
        s[b].transform_layout(mapping)
    assert not s.steps and not s[b].layout_transforms and s[b].leaf_iter_vars == list(b.op.axis)


def test_layouts_that_come_too_late_are_refused():
    a, m, b, s = program((4, 4))
    with pytest.raises(ScheduleError, match="no iterator has the scale"):
        s[a].transform_layout(lambda i, j: [i // 2 + j])
    s[m].compute_at(s[b], b.op.axis[0])
    with pytest.raises(ScheduleError, match="stage M is computed inside its loop i0"):
        s[b].transform_layout(lambda i, j: [j, i])
    s[m].unroll(m.op.axis[1])
    with pytest.raises(ScheduleError, match="loop i1 is already annotated"):
        s[m].transform_layout(lambda i, j: [j, i])
    s[b].split(b.op.axis[1], factor=2)
    with pytest.raises(ScheduleError, match=r"its loops i0, i1 have already been changed \(i0, i1.outer, i1.inner\)"):
        s[b].transform_layout(lambda i, j: [j, i])
    _, _, b, s = program((4, 4))
    s[b].transform_layout(lambda i, j: [j, i])
    with pytest.raises(ScheduleError, match="axis i0 was replaced by transform_layout"):
        s[b].split(b.op.axis[0], factor=2)


@pytest.mark.parametrize("on_a, on_m, vector", list(itertools.product([False, True], repeat=3)))
def test_separators_make_memory_of_several_dimensions(on_a, on_m, vector):
    a, m, b, s = program((2, 3, 4))
    for tensor in [a] * on_a + [m] * on_m:
        s[tensor].transform_layout(lambda i, j, k: [i, j, te.AXIS_SEPARATOR, k])
    if vector:
        s[m].vectorize(s[m].leaf_iter_vars[-1])
    func = tvm.lower(s, [a, b])["main"]
    dims = {n.buffer.name: len(n.indices) for n in of(BufferLoad, func) + of(BufferStore, func)}
    assert dims == {"A": 1 + on_a, "M": 1 + on_m, "B": 1}
    (allocate,) = of(Allocate, func)
    assert allocate.extents == ((6, 4) if on_m else (24,))
    x = np.arange(24, dtype="int32").reshape(2, 3, 4)
    np.testing.assert_array_equal(run(s, [a, b], [x], (2, 3, 4)), x * 3 + 1)


def test_a_layout_is_a_step_that_is_saved_and_replayed():
    a, m, b, s = program((8, 4))
    made = s[b].transform_layout(lambda i, j: [j, te.AXIS_SEPARATOR, i // 4, i % 4])
    s[b].reorder(made[1], made[0])
    again = tvm.ir.load_json(tvm.ir.save_json(s))
    (b2,) = again.outputs
    assert [x.var.name for x in again[b2].leaf_iter_vars] == ["axis1", "j", "axis2"]
    assert again[b2].axis_separators == (1,)
    for line in ("transform_layout", "reorder"):
        assert line in [step.kind for step in again.steps]


# -- rolling buffers ---------------------------------------------------------------------------------------------------


def window_sums(x, size, stride):
    h, w = ((n - size) // stride + 1 for n in x.shape)
    parts = itertools.product(range(size), repeat=2)
    return sum(x[i : i + stride * (h - 1) + 1 : stride, j : j + stride * (w - 1) + 1 : stride] for i, j in parts)


def pooled(a, size, stride, name):
    i, j = (te.reduce_axis((0, size)) for _ in range(2))
    h, w = ((int(n) - size) // stride + 1 for n in a.shape)
    return te.compute((h, w), lambda y, x: te.sum(a[y * stride + i, x * stride + j], axis=[i, j]), name=name)


def rolling(place, size=3, stride=1, produce=None):
    a = te.placeholder((17, 19) if produce is None else (16, 18), "int32", name="A")
    b = pooled(a, 2, 1, "B") if produce is None else te.compute(a.shape, lambda i, j: produce(a[i, j]), name="B")
    c = pooled(b, size, stride, "C")
    s = te.create_schedule(c.op)
    y, x = c.op.axis
    if place == "tiles":
        y, x, *_ = s[c].tile(y, x, 3, 2)
    elif place == "split":
        _, x = s[c].split(y, factor=4)
    elif place == "columns":
        s[c].reorder(x, y)
        x = y
    elif place == "parallel":
        s[c].parallel(y)
    s[b].compute_at(s[c], y if place == "rows" else x)
    s[b].rolling_buffer()
    return a, b, c, s


@pytest.mark.parametrize("place", ["rows", "elements", "tiles", "split", "columns", "parallel"])
def test_a_rolling_buffer_gives_the_same_values(place):
    x = np.random.default_rng(0).integers(0, 99, (17, 19)).astype("int32")
    for size, stride in itertools.product((2, 3), (1, 2)):
        a, b, c, s = rolling(place, size, stride)
        want = window_sums(window_sums(x, 2, 1), size, stride)
        np.testing.assert_array_equal(run(s, [a, c], [x], want.shape), want)


@pytest.mark.parametrize(
    "place, size, times",
    [
        ("rows", 3 * 18, 1),
        ("elements", 3 * 18, 1),
        ("tiles", 5 * 18, 1),
        ("columns", 3 * 16, 1),
        ("parallel", 9, 2.625),
    ],
)
def test_a_rolling_buffer_has_the_size_of_its_window_and_computes_each_element_once(place, size, times):
    calls = []
    tvm.register_func("tests.te.rolling", lambda x: calls.append(x) or x, override=True)
    a, b, c, s = rolling(place, produce=lambda x: tvm.tir.call_packed("tests.te.rolling", x))
    (allocate,) = [n for n in of(Allocate, tvm.lower(s, [a, c])["main"]) if n.buffer_var.name == "B"]
    assert allocate.extents == (size,)
    x = np.arange(16 * 18, dtype="int32").reshape(16, 18)
    np.testing.assert_array_equal(run(s, [a, c], [x], (14, 16)), window_sums(x, 3, 1))
    assert len(calls) == times * 16 * 18


def test_what_does_not_roll_is_refused():
    a, m, b, s = program((8, 8))
    for stage in (s[a], s[b]):
        with pytest.raises(ScheduleError, match="rolling_buffer on stage"):
            stage.rolling_buffer()
    s[m].rolling_buffer()
    with pytest.raises(ScheduleError, match="double_buffer on stage M: it has a rolling buffer"):
        s[m].double_buffer()
    with pytest.raises(TVMError, match="rolling_buffer of M: no serial loop around it"):
        tvm.lower(s, [a, b])
    s[m].compute_at(s[b], b.op.axis[0])
    s[b].parallel(b.op.axis[0])
    with pytest.raises(TVMError, match="no serial loop around it moves one of its dimensions"):
        tvm.lower(s, [a, b])


def test_a_loop_of_one_iteration_moves_nothing():
    a, m, b, s = program((3, 8))
    s[m].compute_at(s[b], s[b].split(b.op.axis[0], factor=4)[0])
    s[m].rolling_buffer()
    x = np.arange(24, dtype="int32").reshape(3, 8)
    np.testing.assert_array_equal(run(s, [a, b], [x], (3, 8)), x * 3 + 1)
