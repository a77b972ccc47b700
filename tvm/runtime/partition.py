"""Partitions that the JSON runtime runs: loading them, and the libraries of their kernels."""

from __future__ import annotations

import os
import struct
import weakref
from typing import Any

from .module import WRAPPERS, CodeInfo, Module
from .registry import get_global_func

TYPE_KEY = "json_runtime"
MAGIC = b"TVMJSON1"


def load_kernel_library(path: str | os.PathLike[str]) -> None:
    """Load a shared library that implements kernels of the JSON runtime (``TVMKernelLibraryInit`` in
    ``tvm/kernel_library.h``).

    Parameters
    ----------
    path : str | os.PathLike[str]
        The file.
    """
    get_global_func("runtime.load_kernel_library")(os.path.abspath(path))


def load_partition(data: bytes) -> Module:
    """Return the module of a serialized partition."""
    return get_global_func(f"runtime.module.loadbinary_{TYPE_KEY}")(bytearray(data))


def _info(module: Module) -> CodeInfo:
    """Return the serialized form and the JSON text of a partition. They do not keep the module alive."""
    weak: Any = weakref.ref(module)

    def saved() -> bytes:
        return bytes(weak()["save_to_bytes"]())

    def text(fmt: str) -> str:
        data, at = saved(), len(MAGIC)
        (symbol_size,) = struct.unpack_from("<Q", data, at)
        (size,) = struct.unpack_from("<Q", data, at + 8 + symbol_size)
        start = at + 16 + symbol_size
        return data[start : start + size].decode()

    return CodeInfo(source=text, to_bytes=saved)


WRAPPERS[TYPE_KEY] = _info

__all__ = ["MAGIC", "load_kernel_library", "load_partition"]
