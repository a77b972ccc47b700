"""Every tutorial runs, at the sizes that ``TVM_TUTORIAL_QUICK`` asks for, and has its place on the site."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.programs import Programs

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "tutorials"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if "# %% [markdown]" in path.read_text(encoding="utf-8"))


@pytest.fixture
def tutorials(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import tutorials

    return tutorials


@pytest.mark.slow("runs a tutorial as a user does")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_tutorial_runs(programs: Programs, name: str, tmp_path: Path):
    environment = {**os.environ, "TVM_TUTORIAL_QUICK": "1"}
    done = programs.run([str(FOLDER / f"{name}.py")], tmp_path, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout, "a tutorial shows something"


def test_the_index_lists_every_tutorial_once(tutorials):
    assert sorted(tutorials.order()) == SCRIPTS


def test_cells_are_text_and_code_in_turn(tutorials):
    script = "# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nx = 1\n# a comment\n"
    assert tutorials.cells(script) == [("markdown", "# Title\n\nWords."), ("code", "x = 1\n# a comment")]


def test_figures_leave_the_text_they_were_printed_among(tutorials):
    figure = '<figure class="plot"><svg></svg></figure>'
    assert tutorials.split_figures(f"before\n{figure}\nafter") == ("before\nafter", [figure + "\n"])


def test_a_page_without_output_is_made_without_running_its_script(tutorials, tmp_path):
    script = tmp_path / "t.py"
    script.write_text("# %% [markdown]\n# # Title\n\n# %%\nraise SystemExit(1)\n")
    assert tutorials.page(script, shows_output=False) == "# Title\n\n```python\nraise SystemExit(1)\n```\n"
