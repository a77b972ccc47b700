"""``tvmc tune``: what the guides do, with small budgets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.packages import needs_xgboost
from tvm import autotvm
from tvm.driver import tvmc
from tvm.driver.tvmc.autotuner import TUNERS, filter_tasks, gen_task_list, parse_seconds
from tvm.driver.tvmc.errors import ExitCode, TVMCException
from tvm.driver.tvmc.main import _main
from tvm.testing import requires_opencl

TEN = list(range(10))


@pytest.mark.parametrize(
    "text, chosen",
    [
        ("all", TEN),
        ("5", [5]),
        ("1-5", [1, 2, 3, 4, 5]),
        ("-5", [0, 1, 2, 3, 4, 5]),
        ("6-", [6, 7, 8, 9]),
        ("0,1-3,all", TEN),
        ("4-,6-8", [4, 5, 6, 7, 8, 9]),
        ("3,3,3", [3]),
    ],
)
def test_tasks_are_named_by_numbers_and_ranges(text: str, chosen: list[int]):
    assert filter_tasks(TEN, text) == (chosen, False)


@pytest.mark.parametrize("text", ["10", "5,10", "1-10", "-10", "--1", "x", "-", "", "5-3"])
def test_wrong_names_of_tasks_are_refused(text: str):
    with pytest.raises(AssertionError, match="--tasks: "):
        filter_tasks(TEN, text)


def test_list_is_asked_for():
    assert filter_tasks(TEN, "list") == filter_tasks(TEN, "help") == ([], True)
    text = gen_task_list(["short", "x" * 100])
    rows = ["  0. short (len=?)", "  1. " + "x" * 97 + "... (len=?)"]
    assert text.splitlines() == ["Available Tasks for tuning:", *rows]


def test_spans_of_time():
    assert [parse_seconds(t) for t in ("90", "90s", "10m", "1h", "1.5 m")] == [90, 90, 600, 3600, 90]
    with pytest.raises(TVMCException, match="time-budget"):
        parse_seconds("soon")


def test_the_command_line_has_fifteen_tuners():
    assert len(TUNERS) == len(set(TUNERS)) == 15


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_xgboost) if name.startswith("xgb") else name for name in TUNERS]
)
def test_every_tuner_of_the_command_line_is_made(name):
    from tvm.autotvm.search import make_tuner
    from tvm.testing.autotvm import get_sample_task

    task, _ = get_sample_task(16)
    assert make_tuner(name, task, True).has_next()


def test_a_tuner_that_is_not_known_is_refused(tmp_path):
    from tvm.driver.tvmc.autotuner import tune_tasks
    from tvm.testing.autotvm import get_sample_task

    with pytest.raises(TVMCException, match="unknown tuner 'fastest'"):
        tune_tasks([get_sample_task(16)[0]], str(tmp_path / "records.json"), {}, "fastest", 1)


@pytest.mark.slow("tunes with worker processes")
def test_tune_compile_run(model_file, tmp_path, capsys):
    records, report = tmp_path / "records.json", tmp_path / "report.html"
    assert _main(["tune", "--task", "list", model_file]) is None
    assert re.search(r"^  0\. Task\(func_name=conv2d_NCHWc\.x86", capsys.readouterr().out, re.MULTILINE)
    command = [
        "tune",
        "--target",
        "llvm",
        "--trials",
        "6",
        "--number",
        "2",
        "-o",
        str(records),
        "--report",
        str(report),
        "--tuner",
        "random",
        model_file,
    ]
    assert _main(command) is None
    text = capsys.readouterr().out
    assert re.search(
        r"\[Task  1/ 2\]  Current/Best: +\d+\.\d\d/ +\d+\.\d\d GFLOPS \| Progress: \(3/3\) \| .* Done\.", text
    )
    assert "untuned" in text and "<svg" in report.read_text() and "http:" not in report.read_text()
    pairs = list(autotvm.record.load_from_file(records))
    assert {inp.task.name for inp, _ in pairs} == {"conv2d_NCHWc.x86", "dense_pack.x86"}
    indexes = {(inp.task.name, inp.config.index) for inp, _ in pairs}
    assert _main(command) is None
    again = {(i.task.name, i.config.index) for i, _ in autotvm.record.load_from_file(records)}
    assert again == indexes, "the budget was spent already"

    outputs = []
    for extra in ([], ["--tuning-records", str(records)]):
        package = str(tmp_path / f"m{len(extra)}.tar")
        assert _main(["compile", "--target", "llvm", "-o", package, *extra, model_file]) == 0
        result = tmp_path / f"out{len(extra)}.npz"
        inputs = tmp_path / "in.npz"
        np.savez(inputs, x=np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 8)).astype("float32"))
        assert _main(["run", "-i", str(inputs), "-o", str(result), package]) is None
        outputs.append(np.load(result)["output_0"])
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-4, atol=1e-3)


@pytest.mark.slow("tunes with worker processes")
@requires_opencl
def test_tune_compile_run_on_a_gpu(model_file, tmp_path, capsys):
    records, report = tmp_path / "records.json", tmp_path / "report.html"
    command = [
        "tune",
        "--target",
        "opencl",
        "--trials",
        "6",
        "--number",
        "1",
        "--min-repeat-ms",
        "1",
        "--timeout",
        "120",
        "-o",
        str(records),
        "--report",
        str(report),
        "--tuner",
        "random",
        model_file,
    ]
    assert _main(command) is None
    text = capsys.readouterr().out
    assert re.search(
        r"\[Task  1/ 2\]  Current/Best: +\d+\.\d\d/ +\d+\.\d\d GFLOPS \| Progress: \(3/3\) \| .* Done\.", text
    )
    # The peaks of this machine's CPU say nothing about a GPU.
    assert "untuned" in text and "peak" not in text and "left out" not in text
    page = report.read_text()
    assert "<svg" in page and "of peak" not in page and "of roof" not in page and "<h2>Roofline" not in page
    pairs = list(autotvm.record.load_from_file(records))
    assert {inp.task.name for inp, _ in pairs} == {"conv2d_nchw.cuda", "dense_small_batch.gpu"}
    assert all(inp.made_on.get("device") for inp, result in pairs if result.error_no == 0)
    indexes = {(inp.task.name, inp.config.index) for inp, _ in pairs}
    assert _main(command) is None
    again = {(i.task.name, i.config.index) for i, _ in autotvm.record.load_from_file(records)}
    assert again == indexes, "the budget was spent already"
    assert _main(["report", "-o", str(report), str(records)]) == 0

    inputs = tmp_path / "in.npz"
    np.savez(inputs, x=np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 8)).astype("float32"))
    outputs = []
    for target, device, extra in (("llvm", "cpu", []), ("opencl", "cl", ["--tuning-records", str(records)])):
        package, result = str(tmp_path / f"{device}.tar"), tmp_path / f"{device}.npz"
        assert _main(["compile", "--target", target, "-o", package, *extra, model_file]) == 0
        assert _main(["run", "--device", device, "-i", str(inputs), "-o", str(result), package]) is None
        outputs.append(np.load(result)["output_0"])
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-4, atol=1e-3)


@pytest.mark.slow("tunes with worker processes")
def test_python_interface(model_file, tmp_path):
    model = tvmc.load(model_file)
    kept = tvmc.tune(model, "llvm", trials=2, number=1, tuner="ga", tasks_filter="dense")
    assert kept == model.default_tuning_records_path() and os.path.exists(kept)
    named = str(tmp_path / "named.json")
    options = {"tuner": "random", "trials": 2, "tasks_filter": "0"}
    assert tvmc.tune(model, "llvm", tuning_records=named, prior_records=kept, **options) == named
    assert tvmc.tune(model, "llvm", tasks_filter="list") is None
    package = tvmc.compile(model, "llvm", tuning_records=named, package_path=str(tmp_path / "m.tar"))
    assert tvmc.run(package, device="cpu").outputs["output_0"].shape == (1, 10)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--num-cores", "2"], "--log-estimated-latency need --enable-autoscheduler"),
        (["--include-simple-tasks"], "--log-estimated-latency need --enable-autoscheduler"),
        (["--log-estimated-latency"], "--log-estimated-latency need --enable-autoscheduler"),
        (["--enable-autoscheduler", "--tuner", "ga"], "searches templates"),
        (["--rpc-tracker", "host:9190"], "--rpc-key"),
        (["--rpc-tracker", "127.0.0.1:1", "--rpc-key", "k"], "cannot connect to 127.0.0.1:1"),
        (["--tasks", "77"], "no task 77"),
        (["--rpc-key", "k"], "--rpc-tracker"),
        (["--tasks", "winograd"], "'winograd' is not a number, a range or part of a task's name"),
        (["--time-budget", "soon"], "time-budget"),
        (["--time-budget", "0"], "time-budget"),
        (["--trials", "0"], "--trials"),
        (["--number", "0"], "--number must be at least 1"),
        (["--repeat", "0"], "--repeat must be at least 1"),
        (["--timeout", "0"], "--timeout must be at least 1"),
        (["--min-repeat-ms", "-1"], "--min-repeat-ms must be at least 0"),
        (["--early-stopping", "0"], "--early-stopping must be at least 1"),
        (["--tuning-records", "missing.json"], "the file 'missing.json' does not exist"),
        (["--report", "missing/report.html"], "the directory"),
        (["--desired-layout", "NHWC", "NCHW", "--trials", "1"], "Expected 1 or 3 layouts but got 2"),
        (["--target", "llvm -mtriple=riscv64-unknown-linux-gnu"], "cannot be measured on this machine"),
        (["--target", "rocm"], "this machine has no device to measure on"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(options, words, model_file, tmp_path, capsys):
    assert _main(["tune", "-o", str(tmp_path / "r.json"), *options, model_file]) == 4
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (tmp_path / "r.json").exists()


@needs_xgboost
def test_options_reach_the_measuring(model_file, tmp_path, monkeypatch):
    from tvm.driver.tvmc import roofline
    from tvm.tuning import TuningRun

    seen: list[TuningRun] = []
    monkeypatch.setattr(roofline, "machine", lambda new: None)
    monkeypatch.setattr(TuningRun, "run", lambda run: seen.append(run))
    out = ["tune", "-o", str(tmp_path / "r.json")]
    _main(
        [
            *out,
            "--number",
            "3",
            "--repeat",
            "2",
            "--min-repeat-ms",
            "7",
            "--timeout",
            "4",
            "--trials",
            "77",
            "--early-stopping",
            "9",
            "--tuner",
            "ga",
            "--tasks",
            "dense,0",
            model_file,
        ]
    )
    options, searches = seen[-1].options, [task.search for task in seen[-1].tasks]
    runner = searches[0].runner
    assert (runner.number, runner.repeat, runner.min_repeat_ms, runner.timeout) == (3, 2, 7, 4)
    assert searches[0].builder.timeout == 4 and options.trials == 77 and options.early_stopping == 9
    assert type(searches[0].tuner) is autotvm.tuner.GATuner
    assert [s.task.name for s in searches] == ["dense_pack.x86", "conv2d_NCHWc.x86"], "in the order they were named"
    assert options.resumes and seen[-1].model is not None
    _main([*out, model_file])
    assert seen[-1].options.trials == 1000 and seen[-1].tasks[0].search.runner.min_repeat_ms == 0
    _main([*out, "--time-budget", "10m", "--no-analytic-start", model_file])
    assert seen[-1].options.seconds == 600 and seen[-1].options.trials is None
    assert not seen[-1].options.baseline_first and seen[-1].tasks[0].search.tuner.trials == []


@pytest.fixture(scope="module")
def relu_file(tmp_path_factory) -> str:
    """A model with nothing to tune, and with an open batch."""
    import onnx
    from onnx import helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, ("N", 4))],
        [helper.make_tensor_value_info("y", 1, ("N", 4))],
    )
    path = tmp_path_factory.mktemp("relu") / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return str(path)


def test_a_model_with_nothing_to_tune(relu_file, tmp_path, caplog):
    report = tmp_path / "report.html"
    assert not _main(["tune", "-o", str(tmp_path / "r.json"), "--report", str(report), relu_file])
    assert "nothing to tune in this model: " in caplog.text
    assert "nothing to tune" in report.read_text() and not (tmp_path / "r.json").exists()


def test_an_open_batch_is_tuned_as_it_is_compiled(model_path, tmp_path, capsys):
    out = str(tmp_path / "r.json")
    assert _main(["tune", "--tasks", "list", "-o", out, model_path]) is None
    assert "(1, 3, 9, 7)" in capsys.readouterr().out
    assert _main(["tune", "--tasks", "list", "-o", out, "--input-shapes", "data:[5,3,9,7]", model_path]) is None
    assert "(5, 3, 9, 7)" in capsys.readouterr().out


def test_unwritable_records_are_a_clear_error(model_file, capsys):
    assert _main(["tune", "-o", "/dev/full", "--trials", "2", "--tuner", "random", "--tasks", "dense", model_file]) == 4
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.slow("tunes with worker processes")
def test_interrupt_keeps_the_records(model_path, tmp_path, tuning_environment, capsys):
    records = tmp_path / "records.json"
    command = [
        sys.executable,
        "-m",
        "tvm.driver.tvmc",
        "tune",
        "-o",
        str(records),
        "--trials",
        "100000",
        "--tuner",
        "random",
        "--number",
        "1",
        model_path,
    ]
    process = subprocess.Popen(command, env=tuning_environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)  # fmt: skip
    until = time.time() + 120
    while time.time() < until and (not records.exists() or len(records.read_text().splitlines()) < 4):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130 and "run the same command to continue" in error, error
    assert error.count("\n") == 1, error
    kept = len(list(autotvm.record.load_from_file(records)))
    assert kept >= 4
    capsys.readouterr()
    assert _main([*command[3:-1], "--trials", "1", model_path]) is None
    assert f"{kept} records found, going on; all trials are spent" in capsys.readouterr().out


def test_a_missing_package_is_named_with_how_to_install_it(model_file, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert _main(["tune", "--trials", "1", "-o", str(tmp_path / "r.json"), model_file]) == ExitCode.NOT_INSTALLED
    said = capsys.readouterr().err
    assert "needs the package xgboost; pip install xgboost-cpu" in said and "defect" not in said
