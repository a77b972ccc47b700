"""Ranges of tensors out of the values they take, and the integers of a range."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Bins of a histogram, half of them below zero.
BINS = 8192
# Ranges that the search for the least loss of information tries.
_CANDIDATES = 128
_VALUES_IN_BIN = 16
# Values for each integer from which on their distribution is known well enough to leave some out.
_VALUES_FOR_LEVEL = 64
# The most values that may lie beyond the range: what is cut off by it is wrong by more than any step.
_LEFT_OUT = 1e-3
# The share of values at the end of a range that is more than chance: the tensor is cut off there.
_CUT_OFF_SHARE = 1e-4


class Integers(NamedTuple):
    """real = scale * (integer - zero); ``scale`` has one element, or one for each channel."""

    scale: np.ndarray
    zero: int
    dtype: str


def symmetric(reach, bits: int, dtype: str = "int8") -> Integers:
    """Integers from ``-reach`` to ``reach``, zero in the middle."""
    reach = np.where(np.asarray(reach, "float64") > 0, reach, 1.0)
    zero = 0 if dtype == "int8" else 2 ** (bits - 1)
    return Integers((reach / (2 ** (bits - 1) - 1)).astype("float32"), zero, dtype)


def asymmetric(low: float, high: float, bits: int, dtype: str = "int8") -> Integers:
    """Integers from ``low`` to ``high``; zero, which padding and ReLU make, is one of them."""
    low, high = min(low, 0.0), max(high, 0.0)
    if high == low:
        high = 1.0
    scale = np.float32((high - low) / (2**bits - 1))
    first = -(2 ** (bits - 1)) if dtype == "int8" else 0
    zero = int(np.clip(first - round(low / float(scale)), first, first + 2**bits - 1))
    return Integers(np.asarray(scale), zero, dtype)


def power_of_two(reach: float) -> float:
    """The least power of two that is not below."""
    return float(2.0 ** np.ceil(np.log2(reach))) if reach > 0 else 1.0


def decibels(signal, noise):
    """The power of values over that of their error, in decibels; no error is infinitely many."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 10 * np.log10(np.asarray(signal, "float64") / noise)


class Histogram:
    """How often a tensor takes which values, over any number of arrays; the bins widen as values grow."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, "int64")
        self.reach = 0.0
        self.low, self.high = np.inf, -np.inf
        # Values that are exactly the lowest, exactly the highest, and exactly zero.
        self.at_low = self.at_high = self.zeros = 0

    def add(self, values: np.ndarray) -> None:
        """Count the values of an array.

        Raises
        ------
        ValueError
            A value is not finite.
        """
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        if not np.isfinite([low, high]).all():
            raise ValueError("values are not finite")
        # A bound that moves has none of the values so far.
        self.at_low = 0 if low < self.low else self.at_low
        self.at_high = 0 if high > self.high else self.at_high
        self.at_low += np.count_nonzero(values == low) if low <= self.low else 0
        self.at_high += np.count_nonzero(values == high) if high >= self.high else 0
        self.zeros += values.size - np.count_nonzero(values)
        self.low, self.high = min(self.low, low), max(self.high, high)
        top = max(-low, high)
        if top > self.reach:
            self._widen(power_of_two(top))
        reach = self.reach or 1.0
        self.counts += np.histogram(values, BINS, (-reach, reach))[0]

    def _widen(self, reach: float) -> None:
        """Bins over a range that is larger by a power of two: two of them become one."""
        if not self.reach:
            # All values so far are zero, which lies at the start of the middle bin whatever the range.
            self.reach = reach
        while self.reach < reach:
            pairs = self.counts.reshape(BINS // 2, 2).sum(1)
            self.counts = np.pad(pairs, BINS // 4)
            self.reach *= 2

    @property
    def edges(self) -> np.ndarray:
        reach = self.reach or 1.0
        return np.linspace(-reach, reach, BINS + 1)

    def inside(self, percent: float) -> tuple[float, float]:
        """The range that holds this share of the values, what is left out being shared by both ends."""
        out = (1 - percent / 100) / 2 * self.counts.sum()
        total = np.cumsum(self.counts)
        first = int(np.searchsorted(total, out, side="right"))
        last = int(np.searchsorted(total, total[-1] - out, side="left"))
        return max(float(self.edges[first]), self.low), min(float(self.edges[last + 1]), self.high)

    def _open_counts(self) -> np.ndarray:
        """The values between the bounds, zero left out as well: how often each bin has one of them. Values that a ReLU
        or a clip cuts off all lie at one of those three, which integers hold exactly: such a spike says nothing about
        the distribution, and would hide it."""
        counts = self.counts.copy()
        spikes = {0.0: self.zeros, self.low: self.at_low, self.high: self.at_high}
        for value, count in spikes.items():
            counts[np.histogram([value], BINS, (-(self.reach or 1.0), self.reach or 1.0))[0].argmax()] -= count
        return counts

    def least_loss(self, bits: int) -> tuple[float, float]:
        """The range in which the distribution of the integers tells most about that of the values: of several reaches
        the one with the least Kullback-Leibler divergence. An end that many values lie at exactly is where the tensor
        is cut off, and an end of the range; with few values the range is that of all of them."""
        if not self.counts.any():
            return 0.0, 0.0
        counts = self._open_counts()
        magnitudes = counts[BINS // 2 :] + counts[: BINS // 2][::-1]
        levels = 2 ** (bits - 1) if self.low < 0 else 2**bits
        if magnitudes.sum() < _VALUES_FOR_LEVEL * levels:
            return self.low, self.high
        # Bins of few values each would look like a distribution of their own.
        while magnitudes.sum() < _VALUES_IN_BIN * len(magnitudes) and len(magnitudes) > 4 * levels:
            magnitudes = magnitudes.reshape(-1, 2).sum(1)
        last = int(np.flatnonzero(magnitudes)[-1]) + 1
        total = np.cumsum(magnitudes)
        least = max(levels, int(np.searchsorted(total, (1 - _LEFT_OUT) * total[-1])) + 1)
        ends = sorted({max(least, round(last * (i + 1) / _CANDIDATES)) for i in range(_CANDIDATES)})
        best = min(ends, key=lambda end: (_divergence(magnitudes, end, levels), -end))
        reach = (self.reach or 1.0) * best / len(magnitudes)
        rare = _CUT_OFF_SHARE * self.counts.sum()
        low = self.low if self.at_low > rare else max(-reach, self.low)
        return low, self.high if self.at_high > rare else min(reach, self.high)


def _divergence(counts: np.ndarray, end: int, levels: int) -> float:
    """The divergence of ``levels`` integers over the first ``end`` bins, where what lies beyond becomes the last."""
    kept = counts[:end].astype("float64")
    p = kept.copy()
    p[-1] += counts[end:].sum()
    level = np.arange(end) * levels // max(end, levels)
    sums = np.bincount(level, kept, levels)
    occupied = np.bincount(level, kept > 0, levels)
    q = np.where(kept > 0, (sums / np.maximum(occupied, 1))[level], 0.0)
    p, q = p / max(p.sum(), 1), q / max(q.sum(), 1)
    # An integer that no value became, but values beyond the range do, counts as the rarest.
    least = 1e-9
    there = p > 0
    return float((p[there] * np.log(p[there] / np.maximum(q[there], least))).sum())


__all__ = ["BINS", "Histogram", "Integers", "asymmetric", "decibels", "power_of_two", "symmetric"]
