"""Templates as tasks of the tuning engine; with costs and a clock that the tests make up."""

from __future__ import annotations

import collections

import pytest

import tvm
from tests.packages import XGB, XGB_KNOB, needs_xgboost
from tvm import autotvm
from tvm.autotvm.measure.measure import BuildResult, MeasureResult
from tvm.autotvm.record import load_from_file
from tvm.autotvm.search import TemplateSearch, local_measure_option, make_tuner
from tvm.testing.autotvm import DummyRunner, get_sample_task
from tvm.tuning import TuningOptions, TuningRun, events, tune
from tvm.tuning.search import first_candidates
from tvm.tuning.state import PRIOR_LEADERS

BASELINE = 7


class World:
    """A machine: ``cost(index, times)`` are the seconds of a configuration measured for the n-th time."""

    def __init__(self):
        self.now = 100.0
        self.times: collections.Counter = collections.Counter()
        self.verified: collections.Counter = collections.Counter()
        # The configuration whose results differ from the CPU's.
        self.wrong = -1
        self.cost = lambda index, times: 1e-4 if index == BASELINE else 2e-4

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def build(self, builder, inputs) -> list[BuildResult]:
        return [BuildResult(None, (), None, 0.0) for _ in inputs]

    def run(self, runner, inputs, built) -> list[MeasureResult]:
        results = []
        for inp in inputs:
            self.now += 0.05
            index = inp.config.index
            self.times[index] += 1
            if runner.verify:
                self.verified[index] += 1
            if runner.verify and index == self.wrong:
                results.append(MeasureResult((RuntimeError("other results"),), 5, 0.1, self.now))
            else:
                results.append(MeasureResult((self.cost(index, self.times[index]),), 0, 0.1, self.now))
        return results


@pytest.fixture
def world(monkeypatch) -> World:
    made = World()
    monkeypatch.setattr(autotvm.LocalBuilder, "build", lambda self, inputs: made.build(self, inputs))
    monkeypatch.setattr(autotvm.LocalRunner, "run", lambda self, inputs, built: made.run(self, inputs, built))
    return made


def a_task(size: int = 64):
    task = get_sample_task(size)[0]
    task.config_space.start = [BASELINE]
    return task


def run_of(world, tmp_path, task, tuner="random", name: str = "records.json", on_event=None, **options) -> TuningRun:
    run = TuningRun([task.start_search(tuner)], TuningOptions(str(tmp_path / name), **options), on_event, clock=world)
    run.run()
    return run


def test_compiling_uses_the_winner_of_the_final_rounds(world, tmp_path):
    """One configuration is lucky when it is first measured, another one is fast each time."""
    lucky, fast = 3, 5
    world.cost = lambda index, times: (
        1e-5 if index == lucky and times == 1 else {BASELINE: 1e-3, fast: 5e-4}.get(index, 2e-3)
    )
    task = a_task()
    run = run_of(world, tmp_path, task, "gridsearch")
    assert run.tasks[0].winner == fast
    best = autotvm.task.ApplyHistoryBest(str(tmp_path / "records.json"))
    assert best.query(task.target, task.workload).index == fast


@pytest.mark.parametrize("target", ["opencl", "llvm"])
def test_leaders_on_a_gpu_are_compared_with_the_cpu(world, tmp_path, target):
    """The fastest of all computes something else, the next is right."""
    world.wrong, right = 3, 4
    world.cost = lambda index, times: {BASELINE: 1e-3, world.wrong: 2e-4, right: 5e-4}.get(index, 2e-3)
    task, heard = a_task(), []
    task.target = tvm.target.Target(target)
    run = run_of(world, tmp_path, task, "gridsearch", on_event=heard.append)
    assert run.tasks[0].winner == (right if target == "opencl" else world.wrong)
    reasons = [event.reason for event in heard if isinstance(event, events.CandidateRejected)]
    assert reasons == (["other results"] if target == "opencl" else [])
    assert set(world.verified.values()) == ({1} if reasons else set())


@pytest.mark.parametrize("tuner", ["ga", "random", "gridsearch", XGB_KNOB])
def test_every_tuner_goes_on_where_it_stopped(world, tmp_path, tuner):
    for trials in (12, 24):
        run = run_of(world, tmp_path, a_task(), tuner, trials=trials)
    seen = collections.Counter(i.config.index for i, _ in load_from_file(tmp_path / "records.json"))
    assert run.tasks[0].trials == 24
    assert [index for index, times in seen.items() if times > 1 and index != BASELINE] == []


def test_leaders_of_prior_records_are_measured_here(world, tmp_path):
    """A configuration that was best elsewhere is found in the new records too."""
    world.cost = lambda index, times: 1e-4 if index == 5 else 1e-3 + 1e-6 * index
    run_of(world, tmp_path, a_task(), "gridsearch", "old.json")
    run = run_of(world, tmp_path, a_task(), name="new.json", trials=8, prior_records=str(tmp_path / "old.json"))
    assert run.tasks[0].winner == 5 and run.tasks[0].trials == PRIOR_LEADERS


def test_a_winner_that_is_recorded_is_known_again(world, tmp_path):
    world.cost = lambda index, times: {BASELINE: 1e-3, 9: 5e-4}.get(index, 2e-3)
    for _ in range(2):
        run = run_of(world, tmp_path, a_task(), "gridsearch", trials=20)
        assert run.tasks[0].winner == 9 and run.tasks[0].confirmed_at == 20
    assert max(world.times.values()) < 20


@needs_xgboost
def test_a_search_without_the_baseline_measures_it_last(world, tmp_path):
    search = a_task().start_search("xgb_knob", baseline_first=False)
    assert search.tuner.trials == []
    tune([search], TuningOptions(str(tmp_path / "r.json"), trials=4, baseline_first=False), clock=world)
    order = [inp.config.index for inp, _ in load_from_file(tmp_path / "r.json") if not inp.final]
    # A search may draw the baseline by itself, which is no trial of the budget.
    assert len(order) == 5 and order.count(BASELINE) == 1
    assert order[-1] == BASELINE or BASELINE in search._proposed


class Failing(autotvm.measure.Runner):
    def run(self, measure_inputs, build_results):
        number = autotvm.MeasureErrorNo.RUNTIME_DEVICE
        return [MeasureResult((OSError("the device is away"),), number, 0.0, 0.0) for _ in measure_inputs]


def test_a_task_whose_trials_fail_is_abandoned_with_the_error_in_words(world, tmp_path):
    """Rounds are shorter than what it takes to be sure: failures count over all rounds of a task."""
    option = autotvm.measure_option(autotvm.LocalBuilder(n_parallel=1), Failing(1, 1))
    heard: list[events.Event] = []
    task = get_sample_task(256)[0]
    options = TuningOptions(str(tmp_path / "r.json"), trials=81)
    found = tune([task.start_search("random", option)], options, heard.append)
    reasons = [event.reason for event in heard if isinstance(event, events.SearchAbandoned)]
    assert len(reasons) == 1 and "failed" in reasons[0] and "running failed: OSError: the device is away" in reasons[0]
    assert 32 < found[0].trials < 81 and found[0].cost is None


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_tuner_and_a_runner_of_ones_own_will_do(tmp_path, parallel):
    task, runner = get_sample_task(64)[0], DummyRunner()
    runner.n_parallel = parallel
    builder = autotvm.LocalBuilder(n_parallel=2)
    builder.build = lambda inputs: [BuildResult(None, (), None, 0.0) for _ in inputs]
    search = TemplateSearch(task, autotvm.tuner.GATuner(task, pop_size=8), autotvm.measure_option(builder, runner))
    done = tune([search], TuningOptions(str(tmp_path / "r.json"), trials=10))
    assert done[0].trials == 10 and done[0].cost is not None
    assert len([inp for inp, _ in load_from_file(tmp_path / "r.json") if not inp.final]) == 10


@pytest.mark.parametrize("tuner", [XGB, "ga", "random", "gridsearch"])
def test_candidates_are_what_a_tuner_would_measure_first(tuner):
    task, _ = get_sample_task(64)
    found = first_candidates(task.start_search(tuner), 10, [])
    start = list(task.config_space.start)
    assert len(found) == len(set(found)) == 10 and found[: len(start)] == start
    search = task.start_search(tuner)
    before = [(inp, MeasureResult((1.0,), 0, 1.0, 1.0)) for inp in search.inputs(first_candidates(search, 5, []))]
    others = first_candidates(task.start_search(tuner), 10, before)
    assert others and not set(others) & {inp.config.index for inp, _ in before}


def test_a_tuner_that_is_not_known_is_named():
    task, _ = get_sample_task(16)
    for name in ("xgboost", "xgb_rank_best", "annealing"):
        with pytest.raises(ValueError, match=f"unknown tuner '{name}'"):
            make_tuner(name, task)


def test_devices_are_measured_for_longer_than_cpus():
    targets = map(tvm.target.Target, ("llvm", "llvm -device=arm_cpu", "opencl"))
    assert [local_measure_option(target)["runner"].min_repeat_ms for target in targets] == [0, 0, 1000]
