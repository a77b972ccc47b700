"""Comparing programs in turn."""

from __future__ import annotations

from tvm.tuning import model
from tvm.tuning.model import compare_programs


def test_what_disturbs_a_round_disturbs_all_of_it(monkeypatch):
    """A machine that is three times as slow now and then; the ratios stay what they are."""
    monkeypatch.setattr(model, "SECONDS", 0.0)
    calls: list[str] = []

    def program(name: str, seconds: float):
        def run() -> float:
            calls.append(name)
            slow = (len(calls) // 3) % 4 == 0
            return seconds * (3.0 if slow else 1.0)

        return run

    seconds, ratios = compare_programs(program("a", 1.0), [program("b", 0.5), program("c", 2.0)])
    assert seconds == 1.0 and ratios == [0.5, 2.0]
    assert len(calls) == 3 * (1 + model.LEAST_ROUNDS)
    # After a run each to warm up, every program comes first in turn.
    assert [calls[3 * n] for n in range(1, 5)] == ["a", "b", "c", "a"]
