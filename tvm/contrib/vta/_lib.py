"""Calls of ``libtvm_vta`` through ctypes. The library is loaded at the first use, and registers the device ext_dev."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

from ... import runtime
from ...error import TVMError
from .config import TARGETS, Config

_U32, _U64, _SIZE, _PTR = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
_CONFIG_NAMES = [field.name for field in fields(Config) if field.name != "target"]
STATS = ("inp_load_nbytes", "wgt_load_nbytes", "acc_load_nbytes", "uop_load_nbytes", "out_store_nbytes",
         "gemm_counter", "alu_counter", "instructions", "cycles", "load_busy", "compute_busy", "store_busy",
         "load_stall", "compute_stall", "store_stall", "dram_busy")  # fmt: skip


class _Config(ctypes.Structure):
    _fields_ = [("size", _U32), ("mode", _U32), *((name, _U32) for name in _CONFIG_NAMES)]


class _Stats(ctypes.Structure):
    _fields_ = [(name, _U64) for name in STATS]


_OBSERVER = ctypes.CFUNCTYPE(None, _PTR, _U32)
_SIGNATURES = {
    "VTASetObserver": (None, [_OBSERVER]),
    "VTALastError": (ctypes.c_char_p, []),
    "VTADefaultConfig": (None, [ctypes.POINTER(_Config)]),
    "VTAConfigure": (ctypes.c_int, [ctypes.POINTER(_Config)]),
    "VTAGetConfig": (None, [ctypes.POINTER(_Config)]),
    "VTAGetStats": (None, [ctypes.POINTER(_Stats)]),
    "VTAClearStats": (None, []),
    "VTASetSkip": (None, [ctypes.c_int]),
    "VTARun": (ctypes.c_int, [ctypes.c_char_p, _U32, _U64]),
    "VTADisassemble": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p, _SIZE]),
    "VTABufferAlloc": (_PTR, [_SIZE]),
    "VTABufferFree": (ctypes.c_int, [_PTR]),
    "VTADramBase": (_PTR, []),
}


def find_library() -> str:
    """The path of ``libtvm_vta``, next to the runtime library.

    Returns
    -------
    str
        The path.

    Raises
    ------
    TVMError
        The library does not exist.
    """
    name = "libtvm_vta.dylib" if sys.platform == "darwin" else "libtvm_vta.so"
    path = Path(__file__).parents[2] / "lib" / name
    if not path.is_file():
        raise TVMError(f"the simulator library {path} was not found; build it with 'make -C csrc' in the source tree")
    return os.fspath(path)


@functools.cache
def library() -> ctypes.CDLL:
    """Load the library once, make its functions visible to compiled code, and register ext_dev.

    Returns
    -------
    ctypes.CDLL
        The library, with declared functions.
    """
    path = find_library()
    opened = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(opened, name)
        function.restype, function.argtypes = result, arguments
    runtime.load_device_library(path)
    return opened


def address(name: str) -> int:
    """The address of a function of the library, for code that is compiled in this process.

    Parameters
    ----------
    name : str
        A function of ``csrc/vta/vta.h``.

    Returns
    -------
    int
        The address.
    """
    return ctypes.cast(getattr(library(), name), _PTR).value or 0


def _check(status: int) -> None:
    if status:
        raise TVMError(library().VTALastError().decode())


def configure(config: Config) -> None:
    values = {name: getattr(config, name) for name in _CONFIG_NAMES}
    _check(library().VTAConfigure(_Config(ctypes.sizeof(_Config), TARGETS.index(config.target), **values)))


def _read_config(function: str) -> Config:
    found = _Config()
    getattr(library(), function)(found)
    return Config(TARGETS[found.mode], *(getattr(found, name) for name in _CONFIG_NAMES))


def current_config() -> Config:
    return _read_config("VTAGetConfig")


def default_config() -> Config:
    return _read_config("VTADefaultConfig")


def stats() -> dict[str, int]:
    found = _Stats()
    library().VTAGetStats(found)
    return {name: getattr(found, name) for name in STATS}


def clear_stats() -> None:
    library().VTAClearStats()


def set_skip(skip: bool) -> None:
    library().VTASetSkip(skip)


def run(code: bytes, limit: int) -> None:
    _check(library().VTARun(code, len(code) // 16, limit))


def disassemble(code: bytes) -> str:
    text = ctypes.create_string_buffer(1024)
    library().VTADisassemble(code, text, len(text))
    return text.value.decode()


def read_dram(address: int, size: int) -> bytes:
    return ctypes.string_at(library().VTADramBase() + address, size)


@contextlib.contextmanager
def observed(function: Callable[[bytes], None]) -> Iterator[None]:
    """Pass the instructions of each program to a function before the program runs."""
    callback = _OBSERVER(lambda code, count: function(ctypes.string_at(code, 16 * count)))
    library().VTASetObserver(callback)
    try:
        yield
    finally:
        library().VTASetObserver(_OBSERVER())


class Buffer:
    """Bytes in DRAM, freed with the object."""

    def __init__(self, size: int) -> None:
        self._size = size
        found = library().VTABufferAlloc(size)
        _check(not found)
        self._pointer: int = found

    @property
    def address(self) -> int:
        """The physical address."""
        return self._pointer - library().VTADramBase()

    def write(self, data: bytes) -> None:
        if len(data) > self._size:
            raise ValueError(f"{len(data)} bytes do not fit a buffer of {self._size} bytes")
        ctypes.memmove(self._pointer, data, len(data))

    def read(self) -> bytes:
        return ctypes.string_at(self._pointer, self._size)

    def close(self) -> None:
        if self._pointer:
            _check(library().VTABufferFree(self._pointer))
            self._pointer = 0
