"""Every model of the PyTorch importer's table beside PyTorch, from a trace and from an exported program.

The results are the table of docs/pytorch_models.md. Each model runs in a process of its own."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "pytorch_models.md"
_HEAD = """# PyTorch models

What `make pytorch-models` found: each model with seeded weights, imported from `torch.jit.trace` and from
`torch.export`, compiled for the CPU and run beside PyTorch {version}. A number is the largest difference as a share of
the largest result.

| model | from a trace | from an exported program |
|---|---|---|
"""
_ONE = """
import sys, warnings
warnings.filterwarnings("ignore")
import torch
from tests.relay.frontend.pytorch.models import build
from tests.relay.frontend.pytorch.support import check
name, way = sys.argv[1:]
model, inputs = build(name)
try:
    print("RESULT", format(check(model, inputs, way), ".1e"))
except Exception as problem:
    print("RESULT", " ".join(str(problem).split())[:160] or type(problem).__name__)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models whose name begins so")
    parser.add_argument("--seconds", type=int, default=600, help="the most that one model takes")
    only = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    import torch

    from tests.relay.frontend.pytorch.models import MODELS

    rows = kept_rows()
    for name in MODELS:
        if name.startswith(only.only):
            rows[name] = [outcome(name, way, only.seconds) for way in ("trace", "export")]
            print(name, *rows[name], sep=" | ", flush=True)
            text = "".join(f"| {n} | {rows[n][0]} | {rows[n][1]} |\n" for n in sorted(rows) if n in MODELS)
            DOCUMENT.write_text(_HEAD.format(version=torch.__version__.partition("+")[0]) + text)
    return 0


def kept_rows() -> dict[str, list[str]]:
    """The table as it is; a run of a part replaces that part."""
    if not DOCUMENT.exists():
        return {}
    found = re.findall(r"^\| (\S+) \| (.*) \| (.*) \|$", DOCUMENT.read_text(), re.M)
    return {name: [trace, export] for name, trace, export in found if name not in ("model",)}


def outcome(name: str, way: str, seconds: int) -> str:
    try:
        done = subprocess.run([sys.executable, "-c", _ONE, name, way], cwd=ROOT, capture_output=True, text=True,
                              timeout=seconds, env={**os.environ, "PYTHONPATH": str(ROOT)})
    except subprocess.TimeoutExpired:
        return f"more than {seconds} s"
    found = re.findall(r"^RESULT (.*)$", done.stdout, re.M)
    lines = done.stderr.strip().splitlines()
    return found[-1].replace("|", "/") if found else f"ended with {done.returncode}: {lines[-1][:100] if lines else ''}"


if __name__ == "__main__":
    sys.exit(main())
