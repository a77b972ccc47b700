"""Records: Ansor's lines are written, read, resumed and compared, of every version."""

from __future__ import annotations

import importlib.util
import json

import pytest

import tvm
from tests.auto_scheduler.programs import assert_computes_the_same
from tvm import auto_scheduler
from tvm.auto_scheduler import measure_record, steps
from tvm.auto_scheduler.measure import MeasureInput, MeasureResult, recover_measure_input
from tvm.testing import auto_scheduler as workloads

KEY = '["matmul_auto_scheduler_test", 16, 16, 16]'
# As logs of these versions have them: the task ends sooner in the earlier ones, and targets have flags of their time.
OLD_LINES = {
    "v0.2": {
        "i": [[KEY, "llvm"], [[], [["SP", 2, 0, 16, [4], 1], ["AN", 2, 0, 3]]]],
        "r": [[0.001], 0, 0.5, 1606960401],
        "v": "v0.2",
    },
    "v0.3": {
        "i": [
            [KEY, "llvm -keys=cpu -link-params=0", [4, 64, 64, 0, 0, 0, 0, 0]],
            [[], [["CHW", 2, "local"], ["CA", 2, 3, 0], ["PR", 2, 0, "auto_unroll_max_step$16"]]],
        ],
        "r": [[0.002, 0.004], 0, 0.5, 1611093265],
        "v": "v0.3",
    },
    "v0.4": {
        "i": [
            [KEY, "llvm -keys=cpu -link-params=0", [4, 64, 64, 0, 0, 0, 0, 0], "llvm"],
            [[], [["SP", 2, 1, 16, [8], 1], ["AN", 2, 2, 2]]],
        ],
        "r": [[0.005], 0, 0.5, 1614000000],
        "v": "v0.4",
    },
    "v0.5": {
        "i": [
            [
                KEY,
                "cuda -keys=cuda,gpu -max_num_threads=1024 -thread_warp_size=32",
                [-1, 16, 64, 49152, 65536, 1024, 8, 32],
                "",
                1,
            ],
            [[], [["AN", 2, 0, 5], ["AN", 2, 1, 6]]],
        ],
        "r": [[0.0001], 0, 0.5, 1617000000],
        "v": "v0.5",
    },
    "v0.6": {
        "i": [[KEY, "llvm -keys=cpu -link-params=0", [4, 64, 64, 0, 0, 0, 0, 0], "", 2, ["input"]], [[], [["CI", 2]]]],
        "r": [[1e10], 2, 0.5, 1627000000],
        "v": "v0.6",
    },
}


@pytest.fixture
def log(tmp_path):
    """A file of old records, a comment first."""
    path = tmp_path / "old.json"
    lines = [json.dumps(line) for line in OLD_LINES.values()]
    path.write_text("\n".join(["# Keep a valid schedule", *lines, " an indented line", ""]))
    return str(path)


def task(n: int = 16) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(func=workloads.matmul_auto_scheduler_test, args=(n, n, n), target="llvm")


def state_of(search_task, *lines):
    return search_task.compute_dag.state_of([steps.from_json(line) for line in lines])


def test_old_logs_load(log):
    records = auto_scheduler.load_records(log)
    assert [res.error_no for _, res in records] == [0, 0, 0, 0, 2]
    assert [inp.task.hardware_params.num_cores for inp, _ in records] == [0, 4, 4, -1, 4]
    assert [inp.task.layout_rewrite_option for inp, _ in records] == [0, 0, 0, 1, 2]
    assert [inp.task.task_input_names for inp, _ in records] == [(), (), (), (), ("input",)]
    assert records[1][1].mean_cost == 0.003
    assert [v.value for v in records[1][1].costs] == [0.002, 0.004]
    for inp, _ in records[:3]:
        assert_computes_the_same(inp.task.compute_dag, inp.state)


def test_old_records_are_written_again_as_the_present_version(log):
    for (inp, res), old in zip(auto_scheduler.load_records(log), OLD_LINES.values()):
        row = json.loads(measure_record.dump_record_to_string(inp, res))
        assert list(row) == ["i", "r", "v"] and row["v"] == "v0.6"
        assert row["i"][1] == old["i"][1] and row["r"] == old["r"]
        assert row["i"][0][:2] == old["i"][0][:2] and len(row["i"][0]) == 6


def test_saved_records_come_back_as_they_were(tmp_path):
    path, search_task = str(tmp_path / "log.json"), task()
    steps = ["CHW", 2, "local"], ["SP", 3, 0, 16, [4, 2], 1], ["FSP", 2, 0, 1, 2], ["CA", 2, 3, 1]
    state = state_of(search_task, *steps)
    auto_scheduler.save_records(
        path, [MeasureInput(search_task, state)], [MeasureResult([0.25, 0.5], 0, "", 1.5, 1700000000.75)]
    )
    inputs, results = auto_scheduler.RecordReader(path).read_lines()
    assert inputs[0].state.transform_steps == state.transform_steps
    assert (results[0].costs, results[0].all_cost, results[0].timestamp) == ((0.25, 0.5), 1.5, 1700000000)
    dag = search_task.compute_dag
    assert dag.infer_bound_from_state(inputs[0].state) == dag.infer_bound_from_state(state)
    assert dag.infer_bound_from_state(state) != dag.get_init_state()
    recovered = recover_measure_input(inputs[0], rebuild_state=True)
    assert len(recovered.state.stages) == 4
    assert inputs[0].task.workload_key == recovered.task.workload_key
    line = measure_record.dump_record_to_string(inputs[0], results[0])
    assert line == open(path).read().rstrip("\n")


def test_lines_are_read_in_parts(log):
    reader = auto_scheduler.RecordReader(log)
    assert len(list(reader)) == len(list(reader)) == len(OLD_LINES)
    inputs, results = reader.read_lines(max_lines=2, skip_lines=1)
    assert [res.timestamp for res in results] == [1611093265, 1614000000] and len(inputs) == 2
    reader.check_workload_key(inputs)
    unknown, _ = measure_record.load_record_from_string(
        json.dumps({**OLD_LINES["v0.2"], "i": [['["a registered function nobody has", 1]', "llvm"], [[], []]]})
    )
    with pytest.raises(tvm.TVMError, match="'a registered function nobody has' is not registered"):
        reader.check_workload_key([unknown])


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("{", "a record must be a JSON object"),
        ('{"input": [], "config": {}, "result": [], "version": 0.2}', "must have the keys i, r and v"),
        ('{"i": [["k", "llvm"], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6", "x": 1}', "must have the keys i, r and v"),
        ('{"i": [["k"], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6"}', "a task must be a list"),
        ('{"i": [["k", "llvm"], [[], [["XX"]]]], "r": [[1], 0, 1, 1], "v": "v0.6"}', "a step of a record"),
        ('{"i": [["k", "llvm"], [[], []]], "r": [[1], 0], "v": "v0.6"}', "invalid field in a record"),
    ],
)
def test_what_is_no_record_is_refused_with_its_line(line, complaint, tmp_path):
    with pytest.raises(tvm.TVMError, match=complaint):
        measure_record.load_record_from_string(line)
    path = tmp_path / "log.json"
    path.write_text(f"# first\n{line}\n")
    with pytest.raises(tvm.TVMError, match="line 2|step"):
        auto_scheduler.load_records(path)
    with pytest.raises(tvm.TVMError, match="does not exist"):
        auto_scheduler.load_records(tmp_path / "none.json")


def test_a_last_line_that_a_crash_cut_short_is_left_out_and_taken_away_by_the_next_record(log, tmp_path):
    path = tmp_path / "cut.json"
    whole = json.dumps(OLD_LINES["v0.2"])
    path.write_text(f"{whole}\n{whole[:50]}")
    assert len(auto_scheduler.load_records(path)) == 1
    (inp, res), *_ = auto_scheduler.load_records(path)
    auto_scheduler.RecordToFile(path).callback(None, [inp], [res])
    assert len(auto_scheduler.load_records(path)) == 2
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_record_file_that_cannot_be_written_is_found_out_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tvm.TVMError, match="cannot write tuning records to"):
        auto_scheduler.RecordToFile(str(tmp_path / "file" / "log.json"))


def test_the_best_record_is_the_fastest_that_ran_for_the_kind_of_target(log):
    inp, res = auto_scheduler.load_best_record(log, KEY, "llvm")
    assert res.mean_cost == 0.001
    assert auto_scheduler.load_best_record(log)[1].mean_cost == 0.0001
    assert auto_scheduler.load_best_record(log, '["matmul_auto_scheduler_test", 32, 32, 32]', "llvm") == (None, None)
    inp, res = auto_scheduler.load_best_record(
        log, '["matmul_auto_scheduler_test", 32, 32, 32]', "llvm", include_compatible=True
    )
    assert res.mean_cost == 0.001
    assert auto_scheduler.load_best_record(log, '["other", 16, 16, 16]', "llvm", True) == (None, None)


def test_a_record_of_a_machine_that_is_not_known_here_is_still_read():
    line = {**OLD_LINES["v0.2"], "i": [[KEY, "strange -keys=cpu"], [[], []]]}
    inp, _ = measure_record.load_record_from_string(json.dumps(line))
    assert inp.task.target_kind == "strange"
    with pytest.raises(ValueError, match="strange"):
        inp.task.target


def test_the_best_of_each_workload_is_kept(log, tmp_path):
    out = tmp_path / "best.json"
    measure_record.distill_record_file(log, out)
    measure_record.distill_record_file(log, out)
    costs = [res.mean_cost for _, res in auto_scheduler.load_records(out)]
    assert costs == [0.001, 0.003, 0.0001]


def test_contexts_give_the_best_state_and_ask_the_one_outside(log, tmp_path, caplog):
    other = '["matmul_auto_scheduler_test", 32, 32, 32]'
    dag = task().compute_dag
    with auto_scheduler.ApplyHistoryBest(log) as context:
        assert auto_scheduler.DispatchContext.current is context
        assert context.query("llvm", KEY, True, dag, "matmul").transform_steps[0].code == "SP"
        assert context.query("cuda", KEY, True, dag, "matmul").transform_steps[0].code == "AN"
        assert context.query("llvm", other, True, dag, "matmul") is None
        assert "there is no schedule for matmul" in caplog.text
        with auto_scheduler.ApplyHistoryBest([]) as inner:
            assert inner.query("llvm", KEY, True, dag, "matmul") is not None
            inner.update("llvm", KEY, dag.get_init_state())
            assert inner.query("llvm", KEY, True, dag, "matmul").transform_steps == ()
    with auto_scheduler.ApplyHistoryBest([log], include_compatible=True) as context:
        assert context.query("llvm", other, True, dag, "matmul").transform_steps[0].code == "SP"
    with auto_scheduler.ApplyHistoryBest(auto_scheduler.load_records(log), n_lines=0) as context:
        assert context.best == {}


def test_the_killer_of_tuners_counts_no_record_that_it_cut(tmp_path, root):
    spec = importlib.util.spec_from_file_location("fuzz_tune", root / "tools" / "fuzz_tune.py")
    fuzz_tune = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz_tune)
    run = fuzz_tune.Fuzz(tmp_path, 0, "auto_scheduler")
    run.records.write_text("".join(json.dumps(OLD_LINES[name]) + "\n" for name in ("v0.2", "v0.3", "v0.4")))
    run.check_records()
    assert run.measured == 3
    run.cut()
    assert run.measured == 2 and len(run.whole.splitlines()) == 2
    # The next record of a search takes the place of what was cut.
    measure_record.RecordToFile(run.records)._file.append([json.dumps(OLD_LINES["v0.6"])])
    run.check_records()
    assert run.measured == 3
