"""The interface between the engine and the search of a task: candidates are identified by keys and measured.

The engine does not depend on templates or sketches. A search (AutoTVM's is ``tvm.autotvm.search.TemplateSearch``)
proposes candidates, builds and runs them, and encodes its lines of the record file.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..error import TVMError

# The cost in seconds that is recorded for a candidate that failed.
FAILED_COST = 1e9


class TuningError(TVMError):
    """The search of a task cannot continue; the message is the most frequent error."""


class Outcome(enum.Enum):
    """The outcome of a measurement."""

    MEASURED = "measured"
    TIMED_OUT = "timed out"
    WRONG_RESULT = "wrong result"
    FAILED = "failed"


@dataclass(frozen=True)
class Measurement:
    """A measurement of a candidate.

    ``costs`` are the seconds of one execution, one value per repeat. If the measurement failed, it is empty and
    ``error`` contains the reason. ``elapsed`` is the time of building and measuring in seconds, ``timestamp`` the end
    of the measurement. ``final`` is true for candidates of the final rounds, where leaders are measured interleaved.
    ``origin`` is private to the search.
    """

    key: Hashable
    costs: tuple[float, ...] = ()
    outcome: Outcome = Outcome.MEASURED
    error: str = ""
    elapsed: float = 0.0
    timestamp: float = 0.0
    final: bool = False
    origin: Any = None

    @property
    def cost(self) -> float:
        """The seconds of one execution: the mean of the repeats."""
        return sum(self.costs) / len(self.costs) if self.costs else FAILED_COST


class RecordFormat(Protocol):
    """The record format of a kind of search."""

    # The start of each line, which identifies a line that a crash truncated.
    begin: str

    def load(self, path: str) -> tuple[list[Any], int]:
        """Return the records of a file, of any task, and the number of its lines that are not records."""
        ...


class Search(Protocol):
    """The search of a task. A key identifies a candidate; equal keys are equal candidates."""

    # A short description for displays, and the number under which the user knows the task, if it has one.
    title: str
    number: int | None
    # The number of executions of the task in a run of the model, and the operations of one execution (0 if unknown).
    count: int
    flop: float
    # The configurations that compilation uses without records, the best estimate first.
    baseline: Sequence[Hashable]
    # The number of candidates that are built before they are run one by one.
    batch_size: int
    # The minimum duration of a repeat, which determines the duration of the final rounds.
    min_repeat_ms: int
    format: RecordFormat

    def has_next(self) -> bool:
        """Return whether there may be candidates that were not proposed yet."""
        ...

    def propose(self, limit: int) -> list[Any]:
        """Return the keys of the next candidates, at most ``limit``, without candidates that were proposed or learned
        before."""
        ...

    def build(self, keys: Sequence[Any]) -> list[Any]:
        """Return the code of each candidate, or the reason of failure, as input of ``run``."""
        ...

    def run(
        self,
        keys: Sequence[Any],
        built: Sequence[Any],
        on_result: Callable[[Measurement], None] | None = None,
        *,
        most_ms: int | None = None,
        verify: bool = False,
    ) -> list[Measurement]:
        """Measure candidates. ``on_result`` is called after each measurement and may stop the run with an exception.

        ``most_ms`` shortens a repeat. ``verify`` compares the outputs with a reference on devices whose output may be
        incorrect.
        """
        ...

    def learn(self, measurements: Sequence[Measurement]) -> None:
        """Learn from measurements of this run. A TuningError is raised if too many candidates failed."""
        ...

    def read(self, rows: Sequence[Any], anywhere: bool = False) -> list[Measurement]:
        """Return the last measurement of each candidate of this task, in the order of the records. Without
        ``anywhere``, only records of the machine that the code is for are used."""
        ...

    def load(self, prior: Sequence[Any], resumed: Sequence[Any] = ()) -> None:
        """Learn from earlier records. All of ``prior`` may train a cost model; of ``resumed``, the records of the
        output file, only those of this task."""
        ...

    def encode(self, measurement: Measurement) -> str:
        """Return a line of the record file in the format that compilation reads."""
        ...


def first_candidates(search: Search, limit: int, rows: Sequence[Any]) -> list[Any]:
    """Return the first keys that a search would measure after loading records: the baseline, then its proposals."""
    known = {measurement.key for measurement in search.read(rows, anywhere=True)}
    search.load(rows)
    keys = dict.fromkeys(search.baseline)
    while len(keys) < limit and search.has_next():
        batch = [key for key in search.propose(limit - len(keys)) if key not in keys]
        if not batch:
            # Without feedback, a search may propose the same candidates again.
            break
        keys.update(dict.fromkeys(batch))
    return [key for key in keys if key not in known][:limit]


__all__ = ["FAILED_COST", "Measurement", "Outcome", "RecordFormat", "Search", "TuningError", "first_candidates"]
