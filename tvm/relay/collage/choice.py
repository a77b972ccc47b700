"""Choose by measurement between the code generator of a partition and the target of the model."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from ...error import TVMError
from ...ir.module import GlobalVar, IRModule
from ...runtime.devices import device
from ...runtime.module import num_threads
from ...target.backend import compiled_cpu
from ...target.target import Target
from ..backend.external.inline import without_composites, without_partitions
from ..backend.external.summary import operators_in
from ..expr import Call, Function, Var
from ..infer import infer_module
from .collage import CostEstimator

# Each alternative is measured this often, in turn; the shortest time counts.
ROUNDS = 2


class Choice(NamedTuple):
    """The measured times of a partition in seconds: with its code generator and with the target of the model."""

    symbol: str
    compiler: str
    library_seconds: float
    target_seconds: float

    @property
    def is_kept(self) -> bool:
        """Whether the code generator compiles the partition."""
        return self.library_seconds <= self.target_seconds


def keep_faster_partitions(
    mod: IRModule,
    target: Any,
    estimator: CostEstimator | None = None,
    records: str | os.PathLike[str] | None = None,
) -> tuple[IRModule, list[Choice]]:
    """Measure each partition with its code generator and with the target, and keep the faster alternative.

    Equal partitions are measured once.

    Parameters
    ----------
    mod : IRModule
        The module after PartitionGraph.
    target : Target or str
        The target of the model.
    estimator : CostEstimator, optional
        Estimates run times in place of a measurement.
    records : str or os.PathLike, optional
        A file of measurements, one in each line. Partitions in the file are not measured again on the same
        processor with the same target and number of threads; new measurements are appended.

    Returns
    -------
    tuple of IRModule and list of Choice
        The module without the partitions that the target runs faster, and the measurements.

    Raises
    ------
    TVMError
        The file contains a line that is not a measurement.
    """
    where = Target(target)
    known = _read(records)
    mod = infer_module(mod)
    choices: list[Choice] = []
    for var, function in mod.functions.items():
        if not (isinstance(function, Function) and "Compiler" in function.attrs):
            continue
        compiler = str(function.attrs["Compiler"])
        key = _key(function, compiler, where)
        if key not in known:
            known[key] = _measured(function, compiler, where, estimator or CostEstimator())
            _append(records, key, compiler, function, known[key])
        choices.append(Choice(var.name_hint, compiler, *known[key]))
    slower = {choice.symbol for choice in choices if not choice.is_kept}
    return (without_partitions(mod, slower) if slower else mod), choices


def _measured(function: Function, compiler: str, target: Target, estimator: CostEstimator) -> tuple[float, float]:
    library, plain = _called(function), _plain(function)
    both = Target(compiler, host=target)
    times = [(estimator.estimate(library, both), estimator.estimate(plain, target)) for _ in range(ROUNDS)]
    return min(a for a, _ in times), min(b for _, b in times)


def _called(function: Function) -> IRModule:
    """Return a module whose ``main`` calls a partition."""
    symbol = GlobalVar(str(function.attrs["global_symbol"]))
    params = [Var(p.name_hint, p.checked_type) for p in function.params]
    return infer_module(IRModule({symbol: function, GlobalVar("main"): Function(params, Call(symbol, params))}))


def _plain(function: Function) -> IRModule:
    """Return a module whose ``main`` has the operators of a partition."""
    return infer_module(IRModule({GlobalVar("main"): Function(function.params, without_composites(function.body))}))


# ---- records ----


def _key(function: Function, compiler: str, target: Target) -> str:
    """Return a text that identifies the measurement: the operators with types, without the values of constants."""
    cpu = compiled_cpu(target)
    name = cpu.cpu if cpu else device(target.get_target_device_type(), 0).device_name
    machine = f"{target} {name} {num_threads()} threads"
    body = Function(function.params, function.body).astext(show_meta_data=False)
    return hashlib.sha256(f"{compiler}\n{machine}\n{body}".encode()).hexdigest()


def _read(records: str | os.PathLike[str] | None) -> dict[str, tuple[float, float]]:
    known: dict[str, tuple[float, float]] = {}
    if records is None or not Path(records).exists():
        return known
    for number, line in enumerate(Path(records).read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            known[str(entry["partition"])] = (float(entry["library_seconds"]), float(entry["target_seconds"]))
        except (ValueError, KeyError, TypeError) as problem:
            raise TVMError(f"{records}: line {number} is not a measurement of a partition") from problem
    return known


def _append(
    records: str | os.PathLike[str] | None, key: str, compiler: str, function: Function, seconds: tuple[float, float]
) -> None:
    if records is None:
        return
    entry = {"partition": key, "compiler": compiler, "operators": operators_in(function),
             "library_seconds": seconds[0], "target_seconds": seconds[1]}  # fmt: skip
    with open(records, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


__all__ = ["Choice", "keep_faster_partitions"]
