"""The options of a tuning run."""

from __future__ import annotations

from dataclasses import dataclass

from ..error import TVMError


@dataclass(frozen=True)
class TuningOptions:
    """The budget of a run, its record file, and when a task is done.

    ``records`` is the file that records are appended to; what it holds already is not measured again.
    ``prior_records`` are earlier records, of other runs or machines, that the searches learn from.
    ``trials`` and ``seconds`` limit the run; None is no limit, and one of them is needed.
    ``early_stopping`` ends the search of a task after this many trials without gain.
    ``baseline_first`` measures what compiling uses without tuning before the search; else it is measured last.
    ``resumes`` counts the trials in ``records`` towards ``trials``: the file is of this very run, stopped before.
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
            raise TVMError("TuningOptions: a run without end; give trials, seconds or both")
        for name in ("trials", "seconds", "early_stopping"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise TVMError(f"TuningOptions: {name} is more than none, got {value}")


__all__ = ["TuningOptions"]
