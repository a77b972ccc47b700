"""Search a schedule for a matmul with a bias from its computation alone.

    python examples/auto_scheduler_matmul.py [--size 1024] [--trials 10]

The search writes its records to matmul.json in the current folder; the second half continues from them.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

import tvm
from tvm import auto_scheduler, te


@auto_scheduler.register_workload
def matmul_add(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    # B is a weight: a schedule may store it in the order in which it reads it.
    matmul = te.compute(
        (N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul", attrs={"layout_free_placeholders": [B]}
    )
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]


def check(func: tvm.runtime.Module, size: int) -> None:
    """Compare the output with NumPy, and print the time."""
    a, b, c = (np.random.uniform(size=(size, size)).astype(np.float32) for _ in range(3))
    expected = a.dot(b) + c
    dev = tvm.cpu()
    arrays = [tvm.nd.array(x, device=dev) for x in (a, b, c)]
    out = tvm.nd.empty(expected.shape, device=dev)
    func(*arrays, out)
    np.testing.assert_allclose(expected, out.numpy(), rtol=1e-3)
    evaluator = func.time_evaluator(func.entry_name, dev, min_repeat_ms=500)
    print(f"Execution time of this operator: {np.median(evaluator(*arrays, out).results) * 1000:.3f} ms")


def resume_search(task: auto_scheduler.SearchTask, log_file: str, trials: int) -> None:
    """Continue the search: the cost model learns from the records, and no schedule is measured twice."""
    print("Resume search:")
    cost_model = auto_scheduler.XGBModel()
    cost_model.update_from_file(log_file)
    search_policy = auto_scheduler.SketchPolicy(
        task, cost_model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log_file)]
    )
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=trials, measure_callbacks=[auto_scheduler.RecordToFile(log_file)]
    )
    task.tune(tune_option, search_policy=search_policy)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--trials", type=int, default=10)
    arguments = parser.parse_args()
    N = L = M = arguments.size
    target = tvm.target.Target("llvm")
    task = tvm.auto_scheduler.SearchTask(func=matmul_add, args=(N, L, M, "float32"), target=target)
    print("Computational DAG:")
    print(task.compute_dag)

    log_file = "matmul.json"
    if os.path.exists(log_file):
        os.remove(log_file)
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=arguments.trials, measure_callbacks=[auto_scheduler.RecordToFile(log_file)], verbose=2
    )
    task.tune(tune_option)
    sch, args = task.apply_best(log_file)
    print("Lowered TIR:")
    print(tvm.lower(sch, args, simple_mode=True))
    check(tvm.build(sch, args, target), N)

    print("Equivalent python schedule:")
    print(task.print_best(log_file))
    resume_search(task, log_file, max(arguments.trials // 2, 1))
    steps = [inp.state.transform_steps for inp, _ in auto_scheduler.load_records(log_file)]
    assert len(steps) == len(set(steps)), "a schedule was measured twice"
    print(f"the matmul is correct; {len(steps)} schedules were measured, none twice")


if __name__ == "__main__":
    main()
