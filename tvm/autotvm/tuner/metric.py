"""Metrics of how well predicted scores rank measured configurations."""

from __future__ import annotations

from typing import Any

import numpy as np


def max_curve(trial_scores: Any) -> np.ndarray:
    """Return the best score up to each trial."""
    return np.maximum.accumulate(np.asarray(trial_scores, dtype=float))


def mean_curve(trial_scores: Any) -> np.ndarray:
    """Return the mean score up to each trial."""
    scores = np.asarray(trial_scores, dtype=float)
    return np.cumsum(scores) / np.arange(1, len(scores) + 1)


def recall_curve(trial_ranks: Any, top: int | None = None) -> np.ndarray:
    """Return the fraction of the best ``top`` configurations among the first trials: ``trial_ranks[i]`` is the true
    rank of trial ``i``."""
    ranks = np.asarray(trial_ranks)
    if top is None:
        return np.array([np.sum(ranks[: i + 1] <= i) / (i + 1) for i in range(len(ranks))])
    return np.cumsum(ranks < top) / top


def spearman(a: Any, b: Any) -> float:
    """Return the rank correlation of two lists of scores; equal scores share a rank."""
    a, b = _ranks(np.asarray(a, dtype=float)), _ranks(np.asarray(b, dtype=float))
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


def _ranks(x: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[inverse]
