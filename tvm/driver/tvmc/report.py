"""A page about a tuning run: for each task how it went, what was found, and what it is worth. One file, no network."""

from __future__ import annotations

import html
import os
from typing import Any

from ...autotvm.record import load_from_file
from ...autotvm.task.dispatcher import mean_cost
from .errors import TVMCException
from .tuning_display import describe

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
h2{font-size:1.05rem;margin:2.2rem 0 .3rem}table{border-collapse:collapse}td,th{padding:.15rem .8rem;text-align:right}
th:first-child,td:first-child{text-align:left}svg{background:#f7f7f7;width:100%;height:auto}
code{background:#f0f0f0;padding:.1rem .3rem}
"""
_WIDTH, _HEIGHT, _EDGE = 800, 220, 34


def curve(speeds: list[float], untuned: float | None) -> str:
    """Trials as points, the best so far as a line, the speed without tuning as a dashed one."""
    top = max([*speeds, untuned or 0.0]) or 1.0
    last = max(len(speeds) - 1, 1)

    def place(i: int, speed: float) -> tuple[float, float]:
        x = _EDGE + (_WIDTH - 2 * _EDGE) * i / last
        return x, _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * speed / top

    points = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{"#38c" if s else "#d44"}"/>'
        for i, s in enumerate(speeds) for x, y in [place(i, s)]
    )
    best, line = 0.0, []
    for i, speed in enumerate(speeds):
        best = max(best, speed)
        line.append("{:.1f},{:.1f}".format(*place(i, best)))
    base = ""
    if untuned:
        y = place(0, untuned)[1]
        base = (f'<line x1="{_EDGE}" x2="{_WIDTH - _EDGE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#888" '
                f'stroke-dasharray="5 4"/><text x="{_WIDTH - _EDGE}" y="{y - 4:.1f}" font-size="11" '
                f'text-anchor="end" fill="#666">untuned {untuned / 1e9:.1f}</text>')
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="speed of each trial">{base}{points}'
        f'<polyline points="{" ".join(line)}" fill="none" stroke="#163"/>'
        f'<text x="4" y="{_EDGE}" font-size="11">{top / 1e9:.1f} GFLOPS</text>'
        f'<text x="{_WIDTH - _EDGE}" y="{_HEIGHT - 10}" font-size="11" text-anchor="end">{len(speeds)} trials</text>'
        "</svg>"
    )


def section(number: int, task: Any, rows: list[tuple[Any, Any]]) -> str:
    """One task."""
    flop = task.flop or 0.0
    speeds = [flop / mean_cost(r) if r.error_no == 0 else 0.0 for _, r in rows]
    good = [(i, r) for i, r in rows if r.error_no == 0]
    title = f"<h2>{number}. {html.escape(describe(task))}</h2>"
    if not good:
        return f"{title}<p>{len(rows)} trials, none ran.</p>"
    latest = {str(i.config.values()): (i, r) for i, r in good}
    best = min(latest.values(), key=lambda pair: mean_cost(pair[1]))
    start = {task.config_space.index_of(i.config.values()): r for i, r in latest.values()}
    untuned = next((mean_cost(start[s]) for s in task.config_space.start if s in start), None)
    cost = mean_cost(best[1])
    moved = sum(4 * _size(a) for a in task.args if isinstance(a, tuple) and a and a[0] == "TENSOR")
    before = f"{untuned * 1e3:.4f} ms" if untuned else "not measured"
    gain = f"{untuned / cost:.2f}x" if untuned else "-"
    knobs = ", ".join(f"{name}={value}" for name, value in best[0].config.values().items())
    return (
        f"{title}{curve(speeds, flop / untuned if untuned else None)}<table><tr><th></th><th>untuned</th><th>best</th>"
        f"<th>gain</th><th>speed</th><th>intensity</th></tr><tr><td>one run</td><td>{before}</td>"
        f"<td>{cost * 1e3:.4f} ms</td><td>{gain}</td><td>{flop / cost / 1e9:.1f} GFLOPS</td>"
        f"<td>{flop / max(moved, 1):.1f} FLOP/byte</td></tr></table><p><code>{html.escape(knobs)}</code></p>"
    )


def _size(tensor: tuple) -> int:
    total = 1
    for d in tensor[1]:
        total *= d
    return total


def write_report(path: str, records: str, tasks: list[Any]) -> None:
    """The page of these tasks, from a file of records."""
    rows: dict[Any, list] = {task.workload: [] for task in tasks}
    for inp, result in load_from_file(records) if os.path.isfile(records) else ():
        if inp.task.workload in rows:
            rows[inp.task.workload].append((inp, result))
    body = "".join(section(n, task, rows[task.workload]) for n, task in enumerate(tasks))
    target = html.escape(str(tasks[0].target).strip()) if tasks else ""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tuning report</title>'
        f"<style>{_STYLE}</style></head><body><h1>Tuning report</h1><p>Target <code>{target}</code>, "
        f"{sum(map(len, rows.values()))} trials, {len(tasks)} tasks. Dots are trials, the line is the best so far, the "
        f"dashed line is the code without tuning.</p>{body}</body></html>\n"
    )
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as problem:
        raise TVMCException(f"the report cannot be written to '{path}': {problem.strerror}") from None
