"""Write a small user-defined sketch rule: it defines the loop structures that a search uses.

    python examples/auto_scheduler_custom_rule.py [--trials 6]

The rule applies to the matmul, the third stage. It returns two sketches: the plain loops, and rows in tiles of eight.
The search selects the remaining decisions: threads, unrolling and vectorization.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.utils import get_const_tuple
from tvm.testing.auto_scheduler import matmul_auto_scheduler_test


def meet_condition_func(search_policy, state, stage_id):
    return auto_scheduler.PreloadCustomSketchRule.APPLY_AND_SKIP_REST


def apply_func(search_policy, state, stage_id):
    state = auto_scheduler.loop_state.State(state, search_policy.search_task.compute_dag)
    C = state.stage_ops[2]
    tiled = state.copy()
    i, _, _ = tiled[C].iters
    tiled.split(C, i, [8])
    # -1: no stage remains.
    return [[state.state_object, -1], [tiled.state_object, -1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=6)
    trials = parser.parse_args().trials
    task = auto_scheduler.SearchTask(func=matmul_auto_scheduler_test, args=(64, 64, 64), target="llvm")
    policy = auto_scheduler.SketchPolicy(
        task,
        program_cost_model=auto_scheduler.XGBModel(),
        init_search_callbacks=[auto_scheduler.PreloadCustomSketchRule(meet_condition_func, apply_func)],
    )
    sketches = policy.generate_sketches(print_for_debug=True)
    assert [len(sketch.stages[2].iters) for sketch in sketches] == [3, 4]

    log_file = "custom_rule.json"
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=trials, measure_callbacks=[auto_scheduler.RecordToFile(log_file)]
        ),
        policy,
    )
    sch, args = task.apply_best(log_file)
    func = tvm.build(sch, args, task.target)
    a, b, c = (np.random.uniform(size=get_const_tuple(x.shape)).astype(x.dtype) for x in args)
    arrays = [tvm.nd.array(x) for x in (a, b, c)]
    func(*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)
    print("the matmul of the user-defined rule is correct")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
        os.chdir(os.path.dirname(folder))
