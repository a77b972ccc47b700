"""The events of a tuning run, which displays and logs consume. They contain values, never references to mutable
state."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from .search import Outcome
from .state import TaskStatus


class Stage(enum.Enum):
    """The stages of a run, in order (the baseline comes after the search if it must not guide the search)."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONFIRM = "confirm"
    WHOLE_MODEL = "whole model"


@dataclass(frozen=True)
class Event:
    """Base class of events of a run."""


@dataclass(frozen=True)
class RunStarted(Event):
    """A run starts. The output file contains ``records_found`` lines; ``trials`` and ``seconds`` are the budget, of
    which ``trials_left`` remain after the records and ``elapsed`` seconds. None means no limit."""

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
    """A round starts: a task gets up to ``trials`` more trials."""

    task: TaskStatus
    trials: int


@dataclass(frozen=True)
class TrialFinished(Event):
    """A candidate was measured and its record is written. ``cost`` is None if it failed."""

    task: TaskStatus
    outcome: Outcome
    cost: float | None
    is_baseline: bool


@dataclass(frozen=True)
class RoundFinished(Event):
    """A round ended. ``cost`` is that of the fastest candidate of its last batch; None if all candidates failed."""

    task: TaskStatus
    cost: float | None


@dataclass(frozen=True)
class SearchAbandoned(Event):
    """The search of a task stopped because too many candidates failed; it gets no more rounds."""

    task: TaskStatus
    reason: str


@dataclass(frozen=True)
class CandidateRejected(Event):
    """A leader was rejected because its outputs differ from the reference."""

    task: TaskStatus
    reason: str


@dataclass(frozen=True)
class TaskConfirmed(Event):
    """The winner of a task is recorded: the winner of the final rounds, or the baseline."""

    task: TaskStatus


@dataclass(frozen=True)
class ModelCompared(Event):
    """The model was compared. ``seconds`` is its time without tuning; ``ratio`` is the fraction of this time with
    the better choice of records.

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
    "CandidateRejected",
    "Event",
    "ModelCompared",
    "OnEvent",
    "RoundFinished",
    "RoundStarted",
    "RunFinished",
    "RunStarted",
    "SearchAbandoned",
    "Stage",
    "StageStarted",
    "TaskConfirmed",
    "TrialFinished",
]
