"""The events of a tuning run, as records that displays and logs consume. They hold values, never live state."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from .search import Outcome
from .state import TaskStatus


class Stage(enum.Enum):
    """The parts of a run, in their order (the baseline comes after the search where it must not guide it)."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONFIRM = "confirm"
    WHOLE_MODEL = "whole model"


@dataclass(frozen=True)
class Event:
    """Anything that happens in a run."""


@dataclass(frozen=True)
class RunStarted(Event):
    """``records_found`` lines are in the output file; ``trials`` and ``seconds`` are the budget, of which the file and
    ``elapsed`` seconds leave ``trials_left``. None is no limit."""

    tasks: tuple[TaskStatus, ...]
    records_found: int
    trials: int | None
    trials_left: int | None
    seconds: float | None
    elapsed: float


@dataclass(frozen=True)
class StageStarted(Event):
    stage: Stage


@dataclass(frozen=True)
class RoundStarted(Event):
    """A task gets up to ``trials`` more trials."""

    task: TaskStatus
    trials: int


@dataclass(frozen=True)
class TrialFinished(Event):
    """A candidate was measured and its record is written. ``cost`` is None where it did not run."""

    task: TaskStatus
    outcome: Outcome
    cost: float | None
    is_baseline: bool


@dataclass(frozen=True)
class RoundFinished(Event):
    """``cost`` is that of the fastest candidate of the round's last batch; None where none of it ran."""

    task: TaskStatus
    cost: float | None


@dataclass(frozen=True)
class SearchAbandoned(Event):
    """Too many candidates of a task failed; it gets no more rounds."""

    task: TaskStatus
    reason: str


@dataclass(frozen=True)
class CandidateRejected(Event):
    """A leader computes something else than the reference."""

    task: TaskStatus
    reason: str


@dataclass(frozen=True)
class TaskConfirmed(Event):
    """The records of the task name its choice: what won the final rounds, or the baseline."""

    task: TaskStatus


@dataclass(frozen=True)
class ModelCompared(Event):
    """``seconds`` of the model without tuning, and the part of them it takes with the better choice of records.

    Of ``found`` tasks whose best candidate is not the baseline, ``used`` keep it.
    """

    seconds: float
    ratio: float
    used: int
    found: int


@dataclass(frozen=True)
class RunFinished(Event):
    tasks: tuple[TaskStatus, ...]


OnEvent = Callable[[Event], None]

__all__ = [
    "CandidateRejected", "Event", "ModelCompared", "OnEvent", "RoundFinished", "RoundStarted", "RunFinished",
    "RunStarted", "SearchAbandoned", "Stage", "StageStarted", "TaskConfirmed", "TrialFinished",
]
