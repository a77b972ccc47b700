"""The page about ``tvmc``: its commands run as they stand there, and its exit codes are the program's."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tvm.driver.tvmc import errors, runner
from tvm.driver.tvmc.main import _main

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "tvmc.md").read_text(encoding="utf-8")
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) for line in block.splitlines()
]


@pytest.mark.slow("runs the commands of a page")
def test_the_commands_of_the_page_run_in_their_order(model_path, tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TVM_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copy(model_path, "model.onnx")
    Image.new("RGB", (40, 30)).save("photo.png")
    Path("labels.txt").write_text("one\ntwo\nthree\nfour\n")
    assert len(COMMANDS) > 10
    for command in COMMANDS:
        program, *argv = shlex.split(command)
        # Fewer rounds than a person needs.
        few = ["--rounds", "2", "--number", "1"] if argv[0] == "bench" else []
        assert program == "tvmc" and not _main([*argv, *few]), command
    assert {"model.tar", "outputs.npz", "times.json", "times.html"} <= {path.name for path in tmp_path.iterdir()}


def test_the_table_of_exit_codes_is_the_programs():
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE, re.MULTILINE)
    assert rows == [(str(code.value), code.name) for code in errors.ExitCode]


@pytest.mark.parametrize(
    "problem, code",
    [
        (errors.TVMCException("refused"), 4),
        (errors.TVMCImportError("keras"), 5),
        (MemoryError(), 4),
        (OSError(28, "No space left on device"), 4),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("defect"), 1),
    ],
)
def test_every_failure_of_a_command_has_its_exit_code(package, monkeypatch, capsys, problem, code):
    def fail(*args, **kwargs):
        raise problem

    monkeypatch.setattr(runner, "run_module", fail)
    assert _main(["run", package]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_exit_codes_reach_the_shell(tmp_path):
    def code(*argv: str) -> int:
        return subprocess.run([sys.executable, "-m", "tvm.driver.tvmc", *argv], capture_output=True).returncode

    assert [code("--version"), code(), code("--zzz"), code("info", str(tmp_path / "none.tar"))] == [0, 1, 2, 4]


def test_nothing_is_coloured_outside_a_terminal_or_against_the_users_wish(monkeypatch):
    import io

    from tvm.driver.tvmc.terminal import BOLD, painted

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert painted("x", BOLD, Terminal()) == "\x1b[1mx\x1b[0m" and painted("x", BOLD, io.StringIO()) == "x"
    monkeypatch.setenv("TERM", "dumb")
    assert painted("x", BOLD, Terminal()) == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("x", BOLD, Terminal()) == "x"
