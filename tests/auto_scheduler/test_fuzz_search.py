"""A few kills of a search and its workers; ``make fuzz-tune`` does many."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_killed_searches_lose_nothing_and_measure_nothing_twice(root: Path, seed: int):
    pytest.importorskip("xgboost")
    command = [sys.executable, str(root / "tools" / "fuzz_tune.py"), "--kills", "2", "--seed", str(seed), "--search",
               "auto_scheduler"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"seed {seed}") == 2
