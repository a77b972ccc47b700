"""What ``tvmc tune`` shows on a terminal and in a log."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import pytest

from tests.driver.tvmc.terminal import Screen
from tvm.driver.tvmc import tuning_display
from tvm.driver.tvmc.roofline import Machine
from tvm.driver.tvmc.tuning_display import Lines, LiveTable, clock, summary
from tvm.tuning import Outcome, TaskStatus, events

MACHINE = Machine("cpu", 2, 200e9, 20e9, 80e9)


def a_task(
    place: int, seconds: float | None, untuned: float | None = None, count: int = 1, trials: int = 8
) -> TaskStatus:
    title = f"conv2d_NCHWc 1x8x8x8{f' (x{count})' if count > 1 else ''}"
    return TaskStatus(place, place, title, count, 1e8, trials, seconds, untuned, 0 if seconds else None)


def started(tasks: list[TaskStatus], seconds: float | None = None, **found) -> events.RunStarted:
    values = {"records_found": 0, "trials": 100, "trials_left": 100, "elapsed": 65.0, **found}
    return events.RunStarted(tuple(tasks), seconds=seconds, **values)


def trial(task: TaskStatus, outcome: Outcome = Outcome.MEASURED, is_baseline: bool = False) -> events.TrialFinished:
    return events.TrialFinished(task, outcome, 1e-3 if outcome is Outcome.MEASURED else None, is_baseline)


class Terminal(io.StringIO):
    def __init__(self, columns: int, lines: int):
        super().__init__()
        self.size = os.terminal_size((columns, lines))


@pytest.fixture
def table(monkeypatch):
    made = []

    def make(columns: int = 100, lines: int = 40) -> LiveTable:
        shown = LiveTable(MACHINE, Terminal(columns, lines))
        monkeypatch.setattr(shown, "_size", lambda: shown.stream.size)
        monkeypatch.setattr(tuning_display, "_SECONDS_BETWEEN_DRAWINGS", 0.0)
        made.append(shown)
        return shown

    yield make
    for shown in made:
        shown.close()


def screen(shown: LiveTable) -> str:
    return Screen(shown.stream.getvalue()).text()


def test_the_table_tells_time_share_gain_and_peak(table):
    tasks = [a_task(0, 1e-3, 2e-3), a_task(1, 3e-3, 3e-3), a_task(2, None, trials=0)]
    shown = table()
    shown(started(tasks, seconds=600))
    shown(events.RoundStarted(tasks[1], 24))
    lines = screen(shown).splitlines()
    assert lines[0] == "tvmc tune  1:05 of 10:00, 16 of 100 trials, now task 1, trial 9 of 32"
    assert lines[1] == ("Estimated time in the model: 5.000 ms untuned, 4.000 ms now (1.25x); peak 200 GFLOPS, 20 GB/s")
    assert lines[3].split() == [
        "0",
        "conv2d_NCHWc",
        "1x8x8x8",
        "25.0%",
        "2.000",
        "ms",
        "1.000",
        "ms",
        "2.00x",
        "100.0",
        "50%",
        "8",
    ]
    assert lines[5].split() == ["2", "conv2d_NCHWc", "1x8x8x8", *"-" * 6, "0"]
    assert len(lines) == 6


def test_drawing_again_leaves_one_table(table):
    tasks = [a_task(0, 1e-3, 2e-3), a_task(1, 3e-3, 3e-3)]
    shown = table()
    shown(started(tasks, records_found=3))
    for trials in range(9, 14):
        tasks[0] = a_task(0, 1e-3, 2e-3, trials=trials)
        shown(trial(tasks[0]))
    shown(events.ModelCompared(0.01, 0.8, 2, 2))
    shown(events.RunFinished(tuple(tasks)))
    text = screen(shown)
    first, second, rest = text.split("\n", 2)
    assert first == "3 records found, going on" and rest.startswith("tvmc tune") and rest.count("tvmc tune") == 1
    assert second.startswith("The whole model: 10.000 ms untuned, 8.000 ms tuned (1.25x)")
    assert "21 of 100 trials" in text


def test_stages_without_rounds_are_named(table):
    task, shown = a_task(0, 1e-3), table()
    shown(started([task]))
    shown(events.StageStarted(events.Stage.BASELINE))
    assert screen(shown).splitlines()[0].endswith("8 of 100 trials, measuring the code without tuning")
    shown(events.RoundStarted(task, 8))
    shown(events.RoundFinished(task, None))
    shown(events.StageStarted(events.Stage.CONFIRM))
    assert screen(shown).splitlines()[0].endswith("measuring the leaders side by side")
    shown(events.StageStarted(events.Stage.WHOLE_MODEL))
    assert screen(shown).splitlines()[0].endswith("comparing the model as a whole")


def test_a_low_window_shows_what_takes_most_time_and_the_current_task(table):
    tasks = [a_task(n, 1e-3 * (n + 1), 1e-2) for n in range(20)]
    shown = table(lines=10)
    shown(started(tasks))
    shown(events.RoundStarted(tasks[0], 8))
    lines = screen(shown).splitlines()
    assert len(lines) <= 9
    assert [line.split()[0] for line in lines[3:-1]] == ["0", "16", "17", "18", "19"]
    assert lines[-1].strip() == "and 15 tasks that take less time"
    shown(events.RunFinished(tuple(tasks)))
    assert len(screen(shown).splitlines()) == 23, "in the end all are listed"


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
def test_no_line_is_wider_than_the_window(table, columns):
    shown = table(columns=columns)
    shown(started([a_task(n, 1e-3, 1e-2) for n in range(3)]))
    assert max(map(len, screen(shown).splitlines())) < columns


def test_warnings_go_above_the_table(table):
    shown = table()
    shown(started([a_task(0, 1e-3)]))
    logging.getLogger("autotvm").warning("something %s", "odd")
    assert screen(shown).startswith("something odd\ntvmc tune")
    shown.close()
    assert shown not in logging.getLogger("autotvm").handlers


def test_colours_can_be_switched_off(table, monkeypatch):
    coloured = table()
    coloured(started([a_task(0, 1e-3, 2e-3)]))
    monkeypatch.setenv("NO_COLOR", "1")
    plain = table()
    plain(started([a_task(0, 1e-3, 2e-3)]))
    assert "\x1b[32m" in coloured.stream.getvalue() and not re.search(r"\x1b\[\d*m", plain.stream.getvalue())


def test_clock():
    assert [clock(s) for s in (0.9, 65, 3723)] == ["0:00", "1:05", "1:02:03"]


def test_the_summary_counts_each_task_as_often_as_the_model_does():
    text = summary([a_task(0, 1e-3, 2e-3, count=3), a_task(1, None)], MACHINE)
    assert "6.000 ms" in text and "3.000 ms" in text and "nothing ran" in text
    assert "6.000 ms untuned, 3.000 ms now (2.00x)" in text


def test_a_log_has_marks_and_classic_lines(capsys):
    tasks = [a_task(n, None, trials=0) for n in range(3)]
    lines = Lines()
    lines(started(tasks))
    lines(trial(tasks[0], is_baseline=True))
    lines(events.RoundStarted(tasks[0], 4))
    for number, outcome in enumerate((Outcome.MEASURED, Outcome.TIMED_OUT, Outcome.FAILED, Outcome.TIMED_OUT), 1):
        task = a_task(0, 1e-3, trials=number)
        lines(trial(task, outcome))
    lines(events.RoundFinished(task, 2e-3))
    lines(events.RoundStarted(task, 1))
    lines(trial(a_task(0, 1e-3, trials=5)))
    lines.close()
    first, second, third, rest = capsys.readouterr().out.split("\n")
    assert first == ".TET" and third == "." and rest == ""
    assert re.fullmatch(
        r"\[Task  0/ 3\]  Current/Best:   50\.00/ 100\.00 GFLOPS \| Progress: \(4/4\) \| \d+\.\d\d s Done\.", second
    )


@pytest.mark.parametrize(
    "event, line",
    [
        (started([a_task(0, 1e-3)], records_found=22, trials_left=78), "22 records found, going on"),
        (
            started([a_task(0, 1e-3)], records_found=22, trials_left=0),
            "22 records found, going on; all trials are spent, a larger --trials goes on",
        ),
        (
            events.SearchAbandoned(a_task(5, None), "33 of the first 64 trials failed"),
            "[Task  5/ 1]  given up: 33 of the first 64 trials failed",
        ),
        (
            events.CandidateRejected(a_task(0, 1e-3), "other results"),
            "[Task  0/ 1]  a configuration is left out: other results",
        ),
        (events.ModelCompared(0.01, 0.8, 2, 2), "The whole model: 10.000 ms untuned, 8.000 ms tuned (1.25x)"),
        (
            events.ModelCompared(0.01, 0.9, 1, 2),
            "The whole model: 10.000 ms untuned, 9.000 ms tuned (1.11x); of 2 tasks only the 1 with a clear gain "
            "are used",
        ),
        (
            events.ModelCompared(0.01, 1.0, 0, 2),
            "The whole model: 10.000 ms untuned, 10.000 ms tuned (1.00x); the gains of single tasks do not show "
            "there, so the records keep the code without tuning",
        ),
    ],
)
def test_what_is_worth_a_line_in_a_log(event, line, capsys):
    lines = Lines()
    lines.total = 1
    lines(event)
    assert capsys.readouterr().out == f"{line}\n"


def start_on_terminal(command: list[str], environment: dict[str, str]) -> tuple[subprocess.Popen, int]:
    """A program with a pseudo terminal of its own, so that Ctrl-C reaches it and whatever it started."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    # A terminal drops what it has not shown yet when Ctrl-C comes; this one shows all that was written.
    settings = termios.tcgetattr(follower)
    settings[3] |= termios.NOFLSH
    termios.tcsetattr(follower, termios.TCSANOW, settings)
    process = subprocess.Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        env=environment | {"TERM": "xterm"},
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(follower)
    return process, leader


def read_until(leader: int, words: bytes | None = None) -> bytes:
    """What is written until these words come, or until the end."""
    data, until = b"", time.monotonic() + 300
    while time.monotonic() < until and (words is None or words not in data):
        try:
            chunk = os.read(leader, 65536)
        except OSError:
            break
        if not chunk:
            break
        data += chunk
    return data


def tune_command(tmp_path, model_path: str, trials: int) -> list[str]:
    return [
        sys.executable,
        "-m",
        "tvm.driver.tvmc",
        "tune",
        "--trials",
        str(trials),
        "--number",
        "1",
        "--tuner",
        "random",
        "-o",
        str(tmp_path / "records.json"),
        model_path,
    ]


@pytest.mark.slow("tunes with worker processes")
def test_on_a_terminal_tune_shows_one_table(tmp_path, model_path, tuning_environment):
    """The real program on a pseudo terminal."""
    process, leader = start_on_terminal(tune_command(tmp_path, model_path, 5), tuning_environment)
    data = read_until(leader)
    os.close(leader)
    assert process.wait(60) == 0, data.decode()
    assert data.count(b"tvmc tune") > 2, "it was drawn several times"
    text = Screen(data.decode()).text()
    assert text.count("tvmc tune") == 1 and "5 of 5 trials" in text, text
    assert re.search(r"^  0 conv2d.* +100\.0% .*ms .*ms .*x .*% +5$", text, re.MULTILINE), text
    assert "Estimated time in the model: " in text and "[Task" not in text


@pytest.mark.slow("tunes with worker processes")
@pytest.mark.parametrize("moment", [b"without tuning", b"now task 0"])
def test_ctrl_c_on_a_terminal_leaves_the_table_and_one_line(tmp_path, model_path, moment, tuning_environment):
    """Also while worker processes are just starting."""
    process, leader = start_on_terminal(tune_command(tmp_path, model_path, 100000), tuning_environment)
    data = read_until(leader, moment)
    os.write(leader, b"\x03")
    data += read_until(leader)
    os.close(leader)
    assert process.wait(60) == 130, data.decode()
    text = Screen(data.decode()).text().replace("^C", "")
    assert text.count("tvmc tune") == 1 and "Traceback" not in text, text
    assert text.splitlines()[-1].strip().startswith("stopped; "), text
