"""``python -m benchmarks.gpu`` without a GPU: what it would run, who has a turn when, limits, tables, and some parts on
OpenCL and on the emulator of CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import plan, report
from benchmarks.gpu.jobs import Job, Machine, Outcome
from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_compiler, needs_emulator
from tvm.testing import requires_opencl

# Longer than anything below takes, also where a machine is busy.
LONG = 300.0

# Writes when it began, when it had the GPU, and when it ended.
PROGRAM = """
import sys, time
from benchmarks.gpu.turns import end_turn, wait_for_turn
log, name, before, within, after = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:6])
def note(what):
    with open(log, "a") as file:
        file.write(f"{what} {name} {time.monotonic()}\\n")
note("begin")
time.sleep(before)
if within >= 0:
    wait_for_turn()
    note("turn")
    time.sleep(within)
    note("over")
    end_turn()
time.sleep(after)
note("end")
"""


def job(folder: Path, name: str, before: float = 0.0, within: float = -1.0, after: float = 0.0, **options) -> Job:
    arguments = [sys.executable, "-c", PROGRAM, str(folder / "log"), name, str(before), str(within), str(after)]
    return Job(name, "part", arguments, times=within >= 0, **{"seconds": LONG, "turn_seconds": LONG, **options})


def run(jobs: list[Job], folder: Path, cores: int = 4, seconds: float = LONG):
    """By name what became of the jobs, and by (event, name) when what happened."""
    outcomes = Machine(jobs, str(folder), cores, seconds, lambda text: None).run()
    lines = [line.split() for line in (folder / "log").read_text().splitlines()] if (folder / "log").exists() else []
    return {o.name: o for o in outcomes}, {(what, name): float(at) for what, name, at in lines}


def test_one_program_times_at_a_time_and_after_all_checks(tmp_path):
    jobs = [job(tmp_path, "a", 0.0, 0.3), job(tmp_path, "b", 0.1, 0.3), job(tmp_path, "check", 0.6),
            job(tmp_path, "c", 0, 0)]  # fmt: skip
    outcomes, events = run(jobs, tmp_path)
    assert {o.status for o in outcomes.values()} == {"passed"} and len(outcomes) == 4
    turns = sorted((events["turn", name], events["over", name]) for name in "abc")
    assert all(over <= begin for (_, over), (begin, _) in zip(turns, turns[1:]))
    assert turns[0][0] >= events["end", "check"]
    # What a turn took is known to about a tenth of a second.
    assert outcomes["a"].turn > 0.1 and outcomes["check"].turn == 0 and outcomes["check"].seconds > 0.5


def test_no_more_begin_than_there_are_cores_and_who_waits_takes_none(tmp_path):
    jobs = [job(tmp_path, "check", 0.5), job(tmp_path, "a", 0, 0), job(tmp_path, "b", 0, 0, cores=2),
            job(tmp_path, "c", 0, 0, cores=2)]  # fmt: skip
    outcomes, events = run(jobs, tmp_path, cores=3)
    assert {o.status for o in outcomes.values()} == {"passed"}
    # Two have the cores of "c" until "b" waits for its turn, which comes after the check.
    assert events["begin", "c"] > events["begin", "b"] and events["turn", "a"] >= events["end", "check"]


def test_one_that_is_alone_begins_when_all_have_ended(tmp_path):
    jobs = [job(tmp_path, "alone", 0, 0, alone=True, cores=99), job(tmp_path, "a", 0.2, 0.1, 0.1),
            job(tmp_path, "check")]  # fmt: skip
    outcomes, events = run(jobs, tmp_path)
    assert {o.status for o in outcomes.values()} == {"passed"}
    assert events["begin", "alone"] >= max(events["end", "a"], events["end", "check"])


def test_a_program_that_dies_or_hangs_in_its_turn_ends_it(tmp_path):
    dies = job(tmp_path, "dies")
    dies.command[2] = "import os\nfrom benchmarks.gpu.turns import wait_for_turn\nwait_for_turn()\nos._exit(7)"
    dies.times = True
    jobs = [dies, job(tmp_path, "hangs", 0, LONG, turn_seconds=1), job(tmp_path, "a", 0, 0)]
    outcomes, events = run(jobs, tmp_path)
    assert {name: o.status for name, o in outcomes.items()} == {
        "dies": "failed", "hangs": "took too long", "a": "passed"}  # fmt: skip
    assert outcomes["dies"].code == 7 and ("over", "hangs") not in events


@pytest.mark.slow("runs a benchmark from its start to its end")
def test_limits_of_a_program_and_of_all(tmp_path):
    outcomes, _ = run([job(tmp_path, "slow", LONG, seconds=1), Job("no", "part", ["/no/program"])], tmp_path)
    assert outcomes["slow"].status == "took too long" and "cannot be started" in outcomes["no"].status
    jobs = [job(tmp_path, "slow", LONG, cores=4), job(tmp_path, "next", cores=4),
            Job("absent", "part", [], missing="torch is not installed")]  # fmt: skip
    begin = time.monotonic()
    outcomes, _ = run(jobs, tmp_path, seconds=2.0)
    assert time.monotonic() - begin < LONG / 2
    assert {name: o.status for name, o in outcomes.items()} == {
        "slow": "stopped: no time was left",
        "next": "not run: no time was left",
        "absent": "torch is not installed",
    }


def test_the_plan_has_everything(tmp_path, capsys):
    jobs = plan.plan(plan.Choice(str(tmp_path)), list(plan.USUAL))
    parts = {job.part for job in jobs}
    assert parts == set(plan.PARTS) - {"search"} and len({job.name for job in jobs}) == len(jobs)
    assert sum(job.part == "models" for job in jobs) == 12 and sum(job.part == "matmul" for job in jobs) == 4
    hopper = plan.plan(plan.Choice(str(tmp_path), architecture="9.0"), ["matmul"])
    assert sum("cuda -arch=sm_90a" in job.command for job in hopper) == 3
    assert all(job.times for job in jobs if job.part in ("models", "matmul", "operators", "tuning"))
    assert not any(job.times for job in jobs if job.part in ("tests", "numbers", "sanitize", "refusals", "guide"))
    assert command.main(["--plan", "--only", "tests,tuning", "--output", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == ["tests", "tuning"] and "TVM_TEST_ON=cuda" in said[0]
    with pytest.raises(SystemExit):
        command.main(["--only", "nothing"])
    assert "unknown part 'nothing'; known: tests" in capsys.readouterr().err


def test_tests_that_are_named_exist(root):
    named = {*plan.SANITIZED, *plan.SANITIZED_REAL, *plan.NUMBERS, *plan.DEVICE}
    for name in named:
        path, _, function = name.partition("::")
        text = (root / path).read_text(encoding="utf-8")
        assert not function or f"\ndef {function}(" in text, name


JUNIT = """<testsuites><testsuite name="pytest" tests="5" failures="1" errors="1" skipped="1">
<testcase classname="tests.a" name="good"/><testcase classname="tests.a" name="better"/>
<testcase classname="tests.a" name="bad"><failure message="x">y</failure></testcase>
<testcase classname="tests.a" name="worse"><error message="x">y</error></testcase>
<testcase classname="tests.a" name="absent"><skipped/></testcase></testsuite></testsuites>"""


def test_results_become_tables(tmp_path):
    (tmp_path / "tests.xml").write_text(JUNIT)
    (tmp_path / "broken.xml").write_text("<testsuites>")
    (tmp_path / "tests.txt").write_text("line\n" * 100 + "the last words\n")
    model = {"model": "resnet50", "ours_ms": 1.5, "torch_ms": 2.0, "error": 1e-7, "torch_error": 2e-7, "compile_s": 3.0}
    rows = [{**model, "dtype": "float32", "ratio": 0.76}, {**model, "dtype": "float16", "ratio": 0.76}]
    (tmp_path / "model-resnet50-float32.json").write_text(json.dumps(rows))
    (tmp_path / "model-of-an-earlier-run.json").write_text(json.dumps([{"model": "old"}]))
    product = {"target": "cuda", "size": 4096, "dtype": "float32", "ours_tflops": 40.0, "cublas_tflops": 50.0,
               "ratio": 0.8, "error": 1e-7}  # fmt: skip
    other = {**product, "dtype": "float16", "target": "cuda -arch=sm_90a", "ratio": 0.6}
    (tmp_path / "matmul-float32.json").write_text(json.dumps([product, other]))
    operator = {"name": "transpose", "ours_us": 1.25, "plain_us": 4.0, "error": 0.0}
    (tmp_path / "operators-0.json").write_text(json.dumps([operator, {"name": "sort", "ours_us": 2.0}]))
    task = {"task": "dense", "trials": 8, "untuned_us": 10.0, "best_us": None}
    found = {"records": 8, "seconds": 40.0, "results": {"NO_ERROR": 8}, "tasks": [task]}
    (tmp_path / "tuning.json").write_text(json.dumps(found))
    names = ["tests", "broken", "model-resnet50-float32", "matmul-float32", "operators-0", "tuning"]
    outcomes = [Outcome(name, "part", "failed" if name == "tests" else "passed", 12.0) for name in names]
    facts = {"device": "A GPU", "target": "cuda", "commit": "abc", "cores": 16, "date": "2026-01-01", "seconds": 300.0}
    results = report.collect(str(tmp_path), facts, outcomes)
    failed = ["tests.a.bad", "tests.a.worse"]
    assert results["tests"]["tests"] == {"passed": 2, "failed": 2, "skipped": 1, "names": failed}
    assert results["tests"]["broken"]["failed"] == 1 and not report.is_good(results)
    assert [row["model"] for row in results["models"]] == ["resnet50"] * 2, "of this run alone"
    text = report.tables(json.loads(json.dumps(results)))
    for line in ("5 of 6 programs passed", "| tests | 2 | 2 | 1 | tests.a.bad; tests.a.worse |",
                 "| resnet50 | float32 | 1.500 | 2.000 | 0.76 | 0.75 | 0.5 | NO | 1.0e-07 | 2.0e-07 | 3.0 |",
                 "| resnet50 | float16 | 1.500 | 2.000 | 0.76 | 1.0 | 0.7 | yes | 1.0e-07 | 2.0e-07 | 3.0 |",
                 "| 4096 cubed, float32 | 40.0 | 50.0 | 0.80 | 0.8 | yes | 1.0e-07 |",
                 "| 4096 cubed, float16, warpgroups | 40.0 | 50.0 | 0.60 | 0.7 | NO | 1.0e-07 |",
                 "| transpose | ours 1.2, plain 4.0 | 0.0e+00 |", "| sort | ours 2.0 |  |",
                 "8 records in 40 s, 0.2 a second; NO_ERROR 8", "| dense | 8 | 10.0 |  |",
                 "the last words"):  # fmt: skip
        assert line in text, line


@pytest.mark.slow("runs a benchmark from its start to its end")
@requires_opencl
def test_a_part_from_end_to_end_on_opencl(root, tmp_path):
    options = ["--target", "opencl", "--only", "refusals", "--output", tmp_path, "--cores", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *map(str, options)], cwd=root, capture_output=True, text=True
    )
    text = (tmp_path / "results.md").read_text()
    assert done.returncode == 0, text
    results = json.loads((tmp_path / "results.json").read_text())
    assert [job["status"] for job in results["jobs"]] == ["passed"] and "1 of 1 programs passed" in text
    assert "cannot allocate" in (tmp_path / "refusals.txt").read_text()


@pytest.mark.slow("runs a benchmark from its start to its end")
@requires_opencl
def test_the_quick_start_on_opencl(root):
    program = [sys.executable, "-m", "benchmarks.gpu.quick_start", "--target", "opencl"]
    # The smallest of these networks.
    program += ["--size", "28", "--layers", "8"]
    done = subprocess.run(program, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("from the CPU") == 2, done.stderr


@pytest.mark.slow("runs a benchmark from its start to its end")
@requires_opencl
def test_operators_are_built_timed_and_compared(root, tmp_path):
    from benchmarks.gpu.operators import Case, Runner, counts, sorting_case, worst_error
    from tvm import topi

    runner = Runner("opencl")
    case = Case("transpose", [(33, 47)], "float32", lambda x: topi.transpose(x, (1, 0)), None, None)
    row = runner.prepared(case, 0)()
    assert row["name"] == "transpose" and 0 < row["ours_us"] < 1e9 and worst_error(row) == 0
    assert runner.prepared(sorting_case((3, 200), 1, "float32", 5), 0)()["error"] == 0
    unique = Case("unique", [(300,)], "int32", lambda x: topi.cuda.unique(x, True, True), None, None, counts)
    assert runner.prepared(unique, 0)()["error"] == 0
    unlike = unique._replace(wanted=lambda x: counts(x) + 1)
    assert runner.prepared(unlike, 0)()["error"] == 1
    row = runner.winograd(1, 8, 8, 8)()
    assert {"plain_us", "tiles_2_us", "tiles_4_us"} < set(row) and worst_error(row) < 1e-3


@needs_emulator
@pytest.mark.parametrize("code, wanted", [
    ("cuda_emulator.install(); refusals.main([])", "1025 x 1 x 1 = 1025 threads"),
    pytest.param("print(refused(refusals.architecture(tvm.cuda(0))))", "True", marks=needs_compiler)])  # fmt: skip
def test_refusals_on_the_emulator_of_cuda(root, code, wanted):
    program = """
import re, tvm
from benchmarks.gpu import refusals
from tests import cuda_emulator
def refused(what):
    try: what.ask()
    except tvm.TVMError as error: return re.search(what.words, str(error)) is not None
"""
    environment = {**cuda_emulator.environment(), "TVM_EMULATED_ARCH": "80"}
    done = subprocess.run(
        [sys.executable, "-c", program + code], cwd=root, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and wanted in done.stdout, done.stdout + done.stderr


def test_programs_go_on_where_nobody_hands_out_turns(monkeypatch):
    from benchmarks.gpu import turns

    monkeypatch.delenv(turns.SOCKET, raising=False)
    turns.wait_for_turn()
    turns.end_turn()
    assert not os.environ.get(turns.SOCKET)


def test_the_cases_of_auto_scheduler_are_tasks_with_the_shapes_they_name():
    from benchmarks.gpu.auto_scheduler import summary, task_of
    from benchmarks.gpu.auto_scheduler_cases import GROUPS, cases

    found = cases(GROUPS, True)
    assert len({case.name for case in found}) == len(found) and {case.group for case in found} == set(GROUPS)
    assert len([case for case in found if case.template is None]) == 10
    for case in found:
        task = task_of(case, "cuda -arch=sm_90")
        shapes = [tuple(int(d) for d in tensor.shape) for tensor in task.compute_dag.tensors[:-1]]
        assert shapes == [tuple(shape) for shape in case.shapes] and task.compute_dag.flop_ct > 0
    rows = [{"group": "bert", "found_us": us, "default_us": 1.0} for us in (2.0, 8.0)]
    assert summary(rows) == ["bert: found/default geometric mean 4.00, worst 8.00, of 2"]
