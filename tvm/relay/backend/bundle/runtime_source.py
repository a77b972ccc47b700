"""The C source of a bundle's runtime: the required files of the runtime as one text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ....error import TVMError

# The package folder comes first, because an installed package has no source tree.
_PACKAGE = Path(__file__).resolve().parents[3]
_FOLDERS = (_PACKAGE / "bundle_runtime", _PACKAGE.parent / "csrc")

_COMMON = (
    "src/system/posix_memory.c", "src/base/error.c", "src/base/tiles.c", "src/base/denormals.c",
    "src/core/workspace.c", "src/core/cpu_device.c", "src/core/ndarray.c", "src/core/check.c", "bundle/host.c",
    "bundle/bundle.c",
)  # fmt: skip
_OF_THREADS = ("src/system/posix_threads.c", "src/base/threadpool.c")
_OF_STATIC_MODELS = ("bundle/static_model.c",)
_OF_DYNAMIC_MODELS = (
    "src/base/map.c", "src/base/checksum.c", "src/core/registry.c", "src/core/params.c", "src/core/module.c",
    "src/vm/executable.c", "src/vm/memory.c", "src/vm/object.c", "src/vm/read.c", "src/vm/run.c",
    "bundle/vm_host.c", "bundle/vm_model.c",
)  # fmt: skip


def folder() -> Path:
    """Return the folder of the runtime's sources."""
    for found in _FOLDERS:
        if (found / "bundle" / "bundle.h").is_file():
            return found
    raise TVMError("the sources of the runtime were not found in " + ", ".join(map(str, _FOLDERS)))


def types_text() -> str:
    """Return the header with the types of bundles."""
    return (folder() / "include" / "tvm" / "bundle_types.h").read_text(encoding="utf-8")


def runtime_text(prefix: str, is_static: bool, threads: bool) -> str:
    """Return the runtime as C11 source. The global names start with ``prefix``, so that a program can contain several
    bundles."""
    files = (*_COMMON, *(_OF_STATIC_MODELS if is_static else _OF_DYNAMIC_MODELS))
    files = (*files, *(_OF_THREADS if threads else ("bundle/serial.c",)))
    body = _one_text([folder() / name for name in files])
    lines = ["#ifndef _GNU_SOURCE", "#define _GNU_SOURCE", "#endif", "#define TVM_DLL"]
    lines += [f"#define {name} {prefix}__{name}" for name in _global_names(body)]
    return "\n".join([*lines, "", body])


_INCLUDE = re.compile(r'^#include "(.*)"\n', re.MULTILINE)


def _one_text(files: Sequence[Path]) -> str:
    """Return the files as one text, with each of the runtime's headers inserted at its first use."""
    seen: set[Path] = set()

    def text_of(path: Path) -> str:
        text = path.read_text(encoding="utf-8")

        def insert(found: re.Match[str]) -> str:
            header = (path.parent / found[1]).resolve()
            if header in seen:
                return ""
            seen.add(header)
            return text_of(header)

        return _INCLUDE.sub(insert, text)

    return "\n".join(text_of(path.resolve()) for path in files)


# Definitions of functions and variables with external linkage begin in the first column.
_FUNCTION = re.compile(
    r"^(?!static|typedef|enum|#|extern|return|TVM_DLL static)[A-Za-z][\w ]*[ *]+(\w+)\([^;]*?\)\s*\{", re.MULTILINE
)
_VARIABLE = re.compile(r"^const [\w ]*[ *]+(\w+) = ", re.MULTILINE)


def _global_names(text: str) -> list[str]:
    return sorted({found[1] for pattern in (_FUNCTION, _VARIABLE) for found in pattern.finditer(text)})


__all__ = ["folder", "runtime_text", "types_text"]
