"""A cost model for GPUs: estimated cycles, corrected by measurements of similar states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..gpu_features import GPUFeatureExtractor, estimated_speed, summary
from ..measure import MeasureInput, MeasureResult
from ..search_task import SearchTask
from .cost_model import CostModel
from .weights import family_of, starting_weights

# Maximum number of measurements that are used, the fastest ones of a task; and the share of the latest ones among them.
_MOST, _LATEST = 512, 0.5
# The assumed deviation of a failed state from its estimate, and the noise of measurements.
_FAILED, _NOISE = 3.0, 0.05
# Scores are the estimated speed to this power.
_PREFERENCE = 2.0


class EstimateModel(CostModel):
    """A model that scores states by estimated cycles and the pretrained weights of this package for a family of
    machines (unless ``pretrained`` is false). The deviation of the measurements of a task from this estimate is learned
    by ridge regression with a Gaussian kernel over the features, which needs no package and only a few measurements."""

    def __init__(self, pretrained: bool = True) -> None:
        self.pretrained = pretrained
        self._extractors: dict[str, GPUFeatureExtractor] = {}
        # By task: features, estimates and logarithms of seconds (NaN for a failed state).
        self._known: dict[str, list[tuple[np.ndarray, float, float]]] = {}
        self._fitted: dict[str, _Correction] = {}
        # By task, the logarithm of the time that corresponds to the score 1.
        self._least: dict[str, float] = {}

    def _features(self, task: SearchTask, state: Any) -> tuple[np.ndarray, float]:
        """Return the features of a state, and the logarithm of its estimated time."""
        extractor = self._extractors.get(task.workload_key)
        if extractor is None:
            extractor = GPUFeatureExtractor(task.compute_dag, task.target.features)
            self._extractors[task.workload_key] = extractor
        rows = extractor.rows(getattr(state, "state_object", state))
        weights = starting_weights(family_of(task.target)) if self.pretrained else None
        speed = estimated_speed(rows) + (0.0 if weights is None else weights.predict(rows).sum())
        return summary(rows), -float(speed) * math.log(2.0)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, res in zip(inputs, results):
            seconds = float(np.log(res.mean_cost)) if res.error_no == 0 else float("nan")
            self._known.setdefault(inp.task.workload_key, []).append((*self._features(inp.task, inp.state), seconds))
            self._fitted.pop(inp.task.workload_key, None)
            self._least.pop(inp.task.workload_key, None)

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        if not states:
            return []
        made = [self._features(task, state) for state in states]
        estimates = np.array([estimate for _, estimate in made])
        correction = self._correction(task.workload_key)
        if correction is not None:
            estimates = estimates + correction(np.stack([row for row, _ in made]))
        # A state that is twice as fast is selected as a parent four times as often.
        least = self._least.setdefault(task.workload_key, float(estimates.min()))
        return np.exp(np.clip(_PREFERENCE * (least - estimates), -50.0, 50.0)).tolist()

    def _correction(self, key: str) -> _Correction | None:
        known = self._known.get(key)
        if known and key not in self._fitted:
            self._fitted[key] = _Correction(_kept(known))
        return self._fitted.get(key)


def _kept(known: list[tuple[np.ndarray, float, float]]) -> list[tuple[np.ndarray, float, float]]:
    if len(known) <= _MOST:
        return known
    latest = int(_MOST * _LATEST)
    rest = sorted(known[:-latest], key=lambda one: np.inf if np.isnan(one[2]) else one[2])
    return [*rest[: _MOST - latest], *known[-latest:]]


class _Correction:
    """The deviation of the logarithm of the seconds from the estimate, as a function of features."""

    def __init__(self, known: list[tuple[np.ndarray, float, float]]):
        rows = np.stack([row for row, _, _ in known]).astype("float64")
        residual = np.array([seconds - estimate for _, estimate, seconds in known])
        usual = np.nanmedian(residual) if not np.isnan(residual).all() else 0.0
        residual = np.where(np.isnan(residual), usual + _FAILED, residual)
        self.mean, self.scale = rows.mean(axis=0), rows.std(axis=0) + 0.25
        self.usual, self.rows = usual, (rows - self.mean) / self.scale
        matrix = _kernel(self.rows, self.rows) + _NOISE * np.eye(len(rows))
        self.weights = np.linalg.solve(matrix, residual - usual)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return self.usual + _kernel((rows - self.mean) / self.scale, self.rows) @ self.weights


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    distance = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None] - 2.0 * a @ b.T
    return np.exp(-np.maximum(distance, 0.0) / a.shape[1])


__all__ = ["EstimateModel"]
