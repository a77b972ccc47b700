"""ComputeDAG: the computation of a task, its facts, its text and its keys."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.programs import arrays_of, run
from tvm import auto_scheduler, te
from tvm.auto_scheduler import ComputeDAG
from tvm.testing import auto_scheduler as workloads


def test_operations_come_in_the_order_that_records_number_them():
    dag = ComputeDAG(workloads.conv2d_nchw_bn_relu_auto_scheduler_test(1, 9, 9, 3, 4, 3, 1, 1))
    assert [op.name for op in dag.ops] == [
        "Data",
        "pad_temp",
        "Kernel",
        "conv2d",
        "Bias",
        "Bias_add",
        "Bn_scale",
        "Bn_mul",
        "Bn_offset",
        "Bn_add",
        "T_relu",
    ]
    dag = ComputeDAG(workloads.double_matmul_auto_scheduler_test(8))
    assert [op.name for op in dag.ops] == ["A", "B", "D", "C", "E"]


def test_it_is_made_of_tensors_a_key_or_a_schedule():
    key = auto_scheduler.make_workload_key(workloads.matmul_auto_scheduler_test, (4, 5, 6))
    tensors = workloads.matmul_auto_scheduler_test(4, 5, 6)
    made = [ComputeDAG(key), ComputeDAG(tensors), ComputeDAG(te.create_schedule(tensors[-1].op))]
    assert len({str(dag) for dag in made}) == 1
    assert [[t.name for t in dag.tensors] for dag in made] == [["A", "B", "C"]] * 3
    for wrong in (3.0, [tensors[0], 3], []):
        with pytest.raises(ValueError, match="ComputeDAG: expected tensors, a workload key or a te schedule"):
            ComputeDAG(wrong)


def test_it_is_copied_with_what_it_computes():
    dag = ComputeDAG(workloads.matmul_auto_scheduler_test(4, 5, 6))
    other = copy.copy(dag)
    assert str(other) == str(dag) and str(other.init_state) == str(dag.init_state)
    assert [t.name for t in other.layout_free_placeholders] == ["B"] and other.tensors[1] is not dag.tensors[1]
    task = auto_scheduler.SearchTask(compute_dag=dag, workload_key='["of a test of copies"]', target="llvm")
    assert str(copy.copy(task).compute_dag) == str(dag)


def test_the_caches_of_a_schedule_are_operations():
    A, B, C = workloads.matmul_auto_scheduler_test(4, 5, 6)
    schedule = te.create_schedule(C.op)
    (local,) = schedule.cache_write([C], "local")
    schedule.cache_read(A, "shared", [local])
    state = ComputeDAG([A, B, C]).get_init_state()
    state.cache_read(A, "shared", [state.cache_write(C, "local")])
    of_schedule = ComputeDAG(schedule)
    assert [op.name for op in of_schedule.ops] == [op.name for op in state.stage_ops]
    assert [op.name for op in of_schedule.output_ops] == ["C"]


def test_operations_are_counted_and_a_computation_may_say_how_many_it_has():
    assert ComputeDAG(workloads.matmul_auto_scheduler_test(4, 5, 6)).flop_ct == 2 * 4 * 5 * 6
    A = te.placeholder((8,), name="A")
    assert ComputeDAG([A, te.compute((8,), lambda i: A[i] + 1.0, name="B", attrs={"FLOP": 100})]).flop_ct == 100
    # What decides by data computes; where a padding ends is decided by indices.
    assert ComputeDAG([A, te.compute((8,), lambda i: te.if_then_else(A[i] > 0, A[i], 0.0), name="B")]).flop_ct == 8
    assert ComputeDAG([A, te.compute((9,), lambda i: te.if_then_else(i < 8, A[i], 0.0), name="B")]).flop_ct == 0


def test_the_hash_is_that_of_the_computation():
    def key(n: int, name: str = "C", scale: float = 1.0) -> str:
        A = te.placeholder((n,), name="A")
        return ComputeDAG([A, te.compute((n,), lambda i: A[i] * scale, name=name)]).workload_key()

    assert key(8) == key(8)
    assert len({key(8), key(9), key(8, "D"), key(8, scale=2.0)}) == 4
    assert json.loads(key(8))[1:] == [[8], [8]]


def test_what_a_search_cannot_handle_is_refused():
    with pytest.raises(tvm.TVMError, match="two axes of B are named r1"):
        ComputeDAG(workloads.invalid_compute_definition())
    A = te.placeholder((8,), name="A")
    outside = te.extern((8,), [A], lambda i, o: tvm.tir.call_packed("f", i[0], o[0]), name="outside", dtype="float32")
    with pytest.raises(tvm.TVMError, match="outside is a ExternOp; the auto-scheduler only supports compute"):
        ComputeDAG([A, outside])
    symbolic = te.placeholder((te.var("n"),), name="A")
    with pytest.raises(tvm.TVMError, match="loops with constant extents, got n"):
        ComputeDAG([symbolic, te.compute(symbolic.shape, lambda i: symbolic[i], name="B")]).get_init_state()


def test_a_result_that_others_read_is_still_a_result():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    dag = ComputeDAG([A, B, C])
    assert [op.name for op in dag.output_ops] == ["B", "C"]
    a, *_ = arrays = arrays_of(dag, 0)
    _, b, c = run(dag, dag.init_state, arrays)
    np.testing.assert_allclose(b, a + 1)
    np.testing.assert_allclose(c, (a + 1) * 2, rtol=1e-6)


def test_bounds_of_stages_computed_inside_of_others_are_inferred():
    dag = ComputeDAG(workloads.conv2d_nchw_bn_relu_auto_scheduler_test(1, 14, 14, 3, 8, 3, 1, 1))
    state = dag.get_init_state()
    conv, relu = state.stage_ops[3], state.stage_ops[10]
    for place in (5, 7, 9):
        state.compute_inline(place)
    state.compute_at(conv, relu, state[relu].iters[2])
    assert [it.extent for it in state[conv].iters] == [None] * 7
    assert [it.extent for it in dag.infer_bound_from_state(state)[conv].iters] == [1, 1, 1, 14, 3, 3, 3]
    state.compute_root(conv)
    assert [it.extent for it in dag.infer_bound_from_state(state)[conv].iters] == [1, 8, 14, 14, 3, 3, 3]


def test_layout_free_inputs_are_read_as_they_are_until_their_rewriting_is_asked_for():
    dag = ComputeDAG(workloads.matmul_auto_scheduler_test(4, 5, 6))
    assert [t.name for t in dag.layout_free_placeholders] == ["B"]
    assert dag.apply_steps_from_state(dag.init_state)[1] == dag.tensors
    option = auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    assert [int(d) for d in dag.apply_steps_from_state(dag.init_state, option)[1][1].shape] == [5, 6]
