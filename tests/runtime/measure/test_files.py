"""A folder of candidates is measured by the runtime alone: the compiler is not in the process that measures."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_emulator
from tvm import autotvm, te, tir
from tvm.autotvm.measure import folder
from tvm.autotvm.measure.folder import FolderWriter, write_candidates
from tvm.runtime.measure import files as measure_files
from tvm.runtime.measure.worker import example
from tvm.testing import requires_opencl

N = 512
KINDS = ("first", "wrong", "crash", "endless", "last")
MEASURE = {"number": 2, "repeat": 2, "min_repeat_ms": 0}


def _crash(a, b):
    ib = tir.ir_builder.create()
    dst = ib.buffer_ptr(b)
    with ib.for_range(0, 1) as i:
        dst[i + (1 << 40)] = 1.0
    return ib.get()


def _endless(a, b):
    ib = tir.ir_builder.create()
    dst = ib.buffer_ptr(b)
    with ib.while_loop(dst[0] < 5.0):
        # It sleeps, and so takes no processor time from other tests.
        ib.emit(tir.call_extern("int32", "usleep", 1000))
        dst[0] = 0.0
    return ib.get()


@autotvm.template("test/in_a_folder")
def doubled(n: int):
    """Twice the input; what is wrong with a configuration is what its knob says."""
    cfg = autotvm.get_config()
    cfg.define_knob("kind", list(KINDS))
    kind = cfg["kind"].val
    a = te.placeholder((n,), name="a")
    if kind in ("crash", "endless"):
        body = _crash if kind == "crash" else _endless
        b = te.extern((n,), [a], lambda ins, outs: body(ins[0], outs[0]), name="b", dtype="float32")
        return te.create_schedule(b.op), [a, b]
    b = te.compute((n,), lambda i: a[i] * (3.0 if kind == "wrong" else 2.0), name="b")
    s = te.create_schedule(b.op)
    if "gpu" in tvm.target.Target.current().keys:
        block, thread = s[b].split(b.op.axis[0], factor=16 if kind == "first" else 32)
        s[b].bind(block, te.thread_axis("blockIdx.x"))
        s[b].bind(thread, te.thread_axis("threadIdx.x"))
    cfg.add_flop(n)
    return s, [a, b]


def inputs_of(target: str, kinds=KINDS, n: int = N) -> list[autotvm.MeasureInput]:
    task = autotvm.task.create("test/in_a_folder", (n,), target)
    return [autotvm.MeasureInput(task.target, task, task.config_space.get(KINDS.index(kind))) for kind in kinds]


@pytest.fixture(scope="module")
def runtime_only(tmp_path_factory) -> dict[str, str]:
    """The environment of a process that has what the runtime wheel packs, and no llvmlite."""
    root, folder = Path(tvm.__file__).parent.parent, tmp_path_factory.mktemp("runtime_only")
    parts = (root / "packaging" / "runtime" / "contents.txt").read_text(encoding="utf-8").split()
    for part in (*parts, "lib"):
        source, copy = root / "tvm" / part, folder / "tvm" / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    (folder / "llvmlite.py").write_text("raise ImportError('this machine has no compiler')\n")
    return {**os.environ, "PYTHONPATH": str(folder)}


def started(environment, *arguments: object) -> subprocess.Popen:
    """A Python process in which only the runtime can be imported."""
    return subprocess.Popen([sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=environment, cwd=environment["PYTHONPATH"])  # fmt: skip


def measured(where, environment, *options: object) -> subprocess.CompletedProcess:
    process = started(environment, "-m", "tvm.runtime.measure_files", where, *options)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def results(path) -> dict[str, tuple[int, tuple]]:
    """By the kind of a candidate, what its record says."""
    return {inp.config["kind"].val: (result.error_no, result.costs)
            for inp, result in autotvm.record.load_from_file(path)}  # fmt: skip


def test_the_process_that_measures_has_no_compiler(runtime_only):
    code = "import tvm.runtime.measure_files, tvm; print(tvm.__file__)\ntvm.build"
    stdout, stderr = started(runtime_only, "-c", code).communicate()
    assert stdout.startswith(runtime_only["PYTHONPATH"]) and "tvm-classic-runtime contains only the runtime" in stderr


@pytest.mark.slow("measures candidates in worker processes, one of which never ends")
def test_bad_candidates_cost_only_themselves(tmp_path, runtime_only):
    assert write_candidates(inputs_of("llvm"), tmp_path, MEASURE) == (5, 0)
    assert write_candidates(inputs_of("llvm"), tmp_path, MEASURE) == (0, 0), "what is there is not built again"
    done = measured(tmp_path, runtime_only, "--timeout", 8, "--output", tmp_path / "out" / "found.json")
    assert done.returncode == 0 and "5 candidates measured, 3 of them failed" in done.stdout, done.stderr
    found = results(tmp_path / "out" / "found.json")
    number = autotvm.MeasureErrorNo
    for kind in ("first", "last"):
        error, costs = found[kind]
        assert error == 0 and 1 <= len(costs) <= 2 and all(0 < cost < 10 for cost in costs)
    assert {kind: found[kind][0] for kind in ("wrong", "crash", "endless")} == {
        "wrong": number.WRONG_ANSWER, "crash": number.RUNTIME_DEVICE, "endless": number.RUN_TIMEOUT}  # fmt: skip
    assert "differ" in done.stderr and "SIG" in done.stderr and "longer than 8 s" in done.stderr
    with autotvm.apply_history_best(str(tmp_path / "out" / "found.json")), tvm.target.Target("llvm"):
        task = inputs_of("llvm")[0].task
        chosen = autotvm.task.DispatchContext.current.query(task.target, task.workload)
    assert chosen["kind"].val in ("first", "last")


def test_code_that_workers_do_not_compile_is_built_all_the_same(tmp_path):
    assert write_candidates(inputs_of("c", ("first", "last")), tmp_path, MEASURE) == (2, 0)
    assert measure_files.measure_folder(str(tmp_path), timeout=120) == (2, 0, 0)
    assert [error for error, _ in results(tmp_path / "records.json").values()] == [0, 0]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.slow("starts a process that measures")
@requires_opencl
def test_a_folder_for_opencl(tmp_path, runtime_only):
    assert write_candidates(inputs_of("opencl", ("first", "wrong", "last")), tmp_path, MEASURE) == (3, 0)
    done = measured(tmp_path, runtime_only, "--timeout", 120)
    assert done.returncode == 0 and "3 candidates measured, 1 of them failed" in done.stdout, done.stderr
    found = list(autotvm.record.load_from_file(tmp_path / "records.json"))
    assert [result.error_no for _, result in found] == [0, autotvm.MeasureErrorNo.WRONG_ANSWER, 0]
    assert found[0][0].made_on["device"] == tvm.cl(0).device_name and str(found[0][0].target.kind) == "opencl"


@pytest.mark.slow("starts a process that measures on the emulator")
@needs_emulator
def test_a_folder_for_cuda_on_the_emulator(tmp_path, runtime_only):
    with cuda_emulator.building():
        assert write_candidates(inputs_of("cuda -arch=sm_80", ("first", "wrong", "last")), tmp_path, MEASURE) == (3, 0)
    environment = {**cuda_emulator.environment(), "PYTHONPATH": runtime_only["PYTHONPATH"]}
    done = measured(tmp_path, environment, "--timeout", 120)
    assert done.returncode == 0 and "3 candidates measured, 1 of them failed" in done.stdout, done.stderr
    found = list(autotvm.record.load_from_file(tmp_path / "records.json"))
    assert [result.error_no for _, result in found] == [0, autotvm.MeasureErrorNo.WRONG_ANSWER, 0]
    assert found[0][0].made_on["device"] == "Emulated GPU"


@pytest.mark.slow("starts three processes that measure")
def test_a_damaged_list_and_missing_files_are_said(tmp_path, runtime_only):
    write_candidates(inputs_of("llvm", ("first", "wrong", "last")), tmp_path, MEASURE, verify=False)
    path = tmp_path / measure_files.LIST
    rows = path.read_text().splitlines()
    away = json.loads(rows[2])
    away["file"] = "../away.so"
    shapes = json.loads(rows[2])
    shapes["args"] = [[[None], "float32"]]
    compared = {**json.loads(rows[2]), "compared": [2]}
    path.write_text("\n".join([rows[0], "{", '["a list"]', '{"file": "x.so"}', json.dumps(away), json.dumps(shapes),
                               json.dumps(compared), *rows[1:], rows[0][:40]]))  # fmt: skip
    os.unlink(tmp_path / json.loads(rows[2])["file"])
    done = measured(tmp_path, runtime_only)
    assert done.returncode == 0 and "2 candidates measured, 0 of them failed" in done.stdout, done.stderr
    for number, words in ((2, ""), (3, "not a JSON object"), (4, ""), (5, "'../away.so' is not a file "
                                                                                  "name"), (6, ""),
                          (7, "compares arguments [2]"), (10, "")):  # fmt: skip
        assert re.search(f"line {number} is skipped: .*{re.escape(words)}", done.stderr), (number, done.stderr)
    assert f"1 candidates are skipped because their files are missing ({json.loads(rows[2])['file']})" in done.stderr
    # What was not there may come later: it has no record that would keep it from being measured.
    assert set(results(tmp_path / "records.json")) == {"first", "wrong"}
    # The writer goes on behind a line that was cut.
    assert write_candidates(inputs_of("llvm", ("last",), 2 * N), tmp_path, MEASURE) == (1, 0)
    assert "1 candidates measured, 0 of them failed" in measured(tmp_path, runtime_only).stdout


def test_a_folder_for_a_device_that_is_not_there_leaves_no_records(tmp_path, runtime_only):
    write_candidates(inputs_of("llvm", ("first",)), tmp_path, MEASURE)
    path = tmp_path / measure_files.LIST
    row = json.loads(path.read_text())
    row["device"] = tvm.runtime.Device.kDLVulkan
    path.write_text(json.dumps(row) + "\n")
    done = measured(tmp_path, runtime_only)
    assert done.returncode == 1 and "does not have the device of the candidates (vulkan(0))" in done.stderr
    assert (tmp_path / "records.json").read_text() == ""
    done = measured(tmp_path / "nothing", runtime_only)
    assert done.returncode == 2 and "not a folder of candidates" in done.stderr


def _lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.slow("measures candidates in worker processes, one of which never ends")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_goes_on_where_it_was(how, tmp_path, runtime_only):
    write_candidates(inputs_of("llvm", ("first", "endless", "last")), tmp_path, MEASURE)
    process = started(runtime_only, "-m", "tvm.runtime.measure_files", tmp_path, "--timeout", "600")
    until = time.monotonic() + 120
    while not _lines_of(tmp_path / "records.json") and time.monotonic() < until:
        time.sleep(0.05)
    # The first candidate has its record; the second one never ends.
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert ("run the same command to continue" in said and "Traceback" not in said) or how == signal.SIGKILL
    assert len(_lines_of(tmp_path / "records.json")) == 1
    with open(tmp_path / "records.json", "a") as file:
        file.write('{"input": ["llvm", "cut')
    os.unlink(tmp_path / "000001.so")
    done = measured(tmp_path, runtime_only, "--timeout", 120)
    assert "1 candidates measured, 0 of them failed" in done.stdout, done.stderr
    assert len(_lines_of(tmp_path / "records.json")) == 2 and set(results(tmp_path / "records.json")) == {
        "first", "last"}  # fmt: skip
    assert "0 candidates measured" in measured(tmp_path, runtime_only).stdout


def test_a_library_damaged_on_its_way_and_outputs_that_are_not_there(tmp_path, capfd):
    write_candidates(inputs_of("llvm", ("first", "last")), tmp_path, MEASURE)
    first, last = measure_files.read_candidates(str(tmp_path))
    broken = tmp_path / first.file
    broken.write_bytes(broken.read_bytes()[:1000])
    assert first.outputs is not None and first.outputs == last.outputs
    os.unlink(tmp_path / first.outputs)
    assert measure_files.measure_folder(str(tmp_path)) == (2, 1, 0)
    assert "is missing: outputs of its task are not compared" in capfd.readouterr().err
    assert results(tmp_path / "records.json")["last"][0] == 0


def test_options_of_the_list_and_of_the_command(tmp_path, monkeypatch):
    write_candidates(inputs_of("llvm", ("first",)), tmp_path, {"number": 3, "repeat": 5, "min_repeat_ms": 7})
    asked = []

    def answer(pool, message, seconds):
        asked.append({**message, "seconds": seconds})
        return ({"exist": True, "costs": [1.0]}, bytes(4 * N) + (tmp_path / "000000.outputs").read_bytes())

    monkeypatch.setattr(measure_files, "_ask", answer)
    measure_files.measure_folder(str(tmp_path), timeout=11.0)
    os.unlink(tmp_path / "records.json")
    measure_files.measure_folder(str(tmp_path), repeat=2)
    wanted = [{"number": 3, "repeat": 5, "min_repeat_ms": 7, "seconds": 11.0},
              {"number": 3, "repeat": 2, "min_repeat_ms": 7, "seconds": 30.0}]  # fmt: skip
    runs = [row for row in asked if row["action"] == "run"]
    assert [{key: row[key] for key in wanted[0]} for row in runs] == wanted
    assert all(row["outputs"] for row in runs)


class Screen(io.StringIO):
    """A terminal, or not."""

    def __init__(self, is_terminal: bool):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_one_line_on_a_terminal_and_one_for_each_task_elsewhere(is_terminal, monkeypatch, capsys):
    def candidate(task: str) -> measure_files.Candidate:
        record = {"input": ["llvm", task, [], {}], "config": {"entity": []}}
        return measure_files.Candidate("x.so", "f", [], 1, record, {}, None, [], 2e6)

    todo = [candidate("dense"), candidate("dense"), candidate("conv")]
    screen = Screen(is_terminal)
    monkeypatch.setattr(sys, "stdout", screen)
    progress = measure_files.Progress(todo)
    progress.show(todo[0], "", [2e-3, 4e-3])
    progress.show(todo[1], "it crashed", [1e9])
    progress.show(todo[2], "", [1e-3])
    progress.end()
    said = [line.strip() for line in re.split("[\r\n]+", screen.getvalue()) if line.strip()]
    # What is left is of the time so far.
    said = [line.rpartition(";")[0] for line in said]
    dense = "dense: 2 measured, 1 failed, best 3 ms, 0.7 GFLOPS"
    wanted = ["[1/3] dense: 1 measured, best 3 ms, 0.7 GFLOPS"] if is_terminal else []
    assert said == [*wanted, f"[2/3] {dense}", "[3/3] conv: 1 measured, best 1 ms, 2.0 GFLOPS"]
    assert "x.so: it crashed" in capsys.readouterr().err


def test_no_candidate_begins_when_time_is_up(tmp_path):
    write_candidates(inputs_of("llvm", ("first", "last")), tmp_path, MEASURE)
    assert measure_files.measure_folder(str(tmp_path), seconds=-1.0) == (0, 0, 0)


def test_a_task_without_a_plain_schedule_is_not_compared(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise tvm.TVMError("it does not compile")

    monkeypatch.setattr(folder, "reference_outputs", refuse)
    assert write_candidates(inputs_of("llvm", ("first", "last")), tmp_path, MEASURE) == (2, 0)
    assert [row.outputs for row in measure_files.read_candidates(str(tmp_path))] == [None, None]
    assert caplog.text.count("will not be compared: it does not compile") == 1


def test_a_writer_that_goes_on_gives_new_names(tmp_path):
    writer = FolderWriter(tmp_path, MEASURE)
    told = []
    assert writer.write(inputs_of("llvm", ("first",)), lambda *counts: told.append(counts)) == (1, 0)
    assert FolderWriter(tmp_path, MEASURE).write(inputs_of("llvm", ("first", "last"))) == (1, 0)
    rows = measure_files.read_candidates(str(tmp_path))
    assert [row.file for row in rows] == ["000000.so", "000001.so"] and told == [(1, 0)]
    assert rows[0].flop == N and rows[0].args == [([N], "float32")] * 2
    # What a candidate only reads everybody can make again.
    assert rows[0].compared == [1] and (tmp_path / "000000.outputs").stat().st_size == 4 * N


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int32", "bool"])
def test_example_numbers_depend_on_nothing_but_the_argument(dtype):
    values = example([64, 33], dtype, 3)
    assert values.shape == (64, 33) and (values == example([64, 33], dtype, 3)).all()
    assert (values != example([64, 33], dtype, 4)).any()
    wide = values.astype("float64")
    low, high = (-1, 1) if "float" in dtype else (0, 1 if dtype == "bool" else 126)
    assert low <= wide.min() and wide.max() <= high
    assert abs(wide.mean() - (low + high) / 2) < 0.1 * (high - low)
    assert example([], "float32", 0).shape == ()


def test_numbers_are_the_same_for_ever():
    # The outputs in a folder were made from these numbers, perhaps with another version of NumPy.
    first = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # of splitmix64
    np.testing.assert_array_equal(example([3], "int32", 0), [bits % 127 for bits in first])


@pytest.mark.parametrize("name", ["package", "filename", "outputs", "nonsense"])
def test_a_list_says_how_to_measure_and_nothing_else(name):
    row = {
        "file": "x.so", "entry": "f", "args": [[[1], "float32"]], "device": 1, "measure": {"number": 2},
        "record": {"input": ["llvm", "dense", [], {}], "config": {"entity": []}},
    }  # fmt: skip
    assert measure_files.read_candidate(json.dumps(row)).measure == {"number": 2}
    row["measure"][name] = "os"
    with pytest.raises(ValueError, match=f"unknown measurement option '{name}'"):
        measure_files.read_candidate(json.dumps(row))
