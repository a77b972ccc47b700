"""The interface between the engine and a task: candidates known by keys, and measurements of them.

The engine knows neither templates nor sketches. A kind of search (AutoTVM's is ``tvm.autotvm.search.TemplateSearch``)
says which candidates come next, builds and runs them, and writes its lines of the record file.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..error import TVMError

# Stands for the cost of a candidate that did not run, in seconds.
FAILED_COST = 1e9


class TuningError(TVMError):
    """The search of a task cannot go on; the text is the most common error."""


class Outcome(enum.Enum):
    """How a measurement ended."""

    MEASURED = "measured"
    TIMED_OUT = "timed out"
    WRONG_RESULT = "wrong result"
    FAILED = "failed"


@dataclass(frozen=True)
class Measurement:
    """One measurement of a candidate.

    ``costs`` are seconds of one execution, one for each repeat; empty where it failed, and then ``error`` says why.
    ``elapsed`` are the seconds that building and measuring took, ``timestamp`` is when it ended. ``final`` is true of
    candidates of the final rounds, where leaders are measured side by side. ``origin`` belongs to the search.
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
        """Seconds of one execution: the mean of the repeats."""
        return sum(self.costs) / len(self.costs) if self.costs else FAILED_COST


class RecordFormat(Protocol):
    """How the records of one kind of search are read."""

    # How each line begins: a line that a crash cut short is known by it.
    begin: str

    def load(self, path: str) -> tuple[list[Any], int]:
        """The rows of a file, of whatever task, and how many of its lines are no records."""
        ...


class Search(Protocol):
    """A task while it is tuned. A key names a candidate; equal keys are equal candidates."""

    # A few words for displays, and the number that the user knows the task by, where it has one.
    title: str
    number: int | None
    # How often the model executes the task, and the operations of one execution (0 where that is not known).
    count: int
    flop: float
    # The configs that compiling chooses without records, the best guess first.
    baseline: Sequence[Hashable]
    # How many candidates are built before they are run one by one.
    batch_size: int
    # The least time of a repeat: how long the final rounds take follows from it.
    min_repeat_ms: int
    format: RecordFormat

    def has_next(self) -> bool:
        """Whether there may be candidates that were not proposed yet."""
        ...

    def propose(self, limit: int) -> list[Any]:
        """The keys of the next candidates, at most ``limit``; none of them was proposed or learned from before."""
        ...

    def build(self, keys: Sequence[Any]) -> list[Any]:
        """Code for each candidate, or why there is none, as ``run`` takes it."""
        ...

    def run(
        self, keys: Sequence[Any], built: Sequence[Any], on_result: Callable[[Measurement], None] | None = None, *,
        most_ms: int | None = None, verify: bool = False,
    ) -> list[Measurement]:
        """Measure candidates. ``on_result`` hears of each as soon as it is measured, and may end it by raising.

        ``most_ms`` shortens a repeat; ``verify`` compares results with a reference where the device may err.
        """
        ...

    def learn(self, measurements: Sequence[Measurement]) -> None:
        """Learn from what was measured in this run. A TuningError where too many candidates failed."""
        ...

    def read(self, rows: Sequence[Any], anywhere: bool = False) -> list[Measurement]:
        """The last measurement of each candidate of this task, in the order of the rows; without ``anywhere`` only of
        the machine the code is for."""
        ...

    def load(self, prior: Sequence[Any], resumed: Sequence[Any] = ()) -> None:
        """Learn from earlier records. All of ``prior`` may teach a cost model; of ``resumed``, the rows of the output
        file, only those of this task."""
        ...

    def encode(self, measurement: Measurement) -> str:
        """A line of the record file, as compiling reads it."""
        ...


def first_candidates(search: Search, limit: int, rows: Sequence[Any]) -> list[Any]:
    """Keys that a search would measure first, knowing records: the baseline, then what it proposes."""
    known = {measurement.key for measurement in search.read(rows, anywhere=True)}
    search.load(rows)
    keys = dict.fromkeys(search.baseline)
    while len(keys) < limit and search.has_next():
        batch = [key for key in search.propose(limit - len(keys)) if key not in keys]
        if not batch:
            # A search that has not heard how its candidates did may propose the same ones again.
            break
        keys.update(dict.fromkeys(batch))
    return [key for key in keys if key not in known][:limit]


__all__ = ["FAILED_COST", "Measurement", "Outcome", "RecordFormat", "Search", "TuningError", "first_candidates"]
