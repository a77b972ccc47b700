"""A profile as pictures: a timeline of the calls, a flame graph, and the roofline.

A report is read by its rows, so that reports of any executor and of a file are handled in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from ..dtype import info
from .chart import roofline
from .page import escape, page, table
from .svg import Drawing, shorten

_WIDTH, _ROW = 1000.0, 22.0
_LETTER = 6.7
_COLOURS = 5
_SHAPE = re.compile(r"(\w+)\[([\d, ]*)\]")


class Call(NamedTuple):
    """A call of a kernel: its name, microseconds, shapes, source operator, operation count, and bytes moved."""

    name: str
    microseconds: float
    shapes: str
    source: str
    flop: float
    moved: int

    @property
    def kind(self) -> str:
        """Return the operators of the kernel, without the suffix that numbers kernels with the same operators."""
        return re.sub(r"_\d+$", "", self.name)

    @property
    def intensity(self) -> float:
        return self.flop / self.moved if self.moved else 0.0


def short_name(kernel: str) -> str:
    """Return the name of a kernel without the common prefix."""
    return {"__nop": "view", "__copy": "copy to device"}.get(kernel) or kernel.removeprefix("tvmgen_default_fused_")


def calls_of(report: Any, flop: Mapping[str, float] | None = None) -> list[Call]:
    """Return the calls of a report; ``flop`` are the operation counts of its kernels by name."""
    found = []
    for row in report.calls:
        name, shapes = str(row.get("Name", "")), str(row.get("Argument Shapes", ""))
        took = getattr(row.get("Duration (us)"), "value", 0.0)
        found.append(
            Call(
                short_name(name), took, shapes, str(row.get("Source", "")), (flop or {}).get(name, 0.0), _bytes(shapes)
            )
        )
    return found


def _bytes(shapes: str) -> int:
    """Return the total size of arguments and outputs, from text such as ``float32[1, 3], float32[3]``."""
    total = 0
    for dtype, dims in _SHAPE.findall(shapes):
        size = info(dtype)
        total += prod(int(d) for d in dims.split(",") if d.strip()) * ((size.bits * size.lanes + 7) // 8)
    return total


def microseconds(value: float) -> str:
    return f"{value:.1f} us" if value < 1000 else f"{value / 1000:.2f} ms"


class _Bars:
    """Bars whose length is time: a drawing, the scale, and a colour for each kind of kernel."""

    def __init__(self, label: str, calls: Sequence[Call], rows: int):
        self.total = sum(call.microseconds for call in calls) or 1.0
        self.drawing = Drawing(label, _WIDTH, rows * _ROW + 2)
        times: dict[str, float] = {}
        for call in calls:
            times[call.kind] = times.get(call.kind, 0.0) + call.microseconds
        ranked = sorted(times, key=lambda kind: (-times[kind], kind))
        self.colour = {kind: min(i, _COLOURS - 1) for i, kind in enumerate(ranked)}

    def bar(self, begin: float, took: float, row: int, words: str, tip: str, kind: str | None, height: int = 1) -> None:
        """Draw a bar that starts at a given time; ``kind`` None is the whole run."""
        x, width = begin / self.total * _WIDTH, took / self.total * _WIDTH
        y, tall = row * _ROW + 1, height * _ROW - 1
        name = f"bar bar{_COLOURS - 1 if kind is None else self.colour[kind]}"
        tip = f"{tip}\n{microseconds(took)}, {took / self.total:.1%}"
        letters = int((width - 6) / _LETTER)
        with self.drawing.group(tip):
            self.drawing.box(x, y, width, tall, name)
            if letters >= 4:
                self.drawing.text(x + 4, y + tall / 2 + 4, shorten(words, letters), kind="onbar")


def _tip(call: Call) -> str:
    return "\n".join(filter(None, [call.name, call.source, call.shapes]))


def timeline(calls: Sequence[Call]) -> str:
    """Draw the calls in execution order."""
    bars, now = _Bars("calls of kernels in order, as long as they take", calls, 2), 0.0
    for call in calls:
        bars.bar(now, call.microseconds, 0, call.name, _tip(call), call.kind, height=2)
        now += call.microseconds
    return bars.drawing.svg()


def flames(calls: Sequence[Call]) -> str:
    """Draw a flame graph: the run, the kinds of kernels, the kernels of each kind, and their calls; longest first."""
    tree: dict[str, dict[str, list[Call]]] = {}
    for call in calls:
        tree.setdefault(call.kind, {}).setdefault(call.name, []).append(call)
    bars = _Bars("time by kinds of kernels, kernels and calls", calls, 4)
    bars.bar(0.0, bars.total, 0, "all kernels", f"{len(calls)} calls", None)

    def longest_first(groups: Mapping[str, Sequence[Call]]) -> list[tuple[float, str, Sequence[Call]]]:
        timed = [(sum(c.microseconds for c in group), name, group) for name, group in groups.items()]
        return sorted(timed, key=lambda entry: (-entry[0], entry[1]))

    now = 0.0
    for took, kind, members in longest_first({k: [c for g in v.values() for c in g] for k, v in tree.items()}):
        bars.bar(now, took, 1, kind, f"{kind}\n{len(members)} calls of {len(tree[kind])} kernels", kind)
        for spent, name, group in longest_first(tree[kind]):
            bars.bar(now, spent, 2, name, f"{name}\n{len(group)} calls", kind)
            for call in sorted(group, key=lambda c: -c.microseconds):
                bars.bar(now, call.microseconds, 3, call.source or call.shapes, _tip(call), kind)
                now += call.microseconds
    return bars.drawing.svg()


def _roofline(calls: Sequence[Call], machine: Any) -> str:
    points = [
        (i, c.intensity, c.flop / c.microseconds / 1e3, None)
        for i, c in enumerate(calls)
        if c.intensity and c.microseconds
    ]
    if not points:
        return ""
    roofs = [("caches", machine.cache_bandwidth / 1e9), ("memory", machine.bandwidth / 1e9)]
    label = "speed of each call over its operations per byte, below the roofline of the machine"
    return (
        f"<h2>Roofline</h2>{roofline(label, machine.flops / 1e9, roofs, points, 'call')}"
        '<p class="soft">Each call of a convolution or product by its number in the table. Winograd\'s algorithm '
        "needs fewer operations than are counted here and may lie above the roofline.</p>"
    )


def _table(calls: Sequence[Call], machine: Any) -> str:
    total = sum(call.microseconds for call in calls) or 1.0
    counted, placed = any(call.flop for call in calls), any(call.source for call in calls)
    head = [
        "#",
        "kernel",
        "time",
        "share",
        *(["GFLOPS", "FLOP/byte"] if counted else []),
        *(["of roof"] if counted and machine else []),
        "GB/s",
        *(["source"] if placed else []),
        "shapes",
    ]
    body = []
    for i, call in enumerate(calls):
        speed, seconds = (call.flop / call.microseconds / 1e3 if call.microseconds else 0.0), call.microseconds / 1e6
        cells = [str(i), call.name, microseconds(call.microseconds), f"{call.microseconds / total:.1%}"]
        if counted:
            cells += [f"{speed:.1f}", f"{call.intensity:.1f}"] if call.flop else ["", ""]
        if counted and machine:
            roof = machine.roof(call.intensity, call.moved) if call.intensity else 0.0
            cells.append(f"{speed * 1e9 / roof:.0%}" if roof else "")
        cells += [
            f"{call.moved / seconds / 1e9:.1f}" if seconds else "",
            *([call.source] if placed else []),
            shorten(call.shapes, 120),
        ]
        body.append([escape(cell) for cell in cells])
    return table(head, body, "Calls in the order they run", name=1)


def profile_body(report: Any, flop: Mapping[str, float] | None = None, machine: Any = None, whole: bool = True) -> str:
    """Return the pictures of a report; with ``whole`` including the roofline and the table of calls."""
    calls = calls_of(report, flop)
    spent = sum(call.microseconds for call in calls)
    runs = [
        f"{device}: {microseconds(row['Duration (us)'].value)} a run"
        for device, row in report.device_metrics.items()
        if hasattr(row.get("Duration (us)"), "value")
    ]
    facts = [
        f"{len(calls)} calls of {len({c.name for c in calls})} kernels, {microseconds(spent)}",
        *runs,
        *(f"{name}: {value}" for name, value in report.configuration.items()),
    ]
    body = f'<p class="soft">{escape("; ".join(facts))}.</p>'
    if not calls:
        return f"{body}<p>No kernel was called.</p>"
    body += f"<h2>In order</h2>{timeline(calls)}<h2>Where the time goes</h2>{flames(calls)}"
    if not whole:
        return body
    return body + (_roofline(calls, machine) if machine else "") + f"<h2>Calls</h2>{_table(calls, machine)}"


def profile_page(report: Any, flop: Mapping[str, float] | None = None, machine: Any = None) -> str:
    """Return the page of a report."""
    return page("Profile", f"<h1>Profile</h1>{profile_body(report, flop, machine)}")


__all__ = ["Call", "calls_of", "flames", "microseconds", "profile_body", "profile_page", "short_name", "timeline"]
