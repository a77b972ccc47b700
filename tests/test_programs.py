"""Programs in forks of one process behave as programs of their own."""

from __future__ import annotations

import os
from pathlib import Path

from tests import costs
from tests.programs import Programs

REPORT = """
import os, sys
import tvm
print(__name__, sys.argv, os.getcwd(), os.environ.get("COLOUR"), sys.path[0], globals().get("__file__"))
left = "left"
"""


def test_a_program_has_its_arguments_folder_and_environment(programs: Programs, tmp_path: Path):
    script = tmp_path / "folder" / "script.py"
    script.parent.mkdir()
    script.write_text(REPORT)
    for name, first, file in ((str(script), str(script.parent), str(script)), ("-c", "", None)):
        arguments = [name, *([REPORT] if name == "-c" else []), "one", "two"]
        done = programs.run(arguments, tmp_path, {**os.environ, "COLOUR": "red"})
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"__main__ {[name, 'one', 'two']} {tmp_path} red {first} {file}\n"


def test_a_program_finds_nothing_that_another_one_left(programs: Programs, tmp_path: Path):
    assert programs.run(["-c", REPORT + "tvm.left = left"], tmp_path).returncode == 0
    done = programs.run(["-c", "import os, tvm; print(hasattr(tvm, 'left'), 'COLOUR' in os.environ)\nleft"], tmp_path)
    assert (done.returncode, done.stdout) == (1, "False False\n") and "name 'left' is not defined" in done.stderr


def test_the_way_a_program_ends_and_what_it_costs_are_reported(programs: Programs, tmp_path: Path):
    assert programs.run(["-c", "import atexit; atexit.register(print, 'end'); exit(3)"], tmp_path).stdout == "end\n"
    assert programs.run(["-c", "raise SystemExit(3)"], tmp_path).returncode == 3
    assert programs.run(["-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"], tmp_path).returncode == -9
    before = costs.processor_seconds()
    programs.run(["-c", "import os\nwhile sum(os.times()[:2]) < 0.3: pass"], tmp_path)
    assert costs.processor_seconds() - before > 0.2
