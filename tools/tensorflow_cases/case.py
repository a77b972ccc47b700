"""The table of cases: a graph of one operator, and its inputs, which are drawn from the name of the case."""

from __future__ import annotations

import numpy as np

CASES: dict[str, tuple] = {}


class Drawn:
    """An input of a graph; its value is drawn from the name of the case."""

    def __init__(self, *shape, dtype="float32", low=None, high=None, open_shape=None):
        self.shape, self.dtype, self.low, self.high, self.open_shape = shape, dtype, low, high, open_shape

    def value(self, state) -> np.ndarray:
        if self.dtype.startswith("float"):
            low, high = -4.0 if self.low is None else self.low, 4.0 if self.high is None else self.high
            return state.uniform(low, high, self.shape).astype(self.dtype)
        if self.dtype == "bool":
            return state.randint(0, 2, self.shape).astype("bool")
        low, high = -9 if self.low is None else self.low, 9 if self.high is None else self.high
        return state.randint(low, high + 1, self.shape).astype(self.dtype)


def f(*shape, **rest) -> Drawn:
    return Drawn(*shape, **rest)


def i(*shape, dtype="int32", **rest) -> Drawn:
    return Drawn(*shape, dtype=dtype, **rest)


def b(*shape) -> Drawn:
    return Drawn(*shape, dtype="bool")


def case(name: str, build, *inputs: Drawn) -> None:
    """Register a case; ``name`` is the operator, or the operator and a variant, separated by a slash."""
    key = name if name not in CASES else next(f"{name}.{k}" for k in range(2, 99) if f"{name}.{k}" not in CASES)
    CASES[key] = (build, inputs)
