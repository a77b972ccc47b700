"""Crash-safe files to which several processes append lines: tuning records and candidates."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...error import TVMError

RECORD_BEGIN = '{"input": '
_TAIL = 1 << 20


class RecordFile:
    """Append complete lines even if the process crashes, and report write errors clearly.

    ``begin`` is the start of each line; it identifies a line that was cut off by a crash.

    Parameters
    ----------
    path : str | os.PathLike
        The path of the file.
    begin : str, optional
        The start of each line.
    """

    def __init__(self, path: str | os.PathLike, begin: str = RECORD_BEGIN):
        self.path, self.begin = Path(path), begin.encode()

    def append(self, lines: Iterable[str]) -> None:
        """Append lines without interleaving lines of other processes.

        A record that a crash cut off is removed first; the file and its folder are created if they do not exist.

        Parameters
        ----------
        lines : Iterable[str]
            The lines without newlines; an empty iterable only checks whether the file is writable.

        Raises
        ------
        TVMError
            The file is not writable.
        """
        data = "".join(line + "\n" for line in lines).encode()
        try:
            if self.path.parent != Path("."):
                self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                with _alone_with(descriptor):
                    self._append(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise TVMError(
                f"cannot write tuning records to '{self.path}': {error.strerror}; records written before are kept"
            ) from None

    def is_cut_short(self) -> bool:
        """Whether the last line has no newline and is the start of a record.

        Returns
        -------
        bool
        """
        with open(self.path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - _TAIL, 0))
            return _cut_short(file.read(), self.begin) is not None

    def _append(self, descriptor: int, data: bytes) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            data = _mend(descriptor, self.begin) + data
        try:
            # Write all lines with one call: then only a crash during the call can leave an incomplete line.
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                _mend(descriptor, self.begin)
            raise


def _mend(descriptor: int, begin: bytes) -> bytes:
    """Remove a cut-off record at the end of a file; return the newline that an unfinished foreign line needs, if
    any."""
    size = os.fstat(descriptor).st_size
    start = max(size - _TAIL, 0)
    os.lseek(descriptor, start, os.SEEK_SET)
    tail = os.read(descriptor, size - start)
    if not tail or tail.endswith(b"\n"):
        return b""
    cut = _cut_short(tail, begin)
    if cut is None:
        return b"\n"
    os.ftruncate(descriptor, size - len(cut))
    return b""


def _cut_short(tail: bytes, begin: bytes) -> bytes | None:
    """Return the last line of a file if it is an incomplete record."""
    cut = tail[tail.rfind(b"\n") + 1 :]
    if not cut or not cut.startswith(begin[: len(cut)]):
        return None
    try:
        json.loads(cut)
    except ValueError:
        return cut
    return None


@contextlib.contextmanager
def _alone_with(descriptor: int) -> Iterator[None]:
    """Lock the file against other writers. On a file system without locks, only one writer is assumed."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except (ImportError, OSError):
        yield
        return
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


__all__ = ["RECORD_BEGIN", "RecordFile"]
