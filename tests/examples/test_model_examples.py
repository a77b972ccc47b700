"""The examples about whole models run to their ends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"


SLOW = pytest.mark.slow("compiles a whole network as a user does")


@pytest.mark.parametrize(
    "command, last",
    [
        pytest.param(
            ["relay_quick_start.py", "32"], "the loaded and the older way give the same", marks=SLOW
        ),
        pytest.param(["tvmcpythonintro.py"], "the loaded package gives the same", marks=SLOW),
        pytest.param(["autotvmintro.py"], "the predictions are the same", marks=SLOW),
        pytest.param(
            ["tune_model.py", "--trials", "2", "--tasks", "0,1", "--time-budget", "2m"],
            "the predictions are the same: ", marks=SLOW,
        ),
        (["preprocess.py"], "imagenet_cat.npz holds data of shape (1, 3, 224, 224)"),
    ],
)
def test_example_runs(python: str, command: list[str], last: str, tmp_path: Path, sharing_compiled_models):
    script = [python, str(FOLDER / command[0]), *command[1:]]
    done = subprocess.run(script, cwd=tmp_path, env=sharing_compiled_models, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(last)
