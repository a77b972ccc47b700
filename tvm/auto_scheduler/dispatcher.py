"""Dispatch contexts, which return the schedule of a compiled model for a target and a workload."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable
from itertools import islice
from typing import Any

from ..error import not_defined
from ..target import Target
from .choices import Choice, Row, read_rows
from .search_task import kind_in
from .state import StateObject
from .utils import calc_workload_dis_factor, decode_workload_key

logger = logging.getLogger("auto_scheduler")


class DispatchContext:
    """A dispatch context. Contexts nest: if a context has no state, the enclosing context is queried."""

    current: DispatchContext | None = None

    def __init__(self) -> None:
        self._outer: DispatchContext | None = None

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool, dag: Any, func_name: str
    ) -> StateObject | None:
        """The state for a workload; None if no context has one.

        Parameters
        ----------
        target : Target or str
            The target of the code.
        workload_key : str
            The key of the workload.
        has_complex_op : bool
            Whether the workload contains a reduction.
        dag : ComputeDAG
            The computation, for contexts that create states themselves.
        func_name : str
            The name of the kernel, for messages.

        Returns
        -------
        StateObject, optional
        """
        found = self._query_inside(target, workload_key, func_name)
        if found is None and self._outer is not None:
            found = self._outer.query(target, workload_key, has_complex_op, dag, func_name)
        return found

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        """Set the state of a workload, which takes precedence over records.

        Parameters
        ----------
        target : Target or str
            The target of the code.
        workload_key : str
            The key of the workload.
        state : State or StateObject
            The state.

        Raises
        ------
        NotImplementedError
            The class does not support it.
        """
        raise not_defined(self, "update")

    def _query_inside(self, target: Any, workload_key: str, func_name: str) -> StateObject | None:
        raise not_defined(self, "_query_inside")

    def __enter__(self) -> DispatchContext:
        self._outer, DispatchContext.current = DispatchContext.current, self
        return self

    def __exit__(self, *error: Any) -> None:
        DispatchContext.current = self._outer


Records = Any


class ApplyHistoryBest(DispatchContext):
    """A context with the best records: the last winners of tuning runs, or the fastest records without winners.

    Parameters
    ----------
    records : str, list of str, or list of (MeasureInput, MeasureResult)
        A file, files, or pairs of inputs and results.
    n_lines : int, optional
        The maximum number of records to read from each file or list.
    include_compatible : bool
        Whether to use records of other sizes if their split lengths divide the extents.
    """

    # Whether to omit the warning for workloads without records.
    is_quiet = False

    def __init__(self, records: Records, n_lines: int | None = None, include_compatible: bool = False):
        super().__init__()
        self.include_compatible = include_compatible
        self.best: dict[tuple[str, str], Choice] = {}
        self._set: dict[tuple[str, str], StateObject] = {}
        self.load(records, n_lines)

    def load(self, records: Records, n_lines: int | None = None) -> None:
        """Load more records.

        Parameters
        ----------
        records : str, list of str, or list of (MeasureInput, MeasureResult)
            A file, files, or pairs of inputs and results.
        n_lines : int, optional
            The maximum number of records to read from each file or list.

        Raises
        ------
        TVMError
            A file does not exist, or a line is not a record.
        """
        if isinstance(records, (str, os.PathLike)):
            self._take(islice(read_rows(records), n_lines))
            return
        items = list(records)
        if items and all(isinstance(item, (str, os.PathLike)) for item in items):
            for item in items:
                self.load(item, n_lines)
            return
        self._take(
            item if isinstance(item, Row) else Row(item[0].task, item[0].state, item[1])
            for item in islice(items, n_lines)
        )

    def _take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.best.setdefault((row.task.target_kind, row.task.workload_key), Choice()).note(row)

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool, dag: Any, func_name: str
    ) -> StateObject | None:
        if self._is_untuned((kind_in(str(Target(target))), workload_key)):
            return None
        if self.is_quiet:
            return self._query_inside(target, workload_key, func_name)
        return super().query(target, workload_key, has_complex_op, dag, func_name)

    def _is_untuned(self, key: tuple[str, str]) -> bool:
        """Return whether the untuned code was selected as the best."""
        row = self.best[key].row if key in self.best and key not in self._set else None
        return row is not None and row.state is None

    def _query_inside(self, target: Any, workload_key: str, func_name: str) -> StateObject | None:
        kind = kind_in(str(Target(target)))
        key = (kind, workload_key)
        row = self.best[key].row if key in self.best else None
        found = self._set.get(key) or (row.state if row is not None else None)
        if found is not None or not self.include_compatible:
            return found
        wanted, least = decode_workload_key(workload_key), math.inf
        for (other_kind, other), choice in self.best.items():
            if choice.row is None or choice.row.state is None or other_kind != kind:
                continue
            cost = choice.row.result.mean_cost * calc_workload_dis_factor(wanted, decode_workload_key(other))
            if cost < least:
                found, least = choice.row.state, cost
        return found

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        self._set[kind_in(str(Target(target))), workload_key] = getattr(state, "state_object", state)


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """An ``ApplyHistoryBest`` that creates a state from sketches for a workload without a record.

    Parameters
    ----------
    records : str, list of str, or list of (MeasureInput, MeasureResult)
        A file, files, or pairs of inputs and results.
    sample_simple_workloads : bool
        Whether to create states for workloads without a reduction too.
    cost_model_file : str, optional
        The cost model that selects among unmeasured states; random selection by default.
    num_measure : int
        The number of states to measure, of which the best is used; -1 means no measurement.
    """

    def __init__(
        self,
        records: Records,
        sample_simple_workloads: bool = False,
        cost_model_file: str | None = None,
        num_measure: int = -1,
    ):
        super().__init__([] if records is None else records)
        self.sample_simple_workloads, self.cost_model_file = sample_simple_workloads, cost_model_file
        self.num_measure = num_measure

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool, dag: Any, func_name: str
    ) -> StateObject | None:
        found = self._query_inside(target, workload_key, func_name)
        if found is None and (has_complex_op or self.sample_simple_workloads):
            found = self._sampled(target, workload_key, dag, func_name)
            self.update(target, workload_key, found)
        return found or super().query(target, workload_key, has_complex_op, dag, func_name)

    def _sampled(self, target: Any, workload_key: str, dag: Any, func_name: str) -> StateObject:
        from .cost_model import RandomModel, XGBModel
        from .search_policy import SketchPolicy, search
        from .search_task import SearchTask, TuningOptions

        task = SearchTask(compute_dag=dag, workload_key=workload_key, target=target, desc=func_name)
        model = XGBModel(model_file=self.cost_model_file) if self.cost_model_file else RandomModel()
        # For random selection, no evolutionary search is needed.
        by_chance = not self.cost_model_file and self.num_measure < 1
        few = {"evolutionary_search_population": 4, "evolutionary_search_num_iters": 0} if by_chance else None
        options = TuningOptions(num_measure_trials=max(self.num_measure, 0), verbose=0)
        return search(SketchPolicy(task, model, few, verbose=0), options)


class FallbackContext(DispatchContext):
    """The outermost context: it has no states, and warns once for each workload."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[tuple[str, str], StateObject] = {}
        # 2 warns about all kernels, 1 only about those with a reduction, because other tasks are tuned only on request.
        self.verbose = 1
        self._said: set[tuple[str, str]] = set()

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool, dag: Any, func_name: str
    ) -> StateObject | None:
        key = (str(target), workload_key)
        found = self.memory.get(key)
        if found is None and key not in self._said and (self.verbose == 2 or has_complex_op and self.verbose == 1):
            self._said.add(key)
            logger.warning(
                "there is no schedule for %s (workload %s, target %s); the default one is used, which may be slower",
                func_name,
                workload_key,
                target,
            )
        return found

    def _query_inside(self, target: Any, workload_key: str, func_name: str) -> StateObject | None:
        return self.memory.get((str(target), workload_key))

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        self.memory[str(target), workload_key] = getattr(state, "state_object", state)


DispatchContext.current = FallbackContext()

__all__ = ["ApplyHistoryBest", "ApplyHistoryBestOrSample", "DispatchContext", "FallbackContext"]
