"""Modules of C source, for code generators that write C."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....error import TVMError
from ....runtime import _lib, link
from ....runtime.module import JitCode, Module, from_code, load_module
from ....runtime.ndarray import elements

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def c_source_module(
    source: str, names: Iterable[str], constants: Mapping[str, Any] | None = None, options: Sequence[str] = ()
) -> Module:
    """Return a module of C source, which is compiled at the first call of a function.

    Each function has the signature of ``TVMBackendPackedCFunc`` in ``tvm_runtime.h`` and returns 0, or -1 for an error.
    ``export_library`` links the source into the library of the model, with its C compiler.

    Parameters
    ----------
    source : str
        The C source.
    names : iterable of str
        The names of the packed functions in the source.
    constants : dict of str to NDArray, optional
        Arrays that are defined after the source: it declares ``extern const unsigned long long NAME[];`` and casts the
        address. They become text; weights of more than a few megabytes should be inputs of the partition instead
        (``PartitionGraph(bind_constants=False)``).
    options : sequence of str, optional
        Options of the C compiler for code that is compiled in this process.

    Returns
    -------
    Module

    Raises
    ------
    TVMError
        A name is not a C identifier, or does not occur in the source.
    """
    functions = tuple(names)
    for name in (*functions, *(constants or ())):
        if not _NAME.fullmatch(name):
            raise TVMError(f"c_source_module: '{name}' is not a C identifier")
        if name not in source:
            raise TVMError(f"c_source_module: the source does not contain '{name}'")
    text = "\n".join([source.rstrip("\n"), *(_definition(*pair) for pair in (constants or {}).items()), ""])

    def compiled(output: str, folder: str, *flags: str) -> None:
        path = os.path.join(folder, "partition.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        command = [*link.find_compiler(), "-O2", "-fPIC", *link.source_flags(), *options, *flags, "-o", output, path]
        link.run_compiler([*command, "-lm"] if "-shared" in flags else command, "compiling the C source of a partition")

    def load() -> JitCode:
        with tempfile.TemporaryDirectory(prefix="tvm-partition-") as folder:
            path = os.path.join(folder, "partition.so")
            compiled(path, folder, "-shared")
            library = load_module(path)
        found = {name: _lib.lib.TVMModGetSymbol(library.handle, name.encode()) for name in functions}
        missing = [name for name, address in found.items() if not address]
        if missing:
            raise TVMError(f"c_source_module: the compiled source does not export the function '{missing[0]}'")
        return JitCode(found, keepalive=library)

    def save(path: str, fmt: str = "") -> None:
        kind = fmt or os.path.splitext(path)[1].lstrip(".")
        if kind in ("o", "obj"):
            with tempfile.TemporaryDirectory(prefix="tvm-partition-") as folder:
                compiled(path, folder, "-c")
        elif kind == "c":
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            raise TVMError(f"c_source_module: cannot write format '{kind}'; the formats are c and o")

    return from_code(load, functions, type_key="c_source", format="c", source=lambda fmt: text, save=save)


def _definition(name: str, value: Any) -> str:
    """Return the definition of a constant as words of eight bytes, which compilers read faster than single bytes."""
    data = bytes(memoryview(elements(value).reshape(-1).view("uint8")))
    data += b"\0" * (-len(data) % 8 or (0 if data else 8))
    words = (int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8))
    return f"const unsigned long long {name}[{len(data) // 8}] = {{{', '.join(f'0x{w:x}ull' for w in words)}}};"


__all__ = ["c_source_module"]
