"""What a display hears of a run."""

from __future__ import annotations

import dataclasses

import pytest

from tests.tuning.fake import BASELINE, FakeSearch, tune
from tests.tuning.test_engine import Model
from tvm.tuning import Outcome, events
from tvm.tuning.events import Stage


def heard(world, tmp_path, searches, **options) -> list[events.Event]:
    found: list[events.Event] = []
    tune(world, tmp_path, searches, on_event=found.append, **options)
    return found


def of(kind, found):
    return [event for event in found if isinstance(event, kind)]


def test_a_run_is_told_from_its_start_to_its_end(world, tmp_path):
    world.cost = lambda size, key, times: size * (1e-6 if key == BASELINE else 0.5e-6)
    found = heard(world, tmp_path, [FakeSearch(world, 64, number=5)], trials=36, model=Model(0.5))
    kinds = [type(event) for event in found if not isinstance(event, events.TrialFinished)]
    assert kinds == [
        events.RunStarted,
        events.StageStarted,
        events.StageStarted,
        events.RoundStarted,
        events.RoundFinished,
        events.RoundStarted,
        events.RoundFinished,
        events.StageStarted,
        events.TaskConfirmed,
        events.StageStarted,
        events.ModelCompared,
        events.RunFinished,
    ]
    assert [event.stage for event in of(events.StageStarted, found)] == [*Stage]
    begun, ended = found[0], found[-1]
    assert (begun.records_found, begun.trials, begun.trials_left, begun.seconds) == (0, 36, 36, None)
    assert begun.tasks[0].cost is None and begun.tasks[0].trials == 0
    task = ended.tasks[0]
    assert (task.index, task.number, task.title, task.trials) == (0, 5, "task 64", 36)
    assert task.cost == 32e-6 and task.baseline_cost == 64e-6 and task.flops == task.flop / 32e-6
    compared = of(events.ModelCompared, found)[0]
    assert compared == events.ModelCompared(0.01, 0.5, 1, 1)


def test_each_trial_is_told_with_what_is_known_after_it(world, tmp_path):
    search = FakeSearch(world, 64, count=3)
    search.outcomes = {2: Outcome.TIMED_OUT, 3: Outcome.FAILED}
    found = of(events.TrialFinished, heard(world, tmp_path, [search], trials=5))
    assert [event.outcome for event in found] == [
        Outcome.MEASURED,
        Outcome.MEASURED,
        Outcome.MEASURED,
        Outcome.TIMED_OUT,
        Outcome.FAILED,
        Outcome.MEASURED,
    ]
    assert [event.task.trials for event in found] == [0, 1, 2, 3, 4, 5]
    assert [event.is_baseline for event in found] == [True] + [False] * 5
    assert found[3].cost is None and found[1].cost == 128e-6 and found[1].task.model_seconds == 3 * 64e-6


def test_what_is_left_out_is_told_with_its_reason(world, tmp_path):
    world.cost = lambda size, key, times: {BASELINE: 1e-3, 3: 2e-4}.get(key, 2e-3)
    wrong, bad = FakeSearch(world, 64, candidates=20), FakeSearch(world, 128)
    wrong.outcomes = {3: Outcome.WRONG_RESULT}
    bad.outcomes, bad.most_failures = dict.fromkeys(range(1000), Outcome.FAILED), 20
    found = heard(world, tmp_path, [wrong, bad], trials=100)
    rejected, abandoned = of(events.CandidateRejected, found), of(events.SearchAbandoned, found)
    assert [(event.task.index, event.reason) for event in rejected] == [(0, "it went wrong")]
    assert [(event.task.index, event.reason) for event in abandoned] == [(1, "the device is away")]


def test_a_run_with_nothing_left_says_so_at_its_start(world, tmp_path):
    tune(world, tmp_path, [FakeSearch(world, 64)], trials=9)
    begun = heard(world, tmp_path, [FakeSearch(world, 64)], trials=9)[0]
    assert begun.records_found == 10 and begun.trials_left == 0


def test_events_are_values(world, tmp_path):
    found = heard(world, tmp_path, [FakeSearch(world, 64)], trials=9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].records_found = 3
    # A display may keep them: what comes later does not change them.
    assert [event.task.trials for event in of(events.TrialFinished, found)] == list(range(10))
    assert len(set(found)) == len(found)
