"""The HTML page of a benchmark: its table, the distribution of the times of each runtime, and the times of all
rounds."""

from __future__ import annotations

from collections.abc import Sequence

from ...drawing.chart import Axes
from ...drawing.page import escape, table
from ...drawing.page import page as whole_page
from ...drawing.svg import Drawing

# Lines differ in their dash pattern as well as in colour.
_KINDS = ("one", "two", "three", "four")
_ROW, _LEFT, _RIGHT, _WIDTH = 44, 130, 90, 800


def _kind(place: int) -> str:
    return _KINDS[place % len(_KINDS)]


def spread(programs: Sequence[tuple[str, dict]]) -> str:
    """Draw a row for each runtime: a thin line from p5 to p95, a thick line from p25 to p75, and the median as text."""
    top = max(facts["p95"] for _, facts in programs) * 1.05
    full = _WIDTH - _LEFT - _RIGHT

    def x(seconds: float) -> float:
        return _LEFT + full * seconds / top

    drawing = Drawing("milliseconds of each program", _WIDTH, _ROW * len(programs) + 10)
    for place, (name, facts) in enumerate(programs):
        y, kind = _ROW * place + _ROW / 2 + 4, _kind(place)
        drawing.segment(x(facts["p5"]), y, x(facts["p95"]) + 1, y, f"{kind} thin")
        drawing.segment(x(facts["p25"]), y, x(facts["p75"]) + 1, y, f"{kind} thick")
        drawing.text(_LEFT - 10, y + 4, name, "end", "note")
        drawing.text(x(facts["p95"]) + 8, y + 4, f"{facts['median'] * 1e3:.3f} ms", "start", "note")
    return drawing.svg()


def over_rounds(programs: Sequence[tuple[str, dict]]) -> str:
    """Draw the milliseconds of every round, one line per runtime with its name at the end."""
    rounds = max(len(facts["seconds"]) for _, facts in programs)
    top = max(max(facts["seconds"]) for _, facts in programs) * 1e3 * 1.05
    axes = Axes("milliseconds of each round", "round", "ms", (0.0, max(rounds, 2)), (0.0, top), height=320)
    for place, (name, facts) in enumerate(programs):
        points = [(at + 1, seconds * 1e3) for at, seconds in enumerate(facts["seconds"])]
        axes.line(points, _kind(place))
        axes.text(axes.x(points[-1][0]) - 4, axes.y(points[-1][1]) - 6, name, "end", "note")
    return axes.svg()


def page(result: dict, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Return the page of a result, with the table that is printed on the terminal."""
    title = f"Benchmark of {result['name']}"
    programs = [(name, facts) for name, facts in result["programs"].items() if "seconds" in facts]
    cells = [[escape(cell) for cell in row] for row in rows]
    facts = (
        ("machine", result["machine"]),
        ("device", result["device"]),
        ("threads", result["threads"]),
        ("batch", result["batch"]),
        ("rounds", f"{result['rounds']}, after {result['warm_up']} to warm up"),
        ("runs in a round", result["number"]),
        ("made by", f"tvm {result['tvm_version']}, {result['date']}"),
    )
    told = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    body = (
        f"<h1>{escape(title)}</h1><dl>{told}</dl><h2>Times</h2>{table([escape(h) for h in head], cells)}"
        + "".join(f'<p class="soft">{escape(note)}</p>' for note in notes)
        + f"<h2>Spread</h2>{spread(programs)}"
        '<p class="soft">The thin line is 90 % of the rounds, the thick one their middle half, the number their '
        f"median.</p><h2>Rounds</h2>{over_rounds(programs)}"
        '<p class="soft">Each program runs in its own process, stopped while another runs; rounds alternate.</p>'
    )
    return whole_page(title, body)


__all__ = ["over_rounds", "page", "spread"]
