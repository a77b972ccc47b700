"""The Python text of a state makes the same te schedule."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.programs import arrays_of, run, run_schedule
from tvm import te
from tvm.auto_scheduler import ComputeDAG, steps
from tvm.te.steps import to_plain
from tvm.testing import auto_scheduler as workloads

MATMUL = [
    ["CHW", 2, "local"],
    ["CHR", 0, "global", [2]],
    ["SP", 4, 0, 32, [2, 4], 1],
    ["SP", 4, 3, 24, [3], 0],
    ["RE", 4, [0, 3, 1, 4, 2]],
    ["FU", 4, [0, 1]],
    ["AN", 4, 0, 3],
    ["FSP", 3, 0, 2, 2],
    ["CA", 3, 4, 0],
    ["CA", 1, 3, 3],
    ["SA", 1, 0, 8, 1],
    ["PR", 3, 0, "auto_unroll_max_step$16"],
    ["AN", 4, 3, 2],
]
RFACTOR = [["SP", 2, 2, 64, [8], 1], ["RF", 2, 3, 2], ["AN", 2, 2, 1], ["AN", 3, 0, 3]]
CASES = {
    "matmul": (lambda: workloads.matmul_auto_scheduler_test(32, 24, 20), MATMUL),
    "rfactor": (lambda: workloads.matmul_auto_scheduler_test(8, 8, 64), RFACTOR),
    "scalar": (lambda: workloads.zero_rank_compute_auto_scheduler_test(4), [["FU", 1, []]]),
    "inlined": (
        lambda: workloads.conv2d_nchw_bn_relu_auto_scheduler_test(1, 6, 6, 3, 4, 3, 1, 1),
        [["CI", 9], ["CI", 7], ["CI", 5], ["CR", 1], ["AN", 10, 1, 3]],
    ),
}


def exec_code(dag: ComputeDAG, code: str):
    names = {op.name: op.output(0) for op in dag.ops}
    s = te.create_schedule(dag.output_ops)
    exec(code, {"s": s, "te": te, **names})
    return s


@pytest.mark.parametrize("name", sorted(CASES))
def test_text_runs_and_makes_the_same_schedule(name, seed):
    make, lines = CASES[name]
    dag = ComputeDAG(make())
    state = dag.state_of([steps.from_json(line) for line in lines])
    code = dag.print_python_code_from_state(state)
    made, (schedule, _) = exec_code(dag, code), dag.apply_steps_from_state(state)
    assert to_plain(made.steps) == to_plain(schedule.steps)
    arrays = arrays_of(dag, seed)
    for got, expected in zip(run_schedule(made, dag.tensors, arrays), run(dag, dag.init_state, arrays)):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_threads_are_written_with_their_names():
    dag = ComputeDAG(workloads.matmul_auto_scheduler_test(32, 24, 20))
    state = dag.state_of([steps.from_json(["AN", 2, 0, 5]), steps.from_json(["AN", 2, 1, 6])])
    code = dag.print_python_code_from_state(state)
    assert 's[C].bind(C_i, te.thread_axis("blockIdx.x"))' in code
    stage = exec_code(dag, code)[dag.ops[2]]
    assert [stage.peek(axis).bind_thread.thread_tag for axis in stage.op.axis] == ["blockIdx.x", "threadIdx.x"]


def test_names_that_python_does_not_have_are_changed():
    A = te.placeholder((4,), name="s")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="lambda")
    dag = ComputeDAG([A, B])
    state = dag.get_init_state()
    state.parallel(B, state[B].iters[0])
    code = dag.print_python_code_from_state(state)
    assert "s[_lambda].parallel(_lambda_i)" in code
    s = te.create_schedule(B.op)
    exec(code, {"s": s, "te": te, "_lambda": B})
    assert len(s.steps) == 1
    assert tvm.lower(s, [A, B])
