"""Charts of the tuning report."""

from __future__ import annotations

from collections.abc import Sequence

from ...drawing.chart import Axes


def progress(label: str, speeds: Sequence[float], untuned: float | None, unit: str) -> str:
    """Draw trials as dots, the best so far as a line, and the untuned kernel dashed. A failed trial has speed 0."""
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
    """Draw the milliseconds of the model over the seconds of tuning."""
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


__all__ = ["over_time", "progress"]
