"""Where trials go, how long a run takes, and what its records name; with tasks and a clock that the tests make up."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

import tvm
from tests.tuning.fake import BASELINE, RECORDS, FakeRecords, FakeSearch, start, tune
from tvm.error import TVMError
from tvm.tuning import Outcome, TuningOptions, confirm, engine, state
from tvm.tuning.budget import Budget
from tvm.tuning.model import Comparison


def rows_of(tmp_path, name: str = "records.json"):
    """(size, key, final) of the records of a file."""
    return [(row[0], row[1], row[6]) for row in RECORDS.load(tmp_path / name)[0]]


def test_the_engine_needs_neither_schedules_nor_templates():
    code = "import sys, tvm.tuning; print([m for m in ('tvm.autotvm', 'tvm.codegen', 'tvm.te') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


# -- where trials go ---------------------------------------------------------------------------------------------------


def test_trials_go_where_the_time_is(world, tmp_path):
    searches = [FakeSearch(world, 64), FakeSearch(world, 512), FakeSearch(world, 128, count=2)]
    small, large, middle = (task.trials for task in tune(world, tmp_path, searches, trials=90).tasks)
    assert small + large + middle == 90
    assert large > middle > small >= engine.SHORT_ROUND_TRIALS


def first_rounds(world, tmp_path, searches, **options) -> dict[int, int]:
    """By the place of its task, the length of each first round; the baselines are measured."""
    run = start(world, tmp_path, searches, **options)
    run._measure_baselines()
    run.budget = Budget(run.options, world)
    return {task.index: trials for task, trials in run._first_rounds()}


def test_first_rounds_of_rare_tasks_are_short_and_of_all_take_half_at_most(world, tmp_path):
    rounds = first_rounds(world, tmp_path, [FakeSearch(world, 64), FakeSearch(world, 2048)], trials=200)
    assert rounds == {0: engine.SHORT_ROUND_TRIALS, 1: engine.ROUND_TRIALS}


def test_first_rounds_leave_time_for_more(world, tmp_path):
    """Sixteen tasks that take as long each, and a minute: everyone is tried in half of what is there for trials."""
    world.cost = lambda size, key, times: 1e-3
    rounds = first_rounds(world, tmp_path, [FakeSearch(world, n) for n in range(16)], seconds=60.0)
    assert len(rounds) == 16 and 160 <= sum(rounds.values()) <= 300


def test_few_trials_are_divided_evenly(world, tmp_path):
    run = tune(world, tmp_path, [FakeSearch(world, n) for n in (64, 512, 128)], trials=6)
    assert [task.trials for task in run.tasks] == [2, 2, 2]


def test_gains_bring_more_rounds(world, tmp_path):
    """Two tasks take as long; one gets a little faster with every trial."""
    world.cost = lambda size, key, times: (
        1e-3 if size == 512 or key == BASELINE else 1e-3 * 0.998 ** sum(world.times.values())
    )
    run = tune(world, tmp_path, [FakeSearch(world, 512), FakeSearch(world, 4096)], trials=180)
    assert sum(task.trials for task in run.tasks) == 180
    assert run.tasks[1].trials > run.tasks[0].trials + engine.ROUND_TRIALS


def test_early_stopping_counts_trials_without_gain(world, tmp_path):
    run = tune(world, tmp_path, [FakeSearch(world, 64), FakeSearch(world, 128)], early_stopping=5)
    assert [task.trials for task in run.tasks] == [5, 5]


def test_a_task_without_more_candidates_leaves_its_trials_to_others(world, tmp_path):
    run = tune(world, tmp_path, [FakeSearch(world, 64), FakeSearch(world, 512, candidates=20)], trials=100)
    assert [task.trials for task in run.tasks] == [81, 19], "the baseline is one of the twenty and is no trial"


def test_a_search_learns_from_all_that_is_measured(world, tmp_path):
    search = FakeSearch(world, 64)
    run = tune(world, tmp_path, [search], trials=40)
    assert search.learned[0] == BASELINE and len(search.learned) == run.tasks[0].trials + 1


def test_a_task_whose_candidates_fail_is_abandoned_and_the_others_go_on(world, tmp_path):
    bad, good = FakeSearch(world, 512), FakeSearch(world, 64)
    bad.outcomes, bad.most_failures = dict.fromkeys(range(1000), Outcome.FAILED), 20
    run = tune(world, tmp_path, [bad, good], trials=200)
    assert run.tasks[0].trials == 20 and sum(task.trials for task in run.tasks) == 200
    assert run.tasks[0].status.cost is None


def test_a_task_whose_baseline_fails_can_be_abandoned_before_its_first_round(world, tmp_path):
    bad, good = FakeSearch(world, 512), FakeSearch(world, 64)
    bad.outcomes, bad.most_failures = {BASELINE: Outcome.TIMED_OUT}, 0
    run = tune(world, tmp_path, [bad, good], trials=20)
    assert [task.trials for task in run.tasks] == [0, 20]


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [10.0, 30.0, 120.0])
def test_a_time_budget_is_kept(world, tmp_path, seconds):
    world.cost = lambda size, key, times: size * 1e-6 * (1 + 0.5 * (key % 17) / 17) * (1.2 if key == BASELINE else 1)
    world.seconds_to_build, world.seconds_to_run, begin = 0.2, 0.1, world.now
    run = tune(world, tmp_path, [FakeSearch(world, n) for n in (512, 1024, 2048, 4096)], seconds=seconds)
    # Final rounds that have begun are finished.
    assert seconds * 0.7 < world.now - begin < seconds + engine.GRACE + 2.0
    assert all(task.winner is not None for task in run.tasks if task.needs_confirmation())


def test_the_time_before_the_run_counts(world, tmp_path):
    searches, begin = [FakeSearch(world, 64)], world.now - 29.0
    options = TuningOptions(str(tmp_path / "r.json"), trials=None, seconds=30.0)
    tvm.tuning.tune(searches, options, begin=begin, clock=world)
    assert world.now - begin < 30.0 + engine.GRACE + 2.0


def test_a_gain_that_nobody_had_time_to_confirm_is_not_used(world, tmp_path):
    world.cost = lambda size, key, times: 1e-3 if key == BASELINE else 0.95e-3 if times == 1 else 3e-3
    world.seconds_to_run = 5.0
    run = tune(world, tmp_path, [FakeSearch(world, n) for n in (64, 128, 256)], seconds=60.0)
    tried = [task for task in run.tasks if task.trials]
    assert tried and all(task.winner == BASELINE for task in tried)


# -- what is best ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("true_gain, wins", [(0.0, False), (0.015, False), (0.1, True), (-0.2, False)])
def test_only_a_real_gain_replaces_the_baseline(world, tmp_path, true_gain, wins):
    """One candidate is lucky when it is first measured; side by side it is as fast as it really is."""
    lucky = 3

    def cost(size: int, key: int, times: int) -> float:
        if key == BASELINE:
            return 1e-3
        return 5e-4 if times == 1 and key == lucky else 1e-3 * (1 - true_gain) if key == lucky else 2e-3

    world.cost = cost
    task = tune(world, tmp_path, [FakeSearch(world, 64, candidates=40)]).tasks[0]
    assert task.winner == (lucky if wins else BASELINE) and task.cost <= task.baseline_cost
    finals = [key for _, key, final in rows_of(tmp_path) if final]
    assert finals == ([BASELINE, lucky] if wins else [BASELINE])


def test_leaders_are_verified_once_and_what_is_wrong_cannot_win(world, tmp_path):
    """The fastest of all computes something else, the next is right."""
    world.cost = lambda size, key, times: {BASELINE: 1e-3, 3: 2e-4, 4: 5e-4}.get(key, 2e-3)
    search = FakeSearch(world, 64, candidates=40)
    search.outcomes = {3: Outcome.WRONG_RESULT}
    run = tune(world, tmp_path, [search])
    assert run.tasks[0].winner == 4
    assert len(search.verified) == len(set(search.verified)) == confirm.FINAL_ROUNDS[0][0] + 1
    assert {most_ms for most_ms, _ in search.runs} == {None, confirm.FINAL_REPEAT_MS}


def test_a_search_that_is_not_shown_the_baseline_measures_it_last(world, tmp_path):
    search = FakeSearch(world, 512)
    search.waiting.remove(BASELINE)
    tune(world, tmp_path, [search], trials=8, baseline_first=False)
    order = [key for _, key, final in rows_of(tmp_path) if not final]
    assert BASELINE not in order[:8] and order[8:] == [BASELINE]


# -- records -----------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_and_measures_nothing_again(world, tmp_path):
    def searches():
        return [FakeSearch(world, 64), FakeSearch(world, 128)]

    first = tune(world, tmp_path, searches(), trials=20)
    again = tune(world, tmp_path, searches(), trials=20)
    assert again.records_found == 22 and again.budget.trials_left == 0
    assert [task.trials for task in again.tasks] == [task.trials for task in first.tasks]
    more = tune(world, tmp_path, searches(), trials=30)
    assert sum(task.trials for task in more.tasks) == 30 and max(world.times.values()) == 1


def test_what_was_confirmed_is_not_confirmed_again(world, tmp_path):
    world.cost = lambda size, key, times: 1e-3 if key == BASELINE else 5e-4
    for _ in range(2):
        run = tune(world, tmp_path, [FakeSearch(world, 64)], trials=20)
        assert run.tasks[0].winner not in (None, BASELINE)
    assert sum(final for _, _, final in rows_of(tmp_path)) == 2
    more = tune(world, tmp_path, [FakeSearch(world, 64)], trials=40)
    assert more.tasks[0].confirmed_at == 40 and sum(final for _, _, final in rows_of(tmp_path)) == 4


def test_a_run_that_does_not_resume_makes_all_its_trials(world, tmp_path):
    for trials in (12, 24):
        run = tune(world, tmp_path, [FakeSearch(world, 64)], trials=12, resumes=False)
        assert run.tasks[0].trials == trials and max(world.times.values()) == 1


def test_leaders_of_prior_records_are_measured_here(world, tmp_path):
    """A candidate that was best elsewhere is found in the new records too."""
    world.cost = lambda size, key, times: 1e-4 if key == 90 else 1e-3 + 1e-6 * key
    tune(world, tmp_path, [FakeSearch(world, 64, candidates=100)], name="old.json")
    path = tmp_path / "old.json"
    path.write_text(path.read_text().replace("here", "elsewhere"))
    run = tune(world, tmp_path, [FakeSearch(world, 64)], name="new.json", trials=8, prior_records=str(path))
    assert run.tasks[0].winner == 90 and run.tasks[0].trials == 8
    assert rows_of(tmp_path, "new.json")[1][1] == 90 and state.PRIOR_LEADERS < 8


def test_each_trial_is_written_before_the_next_begins(world, tmp_path):
    """What ends a run in the middle of a batch costs no measurement."""

    def stop() -> None:
        if sum(world.times.values()) == 11:
            raise KeyboardInterrupt

    world.before_run = stop
    with pytest.raises(KeyboardInterrupt):
        tune(world, tmp_path, [FakeSearch(world, 64)], trials=32)
    assert len(rows_of(tmp_path)) == 11


def test_records_are_written_inside_the_guard(world, tmp_path):
    entered = []

    @contextlib.contextmanager
    def guard():
        before = len(rows_of(tmp_path))
        yield
        entered.append(len(rows_of(tmp_path)) - before)

    options = TuningOptions(str(tmp_path / "records.json"), trials=9)
    tvm.tuning.tune([FakeSearch(world, 64)], options, guard=guard, clock=world)
    assert entered == [1] * 10


def test_a_file_with_other_lines_is_left_alone(world, tmp_path):
    path = tmp_path / "records.json"
    path.write_text("somebody's notes\n")
    with pytest.raises(TVMError, match="lines that are not tuning records"):
        tune(world, tmp_path, [FakeSearch(world, 64)])
    assert path.read_text() == "somebody's notes\n"


def test_a_record_that_a_crash_cut_short_is_taken_away(world, tmp_path):
    tune(world, tmp_path, [FakeSearch(world, 64)], trials=5)
    path = tmp_path / "records.json"
    path.write_text(path.read_text() + '{"fake": [64, 12')
    run = tune(world, tmp_path, [FakeSearch(world, 64)], trials=6)
    assert run.records_found == 6 and len(rows_of(tmp_path)) == 7


def test_tasks_of_one_run_write_one_kind_of_record(world, tmp_path):
    other = FakeSearch(world, 128)
    other.format = FakeRecords()
    with pytest.raises(TVMError, match="these tasks use 2 formats"):
        tune(world, tmp_path, [FakeSearch(world, 64), other])


def test_without_tasks_there_is_nothing_to_do(tmp_path):
    assert tvm.tuning.tune([], TuningOptions(str(tmp_path / "r.json"))) == ()
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"trials": None}, "the run has no limit"),
        ({"trials": 0}, "trials"),
        ({"seconds": -1.0}, "seconds"),
        ({"early_stopping": 0}, "early_stopping"),
    ],
)
def test_a_budget_of_nothing_is_refused(options, words):
    with pytest.raises(TVMError, match=words):
        TuningOptions("records.json", **options)


# -- the model as a whole ----------------------------------------------------------------------------------------------


class Model:
    """A model that takes so much of its untuned time with each choice of records."""

    def __init__(self, *ratios: float):
        self.ratios, self.asked = ratios, []

    def compare(self, choices):
        self.asked = choices
        return Comparison(0.01, list(self.ratios[: len(choices)]))


def a_gain(size, key, times):
    """The larger task gains a lot by tuning, the smaller one a little."""
    return size * (1e-6 if key == BASELINE else 0.5e-6 if size == 512 else 0.97e-6)


@pytest.mark.parametrize(
    "ratios, used",
    [
        ((0.8, 0.9), [True, True]),  # What was found is used where the whole model is faster.
        ((1.01, 0.995), [False, False]),  # A gain that does not show there is none.
        ((0.97, 0.9), [False, True]),  # Small gains are left out where the model is faster without them.
    ],
)
def test_the_whole_model_decides_what_is_used(world, tmp_path, ratios, used):
    world.cost, model = a_gain, Model(*ratios)
    run = tune(world, tmp_path, [FakeSearch(world, 64), FakeSearch(world, 512)], trials=20, model=model)
    assert [[line.split(",")[0] for line in choice] for choice in model.asked] == [
        ['{"fake": [64', '{"fake": [512'],
        ['{"fake": [512'],
    ]
    rows = sorted(RECORDS.load(tmp_path / "records.json")[0], key=lambda row: row[5])
    finals = {row[0]: row[1] for row in rows if row[6]}
    assert [task.choice for task in run.tasks] == [finals[64], finals[512]]
    assert [finals[size] != BASELINE for size in (64, 512)] == used


def test_a_short_time_budget_is_not_spent_on_the_whole_model(world, tmp_path):
    world.cost, model = a_gain, Model(2.0)
    run = tune(world, tmp_path, [FakeSearch(world, 512)], seconds=5.0, model=model)
    assert not model.asked and run.tasks[0].choice != BASELINE
    run = tune(world, tmp_path, [FakeSearch(world, 512)], name="longer.json", seconds=100.0, model=model)
    assert model.asked and run.tasks[0].choice == BASELINE
    assert run.budget.elapsed < 100.0
