"""Several tasks: rounds go where they promise to save most, and go on from records."""

from __future__ import annotations

import pytest

from tvm import auto_scheduler
from tvm.auto_scheduler import SearchTask, TaskScheduler, TuningOptions
from tvm.auto_scheduler.measure import MeasureResult, ProgramBuilder, ProgramRunner
from tvm.auto_scheduler.task_scheduler import LogEstimatedLatency, TaskSchedulerCallback, table
from tvm.testing import auto_scheduler as workloads

PARAMS = {"evolutionary_search_population": 48, "evolutionary_search_num_iters": 1}


class Builder(ProgramBuilder):
    def build(self, measure_inputs, verbose=1):
        return [None] * len(measure_inputs)


class Runner(ProgramRunner):
    """Task n takes ``seconds[n]``, a hundredth less with every trial."""

    def __init__(self, tasks, seconds, gains):
        self.seconds = {task.workload_key: s for task, s in zip(tasks, seconds)}
        self.gains = {task.workload_key: g for task, g in zip(tasks, gains)}

    def run(self, measure_inputs, build_results, verbose=1):
        found = []
        for inp in measure_inputs:
            key = inp.task.workload_key
            self.seconds[key] *= 1 - self.gains[key]
            found.append(MeasureResult([self.seconds[key]], 0, "", 0.1, 1))
        return found


class Turns(TaskSchedulerCallback):
    def __init__(self):
        self.before, self.after = [], []

    def pre_tune(self, task_scheduler, task_id):
        self.before.append(task_id)

    def post_tune(self, task_scheduler, task_id):
        self.after.append(task_id)


def tasks():
    return [SearchTask(func=workloads.matmul_auto_scheduler_test, args=(n, n, n), target="llvm") for n in (16, 32)] + [
        SearchTask(func=workloads.min_nm_auto_scheduler_test, args=(64, 64), target="llvm")
    ]


def options(given, seconds, trials, gains=(0.01,) * 3, log=None, **kwargs):
    return TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=2,
        verbose=0,
        builder=Builder(),
        runner=Runner(given, seconds, gains),
        measure_callbacks=[auto_scheduler.RecordToFile(log)] if log else [],
        **kwargs,
    )


def test_every_task_has_a_round_and_the_slow_one_the_rest():
    given, turns = tasks(), Turns()
    scheduler = TaskScheduler(given, callbacks=[turns])
    scheduler.tune(options(given, (0.001, 0.001, 1.0), 20), "sketch.random", PARAMS)
    assert turns.before[:4] == [-1, 0, 1, 2] and turns.after[:3] == [0, 1, 2]
    assert set(turns.after[3:]) == {2} and len(turns.after) == 10
    assert scheduler.ct == 20 and scheduler.task_cts == [1, 1, 8]
    assert scheduler.cur_score == sum(scheduler.best_costs)


def test_weights_and_objectives_decide():
    given = tasks()
    weighted = TaskScheduler(given, task_weights=[10000, 1, 1], callbacks=[])
    weighted.tune(options(given, (0.001, 0.001, 1.0), 20), "sketch.random", PARAMS)
    assert weighted.task_cts == [8, 1, 1]
    asked = TaskScheduler(given, objective_func=lambda costs: costs[1], callbacks=[])
    asked.tune(options(given, (0.001, 0.001, 1.0), 20), "sketch.random", PARAMS)
    assert asked.task_cts == [1, 8, 1]


def test_round_robin_gives_every_task_the_same():
    given = tasks()
    scheduler = TaskScheduler(given, strategy="round-robin", callbacks=[])
    scheduler.tune(options(given, (0.001, 0.001, 1.0), 24), "sketch.random", PARAMS)
    assert scheduler.task_cts == [4, 4, 4]


def test_a_run_ends_where_nothing_is_gained():
    given = tasks()
    scheduler = TaskScheduler(given, callbacks=[])
    scheduler.tune(options(given, (1.0, 1.0, 1.0), 1000, gains=(0.0,) * 3, early_stopping=8), "sketch.random", PARAMS)
    assert scheduler.ct == 6 + 8
    scheduler = TaskScheduler(given, callbacks=[])
    scheduler.tune(
        options(given, (1.0, 1.0, 1.0), 1000, gains=(0.0,) * 3), "sketch.random", PARAMS, per_task_early_stopping=4
    )
    assert scheduler.dead_tasks == {0, 1, 2} and scheduler.ct == 3 * 2 * 3


def test_a_run_goes_on_from_its_records(tmp_path):
    given, log = tasks(), str(tmp_path / "log.json")
    first = TaskScheduler(given, callbacks=[])
    first.tune(options(given, (0.1, 0.2, 0.3), 12, log=log), "sketch.random", PARAMS)
    turns = Turns()
    second = TaskScheduler(given, load_log_file=log, callbacks=[turns])
    second.tune(options(given, (9.0, 9.0, 9.0), 8, log=log), "sketch.random", PARAMS)
    assert second.best_costs == pytest.approx(first.best_costs)
    keys = [(inp.task.workload_key, inp.state.transform_steps) for inp, _ in auto_scheduler.load_records(log)]
    assert len(keys) == len(set(keys)) == 20


def test_one_model_learns_from_all_tasks():
    pytest.importorskip("xgboost")
    given = tasks()
    scheduler = TaskScheduler(given, callbacks=[])
    scheduler.tune(options(given, (0.1, 0.2, 0.3), 12), search_policy_params=PARAMS)
    models = {id(policy.program_cost_model) for policy in scheduler.search_policies}
    assert len(models) == 1 and scheduler.search_policies[0].program_cost_model.bst is not None


def test_the_table_and_the_file_of_latencies_show_all_tasks(tmp_path, capsys):
    given, path = tasks(), tmp_path / "latency.tsv"
    scheduler = TaskScheduler(given, callbacks=[LogEstimatedLatency(path), auto_scheduler.PrintTableInfo()])
    tuning = options(given, (0.1, 0.2, 0.3), 6)
    tuning.verbose = 1
    scheduler.tune(tuning, "sketch.random", PARAMS)
    assert [line.split("\t")[3] for line in path.read_text().splitlines()][:2] == ["N/A", "N/A"]
    assert float(path.read_text().splitlines()[-1].split("\t")[3]) == pytest.approx(scheduler.cur_score * 1e3, abs=1e-3)
    assert "Estimated total latency" in capsys.readouterr().out
    assert table(scheduler).count("\n") == 5


def test_what_is_not_known_is_refused():
    given = tasks()
    with pytest.raises(ValueError, match="unknown strategy 'fast'"):
        TaskScheduler(given, strategy="fast", callbacks=[])
    with pytest.raises(ValueError, match="number of weights, 1, differs from the number of tasks, 3"):
        TaskScheduler(given, [1.0], callbacks=[])
    with pytest.raises(ValueError, match="unknown search_policy 'grid'"):
        TaskScheduler(given, callbacks=[]).tune(options(given, (1, 1, 1), 9), "grid")
    with pytest.raises(ValueError, match="at least the number of tasks, 3"):
        TaskScheduler(given, callbacks=[]).tune(options(given, (1, 1, 1), 2))
