"""docs/performance.md and its charts are what ``python -m tools performance`` makes of benchmarks/results."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from benchmarks import result_file
from tools import performance
from tools.performance import Run, cell, newest_rows, number_text, page_text, table_text
from tools.performance_tables import BY_GROUP, CHARTS, TABLES, Source, Table, ratio, value

FILES = sorted(result_file.FOLDER.glob("*.json"))


def run(date: str, rows: list[dict], number: int = 1, **fields: object) -> Run:
    data = {"question": "speed", "date": date, "machine": "a machine", "commit": "abc", "versions": {"other": "1.2"},
            "command": "python -m x", "method": "100 rounds", "unit": "ms", "rows": rows, **fields}  # fmt: skip
    suffix = "" if number == 1 else f"-{number}"
    return Run(f"speed-xeon-{date}{suffix}.json", number, data)


def row(name: str, ours: float, other: float, **fields: object) -> dict:
    return {"name": name, "values": {"ours": ours, "other": other}, **fields}


SPEED = Source("speed", "xeon", (value("ours", "ours, ms"), ratio("other")))


def test_the_page_and_its_charts_show_the_result_files():
    assert not performance.differences(), "python -m tools performance writes them"
    assert performance.main(["--check"]) == 0


def test_a_page_that_differs_from_the_data_is_named_and_written_anew(tmp_path, monkeypatch, capsys):
    page, folder = tmp_path / "performance.md", tmp_path / "performance"
    text = performance.PAGE.read_text(encoding="utf-8")
    page.write_text(text.replace("| ResNet-50 |", "| ResNet-51 |", 1), encoding="utf-8")
    changed = performance.differences(page, folder)
    assert changed.pop(page) == text and {path.name for path in changed} == {f"{chart.name}.svg" for chart in CHARTS}
    monkeypatch.setattr(performance, "ROOT", tmp_path)
    monkeypatch.setattr(performance, "differences", lambda: {page: text})
    assert performance.main(["--check"]) == 1 and page.read_text(encoding="utf-8") != text
    assert "performance.md differs from benchmarks/results; run: python -m tools performance" in capsys.readouterr().out
    assert performance.main([]) == 0 and page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_result_files_follow_their_schema(path):
    text = path.read_text(encoding="utf-8")
    data = json.loads(text)
    assert result_file.problems(path.stem, data) == []
    assert text == result_file.text(data)
    assert f"`{data['question']}`" in (result_file.FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "stem, change, complaint",
    [
        ("speed-xeon-2026-01-02", {"colour": 1}, "the file: unknown field 'colour'"),
        ("speed-xeon-2026-01-03", {}, "date is '2026-01-02', the file name has '2026-01-03'"),
        ("speed-pdp11-2026-01-02", {}, "unknown machine 'pdp11'"),
        ("speed", {}, "the file name speed is not QUESTION-MACHINE-DATE"),
        ("speed-xeon-2026-01-02", {"rows": [{"name": "a"}]}, "row 0: missing field 'values'"),
        ("speed-xeon-2026-01-02", {"rows": [row("a", float("nan"), 1)]}, "row 0: nan is not a number"),
    ],
)
def test_a_file_that_breaks_the_schema_is_reported(stem, change, complaint):
    data = {**run("2026-01-02", [row("a", 1, 2)]).data, **change}
    assert complaint in "\n".join(result_file.problems(stem, data))


def test_a_written_file_is_read_again_and_a_second_one_of_the_day_is_numbered(tmp_path):
    facts = {"unit": "ms", "description": "m", "command": "x", "method": "y", "versions": {}, "folder": tmp_path}
    first = result_file.write("speed", "xeon", [row("a", 1, 2)], **facts)
    second = result_file.write("speed", "xeon", [row("a", 3, 4)], **facts)
    assert second.stem == f"{first.stem}-2"
    assert [r.data["rows"][0]["values"]["ours"] for r in performance.read_runs(tmp_path)] == [1, 3]
    with pytest.raises(ValueError, match="unknown machine 'vax'"):
        result_file.write("speed", "vax", [], **facts)


def test_each_case_is_that_of_the_newest_run_with_the_programs_of_the_table():
    without_other = {"name": "a", "values": {"ours": 9.0}}
    runs = [
        run("2026-01-01", [row("a", 1, 2), row("b", 3, 4)]),
        run("2026-01-02", [row("a", 5, 2)]),
        run("2026-01-03", [without_other]),
    ]
    found = newest_rows(runs, SPEED)
    assert {label: rows[0].row["values"]["ours"] for label, rows in found.items()} == {"a": 5, "b": 3}
    assert newest_rows(runs, SPEED._replace(machine="h200")) == {}


def test_a_table_has_ratios_their_mean_and_a_line_for_each_run():
    runs = [run("2026-01-01", [row("a", 1, 2), row("b", 3, 4)]), run("2026-01-02", [row("a", 4, 2)])]
    lines = table_text(Table("t", "model", (SPEED,), mean=True), runs).splitlines()
    assert lines[2:5] == ["| a | 4 | 2.00 | a |", "| b | 3 | 0.75 | b |", f"| geometric mean |  | {1.5**0.5:.2f} |  |"]
    assert lines[6].startswith("- a: 2026-01-02, a machine, commit abc, other 1.2. 100 rounds. `python -m x` ([data](")
    assert lines[7].startswith("- b: 2026-01-01")


def test_rows_of_a_group_are_a_mean_and_the_largest():
    rows = [row("a", 1, 2, group="g"), row("b", 2, 1, group="g")]
    found = newest_rows([run("2026-01-01", rows)], SPEED._replace(by=BY_GROUP))
    assert cell(found["g"], SPEED.columns[1]) == "1.00 (2.00)"


def test_a_recorded_ratio_is_shown_in_place_of_the_quotient_of_values():
    recorded = row("a", 1, 2, ratios={"other": [0.55, 0.5, 0.6]})
    found = newest_rows([run("2026-01-01", [recorded])], SPEED)
    assert cell(found["a"], SPEED.columns[1]) == "0.55"


@pytest.mark.parametrize("number, text", [(0.0123, "0.0123"), (7.0, "7"), (99.96, "100"), (1234.6, "1,235"), (0, "0")])
def test_numbers_have_three_digits(number, text):
    assert number_text(number) == text


def test_a_page_without_a_table_is_rejected():
    names = [table.name for table in TABLES]
    block = "<!-- tables: {} -->\n<!-- end -->\n"
    runs = performance.read_runs()
    assert page_text(block.format(" ".join(names)), runs).count("| --- |") >= len(names)
    for wrong in (names[1:], [*names, names[0]], [*names, "colours"]):
        with pytest.raises(ValueError, match="must have each table of tools/performance_tables.py once"):
            page_text(block.format(" ".join(wrong)), runs)


def test_charts_are_xml():
    for text in performance.charts().values():
        assert ElementTree.fromstring(text).tag.endswith("svg")
