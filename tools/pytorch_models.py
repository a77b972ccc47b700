"""Every model of the PyTorch importer's table beside PyTorch, from a trace and from an exported program.

The results are the table of docs/pytorch_models.md, which is written after each model: a run that was ended goes on
where it was. Each model runs in a process of its own."""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import re
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "pytorch_models.md"
_HEAD = """# PyTorch models

What `make pytorch-models` found: each model with seeded weights, imported from `torch.jit.trace` and from
`torch.export`, compiled for the CPU and run beside PyTorch {version}. A number is the largest difference as a share of
the largest result. Detection models run in double precision, on the virtual machine: what is found depends on the
order of scores, which rounding in single precision changes.

| model | from a trace | from an exported program |
|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models whose name begins so")
    parser.add_argument("--seconds", type=int, default=900, help="the most that one model takes")
    parser.add_argument("--budget", type=int, default=1 << 30, help="seconds after which no further model is begun")
    parser.add_argument("--again", action="store_true", help="also models whose row holds two numbers")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    warnings.filterwarnings("ignore")
    import torch

    from tests.relay.frontend.pytorch.models import MODELS
    from tests.relay.frontend.pytorch.vision import torchvision

    # What all models need is imported once, before processes of their own are forked.
    torchvision()
    importlib.import_module("transformers.modeling_utils")
    rows, end = kept_rows(), time.monotonic() + asked.budget
    for name in MODELS:
        wanted = name.startswith(tuple(asked.only.split(","))) and (asked.again or not is_done(rows.get(name, [])))
        if wanted and time.monotonic() < end:
            rows[name] = outcomes(name, asked.seconds)
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


def is_done(row: list[str]) -> bool:
    return len(row) == 2 and all(re.fullmatch(r"\d\.\de[+-]\d\d", cell) for cell in row)


def outcomes(name: str, seconds: int) -> list[str]:
    """What was found of a model for each of the two ways."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)
    process = context.Process(target=_compare, args=(name, sender))
    process.start()
    sender.close()
    found, end = [], time.monotonic() + seconds
    try:
        while len(found) < 2 and receiver.poll(max(end - time.monotonic(), 0)):
            found.append(receiver.recv())
        missing = f"more than {seconds} s" if len(found) < 2 else ""
    except EOFError:
        process.join()
        missing = f"ended with {process.exitcode}"
    process.kill()
    process.join()
    return [*found, missing, missing][:2]


def _compare(name: str, sender) -> None:
    """Send the outcome of each way. The process begins no threads before this."""
    from tests.relay.frontend.pytorch.models import build
    from tests.relay.frontend.pytorch.support import check

    model, inputs = build(name)
    for way in ("trace", "export"):
        try:
            sender.send(format(check(model, inputs, way), ".1e"))
        except Exception as problem:
            sender.send(" ".join(str(problem).split()).replace("|", "/")[:160] or type(problem).__name__)


if __name__ == "__main__":
    sys.exit(main())
