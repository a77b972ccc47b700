"""Files of lines that several processes append to and that a crash does not spoil: tuning records and candidates."""

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
    """Appends lines so that a crash at any moment leaves whole lines, and says clearly when it cannot write.

    ``begin`` is how each line of such a file begins: one that was cut short is known by it.

    Parameters
    ----------
    path : str | os.PathLike
        The file.
    begin : str, optional
        How each line begins.
    """

    def __init__(self, path: str | os.PathLike, begin: str = RECORD_BEGIN):
        self.path, self.begin = Path(path), begin.encode()

    def append(self, lines: Iterable[str]) -> None:
        """Append lines at once, with nothing of other processes between them. A record that a crash cut short is taken
        away first; file and folder are made where they are not there.

        Parameters
        ----------
        lines : Iterable[str]
            The lines, without their ends; none for finding out whether the file can be written to.

        Raises
        ------
        TVMError
            The file cannot be written to.
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
                f"tuning records cannot be written to '{self.path}': {error.strerror}; what was written before is kept"
            ) from None

    def is_cut_short(self) -> bool:
        """Whether the last line was never ended and is the beginning of a record.

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
            # One write for a batch of lines: it takes a crash in the middle of it to leave a line half written.
            while data:
                data = data[os.write(descriptor, data):]
        except OSError:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                _mend(descriptor, self.begin)
            raise


def _mend(descriptor: int, begin: bytes) -> bytes:
    """Take away a record that was cut short at the end of a file. What is not ours stays; the result ends its line."""
    size = os.fstat(descriptor).st_size
    start = max(size - _TAIL, 0)
    tail = os.pread(descriptor, size - start, start)
    if not tail or tail.endswith(b"\n"):
        return b""
    cut = _cut_short(tail, begin)
    if cut is None:
        return b"\n"
    os.ftruncate(descriptor, size - len(cut))
    return b""


def _cut_short(tail: bytes, begin: bytes) -> bytes | None:
    """The last line of a file where it is the beginning of a record and no more."""
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
    """Keep other writers of the file waiting. A file system without locks has one writer."""
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
