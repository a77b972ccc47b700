"""The budget of a tuning run: trials and seconds."""

from __future__ import annotations

import math
from typing import Any

from .options import TuningOptions

# The estimated share of a time budget for the search, until the time for the other stages is known.
SEARCH_SHARE = 0.75
# The maximum share of a time budget that is reserved for the end of the run.
RESERVED_SHARE = 0.5


class Budget:
    """The remaining trials and seconds. ``reserved`` seconds before the deadline are for the final rounds and the
    comparison of the whole model.

    ``clock`` has the functions ``monotonic()`` and ``time()`` of the module ``time``.
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
        """Return the seconds to the deadline, including the reserved ones; negative after the deadline."""
        return self.deadline - self.clock.monotonic()

    def reserve(self, seconds: float) -> None:
        """Reserve seconds for the end of the run, at most half of the budget."""
        if self.seconds:
            self.reserved = min(seconds, RESERVED_SHARE * self.seconds)

    def limit(self, trials: int) -> int:
        """Return the given number of trials, limited to the remaining trials."""
        return max(int(min(trials, self.trials_left)), 0)

    def is_time_up(self) -> bool:
        return self.seconds_left < self.reserved

    def is_spent(self) -> bool:
        return self.trials_left <= 0 or self.is_time_up()

    def expected_trials(self, seconds_each: float) -> float:
        """Return the approximate number of trials that the budget allows."""
        if not self.seconds:
            return self.trials_left
        return min(self.trials_left, SEARCH_SHARE * self.seconds_left / seconds_each)


__all__ = ["Budget"]
