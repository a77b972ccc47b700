"""The C and C++ compiler: linking, compiling, and querying its target machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..error import TVMError
from ..runtime import link


def get_cc() -> str | None:
    """The path of the default compiler, or None if there is none.

    Returns
    -------
    str
        The path of a C compiler, or None.
    """
    if sys.platform == "win32":
        return None
    for name in (os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang++", "clang", "c++", "cc"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def _files(objects: str | Sequence[str]) -> list[str]:
    return [objects] if isinstance(objects, str) else list(objects)


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
):
    """Link object files and sources into the shared library ``output``.

    Parameters
    ----------
    output : str
        The output file.
    objects : str | Sequence[str]
        Object files and sources.
    options : Sequence[str], optional
        Additional compiler options.
    cc : str, optional
        The compiler; by default, the first one found.
    """
    link.create_shared(output, _files(objects), options, cc)


create_shared.output_format = "dylib" if sys.platform == "darwin" else "dll" if sys.platform == "win32" else "so"


def create_executable(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
):
    """Link object files and sources into a program.

    Parameters
    ----------
    output : str
        The output file.
    objects : str | Sequence[str]
        Object files and sources.
    options : Sequence[str], optional
        Additional compiler options.
    cc : str, optional
        The compiler; by default, the first one found.
    """
    command = [*link.find_compiler(cc), "-o", output, *_files(objects), *(options or ()), "-lm"]
    link.run_compiler(command, f"linking {output}")


def create_staticlib(output: str, inputs: str | Sequence[str], ar: str | None = None):
    """Create the archive ``output`` of object files.

    Parameters
    ----------
    output : str
        The output file.
    inputs : str | Sequence[str]
        The object files.
    ar : str, optional
        The archiver.

    Raises
    ------
    TVMError
        No archiver is installed.
    """
    tool = ar or shutil.which("ar")
    if not tool or shutil.which(tool) is None:
        raise TVMError(
            "creating an archive needs the program 'ar' (Debian: apt install binutils), or another archiver "
            "passed as ar="
        )
    if os.path.exists(output):
        os.remove(output)
    link.run_compiler([tool, "qcs", output, *_files(inputs)], f"making {output}")


create_staticlib.output_format = "a"


def get_target_by_dump_machine(compiler: str) -> Callable[[], str | None]:
    """A function that queries the compiler's target triple.

    Parameters
    ----------
    compiler : str
        The compiler.

    Returns
    -------
    callable
    """

    def get_target_triple() -> str | None:
        if not compiler:
            return None
        try:
            return subprocess.check_output([*shlex.split(compiler), "-dumpmachine"], text=True).strip()
        except (OSError, subprocess.CalledProcessError) as error:
            raise TVMError(f"'{compiler} -dumpmachine' failed: {error}") from error

    return get_target_triple


create_shared.get_target_triple = get_target_by_dump_machine(os.environ.get("CXX") or os.environ.get("CC") or "gcc")


def cross_compiler(
    compile_func: str | Callable[..., Any],
    options: Sequence[str] | None = None,
    output_format: str | None = None,
    get_target_triple: Callable[[], str | None] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., Any]:
    """A function for ``export_library(fcompile=...)`` that links with another compiler, options and files.

    Code for another machine needs this only if neither gcc for that machine nor the package ziglang is to be used,
    which are found automatically.

    Parameters
    ----------
    compile_func : str | callable
        A compiler command with options ("zig cc -target aarch64-linux-gnu"), or a function such as ``create_shared``.
    options : Sequence[str], optional
        Additional compiler options.
    output_format : str, optional
        The suffix of the output file.
    get_target_triple : callable, optional
        Returns the triple of its target machine.
    add_files : Sequence[str], optional
        Additional files to link.

    Returns
    -------
    callable
    """
    base, extra = list(options or ()), list(add_files or ())
    name = compile_func if isinstance(compile_func, str) else None
    if output_format is None:
        output_format = getattr(compile_func, "output_format", "so") if name is None else "so"

    def compile_with(outputs, objects, options=None, **kwargs):
        flags = base + list(options or ())
        if name is not None:
            link.create_shared(outputs, _files(objects) + extra, flags, name)
        else:
            compile_func(outputs, _files(objects) + extra, options=flags, **kwargs)

    if get_target_triple is None:
        get_target_triple = (
            get_target_by_dump_machine(name) if name else getattr(compile_func, "get_target_triple", None)
        )
    compile_with.output_format = output_format
    compile_with.get_target_triple = get_target_triple
    return compile_with
