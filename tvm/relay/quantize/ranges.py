"""Choose quantization ranges from the values of tensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# The number of bins of a histogram; half of them are below zero.
BINS = 8192
# The number of ranges that the search for the least divergence tries.
_CANDIDATES = 128
_VALUES_IN_BIN = 16
# The number of values per integer level below which the distribution is unreliable and no value is clipped.
_VALUES_FOR_LEVEL = 64
# The largest fraction of values outside the range. Clipping errors are larger than any rounding error.
_MAX_CLIPPED = 1e-3
# The fraction of values at a bound above which the tensor is assumed to be clipped there.
_CUT_OFF_SHARE = 1e-4


class Integers(NamedTuple):
    """Quantization parameters: real = scale * (integer - zero). ``scale`` has one element, or one for each channel."""

    scale: np.ndarray
    zero: int
    dtype: str


def symmetric(reach, bits: int, dtype: str = "int8") -> Integers:
    """Return the parameters of a symmetric range from ``-reach`` to ``reach``."""
    reach = np.where(np.asarray(reach, "float64") > 0, reach, 1.0)
    zero = 0 if dtype == "int8" else 2 ** (bits - 1)
    return Integers((reach / (2 ** (bits - 1) - 1)).astype("float32"), zero, dtype)


def asymmetric(low: float, high: float, bits: int, dtype: str = "int8") -> Integers:
    """Return the parameters of a range that contains ``low``, ``high`` and zero, which padding and ReLU produce."""
    low, high = min(low, 0.0), max(high, 0.0)
    if high == low:
        high = 1.0
    scale = np.float32((high - low) / (2**bits - 1))
    first = -(2 ** (bits - 1)) if dtype == "int8" else 0
    zero = int(np.clip(first - round(low / float(scale)), first, first + 2**bits - 1))
    return Integers(np.asarray(scale), zero, dtype)


def power_of_two(reach: float) -> float:
    """Return the least power of two that is not less than ``reach``."""
    return float(2.0 ** np.ceil(np.log2(reach))) if reach > 0 else 1.0


def decibels(signal, noise):
    """Return the signal-to-noise ratio in decibels; infinity if there is no noise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 10 * np.log10(np.asarray(signal, "float64") / noise)


class Histogram:
    """A histogram of the values of a tensor over any number of arrays. The bins widen as larger values occur."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, "int64")
        self.reach = 0.0
        self.low, self.high = np.inf, -np.inf
        # The numbers of values equal to the minimum, to the maximum and to zero.
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
        # No previous value equals a new minimum or maximum.
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
        """Widen the range by a power of two, merging pairs of bins."""
        if not self.reach:
            # All values so far are zero, which is the lower edge of the middle bin for any range.
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
        """Return the range that contains the given percentage of values, excluding equal numbers at both ends."""
        out = (1 - percent / 100) / 2 * self.counts.sum()
        total = np.cumsum(self.counts)
        first = int(np.searchsorted(total, out, side="right"))
        last = int(np.searchsorted(total, total[-1] - out, side="left"))
        return max(float(self.edges[first]), self.low), min(float(self.edges[last + 1]), self.high)

    def _open_counts(self) -> np.ndarray:
        """Return the bin counts without the values equal to the minimum, the maximum or zero.

        A ReLU or clip moves many values to one of these three, which integers represent exactly. Such a spike would
        hide the rest of the distribution.
        """
        counts = self.counts.copy()
        spikes = {0.0: self.zeros, self.low: self.at_low, self.high: self.at_high}
        for value, count in spikes.items():
            counts[np.histogram([value], BINS, (-(self.reach or 1.0), self.reach or 1.0))[0].argmax()] -= count
        return counts

    def least_loss(self, bits: int) -> tuple[float, float]:
        """Return the range with the least Kullback-Leibler divergence between the values and their integers.

        A bound that many values equal is where the tensor was clipped, and is kept. With few values the range is that
        of all values.
        """
        if not self.counts.any():
            return 0.0, 0.0
        counts = self._open_counts()
        magnitudes = counts[BINS // 2 :] + counts[: BINS // 2][::-1]
        levels = 2 ** (bits - 1) if self.low < 0 else 2**bits
        if magnitudes.sum() < _VALUES_FOR_LEVEL * levels:
            return self.low, self.high
        # Merge bins with few values, whose noise would distort the distribution.
        while magnitudes.sum() < _VALUES_IN_BIN * len(magnitudes) and len(magnitudes) > 4 * levels:
            magnitudes = magnitudes.reshape(-1, 2).sum(1)
        last = int(np.flatnonzero(magnitudes)[-1]) + 1
        total = np.cumsum(magnitudes)
        least = max(levels, int(np.searchsorted(total, (1 - _MAX_CLIPPED) * total[-1])) + 1)
        ends = sorted({max(least, round(last * (i + 1) / _CANDIDATES)) for i in range(_CANDIDATES)})
        best = min(ends, key=lambda end: (_divergence(magnitudes, end, levels), -end))
        reach = (self.reach or 1.0) * best / len(magnitudes)
        rare = _CUT_OFF_SHARE * self.counts.sum()
        low = self.low if self.at_low > rare else max(-reach, self.low)
        return low, self.high if self.at_high > rare else min(reach, self.high)


def _divergence(counts: np.ndarray, end: int, levels: int) -> float:
    """Return the divergence of ``levels`` integers over the first ``end`` bins; values beyond are clipped to the last
    bin."""
    kept = counts[:end].astype("float64")
    p = kept.copy()
    p[-1] += counts[end:].sum()
    level = np.arange(end) * levels // max(end, levels)
    sums = np.bincount(level, kept, levels)
    occupied = np.bincount(level, kept > 0, levels)
    q = np.where(kept > 0, (sums / np.maximum(occupied, 1))[level], 0.0)
    p, q = p / max(p.sum(), 1), q / max(q.sum(), 1)
    # A level without values in range may receive clipped values; give it a small probability.
    least = 1e-9
    there = p > 0
    return float((p[there] * np.log(p[there] / np.maximum(q[there], least))).sum())


__all__ = ["BINS", "Histogram", "Integers", "asymmetric", "decibels", "power_of_two", "symmetric"]
