"""The examples of AutoScheduler run to their ends with a few trials."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.programs import Programs

FOLDER = Path(__file__).resolve().parents[2] / "examples"
CASES = {
    "matmul": (["--size", "64", "--trials", "2"], ["xgboost"], "the matmul is correct; 3 schedules were measured"),
    "sparse": (["--trials", "2"], ["xgboost", "scipy"], "the sparse matmul is correct"),
    "custom_rule": (["--trials", "2"], ["xgboost"], "the matmul of the user-defined rule is correct"),
    "network": (["--network", "mlp", "--image", "16", "--trials", "4"], ["xgboost"], "mlp with the tuned schedules"),
    "conv2d_cuda": (["--trials", "2"], ["xgboost"], ("the convolution is correct", "this machine has no NVIDIA GPU")),
}
# Importing the packages to find them takes a second.
FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
# Smaller populations than a person would search with: what is shown is the way, not its end.
RUN = """
import runpy, sys
from tvm.auto_scheduler import SketchPolicy
SketchPolicy.DEFAULT_PARAMS.update(evolutionary_search_population=32, evolutionary_search_num_iters=1)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow("runs an example as a user does")
@pytest.mark.parametrize("name", sorted(CASES))
def test_example_runs_and_checks_itself(programs: Programs, python: str, name: str, tmp_path: Path):
    options, packages, last = CASES[name]
    for package in packages:
        if subprocess.run([python, "-c", FIND, package]).returncode:
            pytest.skip(f"the package {package} is not installed")
    done = programs.run(["-c", RUN, str(FOLDER / f"auto_scheduler_{name}.py"), *options], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(last), done.stdout
