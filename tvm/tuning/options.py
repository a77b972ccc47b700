"""The options of a tuning run."""

from __future__ import annotations

from dataclasses import dataclass

from ..error import TVMError


@dataclass(frozen=True)
class TuningOptions:
    """The budget of a run, its record file, and the conditions that end a task.

    ``records`` is the file to which records are appended; candidates that it already contains are not measured again.
    ``prior_records`` are records of other runs or machines, from which the searches learn.
    ``trials`` and ``seconds`` limit the run; None means no limit, and at least one limit is required.
    ``early_stopping`` ends the search of a task after this many trials without gain.
    ``baseline_first`` measures the default configuration before the search; otherwise it is measured last.
    ``resumes`` counts the trials in ``records`` towards ``trials``: the file belongs to this run, which was
    interrupted.
    """

    records: str
    prior_records: str | None = None
    trials: int | None = 1000
    seconds: float | None = None
    early_stopping: int | None = None
    baseline_first: bool = True
    resumes: bool = True

    def __post_init__(self) -> None:
        if self.trials is None and self.seconds is None:
            raise TVMError("TuningOptions: the run has no limit; set trials, seconds or both")
        for name in ("trials", "seconds", "early_stopping"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise TVMError(f"TuningOptions: {name} must be positive, got {value}")


__all__ = ["TuningOptions"]
