"""Where trials go, how long a run takes, and who is crowned; with costs and a clock that the tests make up."""

from __future__ import annotations

import collections
import types

import pytest

import tvm
from tvm import autotvm
from tvm.autotvm.measure.measure import BuildResult, MeasureResult
from tvm.autotvm.record import load_from_file
from tvm.driver.tvmc import tuning
from tvm.driver.tvmc.tuning import MANY_TRIALS, Run, Settings
from tvm.driver.tvmc.whole_model import Comparison
from tvm.testing.autotvm import get_sample_task

UNTUNED = 7


class World:
    """A machine: ``cost(size, index, times)`` are the seconds of a configuration measured for the n-th time."""

    def __init__(self):
        self.now = 100.0
        self.seconds_to_run = 0.05
        self.seconds_to_build = 0.1
        self.times: collections.Counter = collections.Counter()
        self.verified: collections.Counter = collections.Counter()
        # The configuration whose results differ from the CPU's.
        self.wrong = -1
        self.cost = lambda size, index, times: size * (1e-6 if index == UNTUNED else 2e-6)

    def build(self, builder, inputs) -> list[BuildResult]:
        self.now += self.seconds_to_build * len(inputs)
        return [BuildResult(None, (), None, 0.0) for _ in inputs]

    def run(self, runner, inputs, built) -> list[MeasureResult]:
        results = []
        for inp in inputs:
            self.now += self.seconds_to_run
            key = (inp.task.args[0], inp.config.index)
            self.times[key] += 1
            if runner.verify:
                self.verified[key] += 1
                if inp.config.index == self.wrong:
                    results.append(MeasureResult((RuntimeError("other results"),), 5, 0.1, self.now))
                    continue
            results.append(MeasureResult((self.cost(*key, self.times[key]),), 0, 0.1, self.now))
        return results


@pytest.fixture
def world(monkeypatch) -> World:
    made = World()
    monkeypatch.setattr(autotvm.LocalBuilder, "build", lambda self, inputs: made.build(self, inputs))
    monkeypatch.setattr(autotvm.LocalRunner, "run", lambda self, inputs, built: made.run(self, inputs, built))
    monkeypatch.setattr(tuning, "time", types.SimpleNamespace(monotonic=lambda: made.now, time=lambda: made.now))
    monkeypatch.setattr(tuning, "_machine", lambda tasks: None)
    return made


def a_task(size: int, count: int = 1):
    task = get_sample_task(size)[0]
    task.config_space.start = [UNTUNED]
    task.count = count
    return task


def tune(tmp_path, tasks, name: str = "records.json", model=None, **options) -> Run:
    values = {
        "records": str(tmp_path / name), "prior_records": None, "trials": MANY_TRIALS, "seconds": None,
        "early_stopping": None, "tuner": "random", "number": 1, "repeat": 1, "min_repeat_ms": 0, "timeout": 10,
        "analytic_start": True, "begin": tuning.time.monotonic(), **options}
    run = Run(tasks, Settings(**values), tuning.Interrupts(), model)
    run.go()
    return run


def test_trials_go_where_the_time_is(world, tmp_path):
    run = tune(tmp_path, [a_task(64), a_task(512), a_task(128, count=2)], trials=90)
    small, large, middle = (w.tuned for w in run.work)
    assert small + large + middle == 90
    assert large > middle > small >= tuning.SHORT_TURN


def test_first_turns_of_rare_tasks_are_short_and_of_all_take_half_at_most(world, tmp_path):
    run = tune(tmp_path, [a_task(64), a_task(2048)], trials=1)
    for work in run.work:
        work.tuned = 0
    run.settings = run.settings._replace(trials=200)
    turns = {work.number: trials for work, trials in run._first_turns()}
    assert turns == {0: tuning.SHORT_TURN, 1: tuning.TURN}


def test_first_turns_leave_time_for_more(world, tmp_path):
    """Sixteen tasks that take as long each, and a minute: everyone is tried in half of what is there for trials."""
    world.cost = lambda size, index, times: 1e-3
    world.seconds_to_build, world.seconds_to_run = 0.07, 0.03
    run = tune(tmp_path, [a_task(512) for _ in range(16)], trials=1)
    for work in run.work:
        work.tuned = 0
    run.settings, run.deadline = run.settings._replace(trials=MANY_TRIALS, seconds=60.0), world.now + 60.0
    turns = [trials for _, trials in run._first_turns()]
    assert len(turns) == 16 and 160 <= sum(turns) <= 300


def test_few_trials_are_divided_evenly(world, tmp_path):
    run = tune(tmp_path, [a_task(64), a_task(512), a_task(128)], trials=6)
    assert [w.tuned for w in run.work] == [2, 2, 2]


def test_gains_bring_more_turns(world, tmp_path):
    """Two tasks take as long; one gets a little faster with every trial."""
    world.cost = lambda size, index, times: (
        1e-3 if size == 512 or index == UNTUNED else 1e-3 * 0.998 ** sum(world.times.values()))
    run = tune(tmp_path, [a_task(512), a_task(4096)], trials=180)
    assert sum(w.tuned for w in run.work) == 180
    assert run.work[1].tuned > run.work[0].tuned + tuning.TURN


@pytest.mark.parametrize("seconds", [10.0, 30.0, 120.0])
def test_a_time_budget_is_kept(world, tmp_path, seconds):
    world.cost = lambda size, index, times: (
        size * 1e-6 * (1 + 0.5 * (index % 17) / 17) * (1.2 if index == UNTUNED else 1))
    world.seconds_to_build, world.seconds_to_run, begin = 0.2, 0.1, world.now
    run = tune(tmp_path, [a_task(n) for n in (512, 1024, 2048, 4096)], seconds=seconds)
    # A crowning that has begun is finished.
    assert seconds * 0.7 < world.now - begin < seconds + tuning.GRACE + 2.0
    assert all(w.winner is not None for w in run.work if tuning._needs_crown(w))


@pytest.mark.parametrize("true_gain, wins", [(0.0, False), (0.015, False), (0.1, True), (-0.2, False)])
def test_only_a_real_gain_replaces_the_choice_without_tuning(world, tmp_path, true_gain, wins):
    """One configuration is lucky when it is first measured; side by side it is as fast as it really is."""
    lucky = 3

    def cost(size: int, index: int, times: int) -> float:
        if index == UNTUNED:
            return 1e-3
        return 5e-4 if times == 1 and index == lucky else 1e-3 * (1 - true_gain) if index == lucky else 2e-3

    world.cost = cost
    run = tune(tmp_path, [a_task(64)], trials=len(a_task(64).config_space) - 1, tuner="gridsearch")
    work = run.work[0]
    assert work.winner == (lucky if wins else UNTUNED)
    assert work.cost <= work.untuned
    best = autotvm.task.ApplyHistoryBest(str(tmp_path / "records.json"))
    assert best.query(work.task.target, work.task.workload).index == work.winner


@pytest.mark.parametrize("target", ["opencl", "llvm"])
def test_leaders_on_a_gpu_are_compared_with_the_cpu(world, tmp_path, capsys, target):
    """The fastest of all computes something else, the next is right."""
    world.wrong, right = 3, 4
    world.cost = lambda size, index, times: {UNTUNED: 1e-3, world.wrong: 2e-4, right: 5e-4}.get(index, 2e-3)
    task = a_task(64)
    task.target = tvm.target.Target(target)
    run = tune(tmp_path, [task], trials=len(task.config_space) - 1, tuner="gridsearch")
    assert run.work[0].winner == (right if target == "opencl" else world.wrong)
    said = [line for line in capsys.readouterr().out.splitlines() if "left out: other results" in line]
    assert len(said) == (target == "opencl") and set(world.verified.values()) == ({1} if said else set())


def test_a_gain_that_nobody_had_time_to_confirm_is_not_used(world, tmp_path):
    world.cost = lambda size, index, times: 1e-3 if index == UNTUNED else 0.95e-3 if times == 1 else 3e-3
    world.seconds_to_run = 5.0
    run = tune(tmp_path, [a_task(n) for n in (64, 128, 256)], seconds=60.0)
    confirmed = [w for w in run.work if w.tuned]
    assert confirmed and all(w.winner == UNTUNED for w in confirmed)


def test_early_stopping_counts_trials_without_gain(world, tmp_path):
    run = tune(tmp_path, [a_task(64), a_task(128)], early_stopping=5)
    assert [w.tuned for w in run.work] == [5, 5]


def test_a_run_goes_on_and_measures_nothing_again(world, tmp_path, capsys):
    tasks = [a_task(64), a_task(128)]
    first = tune(tmp_path, tasks, trials=20)
    capsys.readouterr()
    again = tune(tmp_path, tasks, trials=20)
    assert "22 records found, going on; all trials are spent" in capsys.readouterr().out
    assert [w.tuned for w in again.work] == [w.tuned for w in first.work]
    assert max(world.times.values()) == 1
    more = tune(tmp_path, tasks, trials=30)
    assert sum(w.tuned for w in more.work) == 30 and max(world.times.values()) == 1
    assert "22 records found, going on\n" in capsys.readouterr().out


def test_a_run_with_a_file_of_its_own_choice_makes_all_its_trials(world, tmp_path):
    for trials in (12, 24):
        run = tune(tmp_path, [a_task(64)], trials=12, resumes=False)
        assert run.work[0].tuned == trials and max(world.times.values()) == 1


def test_tasks_have_the_numbers_of_the_list(world, tmp_path, capsys):
    tasks = [a_task(64), a_task(128)]
    tasks[0].number, tasks[1].number = 5, 7
    run = tune(tmp_path, tasks, trials=8)
    shown = capsys.readouterr().out
    assert "[Task  5/ 2]" in shown and "[Task  7/ 2]" in shown
    assert [w.number for w in run.work] == [5, 7] and "\n  5 matmul" in shown.replace("testing/", "")


@pytest.mark.parametrize("tuner", ["ga", "random", "gridsearch", "xgb_knob"])
def test_every_tuner_goes_on_where_it_stopped(world, tmp_path, tuner):
    task = a_task(64)
    for trials in (12, 24):
        run = tune(tmp_path, [task], trials=trials, tuner=tuner)
    seen = collections.Counter(i.config.index for i, _ in load_from_file(tmp_path / "records.json"))
    assert run.work[0].tuned == 24
    assert [index for index, times in seen.items() if times > 1 and index != UNTUNED] == []


def test_leaders_of_prior_records_are_measured_here(world, tmp_path):
    """A configuration that was best elsewhere is found in the new records too."""
    world.cost = lambda size, index, times: 1e-4 if index == 5 else 1e-3 + 1e-6 * index
    tune(tmp_path, [a_task(64)], "old.json", trials=len(a_task(64).config_space), tuner="gridsearch")
    run = tune(tmp_path, [a_task(64)], "new.json", trials=8, prior_records=str(tmp_path / "old.json"))
    assert run.work[0].winner == 5 and run.work[0].tuned == tuning.PRIOR_LEADERS


def test_each_trial_is_written_before_the_next_begins(world, tmp_path, monkeypatch):
    """What ends a run in the middle of a batch costs no measurement."""
    done = []

    def run_and_stop(runner, inputs, built):
        if len(done) == 11:
            raise KeyboardInterrupt
        done.extend(inputs)
        return world.run(runner, inputs, built)

    monkeypatch.setattr(autotvm.LocalRunner, "run", run_and_stop)
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path, [a_task(64)], trials=32)
    assert len(list(load_from_file(tmp_path / "records.json"))) == 11


class Model:
    """A model that takes so much of its untuned time with each choice of records."""

    def __init__(self, *ratios: float):
        self.ratios, self.asked = ratios, []

    def compare(self, choices):
        self.asked = [[inp.config.index for inp, _ in choice] for choice in choices]
        return Comparison(0.01, list(self.ratios[: len(choices)]))


def a_gain(size, index, times):
    """The larger task gains a lot by tuning, the smaller one a little."""
    return size * (1e-6 if index == UNTUNED else 0.5e-6 if size == 512 else 0.97e-6)


def whole(tmp_path, world, model, capsys) -> tuple[list[bool], str]:
    """Which tasks are compiled tuned in the end, and what was said."""
    world.cost = a_gain
    run = tune(tmp_path, [a_task(64), a_task(512)], trials=20, model=model)
    finals = {}
    for inp, result in load_from_file(run.settings.records):
        key = inp.task.args[0]
        if inp.final and (key not in finals or result.timestamp >= finals[key][1]):
            finals[key] = (inp.config.index, result.timestamp)
    assert [w.choice for w in run.work] == [finals[64][0], finals[512][0]]
    return [finals[size][0] != UNTUNED for size in (64, 512)], capsys.readouterr().out


def test_what_was_found_is_used_where_the_whole_model_is_faster(world, tmp_path, capsys):
    model = Model(0.8, 0.9)
    used, said = whole(tmp_path, world, model, capsys)
    assert used == [True, True] and [len(choice) for choice in model.asked] == [2, 1]
    assert "The whole model: 10.000 ms untuned, 8.000 ms tuned (1.25x)\n" in said


def test_a_model_that_is_not_faster_as_a_whole_keeps_the_code_without_tuning(world, tmp_path, capsys):
    used, said = whole(tmp_path, world, Model(1.01, 0.995), capsys)
    assert used == [False, False]
    assert "the records keep the code without tuning" in said


def test_small_gains_are_left_out_where_the_model_is_faster_without_them(world, tmp_path, capsys):
    used, said = whole(tmp_path, world, Model(0.97, 0.9), capsys)
    assert used == [False, True]
    assert "of 2 tasks only the 1 with a clear gain are used" in said


def test_a_short_time_budget_is_not_spent_on_the_whole_model(world, tmp_path):
    model = Model(2.0)
    world.cost = a_gain
    run = tune(tmp_path, [a_task(512)], seconds=5.0, model=model)
    assert not model.asked and run.work[0].choice != UNTUNED
    run = tune(tmp_path, [a_task(512)], name="longer.json", seconds=100.0, model=model)
    assert model.asked and run.work[0].choice == UNTUNED
    assert run.elapsed < 100.0


def test_a_search_without_the_analytic_start_measures_it_last(world, tmp_path):
    run = tune(tmp_path, [a_task(512)], trials=8, analytic_start=False)
    order = [inp.config.index for inp, _ in load_from_file(run.settings.records) if not inp.final]
    assert UNTUNED not in order[:8] and order[8:] == [UNTUNED]
