"""The tuning loop: select configurations, measure them, and learn from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...error import not_defined
from ...tuning.search import TuningError
from ..env import GLOBAL_SCOPE
from ..measure.measure import MeasureInput, MeasureResult, create_measure_batch
from ..record import is_made_here
from ..utils import format_si_prefix, logger
from .failures import Failures


class Tuner:
    """A search in the configuration space of a task. A subclass selects configurations (``next_batch``) and learns
    (``update``).

    Parameters
    ----------
    task : Task
        The task.
    **kwargs
        Options of a subclass.
    """

    def __init__(self, task: Any, **kwargs: Any):
        self.param = kwargs
        self.task = task
        self.space = task.config_space
        # Indices that are measured or being measured; each is measured once.
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

    # -- methods of subclasses -----------------------------------------------------------------------------------------

    def has_next(self) -> bool:
        """Whether there are configurations left to measure.

        Returns
        -------
        bool
            True if there are.

        Raises
        ------
        NotImplementedError
            The subclass does not implement it.
        """
        raise not_defined(self, "has_next")

    def next_batch(self, batch_size: int) -> list[Any]:
        """The configurations to measure next, at most ``batch_size``.

        Parameters
        ----------
        batch_size : int
            The maximum number of configurations.

        Returns
        -------
        list of ConfigEntity
            The configurations.

        Raises
        ------
        NotImplementedError
            The subclass does not implement it.
        """
        raise not_defined(self, "next_batch")

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements.

        Parameters
        ----------
        inputs : list of MeasureInput
            The measured configurations.
        results : list of MeasureResult
            The results of the measurements.
        """

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Load earlier records: those of this task count as measured and are not measured again.

        Parameters
        ----------
        data_set : list of (MeasureInput, MeasureResult)
            The records.
        min_seed_records : int
            The minimum number of records from which a cost model is trained.
        """
        own = [pair for pair in zip(*self.own_records(data_set)) if pair[0].config.index not in self.visited]
        inputs, results = [inp for inp, _ in own], [result for _, result in own]
        for inp, result in own:
            self.visited.add(inp.config.index)
            self._note_best(inp, result, 0)
        if inputs:
            self.update(inputs, results)

    def own_records(self, data_set: Iterable, anywhere: bool = False) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """The records of this task, measured on this machine (or on any), whose configurations are in its space.

        Parameters
        ----------
        data_set : list of (MeasureInput, MeasureResult)
            The records.
        anywhere : bool
            Whether to include records of other machines.

        Returns
        -------
        tuple of list
            The inputs and the results.
        """
        found: dict[int, tuple[MeasureResult, bool]] = {}
        for inp, result in data_set:
            if inp.task.workload != self.task.workload:
                continue
            if not (anywhere or is_made_here(inp, self.task.target)):
                continue
            index = self.space.index_of(inp.config.values())
            if index is not None and self.space.is_index_valid(index):
                # The order is that of the last records, which determines whether a task is confirmed.
                found.pop(index, None)
                found[index] = (result, inp.final)
        inputs = []
        for index, (_, final) in found.items():
            inputs.append(MeasureInput(self.task.target, self.task, self.space.get(index)))
            inputs[-1].final = final
        return inputs, [result for result, _ in found.values()]

    # -- the loop ------------------------------------------------------------------------------------------------------

    def tune(
        self,
        n_trial: int,
        measure_option: dict[str, Any],
        early_stopping: int | None = None,
        callbacks: Sequence[Callable] = (),
        si_prefix: str = "G",
    ) -> None:
        """Measure up to ``n_trial`` configurations; stop after ``early_stopping`` trials without gain.

        Parameters
        ----------
        n_trial : int
            The maximum number of configurations.
        measure_option : dict
            The output of ``autotvm.measure_option``.
        early_stopping : int, optional
            The maximum number of trials without gain.
        callbacks : list of Callable
            The functions ``callback(tuner, inputs, results)`` that are called after each batch.
        si_prefix : str
            The unit prefix of displayed speeds, such as "G".
        """
        measure_batch = create_measure_batch(self.task, measure_option)
        batch_size = getattr(measure_batch, "n_parallel", 1)
        patience = early_stopping or 10**9
        self.n_trial, self.early_stopping = n_trial, early_stopping
        format_si_prefix(0, si_prefix)
        # Trials without gain are counted from the start of this call.
        self.best_iter = 0
        failures, done = Failures(self.task.name, self.error_ct_threshold), 0
        GLOBAL_SCOPE.in_tuning, before = True, GLOBAL_SCOPE.in_tuning
        try:
            while done < n_trial and self.has_next():
                configs = self.next_batch(min(batch_size, n_trial - done))
                if not configs:
                    break
                inputs = [MeasureInput(self.task.target, self.task, config) for config in configs]
                results = measure_batch(inputs)
                self.learn(inputs, results, done)
                done += len(results)
                self.ttl = min(patience + self.best_iter, n_trial) - done
                for callback in callbacks:
                    callback(self, inputs, results)
                failures.note(results)
                if done >= self.best_iter + patience:
                    logger.debug("early stopped; best at trial %d", self.best_iter)
                    break
        finally:
            GLOBAL_SCOPE.in_tuning = before

    def learn(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult], first_trial: int = 0) -> None:
        """Process the measurements of a batch that ``next_batch`` returned.

        Parameters
        ----------
        inputs : list of MeasureInput
            The measured configurations.
        results : list of MeasureResult
            The results of the measurements.
        first_trial : int
            The number of earlier measurements.
        """
        for trial, (inp, result) in enumerate(zip(inputs, results), first_trial):
            self._note_best(inp, result, trial)
            if result.error_no != 0:
                logger.debug("No: %d\tresult: %s\t%s", trial, result, inp.config)
        self.update(inputs, results)

    def _note_best(self, inp: MeasureInput, result: MeasureResult, trial: int) -> None:
        flops = self.flops(result)
        if flops > self.best_flops:
            self.best_flops, self.best_config = flops, inp.config
            self.best_measure_pair, self.best_iter = (inp, result), trial

    def flops(self, result: MeasureResult) -> float:
        """The operations per second; 0 for a failed measurement.

        Parameters
        ----------
        result : MeasureResult
            The measurement.

        Returns
        -------
        float
            The operations per second.
        """
        if result.error_no != 0 or not result.costs:
            return 0.0
        mean = sum(result.costs) / len(result.costs)
        return (self.task.flop or 1.0) / mean if mean > 0 else 0.0

    def reset(self) -> None:
        """Reset the best configuration; a subclass also resets what it has learned."""
        self.visited = set()
        self._forget_best()

    def set_error_threshold(self, threshold: int) -> None:
        """Set the number of consecutive failures that causes a warning.

        Parameters
        ----------
        threshold : int
            The number of failures.
        """
        self.error_ct_threshold = threshold


__all__ = ["Tuner", "TuningError"]
