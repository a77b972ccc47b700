"""Instruments: the order of their calls, failures, timing, printing, dumping."""

from __future__ import annotations

import re

import pytest

from tvm.ir.instrument import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)
from tvm.ir.module import IRModule
from tvm.ir.transform import ModulePass, PassContext, PassInfo, Sequential
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Evaluate


def one_function():
    return IRModule({"main": PrimFunc([], Evaluate(0))})


def named(name, function=lambda mod, ctx: mod):
    return ModulePass(function, PassInfo(0, name))


def recorder(events, name, fails=()):
    @pass_instrument
    class Recorder:
        def _event(self, what):
            events.append(f"{name} {what}")
            if what in fails:
                raise RuntimeError(f"{name} fails in {what}")

        def enter_pass_ctx(self):
            self._event("enter")

        def exit_pass_ctx(self):
            self._event("exit")

        def run_before_pass(self, mod, info):
            self._event("before")

        def run_after_pass(self, mod, info):
            self._event("after")

    return Recorder()


def test_calls_come_in_order():
    events = []
    with PassContext(instruments=[recorder(events, "1"), recorder(events, "2")]):
        named("p")(one_function())
    assert events == ["1 enter", "2 enter", "1 before", "2 before", "1 after", "2 after", "1 exit", "2 exit"]


def test_sequential_is_reported_around_its_passes():
    log = []

    @pass_instrument
    class Log:
        def run_before_pass(self, mod, info):
            log.append(info.name)

    with PassContext(instruments=[Log()]):
        Sequential([named("a"), named("b")], name="both")(one_function())
    assert log == ["both", "a", "b"]


def test_should_run_skips_unless_the_pass_is_required():
    ran = []

    @pass_instrument
    class Never:
        def should_run(self, mod, info):
            return False

    step = named("step", lambda mod, ctx: ran.append(1) or mod)
    with PassContext(instruments=[Never()]):
        step(one_function())
    assert ran == []
    with PassContext(instruments=[Never()], required_pass=["step"]):
        step(one_function())
    assert ran == [1]


def test_failure_on_entering_leaves_the_entered_ones_and_does_not_enter_the_context():
    events, outer = [], PassContext.current()
    ctx = PassContext(instruments=[recorder(events, "1"), recorder(events, "2", {"enter"}), recorder(events, "3")])
    with pytest.raises(RuntimeError, match="2 fails in enter"), ctx:
        events.append("inside")
    assert events == ["1 enter", "2 enter", "1 exit"]
    assert PassContext.current() is outer and ctx.instruments == []


def test_failure_on_leaving_still_leaves_the_context():
    events, outer = [], PassContext.current()
    ctx = PassContext(instruments=[recorder(events, "1"), recorder(events, "2", {"exit"}), recorder(events, "3")])
    with pytest.raises(RuntimeError, match="2 fails in exit"), ctx:
        pass
    assert events == ["1 enter", "2 enter", "3 enter", "1 exit", "2 exit"]
    assert PassContext.current() is outer and ctx.instruments == []


def test_failure_before_a_pass_is_raised_and_the_pass_does_not_run():
    events = []
    with PassContext(instruments=[recorder(events, "1", {"before"})]):
        with pytest.raises(RuntimeError, match="1 fails in before"):
            named("p", lambda mod, ctx: events.append("ran") or mod)(one_function())
    assert "ran" not in events


def test_override_instruments_leaves_the_old_and_enters_the_new():
    events = []
    with PassContext(instruments=[recorder(events, "old")]) as ctx:
        ctx.override_instruments([recorder(events, "new")])
        named("p")(one_function())
    assert events == ["old enter", "old exit", "new enter", "new before", "new after", "new exit"]


def test_what_is_no_instrument_is_refused():
    with pytest.raises(TypeError, match="is not a pass instrument"):
        PassContext(instruments=[object()])
    with pytest.raises(TypeError, match="instruments must be a list"):
        PassContext(instruments=PassTimingInstrument())
    with pytest.raises(TypeError, match="is not a pass instrument"):
        PassContext(instruments=[PassTimingInstrument])
    with pytest.raises(TypeError, match="decorates a class"):
        pass_instrument(lambda: None)


def test_subclass_of_the_base_is_an_instrument_with_a_name():
    class Mine(PassInstrument):
        pass

    assert Mine().name == "Mine"
    assert pass_instrument(Mine) is Mine
    assert pass_instrument()(type("Other", (), {}))().name == "Other"


def test_timing_renders_a_tree():
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([named("a"), named("b")], name="both")(one_function())
        with pytest.raises(ZeroDivisionError):
            named("bad", lambda mod, ctx: 1 / 0)(one_function())
        named("last")(one_function())
        lines = timing.render().splitlines()
    assert [re.sub(r":.*", "", line) for line in lines] == ["both", "\ta", "\tb", "bad", "last"]
    assert re.fullmatch(r"both: \d+us \[\d+us\] \(\d+\.\d\d%; \d+\.\d\d%\)", lines[0])
    assert PassTimingInstrument.render() == ""


def test_printing_instruments(capsys):
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        named("p")(one_function())
    out = capsys.readouterr().out
    assert out.index("Before Running Pass: PassInfo(name=p") < out.index("After Running Pass: PassInfo(name=p")
    with PassContext(instruments=[PassPrintingInstrument(["a"], ["b"])]):
        Sequential([named("a"), named("b"), named("c")])(one_function())
    out = capsys.readouterr().out
    assert "Print IR before: a" in out and "Print IR after: b" in out
    assert "after: a" not in out and "c\n" not in out


def test_dump_writes_one_file_per_pass(tmp_path):
    with PassContext(instruments=[DumpIR(tmp_path / "ir")]):
        named("first")(one_function())
        named("odd/name")(one_function())
    files = sorted(p.name for p in (tmp_path / "ir").iterdir())
    assert [re.sub(r"^\d+_", "", f) for f in files] == ["0000_first_main.py", "0001_odd_name_main.py"]
    assert (tmp_path / "ir" / files[0]).read_text().startswith("# after first\n")


def test_environment_variable_dumps_changes_without_a_context(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_DUMP", str(tmp_path / "out"))
    change = named("change", lambda mod, ctx: mod.with_attr("x", 1))
    bad = named("bad", lambda mod, ctx: 1 / 0)
    Sequential([named("same"), change], name="both")(one_function())
    with pytest.raises(ZeroDivisionError):
        bad(one_function())
    files = sorted(p.name.split("_", 1)[1] for p in (tmp_path / "out").iterdir())
    assert files == ["0000_change_main.py", "0001_both_main.py"]
    monkeypatch.delenv("TVM_DUMP")
    change(one_function())
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_an_error_says_which_pass_it_came_from():
    with pytest.raises(ZeroDivisionError) as caught:
        named("inner", lambda mod, ctx: 1 / 0)(one_function())
    assert getattr(caught.value, "__notes__", ["(in pass inner)"]) == ["(in pass inner)"]
