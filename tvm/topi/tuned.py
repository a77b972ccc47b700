"""The link between templates and the tuner: a configuration that was found takes the place of the pick.

A workload is the name of a task and its logical arguments, as classic TVM writes them: shapes without blocks, so that
it means the same on every vector width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autotvm.task.dispatcher import DispatchContext
from ..autotvm.task.space import ConfigEntity, ConfigSpace
from ..target import Target


def tensor(shape: Any, dtype: str) -> tuple[str, tuple[int, ...], str]:
    """A tensor as workloads write it."""
    return ("TENSOR", tuple(int(getattr(d, "value", d)) for d in shape), dtype)


def is_known(*shapes: Any) -> bool:
    """Whether all dimensions are constants."""
    return all(hasattr(d, "value") or isinstance(d, int) for shape in shapes for d in shape)


def decide(
    picked: dict[str, Any], workload: tuple[Any, ...] | None, target: Target | None,
    space: Callable[[], dict[str, list[Any]]], keep: Callable[[dict[str, Any]], Any] | None = None,
    usable: Callable[[dict[str, Any]], bool] = lambda values: True,
) -> dict[str, Any]:
    """The knobs of a workload. A tuner that collects its space gets it from here: ``keep`` filters all of its
    configurations at once. A record is taken where its values are choices of the space and ``usable``."""
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
    """The values of each knob; the pick is always among them."""
    return {name: [*values, *([picked[name]] if picked[name] not in values else [])] for name, values in space.items()}


def define(space: ConfigSpace, table: dict[str, list[Any]], picked: dict[str, Any]) -> None:
    """Put the knobs into a space that a tuner collects; the pick is where it starts."""
    for name, values in table.items():
        space.define_knob(name, values)
    start = space.index_of(picked)
    if start is not None and start not in space.start:
        space.start.append(start)


def fitting(table: dict[str, list[Any]], config: ConfigEntity) -> dict[str, Any] | None:
    """The values of a record, None if its knobs are not those of the template or a value is none of theirs."""
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
