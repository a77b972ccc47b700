"""Every model of the PyTorch importer's table beside PyTorch, from a trace and from an exported program; and
transformers with dynamic batch and length (``--only dynamic``).

The results are the tables of docs/pytorch_models.md, which is written after each model: a run that was ended goes on
where it was. Each model runs in a process of its own."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "pytorch_models.md"
_HEAD = """# PyTorch models

This page lists how closely imported PyTorch models match PyTorch, for users who want to know whether a model imports.
`python -m tools models pytorch` writes the tables: each model has seeded weights, is imported from `torch.jit.trace`
and from `torch.export`, compiled for the CPU and compared with the version of PyTorch in the last column. A number is
the largest difference divided by the largest output value.

- A model runs in double precision where the single-precision output of PyTorch itself differs from double precision by
  more than 2e-5: untrained deep networks amplify rounding from layer to layer.
- Detection models run in double precision on the virtual machine: the detections depend on the order of the scores.
  `torch.export` does not accept detection models, because they branch on the number of detections.

| model | precision | from a trace | from an exported program | PyTorch |
|---|---|---|---|---|
"""
_DYNAMIC_HEAD = """
## Dynamic batch and length

Small transformers with random weights, exported with `torch.export` (`Dim.AUTO` for batch and length,
`strict=False`), imported and compiled once, and run at four sizes, in single precision and in bfloat16
(`python -m tools models pytorch --only dynamic`). A number is the largest difference over all sizes divided by the
largest output value. PyTorch captures Mamba for one length, and Whisper and ViT for one spectrogram and image size;
their other dimensions are dynamic.

| model | single: from PyTorch | bfloat16: from PyTorch | from single | PyTorch from its single | PyTorch |
|---|---|---|---|---|---|
"""
# Branches of a model's own on what it finds are what torch.export does not take.
_REFUSED = "PyTorch does not export it"
# What a model needs at most: for each parameter the model, traces, constants and code in double precision.
_PROCESS_BYTES, _PARAMETER_BYTES = 2e9, 60
# What all models need is imported once; processes of models are forked from there.
_SHARED = ["torch", "torch.export", "tests.relay.frontend.pytorch.support"]
_PREFIX = "dynamic/"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models whose name begins so")
    parser.add_argument("--seconds", type=int, default=900, help="the most that one model takes")
    parser.add_argument("--budget", type=int, default=1 << 30, help="seconds after which the run ends")
    parser.add_argument("--again", action="store_true", help="also models whose row holds two numbers")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time")
    parser.add_argument("--memory", type=float, default=1e12, help="bytes that models at a time may need together")
    parser.add_argument("--rows", type=Path, help="a file that rows are appended to and taken from")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(_SHARED)
    warnings.filterwarnings("ignore")
    import torch

    from tests.relay.frontend.pytorch.dynamic import DYNAMIC
    from tests.relay.frontend.pytorch.models import MODELS

    names = [*MODELS, *(_PREFIX + name for name in DYNAMIC)]
    rows, version = kept_rows(DOCUMENT), torch.__version__.partition("+")[0]
    if asked.rows:
        rows.update(kept_rows(asked.rows))
    end, memory, writing = time.monotonic() + asked.budget, _Memory(asked.memory), threading.Lock()

    def one(name: str) -> None:
        with memory.held(sizes[name]):
            seconds = min(asked.seconds, int(end - time.monotonic()))
            if seconds <= 0:
                return
            row = [*outcomes(name, seconds), version]
        with writing:
            if is_done(row) or seconds == asked.seconds:
                rows[name] = row
            print(_line(name, row), end="", flush=True)
            if asked.rows:
                with asked.rows.open("a") as file:
                    file.write(_line(name, row))
            write(rows, names)

    wanted = [name for name in names if name.startswith(tuple(asked.only.split(",")))
              and (asked.again or not is_done(rows.get(name, [])))]  # fmt: skip
    sizes = {name: bytes_of(name) for name in wanted}
    with ThreadPoolExecutor(asked.jobs) as threads:
        # Families are listed from the smallest model to the largest: of several at a time the longest begin first.
        list(threads.map(one, wanted[::-1] if asked.jobs > 1 else wanted))
    write(rows, names)
    return 0


class _Memory:
    """Bytes that are held while a model runs; one that needs more than there is runs alone."""

    def __init__(self, limit: float):
        self._free = self._limit = limit
        self._changed = threading.Condition()

    @contextmanager
    def held(self, size: float):
        size = min(size, self._limit)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= size)
            self._free -= size
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._changed.notify_all()


def bytes_of(name: str) -> float:
    """What a model may need, by the number of parameters that torchvision has for it."""
    from tests.relay.frontend.pytorch.vision import torchvision

    family, _, model = name.partition("/")
    count = 0
    if family in ("vision", "segmentation", "video", "detection"):
        count = torchvision().models.get_model_weights(model).DEFAULT.meta["num_params"]
    return _PROCESS_BYTES + _PARAMETER_BYTES * count


def _line(name: str, row: list[str]) -> str:
    return f"| {name} | {' | '.join(row)} |\n"


def write(rows: dict[str, list[str]], names) -> None:
    kept = [name for name in sorted(rows) if name in names]
    static, dynamic = ("".join(_line(name, rows[name]) for name in kept if name.startswith(_PREFIX) is is_dynamic)
                       for is_dynamic in (False, True))
    DOCUMENT.write_text(_HEAD + static + (_DYNAMIC_HEAD + dynamic if dynamic else ""))


def kept_rows(path: Path) -> dict[str, list[str]]:
    """The rows of a file; of several of a model the last one, or the last one that is whole."""
    rows: dict[str, list[str]] = {}
    for name, cells in re.findall(r"^\| (\S+) \| (.*) \|$", path.read_text() if path.exists() else "", re.M):
        row = cells.split(" | ")
        if name != "model" and (is_done(row) or not is_done(rows.get(name, []))):
            rows[name] = row
    return rows


def is_done(row: list[str]) -> bool:
    """Whether a row is whole: that of a model with dynamic sizes has four numbers, another one a precision and two."""
    numbers = row[:-1] if len(row) == 5 else row[1:3]
    return len(row) in (4, 5) and all(re.fullmatch(rf"\d\.\de[+-]\d\d|{_REFUSED}", cell) for cell in numbers)


def outcomes(name: str, seconds: int) -> list[str]:
    """The cells of a row before the version: the precision that a model ran in and the difference of each way, or the
    differences of a model with dynamic sizes."""
    is_dynamic = name.startswith(_PREFIX)
    count = 4 if is_dynamic else 3
    receiver, sender = multiprocessing.Pipe(False)
    process = multiprocessing.Process(target=_compare_dynamic if is_dynamic else _compare, args=(name, sender))
    process.start()
    sender.close()
    found, end = [], time.monotonic() + seconds
    try:
        while len(found) < count and receiver.poll(max(end - time.monotonic(), 0)):
            found.append(receiver.recv())
        missing = f"more than {seconds} s"
    except EOFError:
        process.join()
        missing = f"ended with {process.exitcode}"
    process.kill()
    process.join()
    return [*(found or ["-"]), *[missing] * count][:count]


def _compare(name: str, sender) -> None:
    """Send the precision and the outcome of each way."""
    import torch

    from tests.relay.frontend.pytorch.models import build
    from tests.relay.frontend.pytorch.support import check

    torch.set_num_threads(1)
    model, inputs = build(name)
    sender.send("double" if next(model.parameters()).dtype == torch.float64 else "single")
    for way in ("trace", "export"):
        try:
            sender.send(format(check(model, inputs, way), ".1e"))
        except Exception as problem:
            is_refused = way == "export" and not _is_exported(model, inputs)
            sender.send(_REFUSED if is_refused else _in_words(problem))


def _in_words(problem: Exception) -> str:
    return " ".join(str(problem).split()).replace("|", "/")[:160] or type(problem).__name__


def _compare_dynamic(name: str, sender) -> None:
    """Send the difference in single precision and the three in bfloat16, or in their place what went wrong."""
    import torch

    from tests.relay.frontend.pytorch.dynamic import exported_off

    torch.set_num_threads(1)
    for dtype, count in (("float32", 1), ("bfloat16", 3)):
        try:
            off = exported_off(name.removeprefix(_PREFIX), dtype)
            off.check(dtype)
            cells = [format(value, ".1e") for value in off[:count]]
        except Exception as problem:
            cells = [_in_words(problem)] + ["-"] * (count - 1)
        for cell in cells:
            sender.send(cell)


def _is_exported(model, inputs: list) -> bool:
    """Whether PyTorch makes a program of a model. What it says where it does not may come from the model's own code."""
    import torch

    try:
        torch.export.export(model, tuple(inputs))
    except Exception:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
