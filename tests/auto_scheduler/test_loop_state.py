"""States: loops by hand, steps as data, and the te schedules they become."""

from __future__ import annotations

import pytest

import tvm
from tests.auto_scheduler.programs import assert_computes_the_same
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler import ComputeDAG
from tvm.auto_scheduler.loop_state import State
from tvm.testing import auto_scheduler as workloads


def matmul(n: int = 32, m: int = 24, k: int = 20):
    tensors = workloads.matmul_auto_scheduler_test(n, m, k)
    dag = ComputeDAG(tensors)
    return dag, dag.get_init_state(), tensors[-1]


def extents(state, stage) -> list[int | None]:
    return [it.extent for it in state[stage].iters]


def test_loops_are_split_from_the_inside_or_from_the_outside():
    dag, state, C = matmul(512, 512, 512)
    i, j, k = state[C].iters
    assert i.range.extent == 512
    parts = state.split(C, i, [8, 2])
    assert parts == list(state[C].iters[:3])
    state.split(C, j, [32, 8], False)
    assert extents(state, C) == [32, 8, 2, 32, 8, 2, 512]
    assert [it.name for it in state[C].iters] == ["i.0", "i.1", "i.2", "j.0", "j.1", "j.2", "k"]


def test_lengths_that_do_not_divide_leave_a_part_that_covers_the_rest():
    dag, state, C = matmul(33)
    state.split(C, state[C].iters[0], [4, 3])
    assert extents(state, C)[:3] == [3, 4, 3]
    assert_computes_the_same(dag, state)


def test_lengths_that_are_not_known_make_loops_without_extents():
    dag, state, C = matmul()
    state.split(C, state[C].iters[0], [None, 4])
    assert extents(state, C)[:3] == [None, None, 4]
    assert not state.state_object.concrete
    with pytest.raises(tvm.TVMError, match="a length is unknown; annotate the sketch before applying it"):
        dag.apply_steps_from_state(state)


def test_fused_loops_have_the_product_of_the_extents():
    dag, state, C = matmul()
    io, ii = state.split(C, state[C].iters[0], [4])
    jo, ji = state.split(C, state[C].iters[2], [8])
    state.reorder(C, [io, jo, state[C].iters[4], ji, ii])
    fused = state.fuse(C, [io, jo])
    assert (fused.extent, fused.name, len(fused.orig_iters)) == (8 * 3, "i.0@j.0@", 2)
    assert_computes_the_same(dag, state)


def test_annotations_are_kept_at_their_loops():
    dag, state, C = matmul()
    table = State.ANNOTATION_TRANS_TABLE
    i1, i2, i3 = state.split(C, state[C].iters[0], [2, 4])
    j = state[C].iters[3]
    for it, thread in ((i1, "blockIdx.x"), (i2, "vthread"), (i3, "threadIdx.y")):
        made = state.bind(C, it, thread)
        assert made.annotation == table[thread] and made in state[C].iters
    assert state.vectorize(C, j).annotation == table["vectorize"] == 2
    assert state.unroll(C, state[C].iters[4], max_unroll=4) is state[C].iters[4]
    assert state.unroll(C, state[C].iters[4], max_unroll=32).annotation == table["unroll"] == 1
    with pytest.raises(ValueError, match="bind: unknown thread name 'parallel'"):
        state.bind(C, state[C].iters[0], "parallel")
    with pytest.raises(tvm.TVMError, match="already has the annotation vectorize"):
        state.parallel(C, state[C].iters[3])


def test_a_state_that_was_copied_goes_its_own_way():
    dag, state, C = matmul()
    other = state.copy()
    assert other == state
    other.split(C, other[C].iters[0], [4])
    assert len(state[C].iters) == 3 and len(other[C].iters) == 4
    assert other != state
    # What a step did not touch is shared.
    assert other.stages[0] is state.stages[0]


def test_text_shows_loops_where_they_run():
    dag, state, C = matmul(8, 4, 2)
    cached = state.cache_write(C, "local")
    io, ii = state.split(C, state[C].iters[0], [4])
    state.compute_at(cached, C, io)
    state.parallel(C, io)
    state.pragma(cached, state[cached].iters[0], "auto_unroll_max_step$16")
    assert str(dag.infer_bound_from_state(state)) == (
        "Placeholder: A, B\n"
        "parallel i.0 (0,2)\n"
        "  C.local auto_unroll: 16\n"
        "  for i.c (0,4)\n"
        "    for j.c (0,4)\n"
        "      for k (0,2)\n"
        "        C.local = ...\n"
        "  for i.1 (0,4)\n"
        "    for j (0,4)\n"
        "      C = ...\n"
    )
    assert "for i.c (None)" in str(state)


def test_follow_split_divides_as_the_split_it_follows():
    dag, state, C = matmul(512, 512, 512)
    cached = state.cache_write(C, "global")
    state.split(C, state[C].iters[0], [4, 2, 8, 4])
    source = len(state.transform_steps) - 1
    for parts in range(1, 6):
        copy = state.copy()
        copy.follow_split(cached, copy[cached].iters[0], source, parts)
        made, full = extents(copy, cached)[: parts + 1], extents(copy, C)[:5]
        assert made[:parts] == full[:parts] if parts < 5 else made == [*full, 1]
    with pytest.raises(tvm.TVMError, match="n_split must be 1 to 5 to follow a split into 5 parts, got 6"):
        state.follow_split(cached, state[cached].iters[0], source, 6)


def test_follow_fused_split_divides_by_the_product_of_several():
    dag, state, C = matmul(512, 512, 512)
    cached = state.cache_write(C, "global")
    rows = state.split(C, state[C].iters[0], [4, 2, 8, 4])
    first = len(state.transform_steps) - 1
    columns = state.split(C, state[C].iters[5], [2, 2, 8, 2])
    state.reorder(C, [it for pair in zip(rows, columns) for it in pair])
    for _ in range(5):
        place = next(i for i, it in enumerate(state[C].iters) if "@" not in it.name)
        state.fuse(C, state[C].iters[place : place + 2])
    for level in range(4):
        copy = state.copy()
        copy.follow_fused_split(cached, copy[cached].iters[0], [first, first + 1], level, False)
        assert copy[cached].iters[0].extent == copy[C].iters[level + 1].extent
    for level in range(4):
        copy = state.copy()
        copy.follow_fused_split(cached, copy[cached].iters[0], [first, first + 1], level, True)
        assert copy[cached].iters[1].extent == copy[C].iters[level + 1].extent


def test_caches_compute_what_was_computed_without_them():
    data, kernel = te.placeholder((1, 3, 8, 8), name="Data"), te.placeholder((4, 3, 3, 3), name="Kernel_data")
    k0, k1 = te.compute(kernel.shape, lambda *i: (kernel(*i) + 1, kernel(*i) / 2), name="Kernel_split")
    weight = te.compute(kernel.shape, lambda *i: k0(*i) + k1(*i), name="Kernel")
    conv = topi.nn.conv2d_nchw(data, weight, 1, 1, 1)
    relu = topi.nn.relu(conv)
    out = te.compute(relu.shape, lambda *i: relu(*i) * 2.0, name="out")
    dag = ComputeDAG([data, kernel, out])
    state = dag.get_init_state()
    pad, split = state.stage_ops[1], k0.op
    its = state.split(out, state[out].iters[1], [2])
    state.reorder(out, [its[0], state[out].iters[0], its[1], *state[out].iters[3:]])
    state.compute_inline(relu)
    conv_global = state.cache_write(conv, "global")
    state.compute_at(conv_global, conv, state[conv].iters[3])
    kernel_global = state.cache_read(weight, "global", [conv_global])
    state.compute_at(kernel_global, conv_global, state[conv_global].iters[4])
    pad_global = state.cache_read(pad, "global", [conv_global])
    pad_shared = state.cache_read(pad_global, "global", [conv_global])
    state.compute_at(pad_global, conv_global, state[conv_global].iters[2])
    state.compute_at(pad_shared, conv_global, state[conv_global].iters[4])
    bound = dag.infer_bound_from_state(state)
    assert extents(bound, kernel_global) == [1, 1, 3, 3]
    assert extents(bound, pad_global) == [1, 3, 3, 3]
    assert extents(bound, pad_shared) == [1, 1, 3, 3]
    split_global = state.cache_write(split, "global")
    assert [it.range for it in state[split_global].iters] == [it.range for it in state[split].iters]
    assert_computes_the_same(dag, state)


def test_rfactor_keeps_parts_of_a_reduction_apart():
    dag, state, C = matmul(8, 8, 64)
    ko, ki = state.split(C, state[C].iters[2], [16])
    parts = state.rfactor(C, ko, 2)
    assert [it.name for it in state[parts].iters] == ["i", "j", "k.outer", "k.inner"]
    assert extents(state, C) == [8, 8, 4]
    state.parallel(parts, state[parts].iters[0])
    assert_computes_the_same(dag, state)


def test_rfactor_after_splitting_elements_is_refused():
    dag, state, C = matmul(8, 8, 64)
    state.split(C, state[C].iters[0], [4])
    with pytest.raises(tvm.TVMError, match="the spatial loops are already changed; apply rfactor first"):
        state.rfactor(C, state[C].iters[3], 2)


def test_stages_move_up_when_others_are_added_and_their_places_of_computation_with_them():
    tensors = workloads.double_matmul_auto_scheduler_test(16)
    dag, E = ComputeDAG(tensors), tensors[-1]
    state = dag.get_init_state()
    D = state.stage_ops[2]
    state.compute_at(D, E, state[E].iters[0])
    assert state[D].attach == (4, 0)
    state.cache_read(tensors[0], "global", [D])
    assert state[D].attach == (5, 0)
    state.split(E, state[E].iters[0], [4])
    # As in a te schedule, what was computed inside of a loop is computed inside of all of its parts.
    assert state[D].attach == (5, 1)
    assert dag.infer_bound_from_state(state).stages[3].iters[0].extent == 1
    its = state[E].iters
    state.reorder(E, [its[2], its[0], its[1], its[3]])
    assert state[D].attach == (5, 2)
    assert_computes_the_same(dag, state)


def test_steps_that_do_not_fit_are_refused_in_words():
    dag, state, C = matmul()
    i, j, k = state[C].iters
    with pytest.raises(tvm.TVMError, match="a reduction cannot be inlined"):
        state.compute_inline(C)
    with pytest.raises(tvm.TVMError, match="each must be at least 1, got \\[0\\]"):
        state.split(C, i, [0])
    with pytest.raises(tvm.TVMError, match=r"the loops \[0, 2\] are not adjacent"):
        state.fuse(C, [i, k])
    with pytest.raises(tvm.TVMError, match="the order must contain each of the 3 loops once"):
        state.reorder(C, [i, j])
    with pytest.raises(tvm.TVMError, match=r"the only supported pragma is auto_unroll_max_step\$number"):
        state.pragma(C, i, "unroll_hard")
    with pytest.raises(tvm.TVMError, match="A is a placeholder: it has no loops"):
        state.compute_root(0)
    with pytest.raises(tvm.TVMError, match="step 0 is not an earlier split"):
        state.follow_split(C, i, 0, 1)
    state.split(C, i, [4])
    with pytest.raises(ValueError, match="i is not a loop of stage C; its loops are i.0, i.1, j, k"):
        state.parallel(C, i)
    with pytest.raises(ValueError, match="is not a stage of this state"):
        state[te.placeholder((1,), name="other")]
    assert auto_scheduler.loop_state.Stage.COMPUTE_AT_TRANS_TABLE == {"root": 0, "inlined": 1, "iter": 2}
