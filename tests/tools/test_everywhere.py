"""``python -m tools everywhere``: the rows it has, what it writes, and what it says of a row that cannot run."""

from __future__ import annotations

import sys

import pytest

from tools import everywhere


class Done:
    """A program that has ended."""

    returncode, stderr = 0, "no such package\n"


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(everywhere, "TABLE", tmp_path / "everywhere.md")
    return tmp_path / "everywhere.md"


def pretend(monkeypatch, text: str, status: int = 0) -> None:
    """Let each row print ``text`` in place of running tests."""
    script = f"import sys; print({text!r}); sys.exit({status})"
    row = everywhere.Row(lambda tests: [sys.executable, "-c", script])
    absent = everywhere.Row(lambda tests: [everywhere.needed("no-such-program", "no-such-package")])
    monkeypatch.setattr(everywhere, "rows", lambda: {"a machine": row, "another one": absent})


def test_rows_are_replaced_one_by_one_and_others_kept(table, monkeypatch, capsys):
    old = ("another one", "7 passed", "passed", "1", "2026-01-01", "a cpu")
    pretend(monkeypatch, "== 3 passed, 1 skipped, 2 warnings in 4.50s (0:00:04) ==")
    table.write_text(everywhere.table({"another one": old}), encoding="utf-8")
    assert everywhere.main(["--seed", "5"]) == 0
    said = capsys.readouterr().out
    assert "seed 5\na machine: passed, 3 passed, 1 skipped, " in said
    assert "another one: left out, this machine lacks no-such-program (Debian package no-such-package)\n" in said
    rows = everywhere.read_table(table.read_text(encoding="utf-8"))
    assert rows["another one"] == old
    assert rows["a machine"][:3] == ("a machine", "3 passed, 1 skipped", "passed")


def test_a_failed_row_is_named_and_ends_the_command_with_one(table, monkeypatch, capsys):
    pretend(monkeypatch, "FAILED tests/a.py::b - no\n1 failed, 3 passed in 4.50s", status=1)
    assert everywhere.main(["--only", "A MACHINE"]) == 1
    said = capsys.readouterr().out
    assert "  FAILED tests/a.py::b - no\na machine: failed, 1 failed, 3 passed, " in said
    assert "| a machine | 1 failed, 3 passed | failed |" in table.read_text(encoding="utf-8")


def test_the_rows_are_listed_and_an_unknown_one_is_rejected(table, capsys):
    assert everywhere.main(["--list"]) == 0
    names = capsys.readouterr().out.splitlines()
    assert {"1 thread", "large mappings in the process", "Python 3.10", "no network"} <= set(names)
    with pytest.raises(SystemExit):
        everywhere.main(["--only", "abacus"])
    assert "no row contains 'abacus'" in capsys.readouterr().err
    assert not table.exists()


def test_a_version_of_python_with_the_lowest_packages_is_an_environment_of_its_own(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(everywhere, "BUILD", tmp_path)
    monkeypatch.setattr(everywhere, "interpreter", lambda version: f"python{version}")
    monkeypatch.setattr(everywhere.subprocess, "run", lambda command, **_: made.append(command) or Done)
    row = everywhere.rows()["Python 3.10, lowest versions of packages"]
    assert row.command(["tests"])[0] == str(tmp_path / "python3.10-lowest" / "bin" / "python")
    assert made[0][0] == "python3.10" and made[0][2:] == ["--lowest", tmp_path / "python3.10-lowest", "test"]
    monkeypatch.setattr(Done, "returncode", 1)
    with pytest.raises(everywhere.Missing, match="packages for python3.10: .*no such package"):
        row.command(["tests"])


def test_one_seed_draws_the_same_files_again():
    assert everywhere.drawn_files(3, 6) == everywhere.drawn_files(3, 6) != everywhere.drawn_files(4, 6)
