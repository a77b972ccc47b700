"""Time and memory of compilation: each step runs in a fresh process, cold steps with an empty cache.

    python -m benchmarks.compile_time [--rounds 3] [--resnet50 PATH]

Prints a table in Markdown. Memory is the largest sum over the process and its children, sampled while they run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import result_file

ROOT = Path(__file__).resolve().parents[1]
MOBILENET = ROOT / "demo" / "mobilenet_v2.onnx"
# Trained models that may be stored beside the checkout.
SHARED_RESNET = ROOT.parent / "shared" / "models" / "imagenet" / "resnet50.onnx"
# Modules that a program that only imports tvm must not load.
HEAVY = ("llvmlite", "onnx", "xgboost", "rich")
_SECONDS_BETWEEN_SAMPLES = 0.02
_GIB = 1 << 30


@dataclass
class Measured:
    wall: float
    cpu: float
    peak_bytes: int


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _tree_bytes(pid: int) -> int:
    """Return the resident bytes of a process and all its descendants."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * resource.getpagesize() + sum(_tree_bytes(child) for child in _children(pid))


def measure(command: list[str], cache: str) -> Measured:
    """Run a command until it exits and return its time and memory."""
    environment = {**os.environ, "TVM_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    for name in ("PYTHONDONTWRITEBYTECODE", "TVM_NO_CACHE", "TVM_DEBUG"):
        environment.pop(name, None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    peak = 0
    done = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(_SECONDS_BETWEEN_SAMPLES):
            peak = max(peak, _tree_bytes(process.pid))

    watcher = threading.Thread(target=sample)
    watcher.start()
    status = process.wait()
    wall = time.perf_counter() - begin
    done.set()
    watcher.join()
    if status:
        raise SystemExit(f"{' '.join(command)} failed with exit code {status}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(wall, cpu, peak)


@dataclass
class Case:
    """A measured step; ``target`` is its target time in seconds, ``memory`` its target memory in bytes."""

    name: str
    command: list[str]
    target: float
    memory: int | None = None
    cold: bool = True


def cases(resnet: Path, out: Path) -> list[Case]:
    compile_ = [sys.executable, "-m", "tvm.driver.tvmc", "compile", "--target", "llvm", "--output", str(out)]
    load = f"import onnx; from tvm.relay.frontend import from_onnx; from_onnx(onnx.load({str(resnet)!r}), {{}})"
    light = f"import sys, tvm; heavy = set({HEAVY}) & set(sys.modules); assert not heavy, heavy"
    found = [
        Case("`import tvm`", [sys.executable, "-c", light], 0.4),
        Case("`tvmc compile` ResNet-50, cold", [*compile_, str(resnet)], 30, 2 * _GIB),
        Case("`tvmc compile` ResNet-50, cached", [*compile_, str(resnet)], 4, cold=False),
        Case("import onnx and tvm, `from_onnx` ResNet-50", [sys.executable, "-c", load], 4),
    ]
    if MOBILENET.exists():
        shapes = ["--input-shapes", "data:[1,3,224,224]"]
        found += [
            Case("`tvmc compile` MobileNetV2, cold", [*compile_, *shapes, str(MOBILENET)], 25, 2 * _GIB),
            Case("`tvmc compile` MobileNetV2, cached", [*compile_, *shapes, str(MOBILENET)], 4, cold=False),
        ]
    return found


def resnet50(given: str, folder: Path) -> Path:
    """Return the path of ResNet-50: the given file, the trained model, or a new one with random weights."""
    if given or SHARED_RESNET.exists():
        return Path(given or SHARED_RESNET)
    sys.path.insert(0, str(ROOT))
    from tests.driver.tvmc import guide_model

    guide_model.write(str(folder / "resnet50.onnx"))
    return folder / "resnet50.onnx"


def run_rounds(case: Case, rounds: int, new_cache: Callable[[], str]) -> list[Measured]:
    """Measure the rounds of a step: a cold step has an empty cache in each round, others a cache that the same
    command filled."""
    cache = new_cache()
    if not case.cold:
        measure(case.command, cache)
    out = []
    for _ in range(rounds):
        out.append(measure(case.command, new_cache() if case.cold else cache))
    return out


def result_row(case: Case, best: Measured, peak: int) -> dict:
    """Return the row of a result file."""
    values = {"wall": round(best.wall, 3), "processor": round(best.cpu, 3), "target": case.target,
              "memory (GiB)": round(peak / _GIB, 3)}  # fmt: skip
    return {"name": case.name.replace("`", ""), "values": values}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_time")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each step; the fastest one counts")
    parser.add_argument("--resnet50", default="", metavar="PATH", help="ONNX file of ResNet-50")
    result_file.add_option(parser)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="tvm-bench-") as name:
        folder = Path(name)
        steps = cases(resnet50(args.resnet50, folder), folder / "out.tar")
        # Compile Python's bytecode first: that cost belongs to the installation, not to the first measurement.
        measure(steps[1].command, tempfile.mkdtemp(dir=folder))
        print("| step | seconds (CPU) | target | peak memory |\n|---|---|---|---|")
        failed = []
        for case in steps:
            rounds = run_rounds(case, args.rounds, lambda: tempfile.mkdtemp(dir=folder))
            best = min(rounds, key=lambda m: m.wall)
            peak = max(m.peak_bytes for m in rounds)
            limit = f" (target {case.memory / _GIB:.0f} GiB)" if case.memory else ""
            wall, cpu = f"{best.wall:.2f}", f"{best.cpu:.2f}"
            print(f"| {case.name} | {wall} ({cpu}) | {case.target:g} | {peak / _GIB:.2f} GiB{limit} |", flush=True)
            rows.append(result_row(case, best, peak))
            if best.wall > case.target or (case.memory and peak > case.memory):
                failed.append(case.name)
    result_file.record(
        args.record, "compile-time", rows, unit="s", command="python -m benchmarks.compile_time",
        method="every step in a fresh process, cold steps with an empty cache; the fastest of "
        f"{args.rounds} processes; memory is the largest sum over the process and its children",
    )  # fmt: skip
    if failed:
        sys.exit(f"slower or larger than the target: {', '.join(failed)}")


if __name__ == "__main__":
    main()
