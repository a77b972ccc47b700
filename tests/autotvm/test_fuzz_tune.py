"""A few kills of the tuner and its workers; ``python -m tools fuzz tune`` does many."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow("builds and measures candidates in worker processes")
def test_killed_tuners_lose_nothing(root: Path, seed: int):
    pytest.importorskip("onnx")
    command = [sys.executable, str(root / "tools" / "fuzz_tune.py"), "--kills", "2", "--seed", str(seed)]
    done = subprocess.run([*command, "--last-trials", "6"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"seed {seed}") == 2
