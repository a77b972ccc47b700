"""Dispatch contexts, which return the configuration of a template for (target, workload)."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..._ffi.libinfo import __version__
from ...error import not_defined
from ...target import Target
from ...target.backend import compiled_cpu
from ..env import GLOBAL_SCOPE
from ..utils import logger
from .entity import KnobError
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity


class DispatchContext:
    """A dispatch context. Contexts nest: if a context has no configuration, the enclosing context is queried."""

    current: DispatchContext
    # Warnings that were already printed, so that each is printed once.
    warning_messages: set[str] = set()

    def __init__(self):
        self._old_ctx: DispatchContext | None = None

    def query(self, target: Target | None, workload: Any) -> Any:
        """The configuration for a workload.

        Parameters
        ----------
        target : Target
            The target.
        workload : tuple
            The workload.

        Returns
        -------
        ConfigEntity
            The configuration.
        """
        found = self._query_inside(target, workload)
        if found is None and self._old_ctx is not None:
            found = self._old_ctx.query(target, workload)
        return found

    def find(self, target: Target, workload: Any) -> Any:
        """The configuration for a workload as returned by ``query``, but None instead of a default if the workload is
        not tuned.

        Parameters
        ----------
        target : Target
            The target.
        workload : tuple
            The workload.

        Returns
        -------
        ConfigEntity, optional
            The configuration.
        """
        found = self._find_inside(target, workload)
        if found is None and self._old_ctx is not None:
            found = self._old_ctx.find(target, workload)
        return found

    def note_use(self, workload: Any, config: Any, fits: bool) -> bool:
        """Record whether a configuration matches its template; return whether the template should query another one.

        Parameters
        ----------
        workload : tuple
            The workload.
        config : ConfigEntity
            The configuration.
        fits : bool
            Whether the configuration matches the template.

        Returns
        -------
        bool
            Whether to query another configuration.
        """
        return self._old_ctx is not None and self._old_ctx.note_use(workload, config, fits)

    def update(self, target: Target, workload: Any, cfg: ConfigSpace) -> None:
        """Set the configuration of a workload.

        Parameters
        ----------
        target : Target
            The target.
        workload : tuple
            The workload.
        cfg : ConfigEntity
            The configuration.

        Raises
        ------
        NotImplementedError
            The context does not support it.
        """
        raise not_defined(self, "update")

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        raise not_defined(self, "_query_inside")

    def _find_inside(self, target: Target, workload: Any) -> Any:
        return self._query_inside(target, workload)

    def digest(self) -> str:
        """A string that changes if the configurations change; "" if the context has no records.

        Returns
        -------
        str
            The text.
        """
        return self._old_ctx.digest() if self._old_ctx is not None else ""

    def __enter__(self) -> DispatchContext:
        self._old_ctx, DispatchContext.current = DispatchContext.current, self
        return self

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        DispatchContext.current = self._old_ctx or _ROOT
        self._old_ctx = None


class ApplyConfig(DispatchContext):
    """A context with the same configuration for every workload. Templates of operators get it only for the named task.

    Parameters
    ----------
    config : ConfigSpace
        The configuration.
    task_name : str, optional
        The task of an operator template that gets the configuration.
    """

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
    """A context with the configurations of a list of tasks, in the order in which the tasks are queried.

    Parameters
    ----------
    tasks : Iterable[tuple[Any, Any, Any]]
        Tuples of a task, a target and a configuration.
    schedule_names : list of str, optional
        The schedules to which the configurations apply.
    """

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
    """A context with the best recorded configuration of each workload.

    ``records`` is a file (or several), or pairs (input, result). Records of the processor that the code is for come
    before others. If a record does not match its template, the next one is used. When the context is left, one message
    summarizes the records from other machines or versions that were used, and the lines that were ignored.

    Parameters
    ----------
    records : str, list of str, or iterable of pairs, optional
        The records.
    """

    # Whether this message is logged as information instead of a warning.
    quiet = False

    def __init__(self, records: Any = None):
        super().__init__()
        self.best_by_targetkey: dict[tuple[str, Any], tuple[Any, Any]] = {}
        self.best_by_model: dict[tuple[str, Any], tuple[Any, Any]] = {}
        self._user_defined: dict[tuple[str, Any], ConfigSpace] = {}
        # The last record of a configuration replaces earlier ones, because leaders are measured again more accurately.
        self._latest: dict[str, tuple[Any, Any]] = {}
        self._by_workload: dict[Any, list[tuple[Any, Any]]] = {}
        self._digest: str | None = None
        self.unread = Unread()
        self._forget_uses()
        if records:
            self.load(records)

    def _forget_uses(self) -> None:
        # Queried workloads: the input of the record that is used; None if no record matches.
        self.uses: dict[Any, Any] = {}
        self._refused: dict[Any, list[Any]] = {}
        self._processor = ""

    def load(self, records: Any) -> None:
        """Load more records. The last record of a configuration replaces earlier ones; failed measurements are ignored.

        Parameters
        ----------
        records : str, file, or iterable of these or of pairs
            A path, an open file, pairs (input, result), or several of them.
        """
        from ..record import iterate_records, measure_str_key

        for inp, res in iterate_records(records, self.unread):
            if isinstance(inp.target, str):
                inp = inp._replace(target=Target(inp.target))
            if res.error_no == 0 and inp.target is not None:
                self._latest[measure_str_key(inp)] = (inp, res)
        for table in (self.best_by_targetkey, self.best_by_model, self._by_workload):
            table.clear()
        self._digest = None
        for inp, res in self._latest.values():
            keep_best(self.best_by_targetkey, self.best_by_model, inp, res)
            self._by_workload.setdefault(inp.task.workload, []).append((inp, res))

    def note_use(self, workload: Any, config: Any, fits: bool) -> bool:
        inputs = [inp for inp, _ in self._by_workload.get(workload, ()) if inp.config is config]
        if not inputs:
            return super().note_use(workload, config, fits)
        if fits:
            self.uses[workload] = inputs[0]
        else:
            self._refused.setdefault(workload, []).append(config)
            self.uses[workload] = None
        return not fits

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        super().__exit__(ptype, value, trace)
        text = usage_summary(self.uses, self._by_workload, self._processor, self.unread)
        if text and ptype is None:
            logger.log(logging.INFO if self.quiet else logging.WARNING, text)
        self._forget_uses()

    def best_record(self, target: Target, workload: Any) -> tuple[Any, Any] | None:
        """The best record that no template has rejected.

        Parameters
        ----------
        target : Target
            The target of the code.
        workload : tuple
            The name of a task with its arguments.

        Returns
        -------
        tuple, optional
            The input and its result, or None if no record matches the target.
        """
        refused, here = self._refused.get(workload, ()), processor_of(target)
        usable = [
            (preference, inp, res)
            for inp, res in self._by_workload.get(workload, ())
            if not any(inp.config is config for config in refused)
            and (preference := _preference(inp, res, target, here)) is not None
        ]
        return min(usable, key=lambda row: row[0])[1:] if usable else None

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        if workload is None:
            return None
        if target is None:
            raise RuntimeError(
                "apply_history_best: no target is set; call the template inside `with tvm.target.Target(...):`"
            )
        for key in (target.model, *target.keys):
            if (key, workload) in self._user_defined:
                return self._user_defined[key, workload]
        self._processor = self._processor or processor_of(target)
        found = self.best_record(target, workload)
        self.uses.setdefault(workload, None)
        return found[0].config if found is not None else None

    def update(self, target: Target, workload: Any, cfg: ConfigSpace) -> None:
        for key in (target.model, *target.keys):
            self._user_defined[key, workload] = cfg

    def digest(self) -> str:
        if self._digest is None:
            text = hashlib.blake2b(digest_size=16)
            for inp, res in self._latest.values():
                text.update(f"{inp.target} {inp.task.workload} {inp.config!r} {mean_cost(res)} {inp.final}\n".encode())
            self._digest = text.hexdigest()
        by_hand = [f"{key} {self._user_defined[key]!r}" for key in sorted(self._user_defined, key=str)]
        return f"history {self._digest} {by_hand} {super().digest()}"


@dataclasses.dataclass
class Unread:
    """The counts of ignored lines in record files."""

    no_records: int = 0
    old_records: int = 0

    def describe(self) -> list[str]:
        """Return descriptions of the ignored lines, counted by reason; empty if there are none."""
        rows = (
            (self.no_records, "{} not in the record format"),
            (self.old_records, "{} of log version 0.1, which is no longer supported"),
        )
        verbs = ("line is", "lines are")
        return [text.format(f"{n} {verbs[n != 1]}") for n, text in rows if n]


def processor_of(target: Target) -> str:
    """Return the processor of a target: a CPU, or the architecture or family of a GPU; "" if it is unknown."""
    cpu = compiled_cpu(target)
    if cpu is not None:
        return cpu.cpu
    if target.features.is_gpu:
        return str(target.attrs.get("arch") or target.attrs.get("device") or target.kind)
    return ""


def recorded_processor(inp: Any) -> str:
    """Return the processor that a record was measured for; "" if the record does not contain it."""
    # The CPU features are not queried: the target of a record may name a CPU that is unknown on this machine.
    if inp.target.kind.family == "gpu":
        return processor_of(inp.target)
    return str((inp.made_on or {}).get("cpu") or inp.target.attrs.get("mcpu") or "")


def _preference(inp: Any, res: Any, target: Target, here: str) -> tuple[Any, ...] | None:
    """Return the sort key of a record among those of its workload, the best first; None for another kind of target."""
    same_model = target.model != "unknown" and inp.target.model == target.model
    if not same_model and not set(inp.target.keys) & set(target.keys):
        return None
    foreign = recorded_processor(inp) not in ("", here)
    # The latest winner takes precedence over other measurements.
    return not same_model, foreign, not inp.final, -res.timestamp if inp.final else mean_cost(res)


def usage_summary(uses: dict[Any, Any], known: dict[Any, Any], processor: str, unread: Unread) -> str:
    """Return a one-line summary of how the records were used; "" if all were used on the machine and version of their
    origin."""
    used = [inp for inp in uses.values() if inp is not None]
    misfits = sum(inp is None and workload in known for workload, inp in uses.items())
    missing = len(uses) - len(used) - misfits
    others = {recorded_processor(i) for i in used} - {"", processor}
    versions = {i.tvm_version for i in used} - {"", __version__}
    foreign = sum(recorded_processor(i) in others for i in used)
    kind = "GPU" if any(i.target.kind.family == "gpu" for i in used) else "CPU"
    older = sum(i.tvm_version in versions for i in used)
    if not (misfits or foreign or older or unread.describe() or uses and not used):
        return ""
    remarks = [f"{foreign} from another {kind} ({', '.join(sorted(others))}; the code is for {processor})"]
    remarks = remarks if foreign else []
    remarks += [f"{older} from another version ({', '.join(sorted(versions))})"] if older else []
    parts = [f"{len(used)} operator{'s use' if len(used) != 1 else ' uses'} a record"] if used else []
    if remarks:
        parts[0] += f", {' and '.join(remarks)}"
    plural = "s" * (misfits != 1)
    parts += [f"the records of {misfits} operator{plural} do not match the template and are ignored"] if misfits else []
    parts += [f"{missing} operator{'s have' if missing != 1 else ' has'} no record"] if missing else []
    return f"tuning records: {'; '.join([*parts, *unread.describe()])}"


def keep_best(by_key: dict, by_model: dict, inp: Any, res: Any) -> None:
    """Store a record in two tables of best records, if it is better than their entries."""
    cost = mean_cost(res)
    slots = [(by_key, (key, inp.task.workload)) for key in inp.target.keys]
    if inp.target.model != "unknown":
        slots.append((by_model, (inp.target.model, inp.task.workload)))
    for table, key in slots:
        held = table.get(key)
        if held is not None and (inp.final or held[0].final):
            # The latest winner takes precedence over other measurements.
            better = inp.final and (not held[0].final or res.timestamp >= held[1].timestamp)
        else:
            better = held is None or cost < mean_cost(held[1])
        if better:
            table[key] = (inp, res)


def mean_cost(res: Any) -> float:
    costs = res.costs
    return sum(costs) / len(costs) if res.error_no == 0 and costs else 1e9


class FallbackContext(DispatchContext):
    """The outermost context: templates use their own defaults, which is reported once."""

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
        """Remove the default configuration of a workload, so that its template creates it again.

        Parameters
        ----------
        target : Target
            The target of the query.
        workload : tuple
            The name of its task with the arguments.
        """
        self.memory.pop((str(target), workload), None)

    def update(self, target: Target, workload: Any, cfg: ConfigSpace) -> None:
        self.memory[str(target), workload] = cfg

    def digest(self) -> str:
        tuned = {k: v for k, v in self.memory.items() if isinstance(v, ConfigEntity)}
        return f"memory {sorted((str(k), repr(v)) for k, v in tuned.items())}" if tuned else ""


class ApplyGraphBest(DispatchContext):
    """A context for the records of graph tuners. Operators find their records by their workloads; user-defined
    templates get them in the order of the records.

    Parameters
    ----------
    records : str, list of str, or iterable of pairs
        The records.
    """

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

    def _find_inside(self, target: Target, workload: Any) -> Any:
        return next((inp.config for inp, _ in self._records if inp.task.workload == workload), None)

    def update(self, target: Any, workload: Any, cfg: ConfigSpace) -> None:
        self._global[str(target), workload] = cfg

    def digest(self) -> str:
        return f"graph {[repr(inp.config) for inp, _ in self._records]} {super().digest()}"


_ROOT = FallbackContext()
DispatchContext.current = _ROOT


def configured(workload: Any, use: Callable[[Any], Any]) -> Any:
    """Call ``use`` with the configuration of a workload and return its value. If the knobs of a configuration do not
    match, the next one is used."""
    while True:
        context = DispatchContext.current
        config = context.query(Target.current(allow_none=True), workload)
        try:
            made = use(config)
        except KnobError:
            if not context.note_use(workload, config, False):
                raise
            continue
        context.note_use(workload, config, True)
        return made


@contextlib.contextmanager
def using(context: DispatchContext) -> Iterator[None]:
    """Query a context again, even after it was left."""
    before, DispatchContext.current = DispatchContext.current, context
    try:
        yield
    finally:
        DispatchContext.current = before


def clear_fallback_cache(target: Target, workload: Any) -> None:
    """Remove the default configuration of a workload from the context that contains it.

    Parameters
    ----------
    target : str or Target
        The target of the code.
    workload : tuple
        The workload.
    """
    context: DispatchContext | None = DispatchContext.current
    while context is not None and not isinstance(context, FallbackContext):
        context = context._old_ctx
    if context is not None:
        context.clear_cache(target, workload)


def history(records: str | os.PathLike | None) -> Any:
    """Return ``ApplyHistoryBest`` of a file, or a context without effect if there is no file."""
    if not records:
        return contextlib.nullcontext()
    if not os.path.exists(records):
        logger.warning("tuning records: file '%s' does not exist; compiling without records", records)
        return contextlib.nullcontext()
    return ApplyHistoryBest(os.fspath(records))
