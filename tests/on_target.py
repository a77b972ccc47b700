"""The target that operator tests run on: ``TVM_TEST_ON=opencl`` runs them there, otherwise they run on ``llvm``. What
has no device here (``TVM_TEST_ON="cuda -arch=sm_80"``) is compiled, and its results are made on ``llvm``.

With ``TVM_TEST_SAMPLE=20`` a run keeps 20 of the tests it collects, chosen by its seed; with ``TVM_TEST_TABLE=path`` it
writes what came of each file of tests as a table.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import tvm

# Tests of what is only on CPUs: layouts in blocks, schedules of CPUs, and texts of machine code.
ONLY_CPU = ("tests/topi/cpu/", "tests/topi/test_schedule.py", "tests/relay/op/test_cpu_layout.py")
# Tests that are about GPUs wherever they run.
OF_GPUS = ("tests/topi/gpu/", "tests/topi/test_gpu_schedule.py", "tests/topi/test_on_gpu.py")

COLUMNS = ("passed", "failed", "xfailed", "skipped", "seconds")
def target() -> tvm.target.Target:
    """The target under test, with code for the host by LLVM."""
    name = os.environ.get("TVM_TEST_ON", "llvm")
    return tvm.target.Target(name) if name == "llvm" else tvm.target.Target(name, host="llvm")


def device():
    """The device of the target under test."""
    return tvm.device(target().kind.name, 0)


def only_compiles() -> bool:
    """Whether code for the target can be made but not run here."""
    return not is_cpu() and not device().exist


def is_cpu() -> bool:
    return os.environ.get("TVM_TEST_ON", "llvm") == "llvm"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not is_cpu():
        items[:] = [i for i in items if not i.nodeid.startswith(ONLY_CPU + OF_GPUS)]
    sample = int(os.environ.get("TVM_TEST_SAMPLE", "0"))
    if 0 < sample < len(items):
        chosen = set(random.Random(int(os.environ["TVM_TEST_SEED"])).sample([i.nodeid for i in items], sample))
        items[:] = [i for i in items if i.nodeid in chosen]


def pytest_terminal_summary(terminalreporter) -> None:
    path = os.environ.get("TVM_TEST_TABLE")
    if not path:
        return
    files: dict[str, dict[str, float]] = {}
    for outcome in ("passed", "failed", "xfailed", "skipped"):
        for report in terminalreporter.getreports(outcome):
            row = files.setdefault(report.nodeid.split("::")[0], dict.fromkeys(COLUMNS, 0.0))
            row[outcome] += 1
            row["seconds"] += getattr(report, "duration", 0)
    files = dict(sorted(files.items()))
    files["all"] = {c: sum(row[c] for row in files.values()) for c in COLUMNS}
    lines = ["| tests | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, row in files.items():
        lines.append("| " + " | ".join([name, *(f"{row[c]:.0f}" for c in COLUMNS)]) + " |")
    head = f"# Operator tests on {target().kind.name}\n\nWritten by `make test-opencl`; seconds are of one process.\n\n"
    Path(path).write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
