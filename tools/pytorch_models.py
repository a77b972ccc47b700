"""Compare every model of the PyTorch importer's table with PyTorch, from a trace and from an exported program, and
transformers with dynamic batch and length (``--only dynamic``).

The results are the tables of docs/pytorch_models.md, which are written after each model; an interrupted run continues.
Each model runs in its own process.
"""

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
# torch.export does not support branches of a model on its data.
_REFUSED = "PyTorch does not export it"
# Upper bound of the memory of a model: for each parameter, the model, traces, constants and code in double precision.
_PROCESS_BYTES, _PARAMETER_BYTES = 2e9, 60
# Modules that all models need are imported once; processes of models are forked from there.
_SHARED = ["torch", "torch.export", "tests.relay.frontend.pytorch.support"]
_PREFIX = "dynamic/"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only models whose name begins with this text")
    parser.add_argument("--seconds", type=int, default=900, help="time limit of a model")
    parser.add_argument("--budget", type=int, default=1 << 30, help="time limit of the run in seconds")
    parser.add_argument("--again", action="store_true", help="also run models whose row is complete")
    parser.add_argument("--jobs", type=int, default=1, help="number of models at a time")
    parser.add_argument("--memory", type=float, default=1e12, help="memory limit of models at a time, in bytes")
    parser.add_argument("--rows", type=Path, help="file for the rows, which is read and appended")
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
        # Families are listed from the smallest model to the largest: where several run at a time, the longest start
        # first.
        list(threads.map(one, wanted[::-1] if asked.jobs > 1 else wanted))
    write(rows, names)
    return 0


class _Memory:
    """Bytes reserved while a model runs; a model that needs more than there are runs alone."""

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
    """Return the bytes that a model may need, by the number of parameters that torchvision lists for it."""
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
    static, dynamic = (
        "".join(_line(name, rows[name]) for name in kept if name.startswith(_PREFIX) is is_dynamic)
        for is_dynamic in (False, True)
    )
    DOCUMENT.write_text(_HEAD + static + (_DYNAMIC_HEAD + dynamic if dynamic else ""))


def kept_rows(path: Path) -> dict[str, list[str]]:
    """Return the rows of a file; of several rows of a model the last one, or the last complete one."""
    rows: dict[str, list[str]] = {}
    for name, cells in re.findall(r"^\| (\S+) \| (.*) \|$", path.read_text() if path.exists() else "", re.M):
        row = cells.split(" | ")
        if name != "model" and (is_done(row) or not is_done(rows.get(name, []))):
            rows[name] = row
    return rows


def is_done(row: list[str]) -> bool:
    """Return whether a row is complete: that of a model with dynamic sizes has four numbers, another row a precision
    and two numbers."""
    numbers = row[:-1] if len(row) == 5 else row[1:3]
    return len(row) in (4, 5) and all(re.fullmatch(rf"\d\.\de[+-]\d\d|{_REFUSED}", cell) for cell in numbers)


def outcomes(name: str, seconds: int) -> list[str]:
    """Return the cells of a row before the version: the precision of a model and the difference of each import path,
    or the differences of a model with dynamic sizes."""
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
    """Send the precision and the outcome of each import path."""
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
    """Send the difference in single precision and the three in bfloat16, or the errors in their place."""
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
    """Return whether PyTorch exports a model. The error otherwise may come from the model's own code."""
    import torch

    try:
        torch.export.export(model, tuple(inputs))
    except Exception:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
