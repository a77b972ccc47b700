"""Ansor's features of programs, against counts of what their loops do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tvm
from tvm import auto_scheduler, te
from tvm.auto_scheduler import MeasureInput, MeasureResult, SearchTask, feature
from tvm.auto_scheduler.annotation_steps import AnnotationStep
from tvm.auto_scheduler.loop_state import StateObject
from tvm.testing import auto_scheduler as workloads

NAMES = feature.get_per_store_feature_names()


def task_of(dag) -> SearchTask:
    return SearchTask(compute_dag=dag, workload_key="features", target="llvm")


def numbers(state, dag) -> list[dict[str, float]]:
    """The features of a state by name, as numbers instead of logarithms."""
    (rows,) = feature.get_per_store_features_from_states([state], task_of(dag))
    plain = [name for name in NAMES if "_type." not in name and name != "is_gpu"]
    found = [dict(zip(NAMES, row)) for row in rows]
    return [{name: 2.0**value - 1 if name in plain else value for name, value in row.items()} for row in found]


def tiled(n: int, m: int, k: int):
    """i.0 (parallel), j.0 (parallel), k (unrolled), j.1 (lanes), i.1"""
    dag = auto_scheduler.ComputeDAG(workloads.matmul_auto_scheduler_test(n, m, k))
    state = dag.get_init_state()
    C = state.stage_ops[2]
    i, j, terms = state[C].iters
    (i0, i1), (j0, j1) = state.split(C, i, [4]), state.split(C, j, [2])
    state.reorder(C, [i0, j0, terms, j1, i1])
    state.vectorize(C, j1)
    state.parallel(C, i0)
    state.parallel(C, j0)
    state.unroll(C, terms)
    state.pragma(C, state[C].iters[0], "auto_unroll_max_step$64")
    return dag, state


def buffers_of(row):
    """The tensors of a product by what is done to them: the sum, and the operands by whether the innermost loop moves
    them."""
    found = {}
    for place in ("B0", "B1", "B2"):
        one = {name: row[f"{place}.{name}"] for name in feature._BUFFER}
        found["C" if one["acc_type.kReadWrite"] else "A" if one["stride"] else "B"] = one
    return found


def test_names_are_those_of_a_row():
    assert len(NAMES) == len(set(NAMES)) == feature.DEFAULT_FEATURE_VEC_LEN
    assert len(feature.get_per_store_feature_names(2)) == len(NAMES) - 3 * 18


def test_a_product_in_tiles_has_the_counts_of_its_loops():
    dag, state = tiled(8, 6, 5)
    (row,) = numbers(state, dag)
    total = 8 * 6 * 5
    assert row["float_mul"] == row["float_addsub"] == pytest.approx(total) and row["outer_prod"] == pytest.approx(total)
    assert row["num_loops"] == pytest.approx(5) and row["auto_unroll_max_step"] == pytest.approx(64)
    assert (row["parallel_num"], row["unroll_num"], row["vec_num"]) == pytest.approx((2, 1, 1))
    assert (row["parallel_prod"], row["parallel_len"]) == pytest.approx((2 * 3, 3))
    assert row["vec_type.kPosInnerSpatial"] == row["unroll_type.kPosInnerReduce"] == 1 and row["is_gpu"] == 0
    found = buffers_of(row)
    touched = {"A": 8 * 5, "B": 5 * 6, "C": 8 * 6}
    for name, elements in touched.items():
        assert found[name]["bytes"] == pytest.approx(4 * total)
        assert found[name]["unique_bytes"] == pytest.approx(4 * elements)
    # The sum of a tile is touched again in the next iteration of k, after all of the tile.
    assert found["C"]["reuse_type.kLoopMultipleRead"] == 1 and found["C"]["reuse_ct"] == pytest.approx(5)
    assert found["C"]["reuse_dis_iter"] == pytest.approx(8)
    assert found["C"]["reuse_dis_bytes"] == pytest.approx(4 * (8 + 4 + 2))
    # An element of B serves the whole innermost loop.
    assert found["B"]["reuse_ct"] == pytest.approx(4) and found["B"]["reuse_dis_iter"] == pytest.approx(1)
    assert found["A"]["stride"] == pytest.approx(5) and found["C"]["stride"] == pytest.approx(6)


def test_what_one_statement_stores_and_the_next_one_reads_is_reused_at_once():
    A = te.placeholder((64, 32), name="A")
    B = te.compute((64, 32), lambda i, j: A[i, j] * 2.0, name="B")
    dag = auto_scheduler.ComputeDAG([A, te.compute((64, 32), lambda i, j: B[i, j] + 1.0, name="C")])
    state = dag.get_init_state()
    state.compute_at(1, 2, state.stages[2].iters[1])
    rows = numbers(state, dag)
    read = [{name: row[f"{place}.{name}"] for name in feature._BUFFER} for row in rows for place in ("B0", "B1")]
    (serial,) = [one for one in read if one["reuse_type.kSerialMultipleReadWrite"]]
    # Between them lie the three tensors, B twice.
    assert serial["reuse_dis_iter"] == pytest.approx(1) and serial["reuse_dis_bytes"] == pytest.approx(16)
    assert serial["acc_type.kRead"] == 1 and serial["reuse_ct"] == pytest.approx(1)
    assert rows[0]["alloc_size"] == pytest.approx(4) and rows[0]["alloc_outer_prod"] == pytest.approx(64 * 32)


def test_threads_of_a_gpu_are_told():
    dag = auto_scheduler.ComputeDAG(workloads.matmul_auto_scheduler_test(8, 8, 4))
    state = dag.get_init_state()
    C = state.stage_ops[2]
    block, virtual, thread = state.split(C, state[C].iters[0], [2, 2])
    for it, name in ((block, "blockIdx.x"), (virtual, "vthread"), (thread, "threadIdx.x")):
        state.bind(C, it, name)
    (row,) = numbers(state, dag)
    assert row["is_gpu"] == 1
    lengths = [row[f"{name}_len"] for name in ("blockIdx_x", "blockIdx_y", "vthread", "threadIdx_x")]
    assert lengths == pytest.approx([2, 1, 2, 2]) and row["outer_prod"] == pytest.approx(8 * 8 * 4)


@pytest.mark.parametrize("lanes", [0, 4])
def test_a_lowered_function_has_the_features_of_its_stores(lanes):
    A, B, C = workloads.matmul_auto_scheduler_test(8, 12, 16)
    schedule = te.create_schedule(C.op)
    if lanes:
        outer, inner = schedule[C].split(C.op.axis[1], lanes)
        schedule[C].reorder(C.op.axis[0], outer, C.op.reduce_axis[0], inner)
        schedule[C].vectorize(inner)
    named = feature.named_features_from_primfunc(tvm.lower(schedule, [A, B, C])["main"])
    assert {column.shape for column in named.values()} == {(1,)}
    assert named["float_mul"][0] == named["float_addsub"][0] == 8 * 12 * 16
    assert sorted(named[f"B{n}.unique_bytes"][0] for n in range(3)) == [4 * 8 * 12, 4 * 8 * 16, 4 * 12 * 16]
    logs = feature.features_from_primfunc(tvm.lower(schedule, [A, B, C])["main"], log_scale=True)
    assert logs[0][NAMES.index("float_mul")] == pytest.approx(math.log2(1 + 8 * 12 * 16))
    assert feature.named_features_from_primfunc(tvm.tir.PrimFunc([], tvm.tir.Evaluate(0))) is None


def test_measured_states_come_with_their_speeds(tmp_path):
    task = SearchTask(func=workloads.matmul_auto_scheduler_test, args=(8, 8, 8), target="llvm")
    other = SearchTask(func=workloads.matmul_auto_scheduler_test, args=(4, 4, 4), target="llvm")
    inputs = [MeasureInput(t, t.compute_dag.init_state) for t in (task, other, task, task)]
    results = [MeasureResult([cost], error, "", 0.1, 1) for cost, error in ((4.0, 0), (1.0, 0), (2.0, 0), (1e10, 2))]
    features, speeds, tasks = feature.get_per_store_features_from_measure_pairs(inputs, results)
    assert speeds.tolist() == [0.5, 1.0, 1.0, 0.0] and tasks.tolist() == [0, 1, 0, 0]
    assert [rows.shape for rows in features] == [(1, len(NAMES))] * 4
    np.testing.assert_array_equal(features[0], features[2])
    skipped, _, _ = feature.get_per_store_features_from_measure_pairs(inputs, results, 2)
    assert [len(rows) for rows in skipped] == [0, 0, 1, 1]
    auto_scheduler.save_records(tmp_path / "log.json", inputs, results)
    read, again, _ = feature.get_per_store_features_from_file(tmp_path / "log.json", 3)
    np.testing.assert_array_equal(read[1], features[1])
    assert again.tolist() == speeds.tolist()[:3]


def test_a_state_that_cannot_be_lowered_has_a_row_of_zeros():
    dag, state = tiled(8, 6, 5)
    # No intrinsic is known for the annotation "tensorize".
    bad = StateObject((), (AnnotationStep(2, 0, 11),))
    good, wrong = feature.get_per_store_features_from_states([state, bad], task_of(dag))
    assert good.any() and (wrong.shape, wrong.any()) == ((1, len(NAMES)), False)
