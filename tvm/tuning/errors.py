"""Error codes of candidates."""

from __future__ import annotations

import enum

from .search import Outcome


class MeasureErrorNo(enum.IntEnum):
    """The error of a measurement; the numbers are those of record files."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


_OUTCOMES = {
    MeasureErrorNo.NO_ERROR: Outcome.MEASURED,
    MeasureErrorNo.WRONG_ANSWER: Outcome.WRONG_RESULT,
    MeasureErrorNo.BUILD_TIMEOUT: Outcome.TIMED_OUT,
    MeasureErrorNo.RUN_TIMEOUT: Outcome.TIMED_OUT,
}


def outcome_of(error_no: int) -> Outcome:
    """Return the outcome that the engine uses for an error code."""
    return _OUTCOMES.get(MeasureErrorNo(int(error_no)), Outcome.FAILED)


__all__ = ["MeasureErrorNo", "outcome_of"]
