"""Run the commands of the page of the first ten minutes in a new environment, and measure their time.

    python3 tools/first_hour.py [--write]
    python3 tools/first_hour.py --here

The checkout is copied into a separate folder, with empty caches of pip and of the compiler. ``--write`` puts the output
into the page. ``--here`` leaves out the installation and uses the interpreter of this program.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "first_ten_minutes.md"
LIMIT = 600.0
# The section that installs, and the folder that it creates.
INSTALL, WORK = "Install", "build/first-hour"
# The name of a program is at the end of the text before it; the output of commands follows them.
PROGRAM = re.compile(r"`(\w+\.py)`[^`]*?:\n\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
# The separator before the output of a block; no program prints it.
MARK = "\x1e"


class Block(NamedTuple):
    """Commands of the page, with the title of their section."""

    section: str
    commands: str


def blocks(text: str) -> list[Block]:
    """Return the commands of a page in their order."""
    found = []
    for match in COMMANDS.finditer(text):
        titles = re.findall(r"^## (.*)$", text[: match.start()], re.MULTILINE)
        found.append(Block(titles[-1] if titles else "", match[1]))
    return found


def with_outputs(text: str, outputs: list[str]) -> str:
    """Return the page with the output of each block after the block."""
    printed = iter(outputs)

    def place(match: re.Match[str]) -> str:
        said = next(printed).strip("\n")
        return f"```sh\n{match[1]}```\n" + (f"\n```text\n{said}\n```\n" if said else "")

    return COMMANDS.sub(place, text)


def copy_checkout(folder: Path) -> None:
    """Copy the files that git tracks or would add."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def programs_here(folder: Path) -> None:
    """Create ``python`` and ``tvmc`` of this interpreter as programs in ``folder``."""
    folder.mkdir()
    for name, arguments in (("python", ""), ("tvmc", "-m tvm.driver.tvmc ")):
        file = folder / name
        file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments}"$@"\n', encoding="utf-8")
        file.chmod(0o755)


def replay(chosen: list[Block], folder: Path, environment: dict[str, str]) -> tuple[list[str], list[float]]:
    """Return the output and the seconds of each block. All blocks run in one shell; a failing command ends it."""
    script = "set -e\n" + "".join(f"printf '{MARK}\\n'\n{block.commands}" for block in chosen)
    shell = subprocess.Popen(
        ["bash", "-c", script], cwd=folder, env=environment, text=True, encoding="utf-8",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    outputs: list[str] = []
    starts: list[float] = []
    assert shell.stdout is not None
    for line in shell.stdout:
        if line == MARK + "\n":
            outputs.append("")
            starts.append(time.perf_counter())
        else:
            outputs[-1] += line
    if shell.wait():
        commands = chosen[len(outputs) - 1].commands
        raise SystemExit(f"command failed with exit code {shell.returncode}:\n{commands}{outputs[-1]}")
    ends = [*starts[1:], time.perf_counter()]
    return outputs, [end - start for start, end in zip(starts, ends)]


def fresh_environment(home: Path) -> dict[str, str]:
    """Return the environment variables of a new user of this machine."""
    own = ("PYTHON", "TVM_", "XDG_", "VIRTUAL_ENV", "PIP_CACHE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "HOME": str(home), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="use this environment; leave out the installation")
    parser.add_argument("--write", action="store_true", help="put the output into the page")
    given = parser.parse_args()
    if given.here and given.write:
        parser.error("--write needs the installation, which --here leaves out")
    text = PAGE.read_text(encoding="utf-8")
    chosen = [block for block in blocks(text) if not (given.here and block.section == INSTALL)]
    with tempfile.TemporaryDirectory(prefix="tvm-first-hour-") as name:
        folder = Path(name)
        if given.here:
            for file in (ROOT / "demo").iterdir():
                shutil.copy(file, folder)
            programs_here(folder / "bin")
            environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        else:
            copy_checkout(folder)
            environment = fresh_environment(folder / "home")
        place = folder if given.here else folder / WORK
        place.mkdir(parents=True, exist_ok=True)
        for file, program in PROGRAM.findall(text):
            (place / file).write_text(program, encoding="utf-8")
        outputs, seconds = replay(chosen, folder, environment)
    for block, output, took in zip(chosen, outputs, seconds):
        print(f"$ {block.commands}{output}-- {block.section}: {took:.0f} s\n")
    print(f"{sum(seconds):.0f} s of {LIMIT:.0f}")
    if given.write:
        PAGE.write_text(with_outputs(text, outputs), encoding="utf-8")
    return int(sum(seconds) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
