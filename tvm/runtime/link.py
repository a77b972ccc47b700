"""Finding and running the C compiler that links libraries."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from ..error import TVMError

# C compilers first: the sources of the C back end are C, not C++.
_CANDIDATES = ("gcc", "clang", "cc", "g++", "clang++", "c++")


# For C sources: without the first, a square root is an instruction and a call that sets errno.
SOURCE_FLAGS = ("-fno-math-errno",)


def find_compiler(asked: str | None = None) -> list[str]:
    """The command of the compiler: ``asked``, else CC or CXX, else what PATH has, else the package ziglang."""
    for choice in (asked, os.environ.get("CC"), os.environ.get("CXX")):
        if choice:
            command = shlex.split(choice)
            if shutil.which(command[0]) is None:
                raise TVMError(f"the compiler '{choice}' was not found; install it, or name another with cc= or CC")
            return command
    for name in _CANDIDATES:
        found = shutil.which(name)
        if found:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise TVMError(
        f"linking needs a C compiler, and none of {', '.join(_CANDIDATES)} is on PATH; install gcc (Debian: apt "
        "install gcc) or 'pip install ziglang', or set CC"
    )


def run_compiler(command: Sequence[str], what: str) -> None:
    """Run it; a failure is an error with the command and what it said."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").strip()
        raise TVMError(f"{what} failed with status {done.returncode}\ncommand: {shlex.join(command)}\n{said}")


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Link ``objects`` (object files, C sources, archives) into the shared library ``output``."""
    files = [objects] if isinstance(objects, str) else list(objects)
    flags = ["-shared", "-fPIC", "-O2", *(SOURCE_FLAGS if any(f.endswith(".c") for f in files) else ())]
    if sys.platform == "linux":
        # A function of the library that is named like one of the C library stays the library's own.
        flags.append("-Wl,-Bsymbolic")
    run_compiler([*find_compiler(cc), *flags, "-o", output, *files, *(options or ()), "-lm"], f"linking {output}")


create_shared.output_format = "so"


def combine_objects(
    output: str, objects: Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """One relocatable object of several object files and C sources."""
    compiler, made = find_compiler(cc), []
    for source in objects:
        if source.endswith(".o"):
            made.append(source)
            continue
        made.append(source + ".o")
        flags = ["-fPIC", "-O2", *SOURCE_FLAGS, "-c"]
        run_compiler([*compiler, *flags, "-o", made[-1], source, *(options or ())], f"compiling {source}")
    run_compiler([*compiler, "-r", "-nostdlib", "-o", output, *made], f"combining {output}")
