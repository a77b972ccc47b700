"""Programs timed in turn, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.harness import LEAST_ROUNDS, PeerEnded, commit, interleave, percentile


def talkative() -> Callable[[], float]:
    """Says something before it is ready, and at every run."""
    print("a note")
    count = iter(range(100))

    def run() -> float:
        print("another")
        return float(next(count))

    return run


def ending() -> Callable[[], float]:
    """Does not run."""
    raise SystemExit(3)


def test_a_program_that_ends_is_named():
    with pytest.raises(PeerEnded, match="benchmark 'b' ended before it printed 'ready'") as caught:
        interleave(
            {"a": ("tests.benchmarks.test_harness:talkative", {}), "b": ("tests.benchmarks.test_harness:ending", {})},
            rounds=1,
        )
    assert caught.value.name == "b"


def test_no_round_begins_when_the_time_is_up():
    found = interleave({"a": ("tests.benchmarks.test_harness:talkative", {})}, rounds=50, seconds=0)
    assert len(found["a"].seconds) == LEAST_ROUNDS


def test_what_programs_print_is_no_answer():
    # The first run of each warms up and is not counted.
    name = "tests.benchmarks.test_harness:talkative"
    results = interleave({"a": (name, {}), "b": (name, {})}, rounds=3)
    assert {key: result.seconds for key, result in results.items()} == {"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]}


def test_percentiles_lie_between_values():
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0 and percentile([1.0, 2.0], 20) == 1.2 and percentile([4.0], 20) == 4.0


def test_the_commit_is_named():
    assert commit()
