"""Charts of the tuning report as SVG. Colours come from the style sheet, by class, so that they suit light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 40


class Axes:
    """A frame with two axes, each linear or logarithmic, and what is drawn in it."""

    def __init__(
        self, label: str, x_title: str, y_title: str, x_range: tuple[float, float], y_range: tuple[float, float], *,
        logarithmic: bool = False, width: int = 800, height: int = 240,
    ):
        self.label, self.width, self.height, self.logarithmic = label, width, height, logarithmic
        self.x_range, self.y_range = x_range, y_range
        self.parts: list[str] = []
        for value in _ticks(*x_range, logarithmic):
            x = self.x(value)
            self.parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>')
            self.text(x, height - _BOTTOM + 14, _number(value), "middle")
        for value in _ticks(*y_range, logarithmic):
            y = self.y(value)
            self.parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.text(_LEFT - 6, y + 4, _number(value), "end")
        self.text((_LEFT + width - _RIGHT) / 2, height - 8, x_title, "middle")
        middle = (_TOP + height - _BOTTOM) / 2
        self.parts.append(f'<text x="14" y="{middle:.1f}" text-anchor="middle" '
                          f'transform="rotate(-90 14 {middle:.1f})">{html.escape(y_title)}</text>')

    def x(self, value: float) -> float:
        return _LEFT + (self.width - _LEFT - _RIGHT) * _place(value, *self.x_range, self.logarithmic)

    def y(self, value: float) -> float:
        full = self.height - _TOP - _BOTTOM
        return self.height - _BOTTOM - full * _place(value, *self.y_range, self.logarithmic)

    def text(self, x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> None:
        named = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>')

    def dot(self, x: float, y: float, kind: str, words: str = "", radius: float = 2.5) -> None:
        title = f"<title>{html.escape(words)}</title>" if words else ""
        self.parts.append(f'<circle class="{kind}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius:g}">'
                          f"{title}</circle>")

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        places = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{places}"/>')

    def svg(self) -> str:
        return (f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{html.escape(self.label)}">'
                f'{"".join(self.parts)}</svg>')


def _place(value: float, low: float, high: float, logarithmic: bool) -> float:
    """Where a value lies between two others, 0 to 1; what lies outside is put on the edge."""
    if logarithmic:
        value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
    return min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)


def _ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    if logarithmic:
        return [10.0**e for e in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    step = _round_step((high - low) / 5 or 1.0)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _round_step(about: float) -> float:
    unit = 10.0 ** math.floor(math.log10(about))
    return next(unit * f for f in (1, 2, 5, 10) if unit * f >= about * 0.999)


def _number(value: float) -> str:
    return f"{value:.6g}"


def progress(label: str, speeds: Sequence[float], untuned: float | None, unit: str) -> str:
    """Trials as dots, the best so far as a line, the choice without tuning dashed. A trial that failed has speed 0."""
    top = max([*speeds, untuned or 0.0]) * 1.05 or 1.0
    axes = Axes(label, "trial", unit, (0.0, max(len(speeds), 2)), (0.0, top))
    best, line = 0.0, []
    for i, speed in enumerate(speeds):
        best = max(best, speed)
        line.append((i + 1, best))
        words = f"trial {i + 1}: {speed:.1f} {unit}" if speed else f"trial {i + 1} failed"
        axes.dot(i + 1, speed, "trial" if speed else "failed", words)
    axes.line(line, "best")
    if untuned:
        axes.line([(0.0, untuned), (max(len(speeds), 2), untuned)], "untuned")
        axes.text(axes.x(max(len(speeds), 2)), axes.y(untuned) - 5, "untuned", "end", "note")
    return axes.svg()


def over_time(label: str, points: Sequence[tuple[float, float]], untuned: float) -> str:
    """Milliseconds of the model after so many seconds of tuning."""
    end = max(points[-1][0], 1.0)
    steps = [(0.0, untuned)]
    for seconds, value in points:
        steps += [(seconds, steps[-1][1]), (seconds, value)]
    top = max(value for _, value in steps) * 1.05
    axes = Axes(label, "seconds of tuning", "ms", (0.0, end), (0.0, top))
    axes.line([(0.0, untuned), (end, untuned)], "untuned")
    axes.line([*steps, (end, steps[-1][1])], "best")
    axes.text(axes.x(end), axes.y(steps[-1][1]) - 6, f"{steps[-1][1]:.3f} ms", "end", "note")
    return axes.svg()


def roofline(
    label: str, flops: float, roofs: Sequence[tuple[str, float]],
    points: Sequence[tuple[int, float, float, float | None]],
) -> str:
    """Speed over intensity. A point is (number, operations per byte, best, untuned); speeds in GFLOPS.

    ``roofs`` are names and GB/s.
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
            axes.dot(x, before, "before", f"task {number}, untuned: {before:.1f} GFLOPS", 3)
            axes.line([(x, before), (x, best)], "move")
        axes.dot(x, best, "after", f"task {number}: {best:.1f} GFLOPS at {x:.1f} operations per byte", 4)
        axes.text(axes.x(x) + 6, axes.y(best) + 4, str(number), "start", "note")
    return axes.svg()


__all__ = ["Axes", "over_time", "progress", "roofline"]
