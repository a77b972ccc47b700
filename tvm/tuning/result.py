"""The output of a tuning run, and its display in notebooks."""

from __future__ import annotations

from .state import TaskStatus


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3f} ms"


class TuningResult(tuple[TaskStatus, ...]):
    """The tasks of a run in their final state, as a tuple in the order of the run."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks: for each task its time in the model without tuning and with the best
        candidate."""
        from ..drawing.chart import paired_bars
        from ..drawing.page import fragment

        ran = [task for task in self if task.cost is not None]
        before = sum((task.baseline_cost or task.cost) * task.count for task in ran)
        after = sum(task.cost * task.count for task in ran)
        head = f"{len(self)} tasks, {sum(task.trials for task in self)} trials."
        if after:
            head += (
                f" Estimated time of these tasks in the model: {_milliseconds(before)} untuned, "
                f"{_milliseconds(after)} tuned ({before / after:.2f}x)."
            )
        bars = paired_bars("time of each task in the model, untuned and tuned", [self._row(task) for task in self])
        return fragment(f"<p>{head}</p>{bars}" if self else "<p>There was nothing to tune.</p>")

    @staticmethod
    def _row(task: TaskStatus) -> tuple[str, float | None, float | None, str]:
        name = f"{task.number} {task.title}"
        if task.cost is None:
            return name, None, None, f"nothing ran, {task.trials} trials"
        before = None if task.baseline_cost is None else task.baseline_cost * task.count
        words = f"{_milliseconds(before)} untuned, {_milliseconds(task.model_seconds)} tuned"
        return name, before, task.model_seconds, f"{words}, {task.flops / 1e9:.1f} GFLOPS, {task.trials} trials"


__all__ = ["TuningResult"]
