"""Initial values of parameters, chosen by the suffixes of their names."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ...ir.module import IRModule
from ...runtime import ndarray
from ..expr import Function
from ..transform.function_pass import InferType


class Initializer:
    """Fills an array in place: ``initializer(name, array)``. Subclasses define the values of weights."""

    def __init__(self, **kwargs):
        self._options = kwargs
        self.random = np.random.default_rng(0)

    def __call__(self, desc: str, arr) -> None:
        for ending, fill in self._rules():
            if desc.endswith(ending):
                fill(arr)
                return
        self._init_default(desc, arr)

    def _rules(self) -> tuple[tuple[str, Callable], ...]:
        return (
            ("weight", lambda a: self._init_weight("weight", a)),
            ("bias", lambda a: a.fill(0)),
            ("gamma", lambda a: a.fill(1)),
            ("beta", lambda a: a.fill(0)),
            ("mean", lambda a: a.fill(0)),
            ("var", lambda a: a.fill(1)),
            ("inv_var", lambda a: a.fill(1)),
            ("moving_avg", lambda a: a.fill(0)),
        )

    def _init_weight(self, name: str, arr) -> None:
        raise NotImplementedError("an Initializer subclass must define _init_weight")

    def _init_default(self, name: str, arr) -> None:
        raise ValueError(
            f"cannot initialize '{name}': parameter names must end in weight, bias, gamma, beta, mean or var"
        )


class Xavier(Initializer):
    """Random weights scaled by the input and output sizes of a layer."""

    _FACTORS = {"avg": lambda i, o: (i + o) / 2.0, "in": lambda i, o: i, "out": lambda i, o: o}

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3):
        if rnd_type not in ("uniform", "gaussian") or factor_type not in self._FACTORS:
            raise ValueError(f"Xavier: unknown rnd_type '{rnd_type}' or factor_type '{factor_type}'")
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, name: str, arr) -> None:
        if arr.ndim < 2:
            raise ValueError(f"Xavier: weight '{name}' must have at least 2 dimensions, got {arr.ndim}")
        window = 1
        for size in arr.shape[2:]:
            window *= size
        factor = self._FACTORS[self.factor_type](arr.shape[1] * window, arr.shape[0] * window)
        scale = (self.magnitude / factor) ** 0.5
        uniform = self.rnd_type == "uniform"
        arr[:] = self.random.uniform(-scale, scale, arr.shape) if uniform else self.random.normal(0, scale, arr.shape)


class Constant(Initializer):
    """Sets all weights to the same value."""

    def __init__(self, value: float):
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr) -> None:
        arr[:] = self.value


def create_workload(net: Function, initializer: Initializer | None = None, seed: int = 0) -> tuple[IRModule, dict]:
    """Return the function as a module, and a value for each parameter except the inputs (``data``, ``data1`` ...).

    The same seed yields the same values. NumPy's global generator is seeded, too, so that a script draws the same
    random numbers on each run.
    """
    np.random.seed(seed)
    mod = InferType()(IRModule.from_expr(net))
    initializer = initializer if initializer is not None else Xavier()
    initializer.random = np.random.default_rng(seed)
    params = {}
    for variable in mod["main"].params:
        if re.fullmatch(r"data\d*", variable.name_hint):
            continue
        kind = variable.checked_type
        value = np.zeros([int(d) for d in kind.shape], kind.dtype)
        initializer(variable.name_hint, value)
        params[variable.name_hint] = ndarray.array(value)
    return mod, params
