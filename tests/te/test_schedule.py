"""Schedule primitives: what they do to the loops, and what they refuse, leaving the schedule as it was."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import ScheduleError
from tvm.ir.visit import post_order


def program(n=16, m=12):
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")
    return a, b, c


def reduction(n=16, m=12):
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    return a, k, b


def snapshot(s):
    return [
        (
            x.op,
            tuple(x.leaf_iter_vars),
            tuple(x.relations),
            x.attach_type,
            x.attach_stage,
            x.attach_ivar,
            x.scope,
            {a: v.iter_type for a, v in x.iter_var_attrs.items() if v.iter_type},
        )
        for x in s.stages
    ], len(s.steps)


def refuses(s, words, function):
    before = snapshot(s)
    with pytest.raises(ScheduleError, match=words):
        function()
    assert snapshot(s) == before


def check(s, args, want, *inputs):
    f = tvm.build(s, args, "llvm")
    out = tvm.nd.array(np.zeros(want.shape, want.dtype))
    f(*[tvm.nd.array(x) for x in inputs], out)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 16])
def test_split_by_factor_covers_every_element_once(n):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 3, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=4)
    assert [x.var.name for x in s[b].leaf_iter_vars] == ["i.outer", "i.inner"]
    x = np.arange(n, dtype="float32")
    check(s, [a, b], x * 3, x)


@pytest.mark.parametrize("n", [1, 5, 12])
def test_split_by_parts_makes_that_many_outer_iterations(n):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 3, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], nparts=3)
    x = np.arange(n, dtype="float32")
    check(s, [a, b], x * 3, x)


def test_uneven_splits_of_a_reduction_count_every_element_once():
    a, k, b = reduction(8, 7)
    s = te.create_schedule(b.op)
    i_outer, i_inner = s[b].split(b.op.axis[0], factor=4)
    s[b].split(i_inner, factor=3)
    k_outer, k_inner = s[b].split(k, factor=4)
    s[b].split(k_inner, factor=3)
    x = np.random.default_rng(0).random((8, 7), dtype="float32")
    check(s, [a, b], x.sum(1), x)


def test_fuse_and_reorder_change_the_loops():
    a, b, c = program()
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    fused = s[c].fuse(i, j)
    assert fused.var.name == "i.j.fused"
    outer, inner = s[c].split(fused, factor=10)
    s[c].reorder(inner, outer)
    assert s[c].leaf_iter_vars == [inner, outer]
    x = np.random.default_rng(0).random((16, 12), dtype="float32")
    check(s, [a, c], (x + 1) * 2, x)


def test_fuse_of_nothing_makes_a_loop_of_one_iteration():
    a = te.placeholder((), name="A")
    b = te.compute((), lambda: a() + 1, name="B")
    s = te.create_schedule(b.op)
    axis = s[b].fuse()
    s[b].parallel(axis)
    check(s, [a, b], np.float32(3) + np.ones((), "float32"), np.array(3, "float32"))


def test_tile_orders_outer_loops_before_inner_ones():
    a, b, c = program()
    s = te.create_schedule(c.op)
    x_outer, y_outer, x_inner, y_inner = s[c].tile(*s[c].op.axis, 4, 3)
    assert s[c].leaf_iter_vars == [x_outer, y_outer, x_inner, y_inner]


@pytest.mark.parametrize(
    "words, act",
    [
        ("split on stage C: pass factor or nparts", lambda s, c: s[c].split(c.op.axis[0])),
        ("not both", lambda s, c: s[c].split(c.op.axis[0], factor=2, nparts=2)),
        ("factor of axis i must be at least 1, got 0", lambda s, c: s[c].split(c.op.axis[0], factor=0)),
        ("must be an integer or an expression", lambda s, c: s[c].split(c.op.axis[0], factor="4")),
        ("expected an axis of the stage, got int", lambda s, c: s[c].split(0, factor=2)),
        ("must be neighbours in this order", lambda s, c: s[c].fuse(c.op.axis[1], c.op.axis[0])),
        ("the same axis is given twice", lambda s, c: s[c].reorder(c.op.axis[0], c.op.axis[0])),
        ("the two axes must differ", lambda s, c: s[c].tile(c.op.axis[0], c.op.axis[0], 2, 2)),
        ("expected a thread axis", lambda s, c: s[c].bind(c.op.axis[0], c.op.axis[1])),
        ("expected a tensor intrinsic", lambda s, c: s[c].tensorize(c.op.axis[0], 3)),
        ("it is an output: its memory belongs to the caller", lambda s, c: s[c].double_buffer()),
        ("it is an output of the program", lambda s, c: s[c].compute_inline()),
        ("only a scan can have environment threads", lambda s, c: s[c].env_threads(te.thread_axis("threadIdx.x"))),
    ],
)
def test_primitives_refuse_and_leave_the_schedule_as_it_was(words, act):
    a, b, c = program()
    s = te.create_schedule(c.op)
    refuses(s, words, lambda: act(s, c))


def test_the_scope_of_an_output_is_refused_where_it_is_an_argument():
    a, b, c = program()
    s = te.create_schedule(c.op)
    s[c].set_scope("shared")
    stmt = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    realized = [n for n in post_order(stmt) if isinstance(n, tvm.tir.ProducerRealize)]
    assert {n.producer.name: n.storage_scope for n in realized}["C"] == "shared"
    with pytest.raises(ScheduleError, match="stage C: it is an argument .* belongs to the caller .* not shared"):
        tvm.lower(s, [a, c])


def test_an_axis_that_was_split_is_named_with_what_became_of_it():
    a, b, c = program()
    s = te.create_schedule(c.op)
    i = c.op.axis[0]
    s[c].split(i, factor=4)
    refuses(
        s, r"axis i was split into i.outer and i.inner; the loops are i.outer, i.inner, j", lambda: s[c].vectorize(i)
    )


def test_an_axis_of_another_stage_is_refused():
    a, b, c = program()
    s = te.create_schedule(c.op)
    refuses(s, "axis i is not an axis of this stage", lambda: s[c].split(b.op.axis[0], factor=2))


def test_a_placeholder_has_no_loops():
    a, b, c = program()
    s = te.create_schedule(c.op)
    refuses(s, "it is a placeholder", lambda: s[a].compute_inline())


def test_reduction_axes_are_not_vectors_or_threads_of_the_pool():
    a, k, b = reduction()
    s = te.create_schedule(b.op)
    refuses(s, "axis k is a reduction axis: its iterations depend on each other", lambda: s[b].vectorize(k))
    refuses(s, "axis k is a reduction axis", lambda: s[b].parallel(k))
    refuses(s, "it is a reduction", lambda: te_inline(s, b))


def te_inline(s, b):
    s[b].is_output = False
    try:
        s[b].compute_inline()
    finally:
        s[b].is_output = True


def test_a_thread_carries_one_loop_of_a_stage():
    a, b, c = program()
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    x = te.thread_axis("threadIdx.x")
    s[c].bind(i, x)
    refuses(s, "axis i is already bound to threadIdx.x", lambda: s[c].bind(j, x))
    refuses(s, "axis i is already bound to threadIdx.x", lambda: s[c].split(i, factor=2))


def test_compute_at_refuses_what_cannot_be_inside():
    a, b, c = program()
    s = te.create_schedule(c.op)
    refuses(s, "pass s\\[C\\] instead of C", lambda: s[b].compute_at(c, c.op.axis[0]))
    refuses(s, "i is not a loop of stage C", lambda: s[b].compute_at(s[c], b.op.axis[0]))
    refuses(
        s,
        "it is an output of the program; outputs are computed at the root",
        lambda: s[c].compute_at(s[b], b.op.axis[0]),
    )
    refuses(s, "a stage cannot be computed inside itself", lambda: s[b].compute_at(s[b], b.op.axis[0]))


def test_compute_at_a_stage_that_does_not_use_it_is_refused():
    a, b, c = program()
    d = te.compute((16,), lambda i: a[i, 0], name="D")
    s = te.create_schedule([c.op, d.op])
    refuses(s, "stage D does not use it", lambda: s[b].compute_at(s[d], d.op.axis[0]))


def test_a_reader_outside_the_loop_is_an_error_that_names_it():
    a, b, c = program()
    d = te.compute((16, 12), lambda i, j: b[i, j] - 1, name="D")
    s = te.create_schedule([c.op, d.op])
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(ScheduleError, match="stage B is computed inside loop i of C, but stage D, which reads it too"):
        tvm.lower(s, [a, c, d])


def test_vectorizing_a_symbolic_extent_is_an_error():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[0])
    with pytest.raises(ScheduleError, match="axis i has n iterations; a vectorized loop needs a constant extent"):
        tvm.lower(s, [a, b])


def test_steps_replay_to_the_same_loops():
    a, k, b = reduction(32, 24)
    s = te.create_schedule(b.op)
    k_outer, k_inner = s[b].split(k, factor=8)
    factored = s.rfactor(b, k_inner)
    local = s.cache_read(a, "local", [factored])
    s[local].compute_at(s[factored], factored.op.axis[1])
    i_outer, i_inner = s[b].split(b.op.axis[0], nparts=4)
    s[b].reorder(i_inner, i_outer)
    s[b].unroll(i_inner)
    s[b].pragma(i_outer, "auto_unroll_max_step", 16)
    again = te.replay(s.steps, [b.op])
    assert again.steps == s.steps
    assert str(tvm.lower(again, [a, b])) == str(tvm.lower(s, [a, b]))


def test_a_schedule_is_saved_as_its_program_and_steps():
    a, k, b = reduction(32, 24)
    c = te.compute((32,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    factored = s.rfactor(b, s[b].split(k, factor=8)[1])
    s[b].compute_at(s[c], c.op.axis[0])
    s[factored].bind(factored.op.axis[0], te.thread_axis("threadIdx.x"))
    loaded = tvm.ir.load_json(tvm.ir.save_json(s))
    assert isinstance(loaded, te.Schedule) and len(loaded.steps) == len(s.steps)
    (out,) = loaded.outputs
    text = str(tvm.lower(loaded, [loaded.stages[0].op.output(0), out.output(0)], simple_mode=True))
    assert text == str(tvm.lower(s, [a, c], simple_mode=True))


def test_groups_move_together_and_refuse_loop_primitives():
    a, b, c = program()
    d = te.compute((16, 12), lambda i, j: c[i, j] - 1, name="D")
    s = te.create_schedule(d.op)
    group = s.create_group(outputs=[c], inputs=[a])
    with pytest.raises(ScheduleError, match="can only be moved"):
        group.split(d.op.axis[0], factor=2)
    group.compute_at(s[d], d.op.axis[0])
    assert s[b].computed_inside() == s[c].computed_inside() == [s[d]]
    x = np.random.default_rng(0).random((16, 12), dtype="float32")
    check(s, [a, d], (x + 1) * 2 - 1, x)
    with pytest.raises(ScheduleError, match="stage C already belongs to a group that the new group would contain only"):
        s.create_group(outputs=[c], inputs=[b])


def test_an_unknown_tensor_is_not_in_the_schedule():
    a, b, c = program()
    s = te.create_schedule(c.op)
    with pytest.raises(ValueError, match="other is not in this schedule; its stages are A, B, C"):
        s[te.placeholder((1,), name="other")]


def test_chains_that_read_their_input_twice_do_not_double_when_inlined():
    a = te.placeholder((8,), name="A")
    x = a
    for n in range(40):
        y = x
        x = te.compute((8,), lambda i: y[i] * te.sigmoid(y[i]), name=f"S{n}")
    s = te.create_schedule(x.op)
    for stage in s.stages[1:-1]:
        stage.compute_inline()
    data = np.linspace(-2, 2, 8).astype("float32")
    want = data.astype("float64")
    for _ in range(40):
        want = want / (1 + np.exp(-want))
    check(s, [a, x], want.astype("float32"), data)
