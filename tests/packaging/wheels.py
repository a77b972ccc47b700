"""Environments with wheels in them, for the tests of both distributions."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def deploy_programs() -> list[str]:
    """The programs of docs/deploy_runtime.md: one compiles a model, the other runs it without the compiler."""
    return PROGRAM.findall((ROOT / "docs" / "deploy_runtime.md").read_text(encoding="utf-8"))


def run(*command: object, cwd: Path, fails: bool = False, **environment: str) -> str:
    """What a program prints. Nothing of the environment of the tests reaches it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TVM_"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env={**kept, **environment}, capture_output=True, text=True)
    assert (done.returncode != 0) == fails, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def files_of(wheel: Path) -> set[str]:
    """Every path that installing a wheel makes, the commands too."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        (entry_points,) = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
        commands = re.findall(r"^([\w-]+) *=", archive.read(entry_points).decode(), re.MULTILINE)
    return names | {f"bin/{command}" for command in commands}
