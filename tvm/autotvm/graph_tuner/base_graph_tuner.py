"""Graph tuners: choose one record for each operator of a model with the whole graph taken into account.

The time of a graph is the time of its operators and of the layout transforms between them. In this project the compiler
chooses the layouts: channel blocks are as wide as the vectors of the target, whichever record an operator uses. Layout
transforms therefore do not depend on the records and need not be measured, and the best record of each operator is the
best choice for the graph. Both tuner classes of Apache TVM return this choice; the file they write is for
``autotvm.apply_graph_best``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.tensor_type import TensorType
from ...relay.expr import Function, bind, var
from ...relay.infer import infer_module
from ...target import Target
from ..record import encode
from ..task.dispatcher import ApplyHistoryBest
from ..task.relay_integration import calls_of, operator_of, workloads_in
from ..utils import logger


class BaseGraphTuner:
    """A graph tuner. ``graph`` is a function or module with the inputs ``input_shapes``; its other parameters are
    weights.

    ``records`` is a file of records or pairs of inputs and results; ``target_ops`` are operators or their names.
    Messages from ``log_level`` on are written to ``log_file`` ("" for none) and, if ``verbose``, to the logger
    ``autotvm``."""

    def __init__(
        self,
        graph: Any,
        input_shapes: Mapping[str, Sequence[int]],
        records: Any,
        target_ops: Iterable[Any],
        target: Any,
        max_sch_num: int = 20,
        dtype: str = "float32",
        verbose: bool = True,
        log_file: str = "graph_tuner.log",
        log_level: int = 10,
        name: str = "graph_tuner",
    ):
        if max_sch_num < 1:
            raise TVMError(f"graph tuner: max_sch_num must be at least 1, got {max_sch_num}")
        self._mod = _with_shapes(graph, input_shapes, dtype)
        self._inputs = set(input_shapes)
        self._target = Target(target)
        self._operators = {getattr(op, "name", op) for op in target_ops}
        self._history = ApplyHistoryBest(records)
        self._best: list[tuple[Any, Any]] | None = None
        self._name, self._verbose, self._log_file, self._log_level = name, verbose, log_file, log_level
        self._log(logging.INFO, f"graph of {len(self._mod['main'].params)} parameters for {str(self._target).strip()}")

    def _log(self, level: int, text: str) -> None:
        """Write a line to the log file and, if ``verbose``, to the logger ``autotvm``."""
        if level < self._log_level:
            return
        if self._verbose:
            logger.log(level, "%s: %s", self._name, text)
        if self._log_file:
            with open(self._log_file, "a", encoding="utf-8") as file:
                file.write(f"{logging.getLevelName(level)}: {self._name}: {text}\n")

    def benchmark_layout_transform(
        self,
        min_exec_num: int = 100,
        timeout: int = 10,
        use_rpc: bool = False,
        device_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 9190,
        n_parallel: int = 1,
        build_func: str = "default",
        layout_records: Any = None,
        target_host: Any = None,
        infer_layout: bool = False,
        runner: Any = None,
    ) -> None:
        """Do nothing: no layout transform depends on a record, so none has to be measured."""
        self._log(logging.INFO, "layouts do not depend on records, so there are no changes of layout to measure")

    @property
    def layout_transform_perf_records(self) -> dict[Any, Any]:
        """Return the times of layout transforms that depend on records: there are none."""
        return {}

    def run(self, **_: Any) -> None:
        """Choose a record for every operator, in the order of the graph."""
        chosen, missing = [], set()
        for workload in self._workloads():
            found = self._history.best_record(self._target, workload)
            if found is None:
                missing.add(workload)
            else:
                chosen.append(found)
        if not chosen:
            names = ", ".join(sorted(self._operators))
            raise TVMError(
                f"graph tuner: there are no records for the operators of this graph ({names}) and target "
                f"{str(self._target).strip()}; tune its tasks first"
            )
        if missing:
            self._log(logging.WARNING, f"no records for {len(missing)} operators, which are compiled without")
        self._log(logging.INFO, f"chose records for {len(chosen)} operators")
        self._best = chosen

    def get_optimal_records(self) -> list[tuple[Any, Any]]:
        """Return the chosen records, pairs of input and result, in the order of the graph."""
        if self._best is None:
            raise TVMError("graph tuner: no records are chosen yet; call run() first")
        return list(self._best)

    def write_opt_sch2record_file(self, record_file: str = "graph_opt_schedule.log") -> None:
        """Write the chosen records in the order of the graph."""
        lines = [encode(*pair) + "\n" for pair in self.get_optimal_records()]
        part = f"{record_file}.{os.getpid()}.part"
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.writelines(lines)
            os.replace(part, record_file)
        finally:
            if os.path.exists(part):
                os.remove(part)

    def _workloads(self) -> list[Any]:
        """Return the workloads of the operators of the graph, one for each occurrence."""
        params = _weights(self._mod, self._inputs)
        workloads = []
        for function in calls_of(self._mod, params, self._target):
            workloads += [w for w in workloads_in(function, self._target) if operator_of(w[0]) in self._operators]
        return workloads


class DPTuner(BaseGraphTuner):
    """The graph tuner of Apache TVM that uses dynamic programming; here it chooses the best record of each operator."""


class PBQPTuner(BaseGraphTuner):
    """The graph tuner of Apache TVM that solves a PBQP; here it chooses the best record of each operator."""


def _with_shapes(graph: Any, input_shapes: Mapping[str, Sequence[int]], dtype: str) -> IRModule:
    """Return the graph with the given input shapes."""
    mod = graph if isinstance(graph, IRModule) else IRModule.from_expr(graph)
    main = mod["main"]
    names = [p.name_hint for p in main.params]
    for name in input_shapes:
        if name not in names:
            raise TVMError(f"graph tuner: the graph has no input '{name}'; its inputs are {', '.join(names)}")
    fresh = {}
    for p in main.params:
        shape = input_shapes.get(p.name_hint)
        kind = p.type_annotation
        if shape is not None and (kind is None or [int(d) for d in kind.shape] != [int(d) for d in shape]):
            fresh[p] = var(p.name_hint, TensorType(tuple(shape), dtype if kind is None else kind.dtype))
    if fresh:
        params = [fresh.get(p, p) for p in main.params]
        mod = IRModule({"main": Function(params, bind(main.body, fresh))})
    return infer_module(mod)


def _weights(mod: IRModule, inputs: set[str]) -> dict[str, Any]:
    """Return random values for all parameters that are not inputs; the kernel of a weight does not depend on its
    values."""
    import numpy as np

    random = np.random.default_rng(0)
    out = {}
    for p in mod["main"].params:
        if p.name_hint not in inputs:
            kind = p.checked_type_
            out[p.name_hint] = random.uniform(0.1, 1.0, [int(d) for d in kind.shape]).astype(kind.dtype)
    return out


__all__ = ["BaseGraphTuner", "DPTuner", "PBQPTuner"]
