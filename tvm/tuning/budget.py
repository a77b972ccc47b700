"""Trials and seconds of a run."""

from __future__ import annotations

import math
from typing import Any

from .options import TuningOptions

# The share of a time budget that is about left for searching, before it is known what the rest takes.
SEARCH_SHARE = 0.75
# The share of a time budget that may be kept back for the end of the run.
RESERVED_SHARE = 0.5


class Budget:
    """The trials and seconds that are left. ``reserved`` seconds before the deadline belong to the final rounds and the
    whole model.

    ``clock`` has ``monotonic()`` and ``time()``, as the module ``time`` does.
    """

    def __init__(self, options: TuningOptions, clock: Any, begin: float | None = None):
        self.clock, self.seconds = clock, options.seconds
        self.begin = clock.monotonic() if begin is None else begin
        self.deadline = self.begin + options.seconds if options.seconds else math.inf
        self.trials_left: float = math.inf if options.trials is None else options.trials
        self.reserved = 0.0

    @property
    def elapsed(self) -> float:
        return self.clock.monotonic() - self.begin

    @property
    def seconds_left(self) -> float:
        """Seconds to the deadline, those reserved among them; negative after it."""
        return self.deadline - self.clock.monotonic()

    def reserve(self, seconds: float) -> None:
        """Keep seconds back for the end of the run, at most half of the budget."""
        if self.seconds:
            self.reserved = min(seconds, RESERVED_SHARE * self.seconds)

    def limit(self, trials: int) -> int:
        """At most so many trials, and not more than are left."""
        return max(int(min(trials, self.trials_left)), 0)

    def is_time_up(self) -> bool:
        return self.seconds_left < self.reserved

    def is_spent(self) -> bool:
        return self.trials_left <= 0 or self.is_time_up()

    def expected_trials(self, seconds_each: float) -> float:
        """About how many trials there is a budget for."""
        if not self.seconds:
            return self.trials_left
        return min(self.trials_left, SEARCH_SHARE * self.seconds_left / seconds_each)


__all__ = ["Budget"]
