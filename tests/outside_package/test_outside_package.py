"""A package outside this one brings a kind of target, a back end, a device, operators, a fusion rule and a template."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_a_package_outside_compiles_runs_and_tunes_a_model(tmp_path):
    # In a process of its own, because a device stays registered; the workers of the tuner find the package as it does.
    path = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "ACME_FOLDER": str(tmp_path)}
    command = [sys.executable, str(HERE / "program.py"), str(tmp_path / "records.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("compiled, run and tuned\n")
