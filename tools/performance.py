"""Write the tables and charts of docs/performance.md from the result files in benchmarks/results.

For each table the command takes the newest row of each case (a model, an operator, a step) from the files of the
table's question and machine, writes the table between the markers ``<!-- tables: NAME NAME -->`` and ``<!-- end -->``
of the page, and draws the charts into docs/performance/. ``--check`` writes nothing and exits with 1 if the page or a
chart differs from the data.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import result_file  # noqa: E402
from tools.performance_tables import CHARTS, TABLES, Chart, Column, Source, Table  # noqa: E402
from tvm.drawing.chart import grouped_bars  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
CHART_FOLDER = ROOT / "docs" / "performance"
BLOCK = re.compile(r"(<!-- tables: ([\w -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


class Run(NamedTuple):
    """A result file: its path relative to the folder of results, its run number of that day, and its data."""

    name: str
    number: int
    data: dict[str, Any]


class Found(NamedTuple):
    """A row of a table: the row of the result file and the file that has it."""

    row: dict[str, Any]
    run: Run


def read_runs(folder: Path = result_file.FOLDER) -> list[Run]:
    """Return all result files, oldest first."""
    runs = []
    for path in folder.glob("*.json"):
        name = result_file.NAME.fullmatch(path.stem)
        if name is None:
            raise ValueError(f"{path}: the file name is not QUESTION-MACHINE-DATE.json")
        runs.append(Run(path.name, int(name["run"] or 1), result_file.load(path)))
    return sorted(runs, key=lambda run: (run.data["date"], run.number, run.name))


def newest_rows(runs: list[Run], source: Source) -> dict[str, list[Found]]:
    """Return the newest row of each case of a source that has the programs of its columns, by the label of the row.

    A label has several rows where the source is labelled by a field that several cases share.
    """
    programs = source.programs
    cases: dict[tuple, Found] = {}
    for run in runs:
        name = result_file.NAME.fullmatch(run.name.removesuffix(".json"))
        if run.data["question"] != source.question or name is None or name["machine"] not in source.machine.split():
            continue
        for row in run.data["rows"]:
            known = row["values"].keys() | row.get("ratios", {}).keys()
            if programs <= known and source.takes(row):
                case = (row["name"], row.get("input"), row.get("group"))
                cases[case] = Found(row, run)
    labels: dict[str, list[Found]] = {}
    for found in cases.values():
        labels.setdefault(source.label(found.row), []).append(found)
    return labels


def cell_values(found: list[Found], column: Column) -> list[float]:
    """Return the numbers that a cell shows: the value of one row, or mean and worst of a group of rows."""
    numbers = [column.number(f.row) for f in found]
    known = [number for number in numbers if number is not None]
    if not known:
        return []
    if len(known) == 1:
        return known
    mean = math.exp(math.fsum(math.log(number) for number in known) / len(known))
    return [mean, max(known)]


def number_text(value: float) -> str:
    """Format a number with three significant digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cell(found: list[Found], column: Column) -> str:
    values = cell_values(found, column)
    if not values:
        return ""
    if column.is_ratio:
        texts = [f"{value:.2f}" for value in values]
    else:
        unit = found[0].row.get("unit", "")
        texts = [number_text(value) + (f" {unit}" if unit else "") for value in values]
    return texts[0] if len(texts) == 1 else f"{texts[0]} ({texts[1]})"


def table_text(table: Table, runs: list[Run]) -> str:
    """Return a table in Markdown, followed by one line for each result file that it shows.

    Where rows are from different runs, a last column has the letters of the runs.
    """
    parts = [(source, newest_rows(runs, source)) for source in table.sources]
    rows = {label: [found.get(label, []) for _, found in parts] for _, found in parts for label in found}
    if not rows:
        raise ValueError(f"no result file for the table {table.name}")
    if table.sort:
        rows = dict(sorted(rows.items(), key=lambda item: first_number(item[1], table)))
    used = {label: list(dict.fromkeys(f.run.name for found in cells for f in found)) for label, cells in rows.items()}
    files = list(dict.fromkeys(name for names in used.values() for name in names))
    differ = len({tuple(sorted(names)) for names in used.values()}) > 1
    marks = {name: chr(ord("a") + number) for number, name in enumerate(files)} if differ else {}
    titles = [title for source in table.sources for title in source.titles()]
    lines = [[table.first, *titles, "run"], ["---"] * (len(titles) + 2)]
    for label, found in rows.items():
        cells = [cell(f, column) for f, source in zip(found, table.sources) for column in source.columns]
        lines.append([label, *cells, ", ".join(sorted(marks[name] for name in used[label] if differ))])
    if table.mean:
        means = [mean_cell(list(found.values()), column) for source, found in parts for column in source.columns]
        lines.append(["geometric mean", *means, ""])
    text = [f"| {' | '.join(line if differ else line[:-1])} |" for line in lines]
    return "\n".join([*text, "", *provenance(files, marks, runs)]) + "\n"


def first_number(cells: list[list[Found]], table: Table) -> float:
    """Return the number in the first column of a row, the sort key; rows without one come last."""
    values = cell_values(cells[0], table.sources[0].columns[0])
    return values[0] if values else math.inf


def mean_cell(rows: list[list[Found]], column: Column) -> str:
    """Return the geometric mean of a column of ratios over all rows."""
    if not column.is_ratio:
        return ""
    values = [column.number(f.row) for found in rows for f in found]
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return f"{math.exp(math.fsum(map(math.log, known)) / len(known)):.2f}"


def provenance(files: list[str], marks: dict[str, str], runs: list[Run]) -> Iterator[str]:
    """Return a line for each result file: date, machine, versions, method, command and a link."""
    by_name = {run.name: run.data for run in runs}
    for name in files:
        data = by_name[name]
        facts = [f"{marks[name]}: {data['date']}" if marks else data["date"], data["machine"]]
        facts += [f"commit {data['commit']}"] if data["commit"] else []
        facts += [f"{program} {version}" for program, version in data["versions"].items()]
        link = f"[data](../benchmarks/results/{name})"
        yield f"- {', '.join(facts)}. {sentence(data['method'])} `{data['command']}` ({link})"


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def page_text(page: str, runs: list[Run]) -> str:
    """Return the page with all tables written anew; an unknown or a missing table is an error."""
    tables = {table.name: table for table in TABLES}
    blocks = [match[2].split() for match in BLOCK.finditer(page)]
    names = [name for block in blocks for name in block]
    if sorted(names) != sorted(tables):
        wrong = sorted(set(names) ^ set(tables)) or sorted(name for name in names if names.count(name) > 1)
        raise ValueError(f"docs/performance.md must have each table of tools/performance_tables.py once: {wrong[0]}")

    def block(match: re.Match[str]) -> str:
        return match[1] + "\n".join(table_text(tables[name], runs) for name in match[2].split()) + match[4]

    return BLOCK.sub(block, page)


def chart_text(chart: Chart, runs: list[Run]) -> str:
    """Return a chart as SVG: a group of bars for each row, a bar for each series."""
    parts = [(series, newest_rows(runs, series.source)) for series in chart.series]
    labels = list(dict.fromkeys(label for _, rows in parts for label in rows))
    bars: list[tuple[str, list[float | None]]] = []
    for label in labels:
        values = [cell_values(rows.get(label, []), series.column) for series, rows in parts]
        bars.append((label, [value[0] if value else None for value in values]))
    longest = max(value for _, values in bars for value in values if value is not None)
    most = min(chart.most, longest * 1.05)
    return grouped_bars(chart.title, [series.title for series in chart.series], bars, most, chart.mark).file()


def charts(runs: list[Run] | None = None) -> dict[str, str]:
    """Return the charts of the page by file name."""
    known = read_runs() if runs is None else runs
    return {f"{chart.name}.svg": chart_text(chart, known) for chart in CHARTS}


def differences(page: Path = PAGE, folder: Path = CHART_FOLDER, runs: list[Run] | None = None) -> dict[Path, str]:
    """Return the files that differ from the data, with the text that they should have."""
    known = read_runs() if runs is None else runs
    wanted = {folder / name: text for name, text in charts(known).items()}
    wanted[page] = page_text(page.read_text(encoding="utf-8"), known)
    return {
        path: text for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools performance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file would change")
    options = parser.parse_args(arguments)
    changed = differences()
    for path, text in changed.items():
        name = path.relative_to(ROOT).as_posix()
        if options.check:
            print(f"{name} differs from benchmarks/results; run: python -m tools performance")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
