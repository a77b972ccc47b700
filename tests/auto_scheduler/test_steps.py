"""Transform steps: written and read as the lists of Ansor's logs."""

from __future__ import annotations

import json

import pytest

import tvm
from tests.auto_scheduler.programs import assert_computes_the_same
from tvm.auto_scheduler import ComputeDAG, steps
from tvm.auto_scheduler.loop_state import StateObject
from tvm.testing import auto_scheduler as workloads

# A line for each kind, as logs have it.
LINES = [
    ["CHW", 2, "local"],
    ["CHR", 0, "global", [2]],
    ["SP", 4, 0, 32, [2, 4], 1],
    ["SP", 4, 3, 24, [3], 0],
    ["RE", 4, [0, 3, 1, 4, 2]],
    ["FU", 4, [0, 1]],
    ["AN", 4, 0, 3],
    ["FSP", 3, 0, 2, 2],
    ["FFSP", 3, 3, [2, 3], 0, 1],
    ["CA", 3, 4, 0],
    ["CA", 1, 3, 5],
    ["SA", 1, 0, 8, 1],
    ["PR", 3, 0, "auto_unroll_max_step$16"],
    ["AN", 4, 3, 2],
]


def test_lines_are_read_applied_and_written_as_they_were():
    read = tuple(steps.from_json(line) for line in LINES)
    assert steps.to_json(read) == LINES
    assert {step.code for step in read} | {"CI", "CR", "DB", "PD", "RF", "TZ"} == set(steps.STEPS)
    dag = ComputeDAG(workloads.matmul_auto_scheduler_test(32, 24, 20))
    state = dag.state_of(read)
    assert [stage.op.name for stage in state.stages] == ["A", "A.global", "B", "C.local", "C"]
    assert state.stages[3].attach == (4, 0) and state.stages[1].attach == (3, 5)
    assert_computes_the_same(dag, state)


def test_a_state_of_steps_alone_is_applied_and_gets_its_bounds():
    read = tuple(steps.from_json(line) for line in LINES)
    dag = ComputeDAG(workloads.matmul_auto_scheduler_test(32, 24, 20))
    assert_computes_the_same(dag, StateObject((), read))
    bound = dag.infer_bound_from_state(StateObject((), read))
    assert all(it.extent is not None for stage in bound.stages for it in stage.iters)


@pytest.mark.parametrize("line", [["CI", 1], ["CR", 1], ["RF", 2, 2, 0]])
def test_short_lines_are_read(line):
    assert steps.from_json(json.loads(json.dumps(line))).to_json() == line


@pytest.mark.parametrize(
    "line, complaint",
    [
        (["XX", 1], "begins with one of AN"),
        ([], "begins with one of AN"),
        ("SP", "begins with one of AN"),
        (["CI"], "step CI must have 1 fields"),
        (["CI", "1"], "step CI: invalid value '1' for stage_id"),
        (["SP", 1, 0, 8, [None], 1], "step SP: invalid value"),
        (["SP", 1, 0, 8, [2], 2], "step SP: invalid value 2 for inner_to_outer"),
        (["CHW", 1, 3], "step CHW: invalid value 3 for scope_name"),
    ],
)
def test_what_is_no_step_is_refused(line, complaint):
    with pytest.raises(tvm.TVMError, match=complaint):
        steps.from_json(line)


def test_steps_that_do_not_fit_the_program_are_refused_when_they_are_applied():
    dag = ComputeDAG(workloads.matmul_auto_scheduler_test(8, 8, 8))
    for line, complaint in (
        (["CI", 9], "stage number 9 is out of range"),
        (["AN", 2, 7, 3], "has no loop number 7"),
        (["AN", 2, 0, 99], "unknown annotation number 99"),
        (["CA", 2, 2, 0], "inside itself"),
        (["CHR", 0, "global", [8]], "stage number 8 is out of range"),
    ):
        with pytest.raises(tvm.TVMError, match=complaint):
            dag.state_of([steps.from_json(line)])
    with pytest.raises(tvm.TVMError, match="stage number 9 is out of range"):
        dag.apply_steps_from_state(StateObject((), (steps.from_json(["CI", 9]),)))


def test_sketches_are_not_written():
    with pytest.raises(tvm.TVMError, match="only states with known lengths can be written"):
        steps.STEPS["SP"](2, 0, 8, (None,), True).to_json()


def test_an_alignment_of_a_loop_without_a_stride_changes_nothing():
    A, B, C = workloads.matmul_auto_scheduler_test(4, 5, 6)
    dag = ComputeDAG([A, B, C])
    state = dag.get_init_state()
    state.storage_align(C, state[C].iters[2], 8, 4)
    schedule, _ = dag.apply_steps_from_state(state)
    assert len(state.transform_steps) == 1 and schedule.steps == []
