"""The display of a long compile."""

from __future__ import annotations

import io
import logging

from tvm.driver.tvmc import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_one_moving_line_that_is_gone_at_the_end(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(now)))
    out = Terminal()
    with progress.Progress(out) as show:
        show("scheduling kernels", 0, 2)
        show("scheduling kernels", 1, 2)
        show("generating code")
    text = out.getvalue()
    assert "\r\x1b[Kscheduling kernels 1/2, " in text and "generating code, " in text
    assert "\n" not in text and text.endswith("\r\x1b[K")


def test_a_new_stage_is_drawn_at_once(monkeypatch):
    now = iter([0.0, 5.0, 5.01, 5.02, 5.03])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    out = Terminal()
    show = progress.Progress(out)
    show("scheduling kernels", 0, 2)
    show("scheduling kernels", 1, 2)
    show("generating code")
    assert "kernels 1/2" not in out.getvalue() and out.getvalue().endswith("generating code, 5 s")


def test_a_short_compile_draws_nothing(monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 5.0)
    out = Terminal()
    with progress.Progress(out) as show:
        show("scheduling kernels", 0, 2)
    assert out.getvalue() == ""


def test_a_log_gets_a_line_for_each_stage_if_asked(caplog):
    logger = logging.getLogger("TVMC")
    before = logger.level
    for level, lines in ((logging.WARNING, 2), (logging.ERROR, 0), (logging.NOTSET, 0)):
        caplog.clear()
        logger.setLevel(level)
        with progress.Progress(io.StringIO()) as show:
            show("one")
            show("two", 1, 2)
        assert [r.getMessage().split(":")[0] for r in caplog.records] == ["one", "two"][:lines]
    logger.setLevel(before)
