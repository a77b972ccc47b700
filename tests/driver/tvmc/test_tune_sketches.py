"""``tvmc tune --enable-autoscheduler``: the same run, table, records and report as with templates."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.packages import needs_xgboost
from tvm import auto_scheduler
from tvm.auto_scheduler.choices import load_rows
from tvm.auto_scheduler.search_policy import SketchPolicy
from tvm.driver import tvmc
from tvm.driver.tvmc.autotuner import autoscheduler_get_tuning_tasks, schedule_tasks
from tvm.driver.tvmc.main import _main
from tvm.driver.tvmc.sketches import LatencyLog
from tvm.tuning import events
from tvm.tuning.state import TaskStatus


@pytest.fixture(autouse=True)
def small_populations(monkeypatch):
    """What is bred is not looked at here."""
    small = {**SketchPolicy.DEFAULT_PARAMS, "evolutionary_search_population": 8, "evolutionary_search_num_iters": 1}
    monkeypatch.setattr(SketchPolicy, "DEFAULT_PARAMS", small)


def command(model, records, *more):
    return [
        "tune",
        "--enable-autoscheduler",
        "--target",
        "llvm",
        "--trials",
        "4",
        "--number",
        "1",
        "--tuner",
        "random",
        "-o",
        str(records),
        *more,
        model,
    ]


def outputs(model, tmp_path, *records):
    package, result, inputs = str(tmp_path / f"m{len(records)}.tar"), tmp_path / "out.npz", tmp_path / "in.npz"
    np.savez(inputs, x=np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 8)).astype("float32"))
    assert _main(["compile", "--target", "llvm", "-o", package, *records, model]) == 0
    assert _main(["run", "-i", str(inputs), "-o", str(result), package]) is None
    return np.load(result)["output_0"]


@pytest.mark.slow("tunes with worker processes")
def test_tune_compile_run(model_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records, report = tmp_path / "records.json", tmp_path / "report.html"
    assert _main(["tune", "--enable-autoscheduler", "--task", "list", model_file]) is None
    assert "  0. fused_nn_conv2d_nn_relu" in capsys.readouterr().out
    tune = command(model_file, records, "--report", str(report), "--log-estimated-latency", "--num-cores", "3")
    assert _main(tune) is None
    text = capsys.readouterr().out
    assert re.search(
        r"\[Task  1/ 2\]  Current/Best: +\d+\.\d\d/ +\d+\.\d\d GFLOPS \| Progress: \(2/2\) \| .* Done\.", text
    )
    assert "untuned" in text and "nn_conv2d_nn_relu 1x8x8x8 16x8x5x5" in text
    page = report.read_text()
    assert "<svg" in page and "http:" not in page and "schedule" in page
    # Every line of the log is Ansor's, or a comment that other readers skip.
    measured = auto_scheduler.load_records(records)
    assert len(measured) == 4 and all(inp.task.hardware_params.num_cores == 3 for inp, _ in measured)
    rows, unreadable = load_rows(records)
    assert not unreadable and {row.task.workload_key for row in rows if row.state is None} == {
        inp.task.workload_key for inp, _ in measured
    }
    latency = (tmp_path / "total_latency.tsv").read_text().splitlines()
    assert re.fullmatch(r"ElapsedTime\(s\)\t\d+\tEstimatedLatency\(ms\)\t[\d.]+\tTrials\t4", latency[-1])
    # The budget is spent: nothing is measured twice.
    assert _main(tune) is None
    assert "records found, going on" in capsys.readouterr().out
    assert len(auto_scheduler.load_records(records)) == 4
    assert _main(["report", "-o", str(report), str(records)]) == 0 and "<svg" in report.read_text()
    np.testing.assert_allclose(
        outputs(model_file, tmp_path, "--tuning-records", str(records)),
        outputs(model_file, tmp_path),
        rtol=1e-4,
        atol=1e-3,
    )


def test_compile_uses_the_schedules_of_a_log_whatever_its_lines_begin_with(model_file, tmp_path):
    model = tvmc.load(model_file)
    tasks, _ = autoscheduler_get_tuning_tasks(model.mod, model.params, "llvm")
    states = [SketchPolicy(task, seed=0, verbose=0).sample_initial_population()[0] for task in tasks]
    records = tmp_path / "log.json"
    records.write_text("# a note\n")
    auto_scheduler.save_records(
        records,
        [auto_scheduler.MeasureInput(task, state) for task, state in zip(tasks, states)],
        [auto_scheduler.MeasureResult([1e-3], 0, "", 0.1, 1)] * len(tasks),
    )
    tvmc.compile(model, "llvm", tuning_records=str(records), package_path=str(tmp_path / "m.tar"), dump_code="tir")
    assert "fused_nn_conv2d_nn_relu" in (tmp_path / "m.tar.tir").read_text()
    np.testing.assert_allclose(
        outputs(model_file, tmp_path, "--tuning-records", str(records)),
        outputs(model_file, tmp_path),
        rtol=1e-4,
        atol=1e-3,
    )


@needs_xgboost
def test_the_classic_helpers_tune_and_their_log_is_gone_on_from(model_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tvmc.load(model_file)
    hardware = auto_scheduler.HardwareParams(num_cores=2, target="llvm")
    tasks, weights = autoscheduler_get_tuning_tasks(
        model.mod, model.params, "llvm", hardware_params=hardware, include_simple_tasks=True
    )
    assert len(tasks) == len(weights) >= 2
    log, named = str(tmp_path / "log.json"), str(tmp_path / "named.json")
    options = auto_scheduler.TuningOptions(
        num_measure_trials=len(tasks),
        verbose=0,
        runner=auto_scheduler.LocalRunner(number=1, min_repeat_ms=0),
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
    )
    schedule_tasks(tasks, weights, options, log_estimated_latency=True)
    measured = auto_scheduler.load_records(log)
    assert len(measured) == len(tasks)
    assert (tmp_path / "total_latency.tsv").read_text().count("Trials") == len(tasks)
    assert (
        tvmc.tune(
            model,
            "llvm",
            tuning_records=named,
            prior_records=log,
            enable_autoscheduler=True,
            trials=1,
            number=1,
            tuner="random",
            hardware_params=hardware,
            tasks_filter="dense",
        )
        == named
    )
    # The leader of earlier records is measured here and now before anything else.
    (first, _), *_ = auto_scheduler.load_records(named)
    assert first.task.hardware_params.num_cores == 2
    assert first.state.transform_steps in [inp.state.transform_steps for inp, _ in measured]


def test_the_latency_is_not_known_before_every_task_ran(tmp_path):
    heard: list = []
    log = LatencyLog(heard.append, tmp_path / "t.tsv")
    tasks = [TaskStatus(n, n, "task", n + 1, 1.0, 0, None, None, None) for n in range(2)]
    log(events.RunStarted(tuple(tasks), 0, 10, 10, None, 0.0))
    for number in range(2):
        log(events.RoundFinished(TaskStatus(number, number, "task", number + 1, 1.0, 3, 0.001, None, "key"), 0.001))
    rows = [line.split("\t") for line in (tmp_path / "t.tsv").read_text().splitlines()]
    assert [row[3] for row in rows] == ["N/A", "3.000"] and [row[5] for row in rows] == ["3", "6"]
    assert len(heard) == 3
