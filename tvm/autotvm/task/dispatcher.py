"""Where a template's configuration comes from: contexts that are asked with (target, workload)."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...target import Target
from ..env import GLOBAL_SCOPE
from ..utils import logger
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity


class DispatchContext:
    """Contexts nest: what one does not know, the one outside it is asked."""

    current: DispatchContext
    # Lines already said, so that each is said once.
    warning_messages: set[str] = set()

    def __init__(self):
        self._old_ctx: DispatchContext | None = None

    def query(self, target: Target | None, workload: Any) -> Any:
        """The configuration for a workload."""
        found = self._query_inside(target, workload)
        if found is None and self._old_ctx is not None:
            found = self._old_ctx.query(target, workload)
        return found

    def find(self, target: Target, workload: Any) -> Any:
        """As ``query``, but None when nobody has tuned the workload: no default is made up."""
        found = self._find_inside(target, workload)
        if found is None and self._old_ctx is not None:
            found = self._old_ctx.find(target, workload)
        return found

    def note_use(self, workload: Any, fits: bool) -> None:
        """An operator's template says whether the configuration it was given fits it."""
        if self._old_ctx is not None:
            self._old_ctx.note_use(workload, fits)

    def update(self, target: Target, workload: Any, cfg: ConfigSpace) -> None:
        """Set the configuration of a workload."""
        raise NotImplementedError

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        raise NotImplementedError

    def _find_inside(self, target: Target, workload: Any) -> Any:
        return self._query_inside(target, workload)

    def digest(self) -> str:
        """A text that differs where answers may differ; "" where nothing is tuned."""
        return self._old_ctx.digest() if self._old_ctx is not None else ""

    def __enter__(self) -> DispatchContext:
        self._old_ctx, DispatchContext.current = DispatchContext.current, self
        return self

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        DispatchContext.current = self._old_ctx or _ROOT
        self._old_ctx = None


class ApplyConfig(DispatchContext):
    """Every workload gets the same configuration. An operator's own template gets it only as the named task."""

    def __init__(self, config: ConfigSpace, task_name: str | None = None):
        super().__init__()
        self._config = config
        self.task_name = task_name
        self.workload: Any = None

    def _find_inside(self, target: Target, workload: Any) -> ConfigSpace | None:
        return self._config if workload[0] == self.task_name else None

    def _query_inside(self, target: Target | None, workload: Any) -> ConfigSpace:
        self.workload = workload
        return self._config

    def update(self, target: Target, workload: Any, cfg: ConfigSpace) -> None:
        self.workload = workload
        self._config = cfg

    def digest(self) -> str:
        return f"config {self._config!r}"


class ApplyFixedConfig(DispatchContext):
    """Configurations of a list of tasks, by the order in which the tasks are met."""

    def __init__(self, tasks: Iterable[tuple[Any, Any, Any]], schedule_names: Any = None):
        super().__init__()
        self._by_workload = {(str(target), workload): config for target, workload, config in tasks}

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        return self._by_workload.get((str(target), workload))

    def update(self, target: Target, workload: Any, cfg: ConfigSpace) -> None:
        self._by_workload[str(target), workload] = cfg

    def digest(self) -> str:
        return f"fixed {sorted((k, repr(v)) for k, v in self._by_workload.items())} {super().digest()}"


class ApplyHistoryBest(DispatchContext):
    """The best recorded configuration of each workload.

    ``records`` is a file (or several), or pairs (input, result).
    """

    def __init__(self, records: Any = None):
        super().__init__()
        self.best_by_targetkey: dict[tuple[str, Any], tuple[Any, Any]] = {}
        self.best_by_model: dict[tuple[str, Any], tuple[Any, Any]] = {}
        self._user_defined: dict[tuple[str, Any], ConfigSpace] = {}
        self._said: set[str] = set()
        self.uses: dict[Any, bool] = {}
        # The last record of a configuration holds: leaders are measured again, more carefully.
        self._latest: dict[str, tuple[Any, Any]] = {}
        if records:
            self.load(records)

    def load(self, records: Any) -> None:
        """Read more records."""
        from ..record import iterate_records, measure_str_key

        counted = 0
        for inp, res in iterate_records(records):
            counted += 1
            if res.error_no == 0 and inp.target is not None:
                self._latest[measure_str_key(inp)] = (inp, res)
        self.best_by_targetkey.clear()
        self.best_by_model.clear()
        for inp, res in self._latest.values():
            keep_best(self.best_by_targetkey, self.best_by_model, inp, res)
        logger.debug("%d of %d records are of use", len(self._latest), counted)

    def note_use(self, workload: Any, fits: bool) -> None:
        self.uses[workload] = fits

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        super().__exit__(ptype, value, trace)
        refused = sum(not fits for fits in self.uses.values())
        if refused:
            logger.warning(
                "tuning records: %d operators are compiled with theirs; those of %d are for another template or other "
                "knobs and are left out", len(self.uses) - refused, refused,
            )
        self.uses = {}

    def _recorded(self, target: Target, workload: Any) -> tuple[Any, Any] | None:
        found = self.best_by_model.get((target.model, workload))
        if found is None:
            found = next((self.best_by_targetkey[k, workload] for k in target.keys
                          if (k, workload) in self.best_by_targetkey), None)
        return found

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        if workload is None:
            return None
        if target is None:
            raise RuntimeError(
                "apply_history_best: which target? Write `with tvm.target.Target(...):` around the call of the template"
            )
        for key in (target.model, *target.keys):
            if (key, workload) in self._user_defined:
                return self._user_defined[key, workload]
        found = self._recorded(target, workload)
        if found is None:
            return None
        self._say_if_foreign(target, found[0])
        return found[0].config

    def _say_if_foreign(self, target: Target, inp: Any) -> None:
        """One line when a record was made for another processor than the code is for."""
        from ...target.cpu import resolve_cpu

        if target.kind.name != "llvm" or inp.target.kind.name != "llvm":
            return
        recorded = (inp.made_on or {}).get("cpu") if hasattr(inp, "made_on") else None
        here = resolve_cpu(target).cpu
        there = recorded or inp.target.attrs.get("mcpu")
        if there and there != here and there not in self._said:
            self._said.add(str(there))
            logger.warning("tuning records are from another CPU (%s); the code is for %s", there, here)

    def update(self, target: Target, workload: Any, cfg: ConfigSpace) -> None:
        for key in (target.model, *target.keys):
            self._user_defined[key, workload] = cfg

    def digest(self) -> str:
        text = hashlib.blake2b(digest_size=16)
        for table in (self.best_by_model, self.best_by_targetkey):
            for key in sorted(table, key=str):
                text.update(f"{key} {table[key][0].config!r}\n".encode())
        for key in sorted(self._user_defined, key=str):
            text.update(f"{key} {self._user_defined[key]!r}\n".encode())
        return f"history {text.hexdigest()} {super().digest()}"


def keep_best(by_key: dict, by_model: dict, inp: Any, res: Any) -> None:
    """Put a record into two tables of best records, if it is better than what they hold."""
    cost = mean_cost(res)
    slots = [(by_key, (key, inp.task.workload)) for key in inp.target.keys]
    if inp.target.model != "unknown":
        slots.append((by_model, (inp.target.model, inp.task.workload)))
    for table, key in slots:
        held = table.get(key)
        if held is not None and (inp.final or held[0].final):
            # The latest winner holds, whatever was measured in passing.
            better = inp.final and (not held[0].final or res.timestamp >= held[1].timestamp)
        else:
            better = held is None or cost < mean_cost(held[1])
        if better:
            table[key] = (inp, res)


def mean_cost(res: Any) -> float:
    costs = res.costs
    return sum(costs) / len(costs) if res.error_no == 0 and costs else 1e9


class FallbackContext(DispatchContext):
    """The outermost context: templates get their own defaults, and one line says so."""

    def __init__(self):
        super().__init__()
        self.memory: dict[tuple[str, Any], ConfigSpace] = {}

    def _query_inside(self, target: Target | None, workload: Any) -> ConfigSpace:
        key = (str(target), workload)
        if key not in self.memory:
            if workload is not None and not GLOBAL_SCOPE.silent:
                said = f"Cannot find config for target={target}, workload={workload}. A fallback configuration is used."
                if said not in DispatchContext.warning_messages:
                    DispatchContext.warning_messages.add(said)
                    logger.warning(said)
            config = FallbackConfigEntity()
            config.workload = workload  # type: ignore[attr-defined]
            self.memory[key] = config
        return self.memory[key]

    def _find_inside(self, target: Target, workload: Any) -> Any:
        found = self.memory.get((str(target), workload))
        return None if found is None or found.is_fallback else found

    def clear_cache(self, target: Target, workload: Any) -> None:
        """Forget a workload, so that its template makes its defaults again."""
        self.memory.pop((str(target), workload), None)

    def update(self, target: Target, workload: Any, cfg: ConfigSpace) -> None:
        self.memory[str(target), workload] = cfg

    def digest(self) -> str:
        tuned = {k: v for k, v in self.memory.items() if isinstance(v, ConfigEntity)}
        return f"memory {sorted((str(k), repr(v)) for k, v in tuned.items())}" if tuned else ""


class ApplyGraphBest(DispatchContext):
    """Records in the order in which a model's layers are compiled, as graph tuners write them."""

    def __init__(self, records: Any):
        super().__init__()
        from ..record import iterate_records

        self._records = list(iterate_records(records))
        self._counter = 0
        self._global: dict[tuple[str, Any], ConfigSpace] = {}

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        if workload is None:
            return None
        if self._counter < len(self._records):
            config = self._records[self._counter][0].config
            self._counter += 1
            self.update(target, workload, config)
            return config
        found = self._global.get((str(target), workload))
        return found

    def update(self, target: Any, workload: Any, cfg: ConfigSpace) -> None:
        self._global[str(target), workload] = cfg

    def digest(self) -> str:
        return f"graph {[repr(inp.config) for inp, _ in self._records]} {super().digest()}"


_ROOT = FallbackContext()
DispatchContext.current = _ROOT


@contextlib.contextmanager
def using(context: DispatchContext) -> Iterator[None]:
    """Ask a context once more, also after it was left."""
    before, DispatchContext.current = DispatchContext.current, context
    try:
        yield
    finally:
        DispatchContext.current = before


def clear_fallback_cache(target: Target, workload: Any) -> None:
    """Forget the defaults made up for a workload, in whatever context holds them."""
    context: DispatchContext | None = DispatchContext.current
    while context is not None and not isinstance(context, FallbackContext):
        context = context._old_ctx
    if context is not None:
        context.clear_cache(target, workload)


def history(records: str | os.PathLike | None) -> Any:
    """``ApplyHistoryBest`` of a file that exists, else nothing."""
    if records and Path(records).is_file():
        return ApplyHistoryBest(os.fspath(records))
    return contextlib.nullcontext()
