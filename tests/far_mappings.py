"""A process in which free memory is in small pieces that are 4 GiB from each other, as where the driver of a GPU has
mapped much: ``pytest -p tests.far_mappings`` runs tests in one. What is mapped together may then be far apart."""

from __future__ import annotations

import ctypes
import mmap
import sys

PIECES = 40
PIECE = 48 << 10
_DISTANCE = 4 << 30
_NO_RESERVE = 0x4000
_FAILED = ctypes.c_void_p(-1).value


def reserve(pieces: int = PIECES) -> None:
    """Reserve the address space of this process but for so many ``pieces``, and for what is below them."""
    if not sys.platform.startswith("linux"):
        raise OSError("address space is reserved by a call of Linux")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def block(size: int) -> int:
        at = libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE, -1, 0)
        if at == _FAILED:
            raise OSError(ctypes.get_errno(), "the address space of this process is limited")
        return at

    blocks = [block(_DISTANCE) for _ in range(pieces)]
    for bits in range(30, 11, -1):
        # The last block of each size is below the others.
        while block(1 << bits) > max(blocks):
            pass
    for at in blocks:
        libc.munmap(at + _DISTANCE // 2, PIECE)


def pytest_configure() -> None:
    reserve()
