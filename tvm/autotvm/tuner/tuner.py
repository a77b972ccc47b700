"""The loop of every tuner: ask what to measure, measure it, learn from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...error import TVMError
from ..env import GLOBAL_SCOPE
from ..measure.measure import MeasureErrorNo, MeasureInput, MeasureResult, create_measure_batch
from ..record import is_made_here
from ..task.entity import InstantiationError
from ..utils import format_si_prefix, logger

# When most of so many first trials fail, the rest would too.
_FIRST_TRIALS = 64


class TuningError(TVMError):
    """Tuning cannot go on; the text is the most common error."""


class Tuner:
    """Searches the space of a task. A subclass says what comes next (``next_batch``) and learns (``update``)."""

    def __init__(self, task: Any, **kwargs: Any):
        self.param = kwargs
        self.task = task
        self.space = task.config_space
        # Indexes that are measured or being measured; none is measured twice.
        self.visited: set[int] = set()
        self.error_ct_threshold = 150
        self._forget_best()

    def _forget_best(self) -> None:
        self.best_config: Any = None
        self.best_flops: float = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0
        self.ttl: int | None = None
        self.n_trial: int | None = None
        self.early_stopping: int | None = None

    # -- what a subclass says ------------------------------------------------------------------------------------------

    def has_next(self) -> bool:
        """Whether there is anything left to measure."""
        raise NotImplementedError

    def next_batch(self, batch_size: int) -> list[Any]:
        """Configurations to measure now, at most ``batch_size``."""
        raise NotImplementedError

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements."""

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Take in earlier records: those of this task count as measured and are not measured again."""
        own = [pair for pair in zip(*self.own_records(data_set)) if pair[0].config.index not in self.visited]
        inputs, results = [inp for inp, _ in own], [result for _, result in own]
        for inp, result in own:
            self.visited.add(inp.config.index)
            self._note_best(inp, result, 0)
        if inputs:
            self.update(inputs, results)

    def own_records(
        self, data_set: Iterable, anywhere: bool = False
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """The records of this very task, measured here (or anywhere), whose configurations are in its space."""
        found: dict[int, tuple[MeasureResult, bool]] = {}
        for inp, result in data_set:
            if inp.task.workload != self.task.workload:
                continue
            if not (anywhere or is_made_here(inp, self.task.target)):
                continue
            index = self.space.index_of(inp.config.values())
            if index is not None and self.space.is_index_valid(index):
                found[index] = (result, inp.final)
        inputs = []
        for index, (_, final) in found.items():
            inputs.append(MeasureInput(self.task.target, self.task, self.space.get(index)))
            inputs[-1].final = final
        return inputs, [result for result, _ in found.values()]

    # -- the loop ------------------------------------------------------------------------------------------------------

    def tune(
        self, n_trial: int, measure_option: dict[str, Any], early_stopping: int | None = None,
        callbacks: Sequence[Callable] = (), si_prefix: str = "G",
    ) -> None:
        """Measure up to ``n_trial`` configurations; stop after ``early_stopping`` trials without gain."""
        measure_batch = create_measure_batch(self.task, measure_option)
        batch_size = getattr(measure_batch, "n_parallel", 1)
        patience = early_stopping or 10**9
        self.n_trial, self.early_stopping = n_trial, early_stopping
        format_si_prefix(0, si_prefix)
        # What was best before this call may be passed at any trial of it.
        self.best_iter = 0
        errors: Counter[str] = Counter()
        failed_in_a_row = done = 0
        GLOBAL_SCOPE.in_tuning, before = True, GLOBAL_SCOPE.in_tuning
        try:
            while done < n_trial and self.has_next():
                configs = self.next_batch(min(batch_size, n_trial - done))
                if not configs:
                    break
                inputs = [MeasureInput(self.task.target, self.task, config) for config in configs]
                results = measure_batch(inputs)
                for number, (inp, result) in enumerate(zip(inputs, results)):
                    self._note_best(inp, result, done + number)
                    failed_in_a_row = 0 if result.error_no == 0 else failed_in_a_row + 1
                    if result.error_no != 0:
                        errors[_error_text(result)] += 1
                        logger.debug("No: %d\tresult: %s\t%s", done + number, result, inp.config)
                done += len(results)
                self.ttl = min(patience + self.best_iter, n_trial) - done
                self.update(inputs, results)
                for callback in callbacks:
                    callback(self, inputs, results)
                self._stop_if_hopeless(done, errors)
                if done >= self.best_iter + patience:
                    logger.debug("early stopped; best at trial %d", self.best_iter)
                    break
                if failed_in_a_row > self.error_ct_threshold:
                    logger.warning(
                        "%d trials in a row failed; the last error: %s", failed_in_a_row, _error_text(results[-1])
                    )
                    failed_in_a_row = 0
        finally:
            GLOBAL_SCOPE.in_tuning = before

    def _note_best(self, inp: MeasureInput, result: MeasureResult, trial: int) -> None:
        flops = self.flops(result)
        if flops > self.best_flops:
            self.best_flops, self.best_config = flops, inp.config
            self.best_measure_pair, self.best_iter = (inp, result), trial

    def flops(self, result: MeasureResult) -> float:
        """Operations a second; 0 for a failure."""
        if result.error_no != 0 or not result.costs:
            return 0.0
        mean = sum(result.costs) / len(result.costs)
        return (self.task.flop or 1.0) / mean if mean > 0 else 0.0

    def _stop_if_hopeless(self, done: int, errors: Counter[str]) -> None:
        """A template may refuse configurations; anything else that fails so often is a fault of the set-up."""
        refused = sum(n for text, n in errors.items() if text.startswith(_REFUSED))
        failed = sum(errors.values()) - refused
        if done < _FIRST_TRIALS // 2 or done >= 2 * _FIRST_TRIALS or failed * 2 <= max(done, _FIRST_TRIALS):
            return
        text, count = max(((t, n) for t, n in errors.items() if not t.startswith(_REFUSED)), key=lambda row: row[1])
        raise TuningError(f"{failed} of the first {done} trials of {self.task.name} failed, {count} with: {text}")

    def reset(self) -> None:
        """Forget the best; a subclass forgets what it learned too."""
        self.visited = set()
        self._forget_best()

    def set_error_threshold(self, threshold: int) -> None:
        """After so many failures in a row a line says so."""
        self.error_ct_threshold = threshold


_REFUSED = "the template refused: "
_WORDS = {
    MeasureErrorNo.INSTANTIATION_ERROR: "lowering failed",
    MeasureErrorNo.COMPILE_HOST: "compiling failed",
    MeasureErrorNo.COMPILE_DEVICE: "compiling for the device failed",
    MeasureErrorNo.RUNTIME_DEVICE: "running failed",
    MeasureErrorNo.WRONG_ANSWER: "the answer was wrong",
    MeasureErrorNo.BUILD_TIMEOUT: "building timed out",
    MeasureErrorNo.RUN_TIMEOUT: "running timed out",
}


def _error_text(result: MeasureResult) -> str:
    error = result.costs[0] if result.costs else ""
    if isinstance(error, InstantiationError):
        return f"{_REFUSED}{error}"
    words = _WORDS.get(MeasureErrorNo(int(result.error_no)), "an error")
    return f"{words}: {type(error).__name__ + ': ' if isinstance(error, BaseException) else ''}{str(error)[:300]}"
