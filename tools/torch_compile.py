"""Run twenty models through ``torch.compile`` with PyTorch's own back end ``tvm`` and with ours, and transformers in
bfloat16 with dynamic sizes with ours (``--only dynamic``).

The results are the tables of docs/torch_compile.md, which are written after each model; an interrupted run continues.
Each model runs in its own process. The seconds of first calls depend on other load of the machine; for timings use
``benchmarks.torch_compile``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "torch_compile.md"
MODELS = (
    "vision/resnet18 vision/mobilenet_v2 vision/mobilenet_v3_small vision/squeezenet1_1 vision/shufflenet_v2_x0_5 "
    "vision/mnasnet0_5 vision/regnet_x_400mf vision/regnet_y_400mf vision/efficientnet_b0 vision/densenet121 "
    "vision/convnext_tiny transformers/bert transformers/distilbert transformers/roberta transformers/electra "
    "transformers/albert transformers/gpt2 transformers/t5 transformers/vit transformers/whisper"
).split()
_HEAD = """# torch.compile

This page lists how closely models that `torch.compile` compiles with TVM Classic match PyTorch, for users of
`torch.compile`. `python -m tools models torch-compile` writes the tables with PyTorch {version}: each model has
seeded weights and is compiled by PyTorch's own back end `tvm`, unmodified, and by the back end `tvm_classic`. A
number is the largest difference from the output of PyTorch, divided by the largest output value. The last columns are
of a compilation with a dynamic batch: the difference over batches of 2, 3 and 5, and the number of compilations.

Times beside inductor (`python -m benchmarks.torch_compile`) are in [performance](performance.md): `tvm_classic` takes
0.66× the time of inductor (geometric mean over 20 models, two CPU threads).

| model | `tvm` | first call, s | `tvm_classic` | first call, s | `tvm_classic`, dynamic batch | compilations |
|---|---|---|---|---|---|---|
"""
_DYNAMIC_HEAD = """
## Dynamic sizes in bfloat16

Small transformers in bfloat16 with random weights through `torch.compile(model, backend="tvm_classic", dynamic=True)`,
run at four sizes of batch and length (`python -m tools models torch-compile --only dynamic`). A number is the largest
difference over all sizes, divided by the largest output value. The last columns count the graphs that `tvm_classic`
compiled and the graphs that it could not compile, which PyTorch would run. PyTorch captures Mamba for one length.

| model | from PyTorch | from single precision | PyTorch from single precision | compiled | left to PyTorch | PyTorch |
|---|---|---|---|---|---|---|
"""
_PREFIX = "dynamic/"
_ONE_DYNAMIC = """
import sys, warnings
warnings.filterwarnings("ignore")
import torch
from tests.relay.frontend.pytorch.dynamic import compiled_off

torch.set_num_threads(1)
off, made, failed = compiled_off(sys.argv[1].removeprefix("dynamic/"), "bfloat16")
off.check("bfloat16")
print("RESULT", *(format(value, ".1e") for value in off), made, failed, torch.__version__.partition("+")[0])
"""
_ONE = """
import sys, time, warnings
warnings.filterwarnings("ignore")
# A graph that runs in PyTorch would agree with PyTorch.
warnings.filterwarnings("error", message="tvm_classic: a graph runs in PyTorch")
import torch
from tests.relay.frontend.pytorch.models import build
from tests.relay.frontend.pytorch.support import array, leaves, same
from tvm.contrib.torch import tvm_classic
from tvm.contrib.torch.dynamo import CompiledGraph

model, inputs = build(sys.argv[1])
made = []
whole = CompiledGraph._compiled
CompiledGraph._compiled = lambda self, values: made.append(self) or whole(self, values)

def off(call, inputs):
    with torch.no_grad():
        return same([array(v) for v in leaves(call(*inputs))], leaves(model(*inputs)))

def cells(backend):
    torch._dynamo.reset()
    started = time.perf_counter()
    call = torch.compile(model, backend=backend)
    with torch.no_grad():
        call(*inputs)
    return time.perf_counter() - started, off(call, inputs)

def open_batch():
    torch._dynamo.reset()
    made.clear()
    call, worst = torch.compile(model, backend=tvm_classic), 0.0
    for batch in (2, 3, 5):
        given = [torch.cat([v] * 5)[:batch].clone() for v in inputs]
        for v in given:
            torch._dynamo.mark_dynamic(v, 0)
        worst = max(worst, off(call, given))
    return worst, len(made)

for backend in ("tvm", tvm_classic):
    try:
        seconds, worst = cells(backend)
        print("RESULT", format(worst, ".1e"), "/", format(seconds, ".1f"), flush=True)
    except Exception as problem:
        print("RESULT", " ".join(str(problem).split())[:120] or type(problem).__name__, "/", "-", flush=True)
try:
    worst, count = open_batch()
    print("RESULT", format(worst, ".1e"), "/", count, flush=True)
except Exception as problem:
    print("RESULT", " ".join(str(problem).split())[:120] or type(problem).__name__, "/", "-", flush=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="comma-separated first letters of the models' names")
    parser.add_argument("--seconds", type=int, default=900, help="time limit of a model")
    parser.add_argument("--again", action="store_true", help="also run models whose row is complete")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    import torch

    from tests.relay.frontend.pytorch.dynamic import DYNAMIC

    version, dynamic = torch.__version__.partition("+")[0], [_PREFIX + name for name in DYNAMIC]
    rows = kept_rows()
    for name in (*MODELS, *dynamic):
        if name.startswith(tuple(asked.only.split(","))) and (asked.again or not is_done(name, rows.get(name, []))):
            find = dynamic_outcomes if name in dynamic else outcomes
            rows[name] = find(name, asked.seconds)
            print(name, *rows[name], sep=" | ", flush=True)
            head = kept_version() if name in dynamic else version
            DOCUMENT.write_text(_HEAD.format(version=head) + _text(rows, MODELS) + _DYNAMIC_HEAD + _text(rows, dynamic))
    return 0


def _text(rows: dict[str, list[str]], names) -> str:
    return "".join(f"| {name} | {' | '.join(rows[name])} |\n" for name in names if name in rows)


def kept_version() -> str:
    """Return the version of PyTorch in the first table."""
    found = re.search(r"the tables with PyTorch (\S+):", DOCUMENT.read_text() if DOCUMENT.exists() else "")
    return found[1] if found else "?"


def kept_rows() -> dict[str, list[str]]:
    """Return the existing table; a run of some models replaces their rows."""
    if not DOCUMENT.exists():
        return {}
    lines = [line.strip("| ").split(" | ") for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines if cells[0] in MODELS or cells[0].startswith(_PREFIX)}


def is_done(name: str, row: list[str]) -> bool:
    """Return whether a row is complete: that of a model with dynamic sizes begins with three differences, another
    row has a difference and a number for each of three ways to compile."""
    numbers = row[:3] if name.startswith(_PREFIX) else row[::2]
    return len(row) == 6 and all(re.fullmatch(r"\d\.\de[+-]\d\d", cell) for cell in numbers)


def dynamic_outcomes(name: str, seconds: int) -> list[str]:
    """Return the cells of a row of a model with dynamic sizes."""
    found, ended = _found(_ONE_DYNAMIC, name, seconds)
    return found[0].split() if found else [ended, *"-----"]


def _found(program: str, name: str, seconds: int) -> tuple[list[str], str]:
    """Return the results that a program prints for a model, and how it ended."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, name],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        words = done.stderr.strip().rpartition("\n")[2].replace("|", "/")[:160]
        text, ended = done.stdout, f"ended with {done.returncode}: {words}"
    except subprocess.TimeoutExpired as late:
        text, ended = (late.stdout or b"").decode(), f"more than {seconds} s"
    return re.findall(r"^RESULT (.*)$", text, re.M), ended


def outcomes(name: str, seconds: int) -> list[str]:
    """Return the cells of a row: a difference and a number for each of the three ways to compile."""
    found, ended = _found(_ONE, name, seconds)
    found = [line.replace("|", "").rpartition(" / ") for line in found]
    pairs = [[left, right] for left, _, right in found] + [[ended, "-"]] * 3
    return [cell for pair in pairs[:3] for cell in pair]


if __name__ == "__main__":
    sys.exit(main())
