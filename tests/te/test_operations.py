"""Operations end to end: scan, extern, hybrid script, tensorize, caches, factored reductions, tuples, operators."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, tir
from tvm.error import DiagnosticError, ScheduleError, TVMError


def run(s, args, *arrays):
    f = tvm.build(s, args, "llvm")
    held = [tvm.nd.array(a) if isinstance(a, np.ndarray) else a for a in arrays]
    f(*held)
    return [h.numpy() if hasattr(h, "numpy") else h for h in held]


def random(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).random(shape).astype(dtype)


# -- scan ------------------------------------------------------------------------------------------------------------


def cumulative_sum():
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    return x, init, update, te.scan(init, update, state, inputs=[x], name="total")


@pytest.mark.parametrize("rows, columns", [(1, 1), (2, 3), (17, 5)])
def test_scan_accumulates_along_the_first_axis(rows, columns):
    x, init, update, total = cumulative_sum()
    s = te.create_schedule(total.op)
    data = random(rows, columns)
    got = run(s, [x, total], data, np.zeros_like(data))[1]
    np.testing.assert_allclose(got, np.cumsum(data, 0), rtol=1e-5, atol=1e-5)


def test_scan_update_and_init_can_be_scheduled():
    x, init, update, total = cumulative_sum()
    s = te.create_schedule(total.op)
    s[init].split(init.op.axis[1], factor=4)
    outer, inner = s[update].split(update.op.axis[1], factor=4)
    s[update].vectorize(inner)
    data = random(9, 11)
    got = run(s, [x, total], data, np.zeros_like(data))[1]
    np.testing.assert_allclose(got, np.cumsum(data, 0), rtol=1e-5, atol=1e-5)
    with pytest.raises(ScheduleError, match="the scan computes its update"):
        s[update].compute_root()


def test_scan_with_a_step_of_two_stages():
    m, n = 7, 5
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    doubled = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="doubled")
    update = te.compute((m, n), lambda t, i: doubled[t, i] + x[t, i], name="update")
    total = te.scan(init, update, state, inputs=[x])
    s = te.create_schedule(total.op)
    s[doubled].compute_at(s[update], update.op.axis[1])
    data = random(m, n)
    want = data.copy()
    for t in range(1, m):
        want[t] = want[t - 1] * 2 + data[t]
    np.testing.assert_allclose(run(s, [x, total], data, np.zeros_like(data))[1], want, rtol=1e-5, atol=1e-5)


def test_scan_of_two_states():
    m, n = 6, 4
    x = te.placeholder((m, n), name="X")
    s1, s2 = te.placeholder((m, n), name="s1"), te.placeholder((m, n), name="s2")
    i1 = te.compute((1, n), lambda _, i: x[0, i], name="i1")
    i2 = te.compute((1, n), lambda _, i: x[0, i] * 0, name="i2")
    u1 = te.compute((m, n), lambda t, i: s1[t - 1, i] + x[t, i], name="u1")
    u2 = te.compute((m, n), lambda t, i: s2[t - 1, i] + s1[t - 1, i], name="u2")
    o1, o2 = te.scan([i1, i2], [u1, u2], [s1, s2], inputs=[x])
    s = te.create_schedule(o1.op)
    data = random(m, n)
    w1, w2 = data.copy(), np.zeros_like(data)
    for t in range(1, m):
        w1[t], w2[t] = w1[t - 1] + data[t], w2[t - 1] + w1[t - 1]
    got = run(s, [x, o1, o2], data, np.zeros_like(data), np.zeros_like(data))
    np.testing.assert_allclose(got[1], w1, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[2], w2, rtol=1e-5, atol=1e-5)


# -- extern ----------------------------------------------------------------------------------------------------------


def test_extern_calls_python_with_the_buffers():
    @tvm.register_func("test.te.double_it", override=True)
    def double_it(source, target):
        tvm.nd.array(source.numpy() * 2).copyto(target)

    a = te.placeholder((4, 3), name="A")
    b = te.compute((4, 3), lambda i, j: a[i, j] + 1, name="B")
    c = te.extern((4, 3), [b], lambda ins, outs: tir.call_packed("test.te.double_it", ins[0], outs[0]), name="C")
    d = te.compute((4, 3), lambda i, j: c[i, j] - 1, name="D")
    s = te.create_schedule(d.op)
    data = random(4, 3)
    np.testing.assert_allclose(run(s, [a, d], data, np.zeros_like(data))[1], (data + 1) * 2 - 1, rtol=1e-6, atol=1e-6)


def test_extern_with_loops_of_the_builder():
    n = 10
    a = te.placeholder((n,), name="A")

    def build(ins, outs):
        ib = tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, name="i") as i:
            with ib.if_scope(i % 2 == 0):
                target[i] = source[i]
            with ib.else_scope():
                target[i] = -source[i]
        return ib.get()

    b = te.extern((n,), [a], build, name="B", dtype="float32")
    data = random(n)
    want = np.where(np.arange(n) % 2 == 0, data, -data)
    np.testing.assert_allclose(run(te.create_schedule(b.op), [a, b], data, np.zeros_like(data))[1], want, atol=1e-6)


def test_extern_refuses_wrong_uses():
    a = te.placeholder((4,), name="A")
    with pytest.raises(ValueError, match="must return a statement or a call"):
        te.extern((4,), [a], lambda ins, outs: 3.5 if False else None)
    with pytest.raises(TypeError, match="inputs must be tensors"):
        te.extern((4,), [3], lambda ins, outs: None)


def test_an_inlined_stage_cannot_be_read_by_an_extern():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    c = te.extern((4,), [b], lambda ins, outs: tir.call_packed("test.te.double_it", ins[0], outs[0]), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    with pytest.raises(ScheduleError, match="stage B cannot be inlined: C"):
        tvm.lower(s, [a, c])


# -- hybrid script ---------------------------------------------------------------------------------------------------


@te.hybrid.script
def outer_product(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), "float32")  # noqa: F821
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def running_max(a):
    b = output_tensor(a.shape, a.dtype)  # noqa: F821
    best = -1000.0
    for i in range(a.shape[0]):
        if a[i] > best:
            best = a[i]
        b[i] = best
    return b


@te.hybrid.script
def reads_too_deep(a):
    b = output_tensor(a.shape, a.dtype)  # noqa: F821
    for i in range(a.shape[0]):
        b[i] = a[i, 0]
    return b


def test_hybrid_script_compiles_and_runs_as_python_alike():
    n, m = 5, 7
    a, b = te.placeholder((n,), name="a"), te.placeholder((m,), name="b")
    c = outer_product(a, b)
    x, y = random(n), random(m, seed=1)
    want = np.outer(x, y)
    np.testing.assert_allclose(outer_product(x, y), want, rtol=1e-6, atol=1e-6)
    got = run(te.create_schedule(c.op), [a, b, c], x, y, np.zeros((n, m), "float32"))[2]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_hybrid_script_loops_take_a_schedule():
    n, m = 6, 8
    a, b = te.placeholder((n,), name="a"), te.placeholder((m,), name="b")
    c = outer_product(a, b)
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    outer, inner = s[c].split(j, factor=3)
    s[c].reorder(outer, i, inner)
    s[c].unroll(inner)
    x, y = random(n), random(m, seed=1)
    got = run(s, [a, b, c], x, y, np.zeros((n, m), "float32"))[2]
    np.testing.assert_allclose(got, np.outer(x, y), rtol=1e-6, atol=1e-6)


def test_hybrid_script_scalars_are_memory():
    a = te.placeholder((9,), name="a")
    b = running_max(a)
    x = random(9)
    got = run(te.create_schedule(b.op), [a, b], x, np.zeros_like(x))[1]
    np.testing.assert_allclose(got, np.maximum.accumulate(x), atol=1e-6)


def test_hybrid_script_errors_show_the_line():
    with pytest.raises(DiagnosticError, match="'a' has 1 dimensions, but 2 indices are given\n    b\\[i\\] = a"):
        reads_too_deep(te.placeholder((4,), name="a"))


# -- tensorize -------------------------------------------------------------------------------------------------------


def gemv_intrinsic(m, depth, reset=True):
    a = te.placeholder((depth,), name="a")
    b = te.placeholder((m, depth), name="b")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    a_view = tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    b_view = tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    c_view = tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrinsic(ins, outs):
        aa, bb = ins
        cc = outs[0]

        def body(clear):
            ib = tir.ir_builder.create()
            source, weight, target = ib.buffer_ptr(aa), ib.buffer_ptr(bb), ib.buffer_ptr(cc)
            with ib.for_range(0, m, name="i") as i:
                if clear:
                    target[i] = tir.const(0, "float32")
                with ib.for_range(0, depth, name="k") as kk:
                    target[i] = target[i] + source[kk] * weight[i, kk]
            return ib.get()

        def clear():
            ib = tir.ir_builder.create()
            target = ib.buffer_ptr(cc)
            with ib.for_range(0, m, name="i") as i:
                target[i] = tir.const(0, "float32")
            return ib.get()

        return (body(True), clear(), body(False)) if reset else (body(True), None, body(False))

    return te.decl_tensor_intrin(c.op, intrinsic, binds={a: a_view, b: b_view, c: c_view})


def gemm(n, m, depth):
    a = te.placeholder((n, depth), name="A")
    b = te.placeholder((m, depth), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    return a, b, c


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("split_k", [False, True])
def test_tensorize_calls_the_intrinsic_for_the_inner_loops(split_k, reset):
    n, m, depth = 6, 8, 12
    a, b, c = gemm(n, m, depth)
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    j_outer, j_inner = s[c].split(j, factor=4)
    (k,) = c.op.reduce_axis
    inner = 3 if split_k else depth
    if split_k:
        k_outer, k_inner = s[c].split(k, factor=inner)
        s[c].reorder(i, j_outer, k_outer, j_inner, k_inner)
    s[c].tensorize(j_inner, gemv_intrinsic(4, inner, reset))
    x, y = random(n, depth), random(m, depth, seed=1)
    got = run(s, [a, b, c], x, y, np.full((n, m), 9, "float32"))[2]
    np.testing.assert_allclose(got, x @ y.T, rtol=1e-5, atol=1e-5)


def test_tensorize_mismatch_shows_expected_and_found():
    a = te.placeholder((6, 12), name="A")
    b = te.placeholder((8, 12), name="B")
    k = te.reduce_axis((0, 12), name="k")
    c = te.compute((6, 8), lambda i, j: te.sum(a[i, k] + b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    j_outer, j_inner = s[c].split(c.op.axis[1], factor=4)
    s[c].tensorize(j_inner, gemv_intrinsic(4, 12))
    with pytest.raises(ScheduleError, match=r"(?s)do not match the computation of the intrinsic.*expected.*found"):
        tvm.lower(s, [a, b, c])


def test_tensorize_of_a_maximum_that_starts_at_minus_infinity():
    def maximum(rows, start):
        a, k = te.placeholder((rows, 5), name="A"), te.reduce_axis((0, 5), name="k")
        reducer = te.comm_reducer(lambda x, y: te.max(x, y), lambda t: start)
        return a, te.compute((rows,), lambda i: reducer(a[i, k], axis=k), name="B")

    _, meaning = maximum(4, te.min_value("float32"))
    intrinsic = te.decl_tensor_intrin(
        meaning.op, lambda ins, outs: tir.call_packed("most", *ins, *outs), default_buffer_params={"offset_factor": 1}
    )
    a, b = maximum(8, -tir.infinity("float32"))
    s = te.create_schedule(b.op)
    s[b].tensorize(s[b].split(b.op.axis[0], 4)[1], intrinsic)
    assert '"most"' in str(tvm.lower(s, [a, b], simple_mode=True))


def test_tensorize_of_the_wrong_size_names_both():
    a, b, c = gemm(6, 8, 12)
    s = te.create_schedule(c.op)
    j_outer, j_inner = s[c].split(c.op.axis[1], factor=2)
    s[c].tensorize(j_inner, gemv_intrinsic(4, 12))
    with pytest.raises(ScheduleError, match="output axis j has 2 iterations; the intrinsic expects 4"):
        tvm.lower(s, [a, b, c])


# -- caches and factored reductions ----------------------------------------------------------------------------------


def test_cache_read_refuses_a_stage_that_does_not_read():
    a, b, c = gemm(4, 4, 4)
    d = te.compute((4, 4), lambda i, j: c[i, j] + 1, name="D")
    s = te.create_schedule(d.op)
    with pytest.raises(ScheduleError, match="cache_read of A: D does not read it"):
        s.cache_read(a, "local", [d])


@pytest.mark.parametrize("factor_axis", [0, 1, -1])
def test_rfactor_reduces_in_two_steps(factor_axis):
    a = te.placeholder((5, 37), name="A")
    k = te.reduce_axis((0, 37), "k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k, factor=8)
    factored = s.rfactor(b, inner, factor_axis)
    assert len(factored.shape) == 2
    s[factored].parallel(s[factored].op.axis[0])
    data = random(5, 37)
    np.testing.assert_allclose(run(s, [a, b], data, np.zeros(5, "float32"))[1], data.sum(1), rtol=1e-5, atol=1e-5)


def test_rfactor_refuses_what_is_no_reduction():
    a, b, c = gemm(4, 4, 4)
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match="axis i is not a reduction axis"):
        s.rfactor(c, c.op.axis[0])


def test_tuple_reduction_computes_all_values_before_storing_any():
    # A running mean and its weight: each new value needs both old ones.
    def combine(x, y):
        total = x[1] + y[1]
        return (x[0] * x[1] + y[0] * y[1]) / te.max(total, tir.const(1, "float32")), total

    mean = te.comm_reducer(combine, lambda t0, t1: (tir.const(0, t0), tir.const(0, t1)), name="mean")
    a = te.placeholder((3, 11), name="A")
    k = te.reduce_axis((0, 11), "k")
    b, w = te.compute((3,), lambda i: mean((a[i, k], tir.const(1, "float32")), axis=k), name="B")
    data = random(3, 11)
    got = run(te.create_schedule(b.op), [a, b, w], data, np.zeros(3, "float32"), np.zeros(3, "float32"))
    np.testing.assert_allclose(got[1], data.mean(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[2], 11, atol=1e-6)


# -- building programs -----------------------------------------------------------------------------------------------


def test_operators_between_tensors_broadcast():
    a, b = te.placeholder((4, 1), name="a"), te.placeholder((3,), name="b")
    c = (a + b) * 2 - a / (b + 1)
    x, y = random(4, 1), random(3, seed=1)
    got = run(te.create_schedule(c.op), [a, b, c], x, y, np.zeros((4, 3), "float32"))[2]
    np.testing.assert_allclose(got, (x + y) * 2 - x / (y + 1), rtol=1e-5, atol=1e-5)
    with pytest.raises(TVMError, match="shapes do not broadcast"):
        te.placeholder((4,)) + te.placeholder((3,))


def test_float_dimensions_that_are_whole_become_integers():
    a = te.placeholder((8,), name="a")
    b = te.compute((8 / 2,), lambda i: a[i * 2], name="b")
    assert b.shape[0].value == 4 and b.shape[0].dtype == "int32"
    with pytest.raises(ValueError, match="dimension 2.5 is not an integer"):
        te.compute((5 / 2,), lambda i: a[i])


def test_compute_refuses_wrong_programs():
    a = te.placeholder((4, 4), name="a")
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(ValueError, match="takes 1 indices but the shape has 2 dimensions"):
        te.compute((4, 4), lambda i: a[i, i])
    with pytest.raises(ValueError, match="a reduction must be the whole value of a compute"):
        te.compute((4,), lambda i: te.sum(a[i, k], axis=k) + 1)
    with pytest.raises(ValueError, match="tensor a has 2 dimensions, but is indexed with 1 indices"):
        te.compute((4,), lambda i: a[i])
    with pytest.raises(TypeError, match="an index must be an integer expression"):
        te.compute((4,), lambda i: a[i, 1.5])


def test_symbolic_sizes_are_read_from_the_arguments():
    n = te.size_var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1, name="b")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=8)
    s[b].vectorize(inner)
    f = tvm.build(s, [a, b], "llvm")
    for size in (1, 7, 8, 9, 100):
        x = random(size)
        out = tvm.nd.array(np.zeros_like(x))
        f(tvm.nd.array(x), out)
        np.testing.assert_allclose(out.numpy(), x + 1, atol=1e-6)
