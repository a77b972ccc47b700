"""Run a sample of the tests as on other machines, as far as this machine can emulate them, and write
docs/everywhere.md.

A row of the table is one other machine: an older x86 CPU under qemu-user, other numbers of threads, an address space
with large mappings, other versions of Python, an unprivileged user, no network, no optional packages. A row that cannot
run here keeps its last result, and a line prints what is missing. The exit code is 1 if a row failed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "everywhere.md"
BUILD = ROOT / "build" / "everywhere"
# Folders of tests that compile and run code; under an emulator, collecting all tests takes longer than running a
# sample.
KERNELS = ("tests/codegen", "tests/topi", "tests/relay/op", "tests/driver", "tests/te")
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
HEAD = ("as on", "tests", "result", "seconds", "date", "this machine")


class Missing(Exception):
    """This machine lacks something that a row needs."""


class Row(NamedTuple):
    """One other machine.

    ``command(tests)`` runs pytest as on that machine, with ``environment`` added to the variables of this process.
    ``emulated`` rows run a tenth of the sample, from the folders KERNELS.
    """

    command: Callable[[list[str]], list[str]]
    environment: dict[str, str] = {}
    emulated: bool = False


def pytest_with(python: str, *options: str) -> Callable[[list[str]], list[str]]:
    return lambda tests: [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests]


def needed(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise Missing(f"{program} (Debian package {package})")
    return path


def emulated(cpu: str) -> Callable[[list[str]], list[str]]:
    def command(tests: list[str]) -> list[str]:
        if platform.machine() != "x86_64":
            raise Missing("an x86-64 Python")
        return [needed("qemu-x86_64", "qemu-user"), "-cpu", cpu, *pytest_with(sys.executable)(tests)]

    return command


def interpreter(version: str) -> str:
    """Return a Python of the version: from PATH, or installed by pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    for path in (*map(str, installed), shutil.which(f"python{version}")):
        if path and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
            return path
    raise Missing(f"Python {version}")


def made_environment(python: str, folder: Path, *options: str) -> str:
    """The interpreter of an environment in a folder, with the packages that tests need."""
    command = [python, ROOT / "tools" / "environment.py", *options, folder, "test"]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        raise Missing(f"packages for {python}: {made.stderr.strip().splitlines()[-1:]}")
    return str(folder / "bin" / "python")


def with_version(version: str, *options: str) -> Callable[[list[str]], list[str]]:
    """Tests with a version of Python; ``options`` are those of tools/environment.py."""

    def command(tests: list[str]) -> list[str]:
        folder = BUILD / "-".join((f"python{version}", *(option.strip("-") for option in options)))
        python = made_environment(interpreter(version), folder, *options)
        return pytest_with(python, "-n", "2")(tests)

    return command


def as_user(tests: list[str]) -> list[str]:
    """Run tests as a user who may write into a temporary folder, but not into the tree or a home folder."""
    if os.geteuid():
        raise Missing("root, who can run tests as another user")
    folder = BUILD / "user"
    python = "/usr/bin/python3"  # other users may not read packages in a home folder
    if not os.path.exists(python):
        raise Missing(python)
    own_python = made_environment(python, folder)
    folder_of_user = tempfile.mkdtemp(prefix="tvm-user-")
    os.chmod(folder_of_user, 0o777)
    drop = [needed("setpriv", "util-linux"), "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    own = ["env", "HOME=/nonexistent", f"TMPDIR={folder_of_user}", "PYTHONDONTWRITEBYTECODE=1"]
    return [*drop, *own, *pytest_with(own_python, "-n", "2")(tests)]


def without_network(tests: list[str]) -> list[str]:
    options = ["--net"] if os.geteuid() == 0 else ["--map-root-user", "--net"]
    # The loopback interface of a new network namespace is down: SIOCSIFFLAGS sets IFF_UP and IFF_RUNNING.
    start = (
        "import fcntl, os, socket, struct, sys\n"
        "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0x41))\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    run_tests = pytest_with(sys.executable, "-n", "2")(tests)
    return [needed("unshare", "util-linux"), *options, sys.executable, "-c", start, *run_tests]


def as_machine(name: str) -> Callable[[list[str]], list[str]]:
    """Run tests on an x86 machine that ``tests/machines.py`` emulates and whose code this machine can run."""

    def command(tests: list[str]) -> list[str]:
        if platform.machine() != "x86_64":
            raise Missing("an x86-64 CPU")
        return [sys.executable, "-m", "tests.machines", name, *pytest_with(sys.executable, "-n", "2")(tests)[2:]]

    return command


def rows() -> dict[str, Row]:
    here = pytest_with(sys.executable, "-n", "2")
    return {
        "this machine": Row(here),
        "x86-64 without AVX (Westmere, qemu-user)": Row(emulated("Westmere"), emulated=True),
        "x86-64 with AVX (SandyBridge, qemu-user)": Row(emulated("SandyBridge"), emulated=True),
        "x86-64 with AVX2 (Haswell, qemu-user)": Row(emulated("Haswell"), emulated=True),
        "1 thread": Row(here, {"TVM_NUM_THREADS": "1"}),
        "16 threads": Row(here, {"TVM_NUM_THREADS": "16"}),
        "Zen 3 with 64 cores (TVM_HOST_CPU)": Row(as_machine("zen3")),
        "one core with AVX2 (TVM_HOST_CPU)": Row(as_machine("one-core")),
        "large mappings in the process": Row(pytest_with(sys.executable, "-p", "tests.far_mappings", "-n", "2")),
        "an ordinary user without a home folder": Row(as_user),
        "no network": Row(without_network),
        **{f"Python {version}": Row(with_version(version)) for version in VERSIONS},
        f"Python {VERSIONS[0]}, lowest versions of packages": Row(with_version(VERSIONS[0], "--lowest")),
    }


def drawn_files(seed: int, count: int) -> list[str]:
    """Return test files of the folders that compile code."""
    files = sorted(str(p.relative_to(ROOT)) for folder in KERNELS for p in (ROOT / folder).rglob("test_*.py"))
    return sorted(random.Random(seed).sample(files, count))


def run(row: Row, seed: int, sample: int) -> tuple[str, float, int]:
    """Return the last line of pytest, the seconds, and the exit code."""
    tests, size = (drawn_files(seed, 6), max(sample // 10, 1)) if row.emulated else (["tests"], sample)
    environment = {**os.environ, **row.environment, "TVM_TEST_SAMPLE": str(size), "TVM_TEST_SEED": str(seed)}
    command, begin = row.command(tests), time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE)
    last = ""
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(r"^(FAILED|ERROR) ", line):
            print(f"  {line}", end="", flush=True)
        if re.search(r"\d+ (passed|failed|skipped|error)", line):
            last = line.strip().strip("=").strip()
    return re.sub(r",? in [\d.]+s.*|, \d+ warnings?", "", last), time.monotonic() - begin, process.wait()


def described() -> str:
    """Return the machine name of a result."""
    from tvm.target import Target
    from tvm.target.cpu import resolve_cpu

    return f"{resolve_cpu(Target('llvm')).cpu}, {os.cpu_count()} cores, Python {platform.python_version()}"


def read_table(text: str) -> dict[str, tuple[str, ...]]:
    """Return the rows of the existing table."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return {row[0]: row for row in cells if len(row) == len(HEAD) and row != HEAD}


def table(results: dict[str, tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    lines += [f"| {' | '.join(results[name])} |" for name in rows() if name in results]
    return (
        "# The tests as on other machines\n\n"
        "This page lists the machines as which the test suite has run, for users who want to know what is tested.\n"
        "`python -m tools everywhere` runs a random sample of the suite as on each machine and replaces the rows that\n"
        "it ran. Kernels for Arm and RISC-V are in [cross_tests](cross_tests.md), GPUs in [cuda_tests](cuda_tests.md)\n"
        "and [opencl_tests](opencl_tests.md).\n\n"
        + "\n".join(lines) + "\n"
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools everywhere", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="WORDS", help="only rows whose name contains these words")
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="number of tests of a row (default: 300)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of the sample (default: the time)")
    parser.add_argument("--list", action="store_true", help="print the rows and run nothing")
    args = parser.parse_args(arguments)
    chosen = {name: row for name, row in rows().items() if args.only.lower() in name.lower()}
    if not chosen:
        parser.error(f"no row contains '{args.only}'; --list prints them")
    if args.list:
        print("\n".join(chosen))
        return 0
    results = read_table(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    print(f"seed {args.seed}")
    machine, today, failed = described(), datetime.date.today().isoformat(), []
    for name, row in chosen.items():
        try:
            outcome, seconds, status = run(row, args.seed, args.sample)
        except Missing as missing:
            print(f"{name}: left out, this machine lacks {missing}")
            continue
        if status:
            failed.append(name)
        result = "failed" if status else "passed"
        print(f"{name}: {result}, {outcome or 'no test ran'}, {seconds:.0f} s", flush=True)
        results[name] = (name, outcome, result, f"{seconds:.0f}", today, machine)
        TABLE.write_text(table(results), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
