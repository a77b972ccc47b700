"""The final rounds of a task: its leaders and its baseline are measured interleaved, because the fastest of many noisy
trials is often not the fastest candidate."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from .search import FAILED_COST, Measurement, Outcome
from .state import TaskState

# For each round: the number of leaders, and the number of measurements of each.
FINAL_ROUNDS = ((8, 3), (3, 6))
# The final rounds if the time budget is short.
SHORT_FINAL_ROUNDS = ((3, 4),)
# The maximum duration of a repeat in milliseconds; short repeats suffice because each candidate is measured many times.
FINAL_REPEAT_MS = 100
# The share of the baseline's time that a candidate must save to replace it.
MARGIN = 0.02
# A gain that could not be confirmed for lack of time counts only if it clearly exceeds the noise.
UNCONFIRMED_MARGIN = 0.2
# Estimated seconds of one run of a candidate before the first measurement.
_USUAL_RUN_SECONDS = 0.02

Rounds = tuple[tuple[int, int], ...]


def final_seconds(state: TaskState, rounds: Rounds = FINAL_ROUNDS) -> float:
    """Return the estimated seconds of the final rounds of a task."""
    builds = min(rounds[0][0], len(state.measured)) + 1
    runs = sum((size + 1) * times for size, times in rounds)
    seconds = state.run_seconds / state.timed_trials if state.timed_trials else _USUAL_RUN_SECONDS
    if state.search.min_repeat_ms > FINAL_REPEAT_MS:
        seconds *= FINAL_REPEAT_MS / state.search.min_repeat_ms
    return builds * state.seconds_per_trial + runs * seconds


def run_final_rounds(
    state: TaskState, rounds: Rounds, on_reject: Callable[[Measurement], None], clock: Any
) -> tuple[Hashable, dict[Hashable, Measurement]]:
    """Return the winner, and the measurements of the last round.

    In the first round, the outputs of each leader are compared once with a reference; a leader with different outputs
    is rejected.
    """
    search, baselines, began = state.search, state.baselines, clock.time()
    leaders = [key for key in sorted(state.measured, key=state.cost_of) if key not in baselines]
    keys = [*leaders[: rounds[0][0]], *baselines]
    field = dict(zip(keys, search.build(keys)))
    costs: dict[Hashable, list[float]] = {key: [] for key in field}
    wrong: set[Hashable] = set()
    for index, (size, times) in enumerate(rounds):
        leaders = sorted((k for k in field if k not in baselines), key=lambda k: _median(costs[k]) or state.cost_of(k))
        field = {key: field[key] for key in (*leaders[:size], *baselines)}
        for number in range(times):
            verify = index == 0 and number == 0
            for result in search.run([*field], [*field.values()], most_ms=FINAL_REPEAT_MS, verify=verify):
                costs[result.key] += result.costs if result.outcome is Outcome.MEASURED else [FAILED_COST]
                if result.outcome is Outcome.WRONG_RESULT:
                    wrong.add(result.key)
                    on_reject(result)
        costs.update({key: [FAILED_COST] for key in wrong})
    winner = min(field, key=lambda key: _median(costs[key]) * (1 if key in baselines else 1 + MARGIN))
    now = clock.time()
    results = {
        key: replace(state.measured[key], costs=tuple(costs[key]), elapsed=now - began, timestamp=now) for key in field
    }
    return winner, results


def _median(costs: list[float]) -> float:
    return statistics.median(costs) if costs else 0.0


__all__ = ["FINAL_ROUNDS", "SHORT_FINAL_ROUNDS", "UNCONFIRMED_MARGIN", "final_seconds", "run_final_rounds"]
