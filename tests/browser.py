"""A browser without a window, for tests of pages."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.required import required


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None and required("browser"):
        pytest.fail("the browser test needs chromium: apt-get install chromium")
    if found is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    return found


def load(browser: str, path: Path, *options: str) -> tuple[str, str]:
    """What the browser makes of a page, and what it says about it."""
    with tempfile.TemporaryDirectory(prefix="tvm-browser-") as profile:
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            *options,
            path.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
