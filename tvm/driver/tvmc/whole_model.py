"""A model as a whole, with and without what tuning found: a gain that does not show there is none."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...autotvm.task.dispatcher import ApplyHistoryBest
from ...ir.transform import PassContext
from ...runtime.devices import device
from ...target import Target
from .runner import generate_tensor_data

# Rounds, fewer where they would take longer than so many seconds.
ROUNDS, LEAST_ROUNDS, SECONDS = 100, 20, 10.0
# Of a model's build and comparison, a task each: what to expect before it is known.
SECONDS_PER_TASK, OTHER_SECONDS = 0.6, 3.0

Records = Sequence[tuple[Any, Any]]


class Comparison(NamedTuple):
    """Seconds of the model without tuning, and what part of it the model takes with each choice of records."""

    seconds: float
    ratios: list[float]


class WholeModel:
    """A graph with its parameters for a target."""

    def __init__(self, mod: Any, params: dict[str, Any], target: Any):
        self.mod, self.params, self.target = mod, params, target

    def compare(self, choices: Sequence[Records]) -> Comparison:
        """Run the model without records and with each choice in turn. What disturbs a round disturbs all of it, so the
        ratios within rounds count, and their median."""
        programs = [self._program(records) for records in ((), *choices)]
        for program in programs:
            program()
        rounds: list[list[float]] = []
        begin = time.perf_counter()
        while len(rounds) < LEAST_ROUNDS or len(rounds) < ROUNDS and time.perf_counter() - begin < SECONDS:
            # Nobody always comes first.
            turn = len(rounds) % len(programs)
            order = [*range(turn, len(programs)), *range(turn)]
            seconds = {i: programs[i]() for i in order}
            rounds.append([seconds[i] for i in range(len(programs))])
        ratios = [statistics.median(row[i] / row[0] for row in rounds) for i in range(1, len(programs))]
        return Comparison(sorted(row[0] for row in rounds)[len(rounds) // 5], ratios)

    def _program(self, records: Records) -> Callable[[], float]:
        """Seconds of a run of the model compiled with records."""
        return timed(*compiled(self.mod, self.params, self.target, list(records)))


def compiled(mod: Any, params: dict[str, Any], target: Any, records: Any = ()) -> tuple[Any, Any]:
    """An executor of a graph that was compiled with records (pairs, or a path), its inputs filled; and its device."""
    from ... import relay
    from ...contrib import graph_executor

    with PassContext(opt_level=3), ApplyHistoryBest(records) if records else contextlib.nullcontext():
        library = relay.build(mod, target=target, params=params)
    where = device(Target(target).kind.name, 0)
    module = graph_executor.GraphModule(library["default"](where))
    for parameter in library.ir_mod["main"].params:
        kind = parameter.checked_type_
        shape = [int(d) for d in kind.shape]
        # Numbers that are indexes of something must stay small.
        fill = "random" if "float" in kind.dtype else "ones"
        module.set_input(parameter.name_hint, generate_tensor_data(shape, kind.dtype, fill))
    return module, where


def timed(module: Any, where: Any) -> Callable[[], float]:
    """Seconds of a run, until the device is done."""

    def run() -> float:
        begin = time.perf_counter()
        module.run()
        where.sync()
        return time.perf_counter() - begin

    return run


__all__ = ["OTHER_SECONDS", "SECONDS_PER_TASK", "Comparison", "WholeModel", "compiled", "timed"]
