"""Helper functions of the tuners."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

logger = logging.getLogger("autotvm")

_PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def format_si_prefix(x: float, si_prefix: str) -> float:
    """Return ``x`` divided by the factor of a unit prefix."""
    try:
        return x / _PREFIXES[si_prefix]
    except KeyError:
        raise ValueError(
            f"unknown unit prefix '{si_prefix}'; use one of {', '.join(p for p in _PREFIXES if p)}"
        ) from None


def get_const_int(expr: Any) -> int:
    """Return the value of a constant."""
    value = getattr(expr, "value", expr)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"expected a constant integer, got {expr!r}")
    return int(value)


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """Return constants as ints; variables are unchanged."""
    return tuple(int(e.value) if hasattr(e, "value") else int(e) if hasattr(e, "__index__") else e for e in in_tuple)


def get_rank(values: Sequence[float]) -> Any:
    """Return the rank of each value; the largest value has rank 0."""
    import numpy as np

    order = np.argsort(-np.asarray(values, dtype=float), kind="stable")
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def sample_ints(low: int, high: int, m: int) -> list[int]:
    """Return ``m`` different random integers from ``low`` to ``high`` (exclusive)."""
    import random

    return random.sample(range(low, high), m)


class EmptyContext:
    def __enter__(self) -> EmptyContext:
        return self

    def __exit__(self, *_: object) -> None:
        pass
