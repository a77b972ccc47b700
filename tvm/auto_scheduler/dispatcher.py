"""Where a compiled model's schedules come from: contexts that are asked with a target and a workload."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable
from itertools import islice
from typing import Any

from ..target import Target
from .measure import MeasureInput, MeasureResult
from .measure_record import RecordReader
from .search_task import kind_in
from .state import StateObject
from .utils import calc_workload_dis_factor, decode_workload_key

logger = logging.getLogger("auto_scheduler")


class DispatchContext:
    """Contexts nest: what one does not know, the one outside it is asked."""

    current: DispatchContext | None = None

    def __init__(self) -> None:
        self._outer: DispatchContext | None = None

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool, dag: Any, func_name: str
    ) -> StateObject | None:
        """The state for a workload, None where nobody has one."""
        found = self._query_inside(target, workload_key, func_name)
        if found is None and self._outer is not None:
            found = self._outer.query(target, workload_key, has_complex_op, dag, func_name)
        return found

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        """Set the state of a workload."""
        raise NotImplementedError

    def _query_inside(self, target: Any, workload_key: str, func_name: str) -> StateObject | None:
        raise NotImplementedError

    def __enter__(self) -> DispatchContext:
        self._outer, DispatchContext.current = DispatchContext.current, self
        return self

    def __exit__(self, *error: Any) -> None:
        DispatchContext.current = self._outer


Records = Any


class ApplyHistoryBest(DispatchContext):
    """The fastest records of files, or of pairs of inputs and results, at most ``n_lines`` of each file. With
    ``include_compatible`` those of other sizes count where their lengths divide."""

    def __init__(self, records: Records, n_lines: int | None = None, include_compatible: bool = False):
        super().__init__()
        self.include_compatible = include_compatible
        self.best: dict[tuple[str, str], tuple[StateObject, float]] = {}
        self._set: dict[tuple[str, str], StateObject] = {}
        self.load(records, n_lines)

    def load(self, records: Records, n_lines: int | None = None) -> None:
        """Take in more records."""
        if isinstance(records, (str, os.PathLike)):
            self._take(islice(RecordReader(records), n_lines))
            return
        items = list(records)
        if items and all(isinstance(item, (str, os.PathLike)) for item in items):
            for item in items:
                self.load(item, n_lines)
            return
        self._take(islice(items, n_lines))

    def _take(self, rows: Iterable[tuple[MeasureInput, MeasureResult]]) -> None:
        for inp, res in rows:
            key = (inp.task.target_kind, inp.task.workload_key)
            if res.error_no == 0 and (key not in self.best or res.mean_cost < self.best[key][1]):
                self.best[key] = inp.state, res.mean_cost

    def _query_inside(self, target: Any, workload_key: str, func_name: str) -> StateObject | None:
        kind = kind_in(str(Target(target)))
        key = (kind, workload_key)
        found = self._set.get(key) or (self.best[key][0] if key in self.best else None)
        if found is not None or not self.include_compatible:
            return found
        wanted, least = decode_workload_key(workload_key), math.inf
        for (other_kind, other), (state, cost) in self.best.items():
            cost *= calc_workload_dis_factor(wanted, decode_workload_key(other)) if other_kind == kind else math.inf
            if cost < least:
                found, least = state, cost
        return found

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        self._set[kind_in(str(Target(target))), workload_key] = getattr(state, "state_object", state)


class FallbackContext(DispatchContext):
    """The outermost context: it has no states, and says once for each workload that there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[tuple[str, str], StateObject] = {}
        self.verbose = 2
        self._said: set[tuple[str, str]] = set()

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool, dag: Any, func_name: str
    ) -> StateObject | None:
        key = (str(target), workload_key)
        found = self.memory.get(key)
        if found is None and key not in self._said and (self.verbose == 2 or has_complex_op and self.verbose == 1):
            self._said.add(key)
            logger.warning("there is no schedule for %s (workload %s, target %s); the default one is used, which may "
                           "be slower", func_name, workload_key, target)
        return found

    def _query_inside(self, target: Any, workload_key: str, func_name: str) -> StateObject | None:
        return self.memory.get((str(target), workload_key))

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        self.memory[str(target), workload_key] = getattr(state, "state_object", state)


DispatchContext.current = FallbackContext()

__all__ = ["ApplyHistoryBest", "DispatchContext", "FallbackContext"]
