"""A Relay module as the model that a tuning run compares with and without records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ..ir.transform import PassContext
from ..runtime.devices import Device
from ..runtime.ndarray import numpy_dtype
from ..target import Target
from .apply_records import Applied, records_of_file, records_of_lines
from .model import Comparison, Program, compare_programs


class RelayModel:
    """A module with its parameters for a target."""

    def __init__(self, mod: Any, params: dict[str, Any], target: Any):
        self.mod, self.params, self.target = mod, params, target

    def compare(self, choices: Sequence[Sequence[str]]) -> Comparison:
        """Compare the model compiled without records and with each choice of record lines."""
        baseline, *others = [self._program(lines) for lines in ((), *choices)]
        return compare_programs(baseline, others)

    def _program(self, lines: Sequence[str]) -> Program:
        return timed(*compiled(self.mod, self.params, self.target, records_of_lines(lines)))


def compiled(mod: Any, params: dict[str, Any], target: Any, records: Applied | str | None = None) -> tuple[Any, Any]:
    """Return the device and an executor of a module that was compiled with records (a file, or the output of
    ``apply_records``), with its inputs set."""
    from .. import relay
    from ..contrib import graph_executor

    applied = records if isinstance(records, Applied) else records_of_file(records)
    with PassContext(opt_level=3, config=applied.config), applied.context:
        library = relay.build(mod, target=target, params=params)
    where = Device(Target(target).get_target_device_type(), 0)
    module = graph_executor.GraphModule(library["default"](where))
    for parameter in library.ir_mod["main"].params:
        module.set_input(parameter.name_hint, _example(parameter.checked_type_))
    return module, where


def _example(kind: Any) -> Any:
    """Return random values of a tensor's type. Integers may be indices, so they are ones."""
    import numpy as np

    shape = [int(d) for d in kind.shape]
    numbers = np.random.uniform(-1, 1, size=shape) if "float" in kind.dtype else np.ones(shape)
    return numbers.astype(numpy_dtype(kind.dtype))


def timed(module: Any, where: Any) -> Program:
    """Return the seconds of a run, including the synchronization with the device."""

    def run() -> float:
        begin = time.perf_counter()
        module.run()
        where.sync()
        return time.perf_counter() - begin

    return run


__all__ = ["RelayModel", "compiled", "timed"]
