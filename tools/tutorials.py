"""Turn tutorials into pages: each script of ``docs/tutorials`` is executed, and the output of a cell follows its code.

A script is a sequence of cells. A cell that begins with ``# %% [markdown]`` is text in comments; a cell that begins
with ``# %%`` is code. The first text begins with the title. With ``TVM_TUTORIAL_QUICK=1`` in the environment, scripts
choose small sizes, which the tests use.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "tutorials"
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
# The separator of the outputs of two cells; no program prints it.
MARK = "\x1e"


def order() -> list[str]:
    """Return the names of the tutorials in the order of the index."""
    return re.findall(r"^([a-z_]+)$", (FOLDER / "index.md").read_text(encoding="utf-8"), re.MULTILINE)


def cells(text: str) -> list[tuple[str, str]]:
    """Return ("markdown" or "code", text) of each cell of a script."""
    parts = CELL.split(text)[1:]
    found = []
    for marked, body in zip(parts[::2], parts[1::2]):
        if marked:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
        found.append(("markdown" if marked else "code", body.strip("\n")))
    return found


def run(script: Path, folder: Path) -> list[str]:
    """Return the output of each code cell of a script."""
    code = [body for kind, body in cells(script.read_text(encoding="utf-8")) if kind == "code"]
    program = f"\nprint({MARK!r}, flush=True)\n".join(code)
    path = os.pathsep.join([str(ROOT), str(FOLDER), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TVM_TUTORIAL_FIGURES": "1"}
    program_file = folder / script.name
    program_file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program_file.name], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"tutorial {script.name} failed:\n{done.stdout}\n{done.stderr}")
    return [part.strip("\n") for part in done.stdout.split(MARK + "\n")]


def page(script: Path, shows_output: bool = True) -> str:
    """Return a tutorial as Markdown, either executed and with its output, or not executed and without."""
    outputs = iter(())
    if shows_output:
        with tempfile.TemporaryDirectory(prefix="tvm-tutorial-") as folder:
            outputs = iter(run(script, Path(folder)))
    lines = []
    for kind, body in cells(script.read_text(encoding="utf-8")):
        if kind == "markdown":
            lines += [body, ""]
            continue
        lines += ["```python", body, "```", ""]
        text, figures = split_figures(next(outputs, ""))
        if text:
            lines += [":::{container} tutorial-output", "```text", text, "```", ":::", ""]
        for figure in figures:
            lines += ["```{raw} html", figure, "```", ""]
    return "\n".join(lines)


def split_figures(output: str) -> tuple[str, list[str]]:
    """Return the text of an output without its numbers, and the numbers."""
    pattern = re.compile(r"<figure class=.*?</figure>\n?", re.DOTALL)
    return pattern.sub("", output).strip("\n"), pattern.findall(output)


def write_pages(folder: Path, shows_output: bool) -> None:
    for name in order():
        (folder / f"{name}.md").write_text(page(FOLDER / f"{name}.py", shows_output), encoding="utf-8")
