"""Build the C runtime for Linux, Windows and macOS with zig, check the libraries, and run the C tests under an emulator
where this machine has one: python tools/platforms.py [--only TEXT] (python -m tools test platforms).

Needs the package ziglang in this interpreter. Wine runs programs of x86-64 Windows, qemu-user those of aarch64 Linux;
nothing here runs programs of macOS.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parent.parent))
import binaries
import platform_model

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
# glibc of CentOS 7, the version of manylinux2014.
GLIBC = "2.17"
# Libraries that every Windows 10 and every macOS contains.
_SYSTEM = re.compile(r"(api-ms-win-[\w-]+|kernel32|ws2_32)\.dll|/usr/lib/libSystem\.B\.dylib", re.IGNORECASE)
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class Platform(NamedTuple):
    """A platform of the wheels. ``tag`` is its tag in the names of wheels, ``target`` its name for zig, ``files`` the
    files of the runtime, and ``emulator`` the commands that run its programs here."""

    tag: str
    target: str
    files: tuple[str, ...]
    emulator: tuple[str, ...] = ()

    @property
    def machine(self) -> str:
        return self.target.partition("-")[0]

    @property
    def is_linux(self) -> bool:
        return "-linux-" in self.target

    @property
    def is_host(self) -> bool:
        host = _MACHINES.get(platform.machine().lower(), platform.machine())
        return self.is_linux and sys.platform == "linux" and self.machine == host


_LINUX = ("libtvm_runtime.so", "tvm_rpc_server")
_MACOS = ("libtvm_runtime.dylib", "tvm_rpc_server")
_WINDOWS = ("tvm_runtime.dll",)
_GLIBC_TAG = f"manylinux_{GLIBC.replace('.', '_')}"
PLATFORMS = (
    Platform(f"{_GLIBC_TAG}_x86_64", f"x86_64-linux-gnu.{GLIBC}", _LINUX, ("qemu-x86_64",)),
    Platform(f"{_GLIBC_TAG}_aarch64", f"aarch64-linux-gnu.{GLIBC}", _LINUX, ("qemu-aarch64", "qemu-aarch64-static")),
    Platform("win_amd64", "x86_64-windows-gnu", _WINDOWS, ("wine64", "wine", "/usr/lib/wine/wine64")),
    Platform("win_arm64", "aarch64-windows-gnu", _WINDOWS),
    Platform("macosx_10_13_x86_64", "x86_64-macos.10.13", _MACOS),
    Platform("macosx_11_0_arm64", "aarch64-macos.11.0", _MACOS),
)


def chosen(text: str) -> tuple[Platform, ...]:
    """Return the platforms whose tag or zig target contains ``text``.

    Raises
    ------
    ValueError
        There is none.
    """
    found = tuple(item for item in PLATFORMS if text in item.tag or text in item.target)
    if not found:
        raise ValueError(f"no platform contains '{text}'; there are {', '.join(item.tag for item in PLATFORMS)}")
    return found


def make(item: Platform, folder: Path, *goals: str) -> None:
    """Run make in ``csrc`` for a platform; the files are written to ``folder``."""
    # Without symbols: zig adds its own library of arithmetic with debug information.
    strip = " -s" if item.is_linux else ""
    settings = [f"CROSS={item.target}", f"PYTHON={sys.executable}", f"TVM_LIB_DIR={folder}", f"TVM_BUILD_DIR={folder}",
                f"OPT=-O3 -DNDEBUG -g0{strip}", "WARN=-w"]  # fmt: skip
    subprocess.run(["make", "--silent", "-C", CSRC, *settings, *goals], check=True)


def build(item: Platform, folder: Path) -> list[Path]:
    """Build the runtime for a platform and return its files."""
    make(item, folder, "lib")
    return [folder / name for name in item.files]


def declared_functions() -> set[str]:
    """Return the functions of the public header."""
    header = (CSRC / "include" / "tvm_runtime.h").read_text(encoding="utf-8")
    return set(re.findall(r"^TVM_DLL .*?\b(TVM\w+)\(", header, re.MULTILINE))


def problems_of(library: Path, machine: str, functions: set[str]) -> list[str]:
    """Return what is wrong with a library of Windows or macOS: its processor, missing and additional exports, imports
    from libraries that are no part of the system."""
    found = binaries.read(library)
    problems = [] if found.machine == machine else [f"built for {found.machine} instead of {machine}"]
    ours = {name for name in found.exports if name.startswith("TVM")}
    problems += [f"does not export {name}" for name in sorted(functions - found.exports)]
    problems += [f"exports {name}, which the header does not declare" for name in sorted(ours - functions)]
    for origin, names in found.imports.items():
        if not _SYSTEM.fullmatch(origin):
            problems += [f"imports {name} from {origin or 'no library'}" for name in sorted(names)]
    return problems


def emulator_of(item: Platform) -> list[str] | None:
    """Return the command that runs programs of a platform here, or None."""
    if item.is_host:
        return []
    found = next(filter(None, map(shutil.which, item.emulator)), None)
    if found is None:
        return None
    sysroot = Path("/usr") / f"{item.machine}-linux-gnu"
    return [found, "-L", str(sysroot)] if item.is_linux else [found]


def test(item: Platform, folder: Path, emulator: list[str]) -> tuple[int, int]:
    """Build and run the C tests; return the number of programs and of test functions that passed.

    Raises
    ------
    RuntimeError
        A program failed.
    """
    # The server forks, and qemu does not emulate all that its tests need.
    sources = [path.stem for path in sorted((CSRC / "tests").glob("test_*.c")) if path.stem != "test_rpc"]
    fakes = [path.stem for path in (CSRC / "tests").glob("fake_*.c")]
    suffix = "" if item.is_linux else ".exe"
    goals = [*(f"{name}{suffix}" for name in sources), *(f"{name}.so" for name in fakes), "kernel.so", "kernel.o"]
    make(item, folder, *(str(folder / goal) for goal in goals))
    environment: Mapping[str, str] = {**os.environ, **({"TVM_TEST_EMULATED": "1"} if emulator else {})}
    passed = 0
    for name in sources:
        command = [*emulator, str(folder / f"{name}{suffix}"), str(folder / "kernel.so")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
        if done.returncode:
            raise RuntimeError(
                f"{name} failed with status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        passed += len(re.findall(r"^ok ", done.stdout, re.MULTILINE))
    return len(sources), passed


def check(item: Platform, folder: Path) -> tuple[str, bool]:
    """Build, check and test the runtime for a platform; return a line of text and whether all is well."""
    try:
        library = build(item, folder)[0]
        problems = [] if item.is_linux else problems_of(library, item.machine, declared_functions())
        if problems:
            return "; ".join(problems), False
        size = f"{library.name} {library.stat().st_size / 1000:.0f} kB"
        emulator = emulator_of(item)
        if emulator is None:
            return f"{size}; built and checked, nothing here runs its programs", True
        programs, passed = test(item, folder, emulator)
        error = platform_model.run(item.target, library, emulator)
        if not error <= 1e-5:
            return f"a model compiled for {item.target} differs from NumPy by {error:g}", False
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, RuntimeError, ValueError) as error:
        return str(error), False
    how = f"under {Path(emulator[0]).name}" if emulator else "here"
    return f"{size}; {programs} C test programs with {passed} tests and a model pass {how}", True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="", help="platforms whose tag or zig target contains this text")
    given = parser.parse_args()
    try:
        platforms = chosen(given.only)
    except ValueError as error:
        parser.error(str(error))
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(ROOT / "build" / "zig"))
    os.environ |= {"WINEDEBUG": "-all", "WINEPREFIX": str(ROOT / "build" / "wine")}
    failed = False
    for item in platforms:
        text, fine = check(item, ROOT / "build" / "platforms" / item.tag)
        print(f"{item.tag:24} {'ok' if fine else 'FAILED':6} {text}", flush=True)
        failed |= not fine
    sys.exit(failed)


if __name__ == "__main__":
    main()
