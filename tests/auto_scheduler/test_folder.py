"""States in a folder: built here, measured by what only the runtime has, and read back as Ansor's records."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.auto_scheduler.gpu_tasks import CUDA, policy_of
from tests.auto_scheduler.test_layout_rewrite import convolution
from tests.cuda_emulator.marks import needs_emulator
from tvm import auto_scheduler, te
from tvm.auto_scheduler import ComputeDAG, LayoutRewriteOption, MeasureInput, SearchTask, SketchPolicy, load_records
from tvm.auto_scheduler.choices import Row, encode_row, row_of
from tvm.auto_scheduler.folder import FolderWriter, write_candidates
from tvm.auto_scheduler.measure import MeasureErrorNo, MeasureResult
from tvm.auto_scheduler.search import UNTUNED, SketchSearch
from tvm.autotvm.measure.folder import FolderWriter as TemplateWriter
from tvm.runtime.measure import files
from tvm.testing import auto_scheduler as workloads

MEASURE = {"number": 2, "repeat": 2, "min_repeat_ms": 0}
SMALL = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1}


@auto_scheduler.register_workload
def picked_for_folder_test(n):
    x, place = te.placeholder((n,), "int32", name="X"), te.placeholder((1,), "int32", name="place")
    return [x, place, te.compute((1,), lambda i: x[place[i]], name="y")]


def matmul_task() -> SearchTask:
    return SearchTask(func=workloads.matmul_auto_scheduler_test, args=(16, 24, 20), target="llvm")


def inputs_of(task: SearchTask, count: int, **params) -> list[MeasureInput]:
    policy = SketchPolicy(task, params={**SMALL, **params}, seed=1, verbose=0)
    states = policy.sample_initial_population()[:count]
    assert len(states) == count
    return [MeasureInput(task, state) for state in states]


def test_states_that_are_measured_elsewhere_are_ordinary_records(tmp_path):
    inputs = inputs_of(matmul_task(), 3)
    assert write_candidates(inputs, tmp_path, MEASURE) == (3, 0)
    assert write_candidates(inputs, tmp_path, MEASURE) == (0, 0), "what is there is not built again"
    rows = files.read_candidates(str(tmp_path))
    assert rows[0].compared == [2] and rows[0].outputs == rows[2].outputs and rows[0].measure == MEASURE
    # One that computes something else is found by its results.
    (tmp_path / rows[0].file).write_bytes((tmp_path / rows[1].file).read_bytes())
    listed = [json.loads(line) for line in (tmp_path / files.LIST).read_text().splitlines()]
    listed[1]["outputs"] = "other.outputs"
    (tmp_path / "other.outputs").write_bytes(np.full(16 * 24, 7, "float32").tobytes())
    (tmp_path / files.LIST).write_text("".join(json.dumps(row) + "\n" for row in listed))
    assert files.measure_folder(str(tmp_path), timeout=120) == (3, 1, 0)
    found = load_records(tmp_path / "records.json")
    assert [res.error_no for _, res in found] == [0, MeasureErrorNo.WRONG_ANSWER, 0]
    assert [inp.state.transform_steps for inp, _ in found] == [inp.state.transform_steps for inp in inputs]
    assert found[1][1].costs == (1e10,) and found[0][1].timestamp > 0
    assert files.measure_folder(str(tmp_path)) == (0, 0, 0)
    best, _ = auto_scheduler.load_best_record(tmp_path / "records.json", inputs[0].task.workload_key)
    assert best is not None and best.state.transform_steps in {inputs[n].state.transform_steps for n in (0, 2)}


def test_constants_in_the_order_of_a_schedule(tmp_path):
    tensors, _ = convolution()
    dag = ComputeDAG(tensors)
    task = SearchTask(
        compute_dag=dag,
        workload_key=dag.workload_key(),
        target="llvm",
        layout_rewrite_option=LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED,
    )
    assert write_candidates(inputs_of(task, 3), tmp_path, MEASURE) == (3, 0)
    rows = files.read_candidates(str(tmp_path))
    assert all(row.args == rows[0].args for row in rows) and any(row.shapes for row in rows)
    assert files.measure_folder(str(tmp_path), timeout=120) == (3, 0, 0)


def test_orders_of_one_shape_are_compared_with_results_of_their_own(tmp_path):
    x, w = te.placeholder((4, 3, 3), name="X"), te.placeholder((8, 3, 3), name="W")
    a, b = te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    y = te.compute(
        (4, 8),
        lambda i, j: te.sum(x[i, a, b] * w[j, a, b], axis=[a, b]),
        name="Y",
        attrs={"layout_free_placeholders": [w]},
    )
    dag = ComputeDAG([x, w, y])
    task = SearchTask(
        compute_dag=dag,
        workload_key=dag.workload_key(),
        target="llvm",
        layout_rewrite_option=LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED,
    )
    found: dict[tuple, dict[str, MeasureInput]] = {}
    for inp in inputs_of(task, 24, evolutionary_search_population=64):
        key = dag.layouts_key(inp.state, task.layout_rewrite_option)
        _, args = dag.apply_steps_from_state(inp.state, task.layout_rewrite_option)
        found.setdefault(tuple(int(d) for d in args[1].shape), {})[key] = inp
    orders = max(found.values(), key=len)
    assert len(orders) > 1
    assert write_candidates(list(orders.values())[:1], tmp_path, MEASURE) == (1, 0)
    assert write_candidates(orders.values(), tmp_path, MEASURE) == (len(orders) - 1, 0), "of a folder that is there"
    rows = files.read_candidates(str(tmp_path))
    assert len({row.outputs for row in rows}) == len(rows) and {row.layouts for row in rows} == set(orders)
    assert files.measure_folder(str(tmp_path), timeout=120) == (len(orders), 0, 0)
    assert dag.layouts_key(inp.state, LayoutRewriteOption.NO_REWRITE) == ""


def test_the_times_of_several_kernels_are_added(tmp_path, monkeypatch):
    task = matmul_task()
    dag = task.compute_dag
    plain = [lambda: dag.apply_steps_from_state(dag.init_state)] * 2
    search = SketchSearch(task, SketchPolicy(task, params=SMALL, verbose=0), untuned=plain)
    assert FolderWriter(tmp_path, MEASURE).write_search(search, [UNTUNED, *search.propose(1)]) == (2, 0)
    first, second = files.read_candidates(str(tmp_path))
    assert len(first.files) == 2 and first.outputs is None and len(second.files) == 1 and second.outputs
    assert len({*first.files, *second.files}) == 3 and FolderWriter(tmp_path).folder.number == 3
    asked = []

    def answer(pool, message, seconds):
        asked.append(message)
        return {"exist": True, "costs": [2.0, 3.0]}, bytes(4 * 16 * 20 + 4 * 20 * 24) + wanted

    wanted = (tmp_path / str(second.outputs)).read_bytes()
    monkeypatch.setattr(files, "_ask", answer)
    assert files.measure_folder(str(tmp_path)) == (2, 0, 0)
    untuned, state = (row_of(line + "\n") for line in (tmp_path / "records.json").read_text().splitlines())
    assert untuned is not None and untuned.state is None and untuned.result.costs == (4.0, 6.0) and not untuned.final
    assert state is not None and state.state is not None and state.result.costs == (2.0, 3.0)
    # A part is not held to the time of whole candidates; the state after them is.
    assert [message.get("best") for message in asked if message["action"] == "run"] == [None, None, 5.0]
    assert files.measure_folder(str(tmp_path)) == (0, 0, 0), "the comment is a record too"
    (tmp_path / first.files[1]).unlink()
    (tmp_path / "records.json").unlink()
    assert files.measure_folder(str(tmp_path)) == (1, 0, 1)


def test_what_a_folder_cannot_hold_is_refused(tmp_path):
    place = tvm.nd.array(np.zeros(1, "int32"))
    task = SearchTask(func=picked_for_folder_test, args=(12,), target="llvm", task_inputs={"place": place})
    with pytest.raises(tvm.TVMError, match="cannot be stored in a folder of candidates"):
        write_candidates([MeasureInput(task, task.compute_dag.init_state)], tmp_path)
    with pytest.raises(tvm.TVMError, match="must use the default build_func"):
        FolderWriter(tmp_path, builder=auto_scheduler.LocalBuilder(build_func=lambda output, files: None))
    write_candidates(inputs_of(matmul_task(), 1), tmp_path, MEASURE, verify=False)
    with pytest.raises(tvm.TVMError, match="contains candidates found by search; use a separate folder"):
        TemplateWriter(tmp_path)
    line = (tmp_path / files.LIST).read_text()
    with pytest.raises(ValueError, match="do not match the shapes"):
        files.read_candidate(json.dumps({**json.loads(line), "shapes": [[1], [2], [3]]}))
    with pytest.raises(ValueError, match="'../x.so' is not a file name without a folder"):
        files.read_candidate(json.dumps({**json.loads(line), "more": [{"file": "../x.so", "args": []}]}))


def test_a_state_that_does_not_build_has_its_record_at_once(tmp_path):
    task = matmul_task()
    state = task.compute_dag.get_init_state()
    state.bind(task.compute_dag.tensors[2], state[task.compute_dag.tensors[2]].iters[0], "threadIdx.x")
    assert write_candidates([MeasureInput(task, state)], tmp_path) == (0, 1)
    ((_, result),) = load_records(tmp_path / "records.json")
    assert result.error_no in (MeasureErrorNo.INSTANTIATION_ERROR, MeasureErrorNo.COMPILE_HOST)


def test_lines_of_the_folder_are_those_of_the_search():
    task = matmul_task()
    for state in (None, task.compute_dag.init_state):
        row = Row(task, state, MeasureResult([0.5], 0, "", 1.5, 7.0))
        record = json.loads(encode_row(row).removeprefix("# "))
        read = files.format_of(record).line(record, [0.5], 0, 1.5, 7.0)
        assert read == encode_row(row)


@needs_emulator
@pytest.mark.slow("builds and measures candidates in worker processes")
def test_states_for_a_gpu_travel_too(tmp_path):
    policy = policy_of(workloads.matmul_auto_scheduler_test, (24, 40, 36), CUDA)
    states = policy.sample_initial_population()[:2]
    with cuda_emulator.building():
        inputs = [MeasureInput(policy.search_task, state) for state in states]
        assert write_candidates(inputs, tmp_path, MEASURE) == (2, 0)
    command = [sys.executable, "-m", "tvm.runtime.measure_files", str(tmp_path), "--timeout", "300"]
    done = subprocess.run(command, env=cuda_emulator.environment(), capture_output=True, text=True, timeout=600)
    assert "2 candidates measured, 0 of them failed" in done.stdout, done.stderr
    assert [result.error_no for _, result in load_records(tmp_path / "records.json")] == [0, 0]
