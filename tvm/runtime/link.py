"""Finds and runs the C compiler that links libraries."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from ..error import TVMError
from . import host_cpu
from ._paths import include_path

# The first bytes of an object file, by format.
_FORMATS = {b"\x7fELF": "elf", b"\xcf\xfa\xed\xfe": "macho", b"\x64\x86": "coff", b"\x64\xaa": "coff"}
_HOST_FORMATS = {"linux": "elf", "darwin": "macho", "win32": "coff"}
# zig's names of the systems of object files that are not for Linux.
_ZIG_SYSTEMS = {"windows": "windows-gnu", "darwin": "macos"}

# C compilers first: the sources of the C back end are C, not C++.
_CANDIDATES = ("gcc", "clang", "cc", "g++", "clang++", "c++")


def source_flags() -> list[str]:
    """Return the options for C sources: without errno, a square root is one instruction; and ``tvm_runtime.h``, which
    code of other code generators includes."""
    return ["-fno-math-errno", "-I", include_path()]


_ZIG = [sys.executable, "-m", "ziglang", "cc"]


def _has_zig() -> bool:
    return importlib.util.find_spec("ziglang") is not None


def _how_to_get(name: str) -> str:
    """Return installation instructions for a compiler; the name of a cross compiler determines its package."""
    cross = re.fullmatch(r"(\w+-linux-\w+)-(gcc|g\+\+)(-\d+)?", os.path.basename(name))
    if cross is None:
        return "install it, or name another with cc= or CC"
    package = cross[1].replace("_", "-")
    return f"install it (Debian: apt install gcc-{package}), or use zig: pip install 'tvm-classic[cross]'"


# First parts of triples, as they occur in names of cross compilers.
_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64", "i386": "i686", "i486": "i686", "i586": "i686"}


def compilers_triple(triple: str) -> str:
    """Return a triple as used in names of cross compilers: without the vendor and with the plain architecture name.

    For example arm-linux-gnueabihf for armv7l-unknown-linux-gnueabihf."""
    first, *rest = triple.split("-")
    system = rest[rest.index("linux") :] if "linux" in rest else rest
    first = "arm" if host_cpu.arch_of(triple) == "arm" else _ARCHITECTURES.get(first, first)
    return "-".join([first, *(system if len(system) > 1 else [*system, "gnu"])])


def find_cross_compiler(triple: str) -> list[str]:
    """Return the command of a compiler that links for ``triple``: the native compiler if the host can run such code,
    else a gcc cross compiler, else the package ziglang."""
    if host_cpu.runs(triple):
        return find_compiler()
    name = compilers_triple(triple)
    found = shutil.which(f"{name}-gcc")
    if found:
        return [found]
    machine, system = host_cpu.machine_of(triple)
    is_linux = system == "linux" and "android" not in triple
    if (is_linux or system in _ZIG_SYSTEMS) and _has_zig():
        return [*_ZIG, "-target", name.replace("i686-", "x86-") if is_linux else f"{machine}-{_ZIG_SYSTEMS[system]}"]
    get = _how_to_get(f"{name}-gcc") if is_linux else "take one from the vendor of that system"
    if system in _ZIG_SYSTEMS:
        get = "use zig: pip install 'tvm-classic[cross]'"
    raise TVMError(
        f"linking code for {triple} needs a compiler for that machine, but none was found: {get}; or specify one: "
        "tvmc compile --cross-compiler COMMAND, in Python fcompile=tvm.contrib.cc.cross_compiler(COMMAND)"
    )


def find_compiler(asked: str | None = None) -> list[str]:
    """Return the compiler command: ``asked``, else CC or CXX, else a compiler on PATH, else the package ziglang."""
    for choice in (asked, os.environ.get("CC"), os.environ.get("CXX")):
        if choice:
            command = shlex.split(choice)
            if shutil.which(command[0]) is None:
                raise TVMError(f"the compiler '{choice}' was not found; {_how_to_get(command[0])}")
            return command
    for name in _CANDIDATES:
        found = shutil.which(name)
        if found:
            return [found]
    if _has_zig():
        return _ZIG
    raise TVMError(
        f"linking needs a C compiler, but none of {', '.join(_CANDIDATES)} is on PATH; install gcc (Debian: apt "
        "install gcc) or 'pip install ziglang', or set CC"
    )


def run_compiler(command: Sequence[str], what: str) -> None:
    """Run the command; the error of a failure contains the command and its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").strip()
        raise TVMError(f"{what} failed with status {done.returncode}\ncommand: {shlex.join(command)}\n{said}")


def format_of(files: Sequence[str]) -> str | None:
    """Return the format of the first object file: "elf", "macho" or "coff"; that of the host if there is none."""
    for path in files:
        if path.endswith((".o", ".obj")) and os.path.isfile(path):
            with open(path, "rb") as file:
                head = file.read(4)
            return next((name for magic, name in _FORMATS.items() if head.startswith(magic)), None)
    return _HOST_FORMATS.get(sys.platform)


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Link ``objects`` (object files, C sources, archives) into the shared library ``output``."""
    files = [objects] if isinstance(objects, str) else list(objects)
    flags = ["-shared", "-fPIC", "-O2", *(source_flags() if any(f.endswith(".c") for f in files) else ())]
    if format_of(files) == "elf":
        # -Bsymbolic: a function of the library that has the name of a C library function is called within the library.
        # No build id: it is a hash of the whole file, weights included, and takes several times as long as linking.
        flags += ["-Wl,-Bsymbolic", "-Wl,--build-id=none"]
    run_compiler([*find_compiler(cc), *flags, "-o", output, *files, *(options or ()), "-lm"], f"linking {output}")


create_shared.output_format = "so"


def combine_objects(
    output: str, objects: Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Combine object files and C sources into one relocatable object."""
    compiler, made = find_compiler(cc), []
    for source in objects:
        if source.endswith(".o"):
            made.append(source)
            continue
        made.append(source + ".o")
        flags = ["-fPIC", "-O2", *source_flags(), "-c"]
        run_compiler([*compiler, *flags, "-o", made[-1], source, *(options or ())], f"compiling {source}")
    run_compiler([*compiler, "-r", "-nostdlib", "-o", output, *made], f"combining {output}")
