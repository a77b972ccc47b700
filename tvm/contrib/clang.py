"""Compilation of C sources to LLVM text, for ``pragma import_llvm``.

clang generates LLVM text. If only another C compiler is installed, its assembly is embedded in LLVM text: such
functions can be called but not inlined, and run only on this machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile

from ..error import TVMError
from ..runtime import link


def find_clang(required: bool = True) -> list[str]:
    """The names of the clang programs on this machine, newest first.

    Parameters
    ----------
    required : bool, optional
        Whether to raise an error if there is none.

    Returns
    -------
    list[str]

    Raises
    ------
    TVMError
        There is none, and ``required`` is true.
    """
    names = [f"clang-{n}" for n in range(22, 10, -1)] + ["clang"]
    found = [n for n in ([os.environ["CLANG"]] if os.environ.get("CLANG") else []) + names if shutil.which(n)]
    if not found and required:
        raise TVMError("clang was not found; install it (Debian: apt install clang) or set CLANG to its path")
    return found


def create_llvm(inputs, output=None, options=None, cc=None) -> str:
    """The LLVM text of a C or C++ source, given as text or as a file name; also written to ``output`` if named.

    Parameters
    ----------
    inputs : str or list of str
        The sources.
    output : str, optional
        The file that is written.
    options : list of str, optional
        Further options.
    cc : optional
        The compiler; without it, the first one found.

    Returns
    -------
    str

    Raises
    ------
    TVMError
        The number of sources is not one.
    """
    sources = [inputs] if isinstance(inputs, str) else list(inputs)
    if len(sources) != 1:
        raise TVMError("create_llvm takes one source; call it for each source")
    source = sources[0]
    if os.path.exists(source):
        with open(source, encoding="utf-8") as f:
            source = f.read()
    found = [cc] if cc else find_clang(required=False)
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        if found:
            text = _compile(folder, [found[0]], source, ["-emit-llvm", "-O2", "-S", *(options or ())])
        else:
            text = _wrapped(_compile(folder, link.find_compiler(), source, [*_ASSEMBLY_FLAGS, *(options or ())]))
    if output is not None:
        with open(output, "w", encoding="utf-8") as f:
            f.write(text)
    return text


_ASSEMBLY_FLAGS = (
    "-S", "-O2", "-fPIC", "-ffunction-sections", "-fno-asynchronous-unwind-tables", "-fno-exceptions",
)  # fmt: skip


def _compile(folder: str, compiler: list[str], source: str, flags: list[str]) -> str:
    """Return the output of the compiler for a source, compiled as C++ if it contains C++ syntax and as C otherwise."""
    plain = re.sub(r'extern\s+"C"\s+(?!\{)', "", source)
    kind = "c++" if 'extern "C"' in plain or re.search(r"\b(template|namespace|class|std::)", plain) else "c"
    path = os.path.join(folder, "input.cc" if kind == "c++" else "input.c")
    with open(path, "w", encoding="utf-8") as f:
        f.write(source if kind == "c++" else plain)
    result = os.path.join(folder, "output")
    link.run_compiler([*compiler, "-x", kind, *flags, "-o", result, path], "compiling C to LLVM text")
    with open(result, encoding="utf-8") as f:
        return f.read()


def _wrapped(assembly: str) -> str:
    """Embed assembly in LLVM text. A function that another import already defines is omitted, and labels are made
    unique, so that texts with common functions can be imported together."""
    mark = hashlib.sha256(assembly.encode()).hexdigest()[:12]
    assembly = re.sub(r"\.L([A-Za-z0-9_]+)", rf".L\1_{mark}", assembly)
    lines: list[str] = []
    for part in re.split(r"(?m)^(?=\s*\.section\b)", assembly):
        # gcc uses one syntax for x86 and the other for ARM.
        name = re.search(r"(?m)^\s*\.globa?l\s+(\S+)", part)
        if name:
            lines += [f".ifndef .Limported.{name[1]}", f".set .Limported.{name[1]}, 1"]
        lines += part.splitlines()
        if name:
            lines.append(".endif")
    quoted = (line.replace("\\", "\\5C").replace('"', "\\22").replace("\t", "\\09") for line in lines)
    return "".join(f'module asm "{line}"\n' for line in quoted)


__all__ = ["find_clang", "create_llvm"]
