"""Tune a sparse matmul with bias and ReLU: a user-defined sketch rule, and user-defined arrays for the measurements.

    python examples/auto_scheduler_sparse.py [--trials 10]

Random numbers are not valid column indices of a sparse matrix, so the measurements use the real ones (``task_inputs``).
The matrix has 16 x 1 blocks; the rule computes the rows of blocks in the tiles of their consumer.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np

import tvm
import tvm.testing
from tvm import auto_scheduler, runtime, te, topi
from tvm.auto_scheduler import _ffi_api
from tvm.topi.sparse.utils import random_bsr_matrix

M, K, N = 128, 256, 512
BS_R, BS_C, DENSITY = 16, 1, 0.6


@auto_scheduler.register_workload
def sparse_dense(M, N, K, w_data_shape, w_indices_shape, w_indptr_shape, dtype):
    X = te.placeholder(shape=(M, K), dtype=dtype)
    W_data = te.placeholder(shape=w_data_shape, dtype=dtype)
    W_indices = te.placeholder(shape=w_indices_shape, dtype="int32")
    W_indptr = te.placeholder(shape=w_indptr_shape, dtype="int32")
    B = te.placeholder(shape=(M, N), dtype=dtype)
    out = topi.nn.sparse_dense(topi.nn.relu(X), W_data, W_indices, W_indptr)
    out = te.compute((M, N), lambda i, j: out[i, j] + B[i, j], name="BiasAdd")
    return [X, W_data, W_indices, W_indptr, B, topi.nn.relu(out)]


def meet_condition_func(search_policy, state, stage_id):
    """Apply the rule to the two operations of the sparse matmul."""
    state = auto_scheduler.loop_state.State(state, search_policy.search_task.compute_dag)
    if state.stages[stage_id].op.tag in ("sparse_dense_sp_rhs_bsrmm", "sparse_dense_sp_rhs_bsrmm_block"):
        return auto_scheduler.PreloadCustomSketchRule.APPLY_AND_SKIP_REST
    return auto_scheduler.PreloadCustomSketchRule.PASS


def apply_func(search_policy, state, stage_id):
    """Tile the loops with lengths that the search selects; compute the blocks in the tiles of the last operation."""
    s0 = auto_scheduler.loop_state.State(state, search_policy.search_task.compute_dag)
    if s0.stages[stage_id].op.tag == "sparse_dense_sp_rhs_bsrmm_block":
        return [[s0.state_object, stage_id - 1]]
    sparse, block = s0.stages[stage_id].op, s0.stages[stage_id - 1].op
    consumer = sparse
    consumers = _ffi_api.SearchPolicyUtilsGetConsumers(search_policy.search_task, s0.state_object, stage_id)
    if len(consumers) == 1:
        consumer_id = int(consumers.items()[0][0])
        if _ffi_api.SearchPolicyUtilsIsElementwiseMatch(
            search_policy.search_task, s0.state_object, stage_id, consumer_id
        ):
            consumer = s0.stages[consumer_id].op
            s0.compute_inline(sparse)
    i, nb_j, j, row_offset, c = s0[block].iters
    m, n = s0[consumer].iters
    i0, i1, i2 = s0.split(block, i, [None, None])
    m0, m1 = s0.follow_split(consumer, m, len(s0.transform_steps) - 1, 1)
    j0, j1 = s0.split(block, nb_j, [None])
    n0, n1 = s0.follow_split(consumer, n, len(s0.transform_steps) - 1, 1)
    s0.reorder(block, [i0, j0, i1, j1, row_offset, i2, j, c])
    s0.reorder(consumer, [m0, n0, m1, n1])
    s0.compute_at(block, consumer, n0)
    return [[s0.state_object, stage_id - 2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=10)
    trials = parser.parse_args().trials
    X_np = np.maximum(np.random.randn(M, K).astype("float32"), 0)
    W_sp_np = random_bsr_matrix(N, K, BS_R, BS_C, density=DENSITY, dtype="float32")
    B_np = np.random.randn(M, N).astype("float32")
    Y_np = np.maximum(np.asarray(X_np @ W_sp_np.todense().T) + B_np, 0)

    target = tvm.target.Target("llvm")
    prefix = f"sparse_dense_bsr_{N}_{K}_{BS_R}_{BS_C}_{W_sp_np.indices.shape[0]}_{W_sp_np.indptr.shape[0]}_"
    task = tvm.auto_scheduler.SearchTask(
        func=sparse_dense,
        args=(M, N, K, W_sp_np.data.shape, W_sp_np.indices.shape, W_sp_np.indptr.shape, "float32"),
        target=target,
        task_inputs={
            prefix + "W_data": runtime.ndarray.array(W_sp_np.data),
            prefix + "W_indices": runtime.ndarray.array(W_sp_np.indices),
            prefix + "W_indptr": runtime.ndarray.array(W_sp_np.indptr),
        },
        task_inputs_save_to_file=True,
    )
    print("Computational DAG:")
    print(task.compute_dag)

    log_file = "sparse_dense.json"
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=trials, measure_callbacks=[auto_scheduler.RecordToFile(log_file)], verbose=2
    )
    search_policy = auto_scheduler.SketchPolicy(
        task,
        program_cost_model=auto_scheduler.XGBModel(),
        init_search_callbacks=[auto_scheduler.PreloadCustomSketchRule(meet_condition_func, apply_func, "SparseDense")],
    )
    task.tune(tune_option, search_policy)
    sch, args = task.apply_best(log_file)
    print("Lowered TIR:")
    print(tvm.lower(sch, args, simple_mode=True))

    func = tvm.build(sch, args, target)
    dev = tvm.cpu()
    arrays = [tvm.nd.array(x, device=dev) for x in (X_np, W_sp_np.data, W_sp_np.indices, W_sp_np.indptr, B_np)]
    Y_tvm = tvm.nd.empty(Y_np.shape, device=dev)
    func(*arrays, Y_tvm)
    tvm.testing.assert_allclose(Y_np, Y_tvm.numpy(), atol=1e-4, rtol=1e-4)
    evaluator = func.time_evaluator(func.entry_name, dev, min_repeat_ms=500)
    print(f"Execution time of this operator: {np.median(evaluator(*arrays, Y_tvm).results) * 1000:.3f} ms")
    print("the sparse matmul is correct")


if __name__ == "__main__":
    # The records and the saved inputs are of this matrix alone.
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
        os.chdir(os.path.dirname(folder))
