"""The connection between templates and the tuner: a tuned configuration replaces the template's choice.

A workload is the name of a task and its logical arguments, in the format of Apache TVM: shapes without blocks, so that
it is valid for every vector width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autotvm.task.dispatcher import DispatchContext
from ..autotvm.task.space import ConfigEntity, ConfigSpace
from ..target import Target


def tensor(shape: Any, dtype: str) -> tuple[str, tuple[int, ...], str]:
    """Return a tensor in the format of workloads."""
    return ("TENSOR", tuple(int(getattr(d, "value", d)) for d in shape), dtype)


def is_known(*shapes: Any) -> bool:
    """Return whether all dimensions are constants."""
    return all(hasattr(d, "value") or isinstance(d, int) for shape in shapes for d in shape)


def decide(
    picked: dict[str, Any],
    workload: tuple[Any, ...] | None,
    target: Target | None,
    space: Callable[[], dict[str, list[Any]]],
    keep: Callable[[dict[str, Any]], Any] | None = None,
    usable: Callable[[dict[str, Any]], bool] = lambda values: True,
) -> dict[str, Any]:
    """Return the knobs of a workload. This also passes the search space to a tuner that collects it; ``keep`` filters
    all its configurations at once. A record is used if its values are choices of the space and ``usable``."""
    if workload is None or target is None:
        return picked
    found = DispatchContext.current.find(target, workload)
    while isinstance(found, ConfigEntity):
        values = fitting(choices(space(), picked), found)
        if values is not None and not usable(values):
            values = None
        another = DispatchContext.current.note_use(workload, found, values is not None)
        if values is not None or not another:
            return values or picked
        found = DispatchContext.current.find(target, workload)
    if found is None or found.is_fallback:
        return picked
    define(found, choices(space(), picked), picked)
    if keep is not None:
        found.array_filter(keep)
    return picked


def choices(space: dict[str, list[Any]], picked: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the values of each knob; the template's choice is always included."""
    return {name: [*values, *([picked[name]] if picked[name] not in values else [])] for name, values in space.items()}


def define(space: ConfigSpace, table: dict[str, list[Any]], picked: dict[str, Any]) -> None:
    """Add the knobs to a search space that a tuner collects; the template's choice is the initial configuration."""
    for name, values in table.items():
        space.define_knob(name, values)
    start = space.index_of(picked)
    if start is not None and start not in space.start:
        space.start.append(start)


def fitting(table: dict[str, list[Any]], config: ConfigEntity) -> dict[str, Any] | None:
    """Return the values of a record, or None if its knobs are not those of the template or a value is not a choice of
    its knob."""
    wanted = config.values()
    if wanted.keys() != table.keys():
        return None
    values = {}
    for name, candidates in table.items():
        found = [c for c in candidates if (tuple(c) if isinstance(c, (list, tuple)) else c) == wanted[name]]
        if not found:
            return None
        values[name] = found[0]
    return values
