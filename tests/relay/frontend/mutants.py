"""Damaged files, for importers: ``python -m tools fuzz FORMAT`` tries 20,000 of a format, a run of the tests a few."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm import arith, target
from tvm.runtime import host_cpu

MUTATIONS = int(os.environ.get("TVM_FUZZ_CASES", "60"))
# What stands at the edges of numbers, and what texts are made of.
_SPECIAL = b'\x00\x01\x7f\x80\xff0123456789-(),[]{}"'


def damaged(data: bytes, rng) -> bytes:
    """A file in one to three places of which bytes are others, left out, doubled or put in, or which is cut short."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(out) + 1)), int(rng.integers(8))
        if kind == 0 and at < len(out):
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 1 and at < len(out):
            out[at] = int(rng.integers(256))
        elif kind == 2 and at < len(out):
            out[at] = _SPECIAL[int(rng.integers(len(_SPECIAL)))]
        elif kind == 3:
            out[at : at + 4] = rng.bytes(4)
        elif kind == 4:
            del out[at : at + int(rng.integers(1, 20))]
        elif kind == 5:
            out[at:at] = out[at : at + int(rng.integers(1, 20))]
        elif kind == 6:
            out[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif rng.integers(4) == 0:
            del out[at:]
    return bytes(out)


# What Python announces where code is made or run, programs and libraries are loaded, files are changed, and where the
# network is used.
_ACTS = frozenset(
    "exec compile marshal.loads pickle.find_class code.__new__ function.__new__ os.system os.exec os.fork "
    "os.posix_spawn subprocess.Popen ctypes.dlopen socket.connect socket.bind os.remove os.rename os.rmdir os.mkdir "
    "os.symlink".split()
)
# Who may: the import of modules, the compiler of simplification rules, and what finds out about this machine.
_OWN = ("<frozen importlib", *(os.path.dirname(package.__file__) for package in (arith, target)), host_cpu.__file__)
_WATCHES: list[tuple[Path | None, list[str]]] = []


@contextmanager
def watched(folder: Path | None = None) -> Iterator[None]:
    """Fail if what is done inside opens a file that is not below ``folder``, or runs code, as Python's audit events
    say."""
    found: list[str] = []
    _WATCHES.append((folder, found))
    try:
        yield
    finally:
        _WATCHES.pop()
    assert not found, found


def _is_own() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_OWN):
            return True
        frame = frame.f_back
    return False


def _is_below(folder: Path, path: str | bytes) -> bool:
    return Path(os.fsdecode(path)).resolve().is_relative_to(folder.resolve())


def _audit(event: str, args: tuple) -> None:
    if not _WATCHES or event != "open" and event not in _ACTS:
        return
    folder, found = _WATCHES[-1]
    # A number is a file that is open already.
    is_inside = event == "open" and (isinstance(args[0], int) or folder and _is_below(folder, args[0]))
    if not is_inside and not _is_own():
        found.append(f"{event} {args[0]!r}")


sys.addaudithook(_audit)
