"""Failed trials: their most frequent error, and the decision to stop a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...tuning.search import TuningError
from ..measure.measure import MeasureErrorNo, MeasureResult
from ..task.entity import InstantiationError
from ..utils import logger

# If most of this many first trials fail, the search stops.
_FIRST_TRIALS = 64
_REFUSED = "the template refused: "
_WORDS = {
    MeasureErrorNo.INSTANTIATION_ERROR: "lowering failed",
    MeasureErrorNo.COMPILE_HOST: "compiling failed",
    MeasureErrorNo.COMPILE_DEVICE: "compiling for the device failed",
    MeasureErrorNo.RUNTIME_DEVICE: "running failed",
    MeasureErrorNo.WRONG_ANSWER: "the output was incorrect",
    MeasureErrorNo.BUILD_TIMEOUT: "building timed out",
    MeasureErrorNo.RUN_TIMEOUT: "running timed out",
}


class Failures:
    """The failed trials of a task. More than ``threshold`` failures in a row cause a warning."""

    def __init__(self, task_name: str, threshold: int):
        self.task_name, self.threshold = task_name, threshold
        self.errors: Counter[str] = Counter()
        self.trials = self.in_a_row = 0

    def note(self, results: Sequence[MeasureResult]) -> None:
        """Process a batch; raise a TuningError if most of the first trials failed."""
        for result in results:
            self.in_a_row = 0 if result.error_no == 0 else self.in_a_row + 1
            if result.error_no != 0:
                self.errors[_error_text(result)] += 1
        self.trials += len(results)
        self._stop_if_most_failed()
        if self.in_a_row > self.threshold:
            logger.warning("%d trials in a row failed; the last error: %s", self.in_a_row, _error_text(results[-1]))
            self.in_a_row = 0

    def _stop_if_most_failed(self) -> None:
        """Stop if most trials fail for a reason other than a rejected configuration, which indicates a fault of the
        set-up."""
        errors = Counter({text: count for text, count in self.errors.items() if not text.startswith(_REFUSED)})
        failed, done = sum(errors.values()), self.trials
        if done < _FIRST_TRIALS // 2 or done >= 2 * _FIRST_TRIALS or failed * 2 <= max(done, _FIRST_TRIALS):
            return
        text, count = errors.most_common(1)[0]
        raise TuningError(f"{failed} of the first {done} trials of {self.task_name} failed, {count} with: {text}")


def _error_text(result: MeasureResult) -> str:
    error = result.costs[0] if result.costs else ""
    if isinstance(error, InstantiationError):
        return f"{_REFUSED}{error}"
    words = _WORDS.get(MeasureErrorNo(int(result.error_no)), "an error")
    return f"{words}: {type(error).__name__ + ': ' if isinstance(error, BaseException) else ''}{str(error)[:300]}"


__all__ = ["Failures"]
