"""Charts: a frame with axes, and the roofline of a machine in it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .page import escape
from .svg import Drawing, at, shorten

_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 40


class Axes(Drawing):
    """A frame with two axes, each linear or logarithmic, and the elements drawn in it."""

    def __init__(
        self,
        label: str,
        x_title: str,
        y_title: str,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        *,
        logarithmic: bool = False,
        width: int = 800,
        height: int = 240,
    ):
        super().__init__(label, width, height)
        self.logarithmic, self.x_range, self.y_range = logarithmic, x_range, y_range
        for value in ticks(*x_range, logarithmic):
            self.segment(self.x(value), _TOP, self.x(value), height - _BOTTOM, "grid")
            self.text(self.x(value), height - _BOTTOM + 14, f"{value:.6g}", "middle")
        for value in ticks(*y_range, logarithmic):
            self.segment(_LEFT, self.y(value), width - _RIGHT, self.y(value), "grid")
            self.text(_LEFT - 6, self.y(value) + 4, f"{value:.6g}", "end")
        self.text((_LEFT + width - _RIGHT) / 2, height - 8, x_title, "middle")
        middle = at((_TOP + height - _BOTTOM) / 2)
        self.parts.append(
            f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
            f"{escape(y_title)}</text>"
        )

    def x(self, value: float) -> float:
        return _LEFT + (self.width - _LEFT - _RIGHT) * _place(value, *self.x_range, self.logarithmic)

    def y(self, value: float) -> float:
        full = self.height - _TOP - _BOTTOM
        return self.height - _BOTTOM - full * _place(value, *self.y_range, self.logarithmic)

    def dot(self, x: float, y: float, kind: str, words: str = "", radius: float = 2.5) -> None:
        self.circle(self.x(x), self.y(y), radius, kind, words)

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        self.polyline([(self.x(x), self.y(y)) for x, y in points], kind)


def _place(value: float, low: float, high: float, logarithmic: bool) -> float:
    """Return the relative position of a value between two others, clamped to 0 to 1."""
    if logarithmic:
        value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
    return min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)


def ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    """Return round numbers between two others."""
    if logarithmic:
        return [10.0**e for e in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    step = _round_step((high - low) / 5 or 1.0)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _round_step(about: float) -> float:
    unit = 10.0 ** math.floor(math.log10(about))
    return next(unit * f for f in (1, 2, 5, 10) if unit * f >= about * 0.999)


def roofline(
    label: str,
    flops: float,
    roofs: Sequence[tuple[str, float]],
    points: Sequence[tuple[int, float, float, float | None]],
    word: str = "task",
) -> str:
    """Draw speed over intensity. A point is (index, operations per byte, best, untuned); speeds in GFLOPS.

    ``roofs`` are pairs of a name and GB/s; ``word`` describes a point.
    """
    every = [x for _, x, _, _ in points] + [flops / bandwidth for _, bandwidth in roofs]
    speeds = [y for _, _, best, before in points for y in (best, before) if y] + [flops]
    low, high = 10 ** math.floor(math.log10(min(every) / 1.2)), 10 ** math.ceil(math.log10(max(every) * 1.2))
    bottom, top = 10 ** math.floor(math.log10(min(speeds) / 1.2)), 10 ** math.ceil(math.log10(max(speeds) * 1.2))
    axes = Axes(label, "operations per byte", "GFLOPS", (low, high), (bottom, top), logarithmic=True, height=400)
    for name, bandwidth in roofs:
        first = max(low, bottom / bandwidth)
        axes.line([(first, first * bandwidth), (flops / bandwidth, flops), (high, flops)], "roof")
        axes.text(axes.x(first) + 24, axes.y(first * bandwidth) - 8, f"{name} {bandwidth:.0f} GB/s", "start", "note")
    axes.text(axes.x(high) - 4, axes.y(flops) - 6, f"{flops:.0f} GFLOPS", "end", "note")
    for number, x, best, before in points:
        if before:
            axes.dot(x, before, "before", f"{word} {number}, untuned: {before:.1f} GFLOPS", 3)
            axes.line([(x, before), (x, best)], "move")
        axes.dot(x, best, "after", f"{word} {number}: {best:.1f} GFLOPS at {x:.1f} operations per byte", 4)
        axes.text(axes.x(x) + 6, axes.y(best) + 4, str(number), "start", "note")
    return axes.svg()


def paired_bars(label: str, rows: Sequence[tuple[str, float | None, float | None, str]], width: float = 1000.0) -> str:
    """Draw pairs of bars, for values before and after; a row is a name, both values, and text next to them.

    A value that is None has no bar.
    """
    most = max((value for _, *pair, _ in rows for value in pair if isinstance(value, float)), default=0.0) or 1.0
    drawing = Drawing(label, width, 34.0 * len(rows) + 8)
    for i, (name, before, after, words) in enumerate(rows):
        y = 34.0 * i + 6
        with drawing.group(f"{name}\n{words}"):
            drawing.text(4, y + 14, shorten(name, 48), kind="mono note")
            drawing.text(width - 6, y + 14, words, "end")
            for value, kind, place in ((before, "before", 20), (after, "after", 25)):
                if value is not None:
                    drawing.box(4, y + place, max(value / most * (width - 8), 0.5), 4, kind)
    return drawing.svg()


def _legend_places(names: Sequence[str], left: float, width: float) -> list[tuple[float, float]]:
    """Return the positions of the names in a legend; a name that does not fit in a line starts the next one."""
    places: list[tuple[float, float]] = []
    x, y = left, 24.0
    for name in names:
        length = 30 + 6.2 * len(name)
        if x > left and x + length > width:
            x, y = left, y + 15
        places.append((x, y))
        x += length
    return places


def grouped_bars(
    label: str, series: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None]]], most: float, mark: float
) -> Drawing:
    """Draw a group of bars for each row, with a bar for each series and a line at ``mark``; None has no bar.

    Bars longer than ``most`` are cut; the text next to a bar is the full value.
    """
    left, bar, gap, unit, width = 150.0, 10.0, 12.0, 420.0 / most, 620.0
    places = _legend_places(series, left, width)
    top = places[-1][1] + 20 if places else 44.0
    drawing = Drawing(label, width, top + len(rows) * (len(series) * bar + gap) + 8)
    drawing.text(left, 16, label, kind="note")
    for number, (name, (x, y)) in enumerate(zip(series, places)):
        drawing.box(x, y, 9, 9, f"bar bar{number % 5}")
        drawing.text(x + 13, y + 9, name)
    y = top
    for name, values in rows:
        drawing.text(left - 8, y + len(series) * bar / 2 + 4, shorten(name, 24), "end", "note")
        for number, value in enumerate(values):
            if value is not None:
                length = min(value, most) * unit
                drawing.box(left, y, length, bar - 1, f"bar bar{number % 5}", f"{name}, {series[number]}: {value:.2f}")
                drawing.text(left + length + 4, y + 8, f"{value:.2f}")
            y += bar
        y += gap
    drawing.segment(left + mark * unit, top - 4, left + mark * unit, y - gap + 4, "untuned")
    return drawing


__all__ = ["Axes", "grouped_bars", "paired_bars", "roofline", "ticks"]
