"""The result of time_evaluator."""

from __future__ import annotations

import math
from collections.abc import Sequence


class BenchmarkResult:
    """Run times in seconds, one per repeat, and their statistics.

    Parameters
    ----------
    results : Sequence[float]
        The times.
    """

    def __init__(self, results: Sequence[float]):
        if not results:
            raise ValueError("BenchmarkResult: there are no run times")
        self.results = tuple(float(value) for value in results)
        self.mean = math.fsum(self.results) / len(self.results)
        self.min = min(self.results)
        self.max = max(self.results)
        self.median = self.percentile(50)
        spread = math.fsum((value - self.mean) ** 2 for value in self.results)
        self.std = math.sqrt(spread / len(self.results))

    def percentile(self, percent: float) -> float:
        """The run time that ``percent`` of the repeats do not exceed, interpolated between neighbours.

        Parameters
        ----------
        percent : float
            From 0, the fastest repeat, to 100, the slowest.

        Returns
        -------
        float
            Seconds.

        Raises
        ------
        ValueError
            ``percent`` is not from 0 to 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"percentile: expected a value from 0 to 100, got {percent}")
        ordered = sorted(self.results)
        at = (len(ordered) - 1) * percent / 100
        low = math.floor(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

    def __repr__(self) -> str:
        names = ("min", "mean", "median", "max", "std", "results")
        return f"BenchmarkResult({', '.join(f'{name}={getattr(self, name)}' for name in names)})"

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = " ".join(f"{name + ' (ms)':^12}" for name in names)
        row = " ".join(f"{getattr(self, name) * 1000:^12.4f}" for name in names)
        # Scripts that parse the table of Apache TVM expect its trailing spaces.
        return f"Execution time summary:\n{head}\n{row}{' ' * 15}"
