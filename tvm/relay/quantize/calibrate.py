"""Calibration: run a float model over a data set to collect the values of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...error import TVMError
from ...ir.module import IRModule
from ...target import Target
from ..expr import Function, RelayExpr, Tuple
from ..interpreter import create_executor
from .config import QConfig
from .plan import name_of
from .ranges import Histogram, Integers, asymmetric, power_of_two


class Values:
    """Runs a function to compute the values of some of its expressions."""

    def __init__(self, mod: IRModule, function: Function, wanted: Sequence[RelayExpr]):
        self.names = [p.name_hint for p in function.params]
        shown = mod.clone()
        # Keep all parameters, even those that the requested expressions do not use.
        shown["main"] = Function(function.params, Tuple(tuple(wanted)), None, (), None)
        static = not _is_open(function)
        self.run = create_executor("graph" if static else "vm", shown, target=Target("llvm")).evaluate()

    def of(self, sample: Mapping[str, Any]) -> list[np.ndarray]:
        """Return the values for one sample of inputs.

        Raises
        ------
        TVMError
            The sample lacks an input, or it has an input that the model does not have.
        """
        unknown = sorted(set(sample) - set(self.names))
        missing = [n for n in self.names if n not in sample]
        if unknown or missing:
            raise TVMError(
                f"quantize: a sample of the data set has the inputs {sorted(sample)}, but the model has {self.names}"
            )
        out = self.run(*[sample[n] for n in self.names])
        return [part.numpy() for part in out]


def _is_open(function: Function) -> bool:
    from ...ir.prim import IntImm

    return any(not isinstance(d, IntImm) for p in function.params for d in getattr(p.checked_type_, "shape", ()))


def histograms(
    mod: IRModule, function: Function, points: Sequence[RelayExpr], dataset: Iterable[Mapping[str, Any]], chunk: int
) -> list[Histogram]:
    """Return a histogram of the values of each point over the data set.

    Raises
    ------
    TVMError
        The data set is empty, or a value is not finite.
    """
    found = [Histogram() for _ in points]
    step = len(points) if chunk < 1 else chunk
    samples: Iterable[Mapping[str, Any]] = dataset if step >= len(points) else list(dataset)
    for first in range(0, len(points), step or 1):
        part = points[first : first + step]
        values, count = Values(mod, function, part), 0
        for sample in samples:
            count += 1
            for histogram, point, array in zip(found[first:], part, values.of(sample)):
                try:
                    histogram.add(array)
                except ValueError as problem:
                    raise TVMError(f"quantize: '{name_of(point)}': {problem} on sample {count}") from None
        if not count:
            raise TVMError("quantize: the data set is empty")
    return found


def choose(histogram: Histogram, config: QConfig) -> Integers:
    """Choose the integer range of a point from the histogram of its values."""
    bits, dtype = config.nbit_input, config.dtype_input
    if config.calibrate_mode == "max":
        low, high = histogram.low, histogram.high
    elif config.calibrate_mode == "percentile":
        low, high = histogram.inside(config.percentile)
    else:
        low, high = histogram.least_loss(bits)
    return asymmetric(low, high, bits, dtype)


def integers_of(
    mod: IRModule,
    function: Function,
    points: Sequence[RelayExpr],
    dataset: Iterable[Mapping[str, Any]] | None,
    config: QConfig,
) -> dict[int, Integers]:
    """Return the integer type and scale of each point, by the id of the point.

    Raises
    ------
    TVMError
        The calibration mode needs a data set, and none is given.
    """
    if not points:
        return {}
    if config.calibrate_mode == "global_scale":
        bits = config.nbit_input
        zero = 0 if config.dtype_input == "int8" else 2 ** (bits - 1)
        scale = np.float32(power_of_two(config.global_scale) / 2 ** (bits - 1))
        return {id(p): Integers(np.asarray(scale), zero, config.dtype_input) for p in points}
    if dataset is None:
        mode = config.calibrate_mode
        raise TVMError(f"quantize: calibrate_mode {mode} needs a data set: quantize(mod, params, dataset)")
    seen = histograms(mod, function, points, dataset, config.calibrate_chunk_by)
    return {id(p): choose(h, config) for p, h in zip(points, seen)}


__all__ = ["Values", "choose", "histograms", "integers_of"]
