"""The page about a tuning run, as text and in a real browser."""

from __future__ import annotations

import html.parser
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.browser import browser, load  # noqa: F401
from tvm import autotvm
from tvm.autotvm.measure.measure import MeasureInput, MeasureResult
from tvm.autotvm.record import RecordFile, encode
from tvm.driver.tvmc import report
from tvm.driver.tvmc.main import _main
from tvm.driver.tvmc.report import Story
from tvm.driver.tvmc.roofline import Machine
from tvm.testing.autotvm import get_sample_task

SIZES = (64, 128, 256)
UNTUNED = 4


def a_task(size: int):
    task = get_sample_task(size)[0]
    task.config_space.start = [UNTUNED]
    task.count = 2
    return task


def records_of(task, begin: float) -> list[tuple[MeasureInput, MeasureResult]]:
    """Ten trials of known cost, the fourth of them failed, and the winner (the last) measured once more."""
    rows, unit = [], task.args[0] * 1e-6
    for trial, index in enumerate([UNTUNED, *(i for i in range(10) if i != UNTUNED)]):
        failed = trial == 3
        inp = MeasureInput(task.target, task, task.config_space.get(index))
        rows.append((inp, MeasureResult((unit * (11 - trial),), 4 if failed else 0, 0.5, begin + trial)))
    final = MeasureInput(*rows[-1][0])
    final.final = True
    return [*rows, (final, MeasureResult((unit * 2.5,), 0, 0.5, begin + 20))]


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("report") / "records <&>.json"
    for number, size in enumerate(SIZES):
        RecordFile(path).append([encode(*pair) for pair in records_of(a_task(size), 1000.0 + 50 * number)])
    return str(path)


@pytest.fixture(scope="module")
def page(records, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        cpu = next(iter(autotvm.record.load_from_file(records)))[0].made_on["cpu"]
        patch.setattr(report, "machine", lambda: Machine(cpu, 2, 300e9, 30e9, 150e9))
        report.write_report(str(path), records, [a_task(size) for size in SIZES])
    return path


class Reader(html.parser.HTMLParser):
    """Counts elements, checks that they are closed in order, and keeps the cells of the table."""

    ALONE = {"meta", "link", "circle", "line", "polyline"}

    def __init__(self, text: str):
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.counts[tag] += 1
        self.attributes += attrs
        if tag not in ("meta", "link"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] += 1
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.rows and any(tag in ("td", "th") for tag in self.open):
            self.rows[-1][-1] += data


def test_the_table_tells_what_the_records_say(page):
    read = Reader(page.read_text())
    head, *rows = read.rows
    assert head[:7] == ["#", "task", "times", "share", "untuned", "best", "gain"] and len(rows) == len(SIZES)
    for number, (size, row) in enumerate(zip(SIZES, rows)):
        cells = dict(zip(head, row))
        unit = size * 2e-3
        assert cells["#"] == str(number) and cells["times"] == "2" and cells["trials"] == "10, 1 failed"
        assert cells["untuned"] == f"{11 * unit:.3f} ms" and cells["best"] == f"{2.5 * unit:.3f} ms"
        assert cells["gain"] == "4.40x" and cells["share"] == f"{size / sum(SIZES):.1%}"
        speed = 2 * size**3 / (2.5e-6 * size)
        assert cells["GFLOPS"] == f"{speed / 1e9:.1f}" and cells["of peak"] == f"{speed / 300e9:.0%}"


def test_each_task_has_its_curve_and_configuration(page):
    text = page.read_text()
    assert text.count('class="best"') == len(SIZES) + 1, "one for each task and one for the model"
    assert text.count('class="failed"') == len(SIZES) and text.count('class="after"') == len(SIZES)
    for number, size in enumerate(SIZES):
        section = text.split(f'id="task-{number}"')[1].split("<h3")[0]
        winner = records_of(a_task(size), 0)[-1][0].config.values()
        for name, value in winner.items():
            assert f"<dt>knob {name}</dt><dd><code>{value}</code></dd>" in section
        assert "bound by" in section


def test_the_page_is_whole_readable_by_machines_and_alone(page):
    text = page.read_text()
    read = Reader(text)
    assert read.counts["svg"] == len(SIZES) + 2 and read.counts["caption"] == 1 and read.counts["main"] == 1
    assert text.count('role="img" aria-label="') == read.counts["svg"] and 'scope="col"' in text and 'lang="en"' in text
    assert read.counts["script"] == 0 and "prefers-color-scheme:dark" in text
    assert not re.search(r"https?:|//|@import|url\(", text)
    assert [v for k, v in read.attributes if k in ("src", "href") and not (v or "").startswith(("#", "data:"))] == []


def test_the_same_records_make_the_same_page(page, records, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "machine", lambda: None)
    for name in ("a.html", "b.html"):
        report.write_report(str(tmp_path / name), records, [a_task(size) for size in SIZES])
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert "Roofline" not in (tmp_path / "a.html").read_text() and "Roofline" in page.read_text()


def test_a_file_of_records_is_enough(records, tmp_path, capsys):
    out = tmp_path / "out.html"
    assert _main(["report", "-o", str(out), records]) == 0
    rows = Reader(out.read_text()).rows
    assert len(rows) == 1 + len(SIZES) and "every task counts once" in out.read_text()
    empty = tmp_path / "empty.json"
    empty.write_text("# nothing\n")
    assert _main(["report", str(empty)]) == 4 and "contains no tuning records" in capsys.readouterr().err
    assert _main(["report", str(tmp_path / "none.json")]) == 4 and "doesn't exist" in capsys.readouterr().err
    assert _main(["report", "-o", str(tmp_path / "no" / "x.html"), records]) == 4
    assert "the directory" in capsys.readouterr().err


def test_records_of_unknown_templates_are_shown(tmp_path):
    """Without a template neither operations nor the choice without tuning are known."""
    task, target = get_sample_task(32)
    lines = [encode(*pair).replace("testing/matmul", "their/own <template>") for pair in records_of(a_task(32), 0.0)]
    source = tmp_path / "foreign.json"
    RecordFile(source).append(lines)
    report.report_of_records(str(tmp_path / "page.html"), str(source))
    text = (tmp_path / "page.html").read_text()
    assert "their/own &lt;template&gt;" in text and "<template>" not in text and "runs a second" in text


def test_a_task_without_success_and_a_model_without_tasks(tmp_path):
    task = a_task(64)
    failures = [(i, r._replace(error_no=4)) for i, r in records_of(task, 0.0)[:3]]
    text = report.page([Story(1, task, failures)], None)
    assert "3 trials, none ran" in text and Reader(text).rows[1][3:-1] == ["-"] * 6
    report.write_report(str(tmp_path / "p.html"), None, [])
    assert "nothing to tune" in (tmp_path / "p.html").read_text()


def test_pauses_do_not_count_as_tuning():
    task = a_task(64)
    rows = records_of(task, 0.0)
    late = [(i, r._replace(timestamp=r.timestamp + 1e6)) for i, r in rows]
    text = report.page([Story(1, task, rows + late)], None)
    assert "0:40 of measuring" in text


# -- in a browser ------------------------------------------------------------------------------------------------------


def test_a_browser_shows_every_row_and_fetches_nothing(browser, page, tmp_path):
    text, said = load(browser, page, "--dump-dom")
    assert said == "", "no error of a script, nothing refused"
    rows = re.findall(r'<tr><td>\d+</td><th scope="row">.*?</tr>', text, re.DOTALL)
    assert len(rows) == len(SIZES) and text.count("<svg") == len(SIZES) + 2
    # The same page with something to fetch: the browser refuses it and says so.
    other = tmp_path / "other.html"
    other.write_text(page.read_text().replace("<main>", '<main><img src="http://127.0.0.1:9/x.png" alt="">'))
    _, said = load(browser, other, "--dump-dom")
    assert "Content Security Policy" in said


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_it(browser, page, tmp_path, scheme):
    image = pytest.importorskip("PIL.Image")
    picture = tmp_path / "page.png"
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    load(browser, page, "--window-size=1000,1400", f"--screenshot={picture}", *dark)
    with image.open(picture) as shot:
        colours = shot.convert("L").getcolors(1 << 16)
    total = sum(n for n, _ in colours)
    bright = sum(n for n, level in colours if level > 200) / total
    assert bright > 0.8 if scheme == "light" else bright < 0.2
    assert len(colours) > 20, "there is more than background"
