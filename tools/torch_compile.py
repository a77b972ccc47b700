"""Twenty models through ``torch.compile``: with PyTorch's own back end ``tvm`` as it is, and with ours.

The results are the table of docs/torch_compile.md, which is written after each model: a run that was ended goes on
where it was. Each model runs in a process of its own. Seconds of first calls are of whatever else the machine did;
timings are for ``benchmarks.torch_compile``.
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

What `make torch-compile` found with PyTorch {version}: each model with seeded weights, compiled by PyTorch's own back
end `tvm`, unmodified, and by ours, `pytvm`. A number is the largest difference from what PyTorch itself gives, as a
share of the largest result. The last columns are of a compilation with an open batch: the difference over batches of 2,
3 and 5, and how often the back end compiled.

Timings beside inductor (`python -m benchmarks.torch_compile`) are in [performance](performance.md): 0.65 of its time on
two threads of an x86 server, the geometric mean over 16 models.

| model | `tvm` | first call, s | `pytvm` | first call, s | `pytvm`, open batch | compilations |
|---|---|---|---|---|---|---|
"""
_ONE = """
import sys, time, warnings
warnings.filterwarnings("ignore")
# A graph that runs in PyTorch would agree with PyTorch.
warnings.filterwarnings("error", message="pytvm: a graph runs in PyTorch")
import torch
from tests.relay.frontend.pytorch.models import build
from tests.relay.frontend.pytorch.support import array, leaves, same
from tvm.contrib.torch import pytvm
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
    call, worst = torch.compile(model, backend=pytvm), 0.0
    for batch in (2, 3, 5):
        given = [torch.cat([v] * 5)[:batch].clone() for v in inputs]
        for v in given:
            torch._dynamo.mark_dynamic(v, 0)
        worst = max(worst, off(call, given))
    return worst, len(made)

for backend in ("tvm", pytvm):
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
    parser.add_argument("--only", default="", help="models whose name begins so, with commas")
    parser.add_argument("--seconds", type=int, default=900, help="the most that one model takes")
    parser.add_argument("--again", action="store_true", help="also models whose row is whole")
    asked = parser.parse_args()
    import torch

    rows = kept_rows()
    for name in MODELS:
        if name.startswith(tuple(asked.only.split(","))) and (asked.again or not is_done(rows.get(name, []))):
            rows[name] = outcomes(name, asked.seconds)
            print(name, *rows[name], sep=" | ", flush=True)
            text = "".join(f"| {n} | {' | '.join(rows[n])} |\n" for n in MODELS if n in rows)
            DOCUMENT.write_text(_HEAD.format(version=torch.__version__.partition("+")[0]) + text)
    return 0


def kept_rows() -> dict[str, list[str]]:
    """The table as it is; a run of a part replaces that part."""
    if not DOCUMENT.exists():
        return {}
    lines = [line.strip("| ").split(" | ") for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines if cells[0] in MODELS}


def is_done(row: list[str]) -> bool:
    return len(row) == 6 and all(re.fullmatch(r"\d\.\de[+-]\d\d", cell) for cell in row[::2])


def outcomes(name: str, seconds: int) -> list[str]:
    """The cells of a row: a difference and a number for each of the three ways."""
    try:
        done = subprocess.run([sys.executable, "-c", _ONE, name], cwd=ROOT, capture_output=True, text=True,
                              timeout=seconds, env={**os.environ, "PYTHONPATH": str(ROOT)})
        text, ended = done.stdout, f"ended with {done.returncode}"
    except subprocess.TimeoutExpired as late:
        text, ended = (late.stdout or b"").decode(), f"more than {seconds} s"
    found = [line.replace("|", "").rpartition(" / ") for line in re.findall(r"^RESULT (.*)$", text, re.M)]
    pairs = [[left, right] for left, _, right in found] + [[ended, "-"]] * 3
    return [cell for pair in pairs[:3] for cell in pair]


if __name__ == "__main__":
    sys.exit(main())
