"""The target that operator tests run on: ``TVM_TEST_ON=opencl`` runs them there, otherwise they run on ``llvm``. What
has no device here (``TVM_TEST_ON="cuda -arch=sm_80"``) is compiled, and its results are made on ``llvm``.

``TVM_TEST_ON=cuda python -m tests.cuda_emulator pytest ...`` runs them on the emulator of a GPU.

With ``TVM_TEST_SAMPLE=20`` a run keeps about 20 of the tests it collects, others with each seed until all have run, in
an order that is drawn too, and with ``TVM_TEST_SECONDS=30`` it begins no test after that time. With
``TVM_TEST_TABLE=path`` it writes the results of each file of tests as a table: one for each target the file is about.
"""

from __future__ import annotations

import os
import random
import time
from functools import cache
from pathlib import Path

import pytest

import tvm
import tvm.testing

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


def gpu() -> tvm.target.Target:
    """The target of tests that are about GPUs: the one under test, OpenCL where that is a CPU."""
    return tvm.target.Target("opencl", host="llvm") if is_cpu() else target()


def needs_gpu(test):
    """Marks a test that runs code of ``gpu()``."""
    if is_cpu():
        return tvm.testing.requires_opencl(test)
    return pytest.mark.skipif(only_compiles(), reason=f"there is no device for {target()} here")(test)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("TVM_CUDA_EMULATED"):
        from tests import cuda_emulator

        cuda_emulator.install()
    elif not is_cpu() and target().kind.name == "cuda":
        compile_once()


def compile_once() -> None:
    """Many tests make the same kernels: each text is compiled once in a process."""
    from tvm.codegen.cuda import nvrtc

    nvrtc.compile_all = cache(nvrtc.compile_all)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not is_cpu():
        items[:] = [i for i in items if not i.nodeid.startswith(ONLY_CPU + OF_GPUS)]
    sample = int(os.environ.get("TVM_TEST_SAMPLE", "0"))
    if 0 < sample < len(items):
        chosen = set(one_part([i.nodeid for i in items], sample, int(os.environ["TVM_TEST_SEED"])))
        items[:] = sorted((i for i in items if i.nodeid in chosen), key=lambda i: hash_of(i.nodeid))


def one_part(names: list[str], count: int, seed: int) -> list[str]:
    """About ``count`` of the names. In a row of seeds every name is chosen."""
    from tests.sampling import SAMPLES

    seed, parts = seed % SAMPLES, -(-len(names) // count)
    # The order is the same for ``parts`` successive seeds.
    mixed = random.Random(seed // parts).sample(sorted(names), len(names))
    return mixed[seed % parts :: parts]


def hash_of(name: str) -> float:
    """A number drawn for a name."""
    return random.Random(name + os.environ["TVM_TEST_SEED"]).random()


@cache
def started() -> float:
    """When the first test began; a machine that collects them slowly still runs some."""
    return time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    limit = os.environ.get("TVM_TEST_SECONDS")
    if limit and time.monotonic() - started() > float(limit):
        pytest.skip(f"the {limit} seconds of TVM_TEST_SECONDS are over")


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
    write_section(Path(path), str(os.environ["TVM_TEST_ON"]), "\n".join(lines))


def write_section(path: Path, title: str, table: str) -> None:
    """Put the table of one target in place of the one a file has for it."""
    kind = target().kind.name
    parts = path.read_text(encoding="utf-8").split("\n## ")[1:] if path.exists() else []
    sections = {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}
    where = ", on the emulator" if os.environ.get("TVM_CUDA_EMULATED") else ", compiled" if only_compiles() else ""
    sections[title + where] = table
    suites = ["cuda", "emulated"] if kind == "cuda" else [kind]
    makers = " and ".join(f"`python -m tools test {name}`" for name in suites)
    text = f"# Operator tests on {kind}\n\nThis page lists the operator tests that pass on {kind}, for users who "
    verb = "writes" if len(suites) == 1 else "write"
    text += f"choose a device.\n{makers} {verb} the tables; seconds are those of one process.\n"
    for name in sorted(sections):
        text += f"\n## {name}\n\n{sections[name]}\n"
    path.write_text(text, encoding="utf-8")
