"""The memory plan of a compiled model as a chart: the offset of each value, and its lifetime from the kernel that
writes it to the last kernel that reads it.

The graph of a compiled model contains the storage and offset of each value; lifetimes follow from the readers of
values. Weights and inputs exist all the time and are shown as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from ..dtype import info
from .chart import Axes
from .page import escape, table
from .profile import short_name

_MIB = float(1 << 20)
# Names of input nodes and of view nodes in graphs.
_GIVEN, _VIEW = "null", "__nop"


class Value(NamedTuple):
    """A value of a run: its name, type, storage, offset and size in bytes, and the steps of its lifetime."""

    name: str
    type: str
    storage: int
    offset: int
    nbytes: int
    first: int
    last: int
    is_output: bool


class Memory(NamedTuple):
    """The values of a run of ``steps`` steps, the size of each storage, and the size of inputs and weights."""

    steps: int
    values: list[Value]
    storages: dict[int, int]
    given: int

    @property
    def planned(self) -> int:
        return sum(self.storages.values())

    @property
    def unshared(self) -> int:
        return sum(value.nbytes for value in self.values)

    def live(self) -> list[int]:
        """Return the total size of live values at each step."""
        change = [0] * (self.steps + 1)
        for value in self.values:
            change[value.first] += value.nbytes
            change[value.last + 1] -= value.nbytes
        found, now = [], 0
        for step in range(self.steps):
            now += change[step]
            found.append(now)
        return found


def memory_of(graph_json: str) -> Memory:
    """Return the memory plan in the graph of a compiled model."""
    graph = json.loads(graph_json)
    nodes, rows = graph["nodes"], graph["node_row_ptr"]
    attrs = {name: values[1] for name, values in graph["attrs"].items()}
    types, ids = [f"{d}{s}" for d, s in zip(attrs["dltype"], attrs["shape"])], attrs["storage_id"]
    offsets = attrs.get("storage_offset") or [0] * rows[-1]
    sizes = [_bytes(d, s) for d, s in zip(attrs["dltype"], attrs["shape"])]
    step = {n: i for i, n in enumerate(n for n, node in enumerate(nodes) if node["op"] != _GIVEN)}
    outputs = {rows[n] + i for n, i, _ in graph["heads"]}
    results = {ids[e] for e in outputs}
    last = _last_reads(graph, step, outputs)
    given = sum(sizes[e] for n, node in enumerate(nodes) if n not in step for e in range(rows[n], rows[n + 1]))
    values = [
        Value(short_name(nodes[n]["attrs"]["func_name"]), types[e], ids[e], offsets[e], sizes[e], at, last[e],
              ids[e] in results)
        for n, at in step.items() if not _is_view(nodes[n]) for e in range(rows[n], rows[n + 1])
    ]  # fmt: skip
    storages: dict[int, int] = {}
    for value in values:
        storages[value.storage] = max(storages.get(value.storage, 0), value.offset + value.nbytes)
    return Memory(len(step), _taking_turns(values), dict(sorted(storages.items())), given)


def _taking_turns(values: list[Value]) -> list[Value]:
    """Adjust values that a kernel overwrites with its output: their lifetime ends where the output's starts."""
    found = list(values)
    latest: dict[int, list[int]] = {}
    for i, value in enumerate(values):
        beside = [j for j in latest.get(value.storage, ()) if found[j].last >= value.first]
        for j in beside:
            other = found[j]
            apart = other.offset + other.nbytes <= value.offset or value.offset + value.nbytes <= other.offset
            if other.last == value.first and not apart and other.first < value.first:
                found[j] = other._replace(last=value.first - 1)
        latest[value.storage] = [*beside, i]
    return found


def _bytes(dtype: str, shape: list[int]) -> int:
    size = info(dtype)
    return max(prod(shape) * ((size.bits * size.lanes + 7) // 8), 1)


def _is_view(node: Mapping[str, Any]) -> bool:
    return node["op"] != _GIVEN and node["attrs"]["func_name"] == _VIEW


def _last_reads(graph: Mapping[str, Any], step: Mapping[int, int], outputs: set[int]) -> list[int]:
    """Return the last step that reads each value; a view extends the lifetime of its value."""
    rows = graph["node_row_ptr"]
    last = [0] * rows[-1]
    for n in reversed(range(len(graph["nodes"]))):
        node = graph["nodes"][n]
        own = range(rows[n], rows[n + 1])
        for e in own:
            last[e] = len(step) - 1 if e in outputs else max(last[e], step.get(n, 0))
        until = max((last[e] for e in own), default=0) if _is_view(node) else step.get(n, 0)
        for m, i, _ in node["inputs"]:
            last[rows[m] + i] = max(last[rows[m] + i], until)
    return last


def memory_chart(memory: Memory) -> str:
    """Draw the storages on top of each other, each with the values that use it in turn."""
    top = memory.planned / _MIB * 1.02 or 1.0
    height = int(min(max(240.0, 18.0 * len(memory.storages) + 80), 720.0))
    axes = Axes(
        "where each value lies and how long it lives",
        "kernel, in order",
        "MiB",
        (0.0, max(memory.steps, 1)),
        (0.0, top),
        height=height,
        width=1000,
    )
    base, begin = 0, {}
    for storage, size in memory.storages.items():
        begin[storage] = base
        base += size
        axes.segment(axes.x(0), axes.y(base / _MIB), axes.x(memory.steps), axes.y(base / _MIB), "grid")
    for i, value in enumerate(memory.values):
        low = begin[value.storage] + value.offset
        x, y = axes.x(value.first), axes.y((low + value.nbytes) / _MIB)
        width, tall = axes.x(value.last + 1) - x, axes.y(low / _MIB) - y
        tip = (
            f"{value.name}\n{value.type}, {size_words(value.nbytes)}\nstorage {value.storage}, "
            f"kernels {value.first} to {value.last}{', a result' if value.is_output else ''}"
        )
        axes.box(x, y, width, tall, "bar bar2" if value.is_output else f"bar bar{i % 2}", tip, opacity=0.75)
    return axes.svg()


def live_chart(memory: Memory) -> str:
    """Draw the size of live values at each kernel, below the planned size."""
    live = memory.live()
    top = max([*live, memory.planned, 1]) / _MIB * 1.05
    axes = Axes(
        "bytes of values that live while each kernel runs",
        "kernel, in order",
        "MiB",
        (0.0, max(memory.steps, 1)),
        (0.0, top),
        height=180,
        width=1000,
    )
    points = [(x, value / _MIB) for step, value in enumerate(live) for x in (step, step + 1)]
    axes.line(points, "best")
    axes.line([(0.0, memory.planned / _MIB), (memory.steps, memory.planned / _MIB)], "untuned")
    axes.text(axes.x(memory.steps), axes.y(memory.planned / _MIB) - 5, "planned", "end", "note")
    return axes.svg()


def size_words(count: float) -> str:
    """Format a number of bytes."""
    return f"{count / _MIB:.2f} MiB" if count >= _MIB / 10 else f"{count / 1024:.1f} KiB"


def memory_body(memory: Memory) -> str:
    """Return the charts, and a table with totals."""
    if not memory.values:
        return "<p>The model makes no values.</p>"
    rows = [
        ["planned for values a run makes", memory.planned],
        ["most that live at once", max(memory.live())],
        ["without sharing", memory.unshared],
        ["weights and inputs", memory.given],
    ]
    sums = table(["memory", "bytes"], [[escape(what), size_words(count)] for what, count in rows])
    note = (
        '<p class="soft">Each bar is a value, from the kernel that writes it to the last that reads it; values in '
        "one storage take turns. Results of the model are green.</p>"
    )
    return f"{sums}<h2>Where values lie</h2>{note}{memory_chart(memory)}<h2>What lives</h2>{live_chart(memory)}"


__all__ = ["Memory", "Value", "live_chart", "memory_body", "memory_chart", "memory_of", "size_words"]
