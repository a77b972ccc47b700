"""Simulated annealing on a cost model: many walks at once, as rows of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from .model_based_tuner import ModelOptimizer


class SimulatedAnnealingOptimizer(ModelOptimizer):
    """A simulated annealing search. Each step changes one knob; worse points are accepted with a probability that
    decreases with the temperature. ``persistent`` walks continue at the next call where they stopped."""

    def __init__(
        self,
        task: Any,
        n_iter: int = 500,
        temp: float | tuple[float, float] = (1, 0),
        persistent: bool = True,
        parallel_size: int = 128,
        early_stop: int = 50,
        log_interval: int = 50,
    ):
        self.task = task
        self.space = task.config_space
        self.n_iter, self.temp, self.persistent = n_iter, temp, persistent
        self.parallel_size = min(parallel_size, len(self.space))
        self.early_stop = early_stop or 10**9
        self.log_interval = log_interval
        self.points: np.ndarray | None = None
        self.random = np.random.default_rng()

    def find_maximums(self, model: Any, num: int, exclusive: Any) -> list[int]:
        """Return the ``num`` best visited indices that are not in ``exclusive``, the best first."""
        dims = np.array(self.space.dims, dtype=np.int64)
        weights = np.concatenate([[1], np.cumprod(dims[:-1])]) if len(dims) else np.zeros(0, np.int64)
        start = self.points if self.persistent and self.points is not None else None
        points = np.array(self.space.sample_ints(self.parallel_size)) if start is None else start
        knobs = (points[:, None] // weights) % dims
        scores = model.predict(points)
        met: dict[int, float] = {}
        _remember(met, points, scores)
        movable = np.flatnonzero(dims > 1)
        if not len(movable):
            return [int(p) for p in points[:num] if int(p) not in exclusive]
        hot, cold = self.temp if isinstance(self.temp, tuple) else (self.temp, 0)
        bar, since = -np.inf, 0
        for step in range(self.n_iter):
            temperature = hot + (cold - hot) * step / self.n_iter
            moved, moved_points = self._move(knobs, dims, weights, movable)
            found = model.predict(moved_points)
            spread = float(np.std(scores)) or 1.0
            chance = np.exp(np.minimum((found - scores) / (spread * temperature + 1e-5), 0))
            taken = self.random.random(len(found)) < chance
            knobs[taken], points[taken], scores[taken] = moved[taken], moved_points[taken], found[taken]
            _remember(met, moved_points, found)
            new_bar = float(np.partition(scores, len(scores) // 2)[len(scores) // 2])
            since = 0 if new_bar > bar + 1e-9 else since + 1
            bar = max(bar, new_bar)
            if since >= self.early_stop:
                break
        if self.persistent:
            self.points = points
        best = sorted((p for p in met if p not in exclusive), key=lambda p: -met[p])
        return best[:num]

    def _move(self, knobs: np.ndarray, dims: np.ndarray, weights: np.ndarray, movable: np.ndarray) -> tuple:
        """Return the walks with one knob changed; a walk does not move to a point that a filter rejects."""
        moved = knobs.copy()
        rows = np.arange(len(knobs))
        which = self.random.choice(movable, len(knobs))
        other = (self.random.random(len(knobs)) * (dims[which] - 1)).astype(np.int64)
        moved[rows, which] = other + (other >= knobs[rows, which])
        points = moved @ weights
        if self.space.is_filtered:
            left_out = [i for i, p in enumerate(points.tolist()) if not self.space.is_index_valid(p)]
            moved[left_out] = knobs[left_out]
            points = moved @ weights
        return moved, points


def _remember(met: dict[int, float], points: np.ndarray, scores: np.ndarray) -> None:
    met.update(zip(points.tolist(), scores.tolist()))
