"""Computes that call a tensor intrinsic, and groups of stages."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import ScheduleError


@tvm.register_func("test.tensor_compute.add", override=True)
def _add(x, y, z):
    tvm.nd.array(x.numpy() + y.numpy()).copyto(z)


@tvm.register_func("test.tensor_compute.scale", override=True)
def _scale(x, factor, z):
    tvm.nd.array((x.numpy() * factor).astype("float32")).copyto(z)


@tvm.register_func("test.tensor_compute.zero", override=True)
def _zero(z):
    tvm.nd.array(np.zeros(z.shape, "float32")).copyto(z)


@tvm.register_func("test.tensor_compute.gemv_add", override=True)
def _gemv_add(w, x, z):
    tvm.nd.array(z.numpy() + w.numpy() @ x.numpy()).copyto(z)


def run(s, args, *inputs):
    shape = [int(d) for d in args[-1].shape]
    out = tvm.nd.array(np.zeros(shape, "float32"))
    tvm.build(s, args, "llvm")(*[tvm.nd.array(x) for x in inputs], out)
    return out.numpy()


def vector_add(n):
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    z = te.compute((n,), lambda i: x[i] + y[i], name="z")
    return te.decl_tensor_intrin(
        z.op,
        lambda ins, outs: tvm.tir.call_packed("test.tensor_compute.add", *ins, *outs),
        name="vector_add",
        default_buffer_params={"offset_factor": 1},
    )


def gemv(m, n, reset=True):
    w, x = te.placeholder((m, n), name="w"), te.placeholder((n,), name="x")
    k = te.reduce_axis((0, n), name="k")
    z = te.compute((m,), lambda i: te.sum(w[i, k] * x[k], axis=k), name="z")

    def body(ins, outs):
        zero = tvm.tir.Evaluate(tvm.tir.call_packed("test.tensor_compute.zero", outs[0]))
        add = tvm.tir.Evaluate(tvm.tir.call_packed("test.tensor_compute.gemv_add", *ins, outs[0]))
        return tvm.tir.stmt_seq(zero, add), zero if reset else None, add

    stride = tvm.tir.decl_buffer(w.shape, w.dtype, offset_factor=1, strides=[te.var("s"), 1])
    return te.decl_tensor_intrin(z.op, body, name="gemv", binds={w: stride}, default_buffer_params={"offset_factor": 1})


def rows(rng, *shape):
    return rng.random(shape, dtype="float32")


@pytest.mark.parametrize("cached", [False, True])
def test_an_intrinsic_makes_the_dimensions_the_function_does_not_name(cached):
    a, b = te.placeholder((6, 8), name="A"), te.placeholder((6, 8), name="B")
    b1 = te.compute((6, 8), lambda i, j: b[i, j] + 5, name="B1")
    add = vector_add(8)
    c = te.compute((6, 8), lambda i: add(a[i, 0:8], b1[i, 0:8]), name="C")
    s = te.create_schedule(c.op)
    assert list(s[c].leaf_iter_vars) == [c.op.axis[0]]
    stage = c
    if cached:
        s.cache_read(a, "local", [c])
        stage = s.cache_write(c, "local")
    outer, inner = s[stage].split(s[stage].op.axis[0], factor=2)
    s[b1].compute_at(s[stage], inner)
    rng = np.random.default_rng(0)
    x, y = rows(rng, 6, 8), rows(rng, 6, 8)
    np.testing.assert_allclose(run(s, [a, b, c], x, y), x + y + 5, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_an_intrinsic_accumulates_over_a_reduction_around_it(reset, inside):
    a, b = te.placeholder((3, 4, 8, 5), name="A"), te.placeholder((2, 4, 5), name="B")
    k = te.reduce_axis((0, 4), name="k")
    call = gemv(8, 5, reset)
    c = te.compute((3, 2, 8), lambda i, j: call(a[i, k, 0:8, 0:5], b[j, k, 0:5], reduce_axis=k), name="C")
    s = te.create_schedule(c.op)
    if inside:
        s[c].reorder(k, *c.op.axis[:2])
    rng = np.random.default_rng(0)
    x, y = rows(rng, 3, 4, 8, 5), rows(rng, 2, 4, 5)
    np.testing.assert_allclose(run(s, [a, b, c], x, y), np.einsum("ikmn,jkn->ijm", x, y), rtol=1e-5, atol=1e-5)


def test_scalar_parameters_are_given_in_the_call():
    x, factor = te.placeholder((te.var("n"),), name="x"), te.var("factor")
    z = te.compute(x.shape, lambda i: x[i] * factor, name="z")
    scale = te.decl_tensor_intrin(
        z.op,
        lambda ins, outs, sp: tvm.tir.call_packed("test.tensor_compute.scale", ins[0], sp[0], outs[0]),
        scalar_params=[factor],
        default_buffer_params={"offset_factor": 1},
    )
    a = te.placeholder((3, 4), name="A")
    c = te.compute((3, 4), lambda i, j: scale(a[i, j], i * 10 + j), name="C")
    v = rows(np.random.default_rng(0), 3, 4)
    got = run(te.create_schedule(c.op), [a, c], v)
    np.testing.assert_allclose(got, v * (np.arange(3)[:, None] * 10 + np.arange(4)), rtol=1e-6, atol=1e-6)


def test_bad_calls_are_refused():
    a, b = te.placeholder((6, 8), name="A"), te.placeholder((6, 8), name="B")
    add = vector_add(8)
    with pytest.raises(ScheduleError, match="vector_add: expected 2 tensors and 0 scalars, got 1 and 1"):
        te.compute((6, 8), lambda i: add(a[i, 0:8], i))
    k = te.reduce_axis((0, 6), name="k")
    with pytest.raises(ScheduleError, match="vector_add: reducing over k needs an update"):
        te.compute((8,), lambda: add(a[k, 0:8], b[k, 0:8], reduce_axis=k))
    with pytest.raises(ValueError, match="the function takes 1 indices but the shape has 2 dimensions"):
        te.compute((6, 8), lambda i: a[i, 0])
    c = te.compute((6, 8), lambda i: add(a[i, 0:8], b[i, 0:8]), name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match="axis ax1 is made by an intrinsic"):
        s[c].split(c.op.axis[1], factor=2)


def test_groups_nest_and_are_computed_where_they_are_put():
    x = te.compute((6, 5), lambda i, j: tvm.tir.const(1, "float32") * i + j, name="x")
    x1 = te.compute(x.shape, lambda *i: x(*i) + 1, name="x1")
    x2 = te.compute(x.shape, lambda *i: x1(*i) + 2, name="x2")
    s = te.create_schedule(x2.op)
    inner = s.create_group(outputs=x, inputs=x, include_inputs=True)
    outer = s.create_group(outputs=x1, inputs=x, include_inputs=True)
    assert s[x].group is inner and s[x1].group is outer and inner.group is outer
    outer.compute_at(s[x2], x2.op.axis[0])
    inner.compute_at(s[x1], x1.op.axis[1])
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[a].extent) for a in (*x.op.axis, *x1.op.axis)] == [1, 1, 1, 5]
    want = np.arange(6)[:, None] + np.arange(5) + 3
    np.testing.assert_array_equal(run(s, [x2]), want)
    again = te.replay(s.steps, [x2.op])
    assert str(tvm.lower(again, [x2])) == str(tvm.lower(s, [x2]))
    outer.compute_root()
    assert int(te.schedule.InferBound(s)[x1.op.axis[0]].extent) == 6


def test_a_thread_reads_only_its_own_part_of_local_memory():
    a = te.placeholder((96,), name="A")
    a1 = te.compute((96,), lambda i: a[i] + 1, name="A1")
    a2 = te.compute((96,), lambda i: a1[i] + 2, name="A2")
    a3 = te.compute((96,), lambda i: a2[i] + 3, name="A3")
    s = te.create_schedule(a3.op)
    s[a2].set_scope("shared")
    s[a1].set_scope("local")
    thread = te.thread_axis("threadIdx.x")
    block, lane = s[a3].split(a3.op.axis[0], factor=32)
    s[a3].bind(block, te.thread_axis("blockIdx.x"))
    s[a3].bind(lane, thread)
    s[a2].compute_at(s[a3], lane)
    s[a2].bind(a2.op.axis[0], thread)
    s[a1].compute_at(s[a3], lane)
    bounds = te.schedule.InferBound(s)
    assert int(bounds[a1.op.axis[0]].extent) == 1 and int(bounds[a2.op.axis[0]].extent) == 32
    text = str(tvm.lower(s, [a, a3]))
    assert 'T.allocate([1], "float32", "local")' in text and 'T.allocate([32], "float32", "shared")' in text
