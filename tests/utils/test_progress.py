"""How far long work is, shown on a terminal."""

from __future__ import annotations

import io
import logging
import threading

import pytest

import tvm
from tvm import relay
from tvm.driver.tvmc import compiler
from tvm.tuning import Outcome, TaskStatus, events
from tvm.utils import progress
from tvm.utils.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def a_terminal_that_moves_its_cursor(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_sees_one_moving_line_that_is_gone_at_the_end():
    now = iter(range(10000))
    out = Terminal()
    with Progress(out, clock=lambda: float(next(now))) as show:
        show("scheduling kernels", 0, 2)
        show("scheduling kernels", 1, 2)
        show("generating code")
    text = out.getvalue()
    assert "scheduling kernels [##########..........] 1/2, " in text and "generating code, " in text
    assert "\n" not in text and text.endswith("\r\x1b[K")


def test_a_new_stage_is_drawn_at_once():
    now = iter([0.0, 5.0, 5.01, 5.02, 5.03])
    out = Terminal()
    show = Progress(out, clock=lambda: next(now))
    show("scheduling kernels", 0, 2)
    show("scheduling kernels", 1, 2)
    show("generating code")
    assert "] 1/2" not in out.getvalue() and out.getvalue().endswith("generating code, 5 s")


def test_a_stage_that_says_nothing_moves():
    moved = threading.Event()

    class Watched(Terminal):
        def write(self, text: str) -> int:
            if super().write(text) and self.getvalue().count("generating code") > 2:
                moved.set()
            return len(text)

    now = iter(range(10000))
    with Progress(Watched(), clock=lambda: float(next(now))) as show:
        show("generating code")
        assert moved.wait(60)


@pytest.mark.parametrize("term, stream", [("xterm", io.StringIO), ("dumb", Terminal), ("", Terminal)])
def test_what_is_no_terminal_gets_nothing(monkeypatch, term, stream):
    monkeypatch.setenv("TERM", term or "dumb")
    out = stream()
    now = iter(range(10000))
    with Progress(out, clock=lambda: float(next(now))) as show:
        show("generating code")
    assert out.getvalue() == ""


def test_short_work_draws_nothing():
    out = Terminal()
    with Progress(out, clock=lambda: 5.0) as show:
        show("scheduling kernels", 0, 2)
    assert out.getvalue() == ""


def test_a_log_gets_a_line_for_each_stage_if_asked(caplog):
    logger = logging.getLogger("TVMC")
    before = logger.level
    for level, lines in ((logging.WARNING, 2), (logging.ERROR, 0), (logging.NOTSET, 0)):
        caplog.clear()
        logger.setLevel(level)
        with Progress(io.StringIO(), said=compiler.note) as show:
            show("one")
            show("two", 1, 2)
        assert [r.getMessage().split(":")[0] for r in caplog.records] == ["one", "two"][:lines]
    logger.setLevel(before)


def test_a_stage_that_failed_has_not_ended():
    ended = []
    with pytest.raises(ZeroDivisionError):
        with Progress(io.StringIO(), said=ended.append) as show:
            show("one")
            show("two")
            raise ZeroDivisionError
    assert [text.split(":")[0] for text in ended] == ["one"]


def test_building_a_model_in_python_shows_its_stages():
    x = relay.var("x", shape=(2, 3))
    stages = []
    with Progress(io.StringIO(), said=stages.append) as show:
        relay.build(tvm.IRModule.from_expr(relay.exp(x)), target="llvm", progress=show)
    assert "improving the graph" in [text.split(":")[0] for text in stages]


def test_a_tuning_run_shows_its_trials():
    out = Terminal()
    now = iter(range(10000))
    task = TaskStatus(0, 3, "conv2d", 1, 1e8, 0, None, None, None)
    with Progress(out, clock=lambda: float(next(now))) as show:
        show.event(events.RunStarted((task,), 0, 40, 40, None, 0.0))
        show.event(events.StageStarted(events.Stage.SEARCH))
        for _ in range(10):
            show.event(events.TrialFinished(task, Outcome.MEASURED, 1e-3, False))
    assert "tuning: search" in out.getvalue() and "[#####...............] 10/40" in out.getvalue()


def test_the_name_is_short_in_scripts():
    assert isinstance(progress(io.StringIO()), Progress)
