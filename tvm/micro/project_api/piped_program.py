"""Run a program as a child process that reads requests from one pipe and writes replies to another."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from .server import IoTimeoutError, TransportClosedError, read_with_timeout, write_with_timeout

_CLOSE_SECONDS = 5.0
_POLL_SECONDS = 0.01


class PipedProgram:
    """A running program and the pipes to it.

    Parameters
    ----------
    process : subprocess.Popen
        The program.
    requests, replies : int
        File descriptors of the pipes.
    folder : TemporaryDirectory, optional
        The folder of named pipes.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], requests: int, replies: int,
        folder: tempfile.TemporaryDirectory[str] | None = None,
    ):  # fmt: skip
        self._process, self._requests, self._replies, self._folder = process, requests, replies, folder

    @classmethod
    def by_console(cls, command: Sequence[str], start_sec: float) -> PipedProgram:
        """Start a program that reads its standard input and writes its standard output.

        Parameters
        ----------
        command : sequence of str
            The command.
        start_sec : float
            The time limit of the start; ignored, because the pipes exist before the program starts.

        Returns
        -------
        PipedProgram
            The running program.
        """
        requests, replies = os.pipe(), os.pipe()
        process = subprocess.Popen(command, stdin=requests[0], stdout=replies[1])
        os.close(requests[0])
        os.close(replies[1])
        return cls(process, requests[1], replies[0])

    @classmethod
    def by_name(cls, command: Sequence[str], start_sec: float) -> PipedProgram:
        """Start a program that opens the pipes ``requests`` and ``replies`` in its folder.

        Parameters
        ----------
        command : sequence of str
            The command.
        start_sec : float
            The time limit until the program opens the pipes.

        Returns
        -------
        PipedProgram
            The running program.

        Raises
        ------
        IoTimeoutError
            The program did not open the pipes in time.
        TransportClosedError
            The program ended before.
        """
        if not hasattr(os, "mkfifo"):
            raise TransportClosedError(f"named pipes are not supported on {sys.platform}; use Linux or macOS")
        folder = tempfile.TemporaryDirectory(prefix="tvm-")
        names = [Path(folder.name, name) for name in ("requests", "replies")]
        for name in names:
            os.mkfifo(name)
        replies = os.open(names[1], os.O_RDONLY | os.O_NONBLOCK)
        process = subprocess.Popen(command, cwd=folder.name, stdin=subprocess.DEVNULL)
        program = cls(process, -1, replies, folder)
        end = time.monotonic() + start_sec
        while True:
            try:
                program._requests = os.open(names[0], os.O_WRONLY | os.O_NONBLOCK)
                return program
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
            status = process.poll()
            if status is not None or time.monotonic() > end:
                program.close()
                if status is not None:
                    raise TransportClosedError(f"the program ended at its start with status {status}")
                raise IoTimeoutError(f"the program did not open its pipes within {start_sec:g} s")
            time.sleep(_POLL_SECONDS)

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        """Read from the program.

        Parameters
        ----------
        n : int
            The number of bytes.
        timeout_sec : float, optional
            The time limit.

        Returns
        -------
        bytes
            Exactly ``n`` bytes.
        """
        with self._with_status():
            return read_with_timeout(self._replies, n, timeout_sec)

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        """Write to the program.

        Parameters
        ----------
        data : bytes
            The bytes.
        timeout_sec : float, optional
            The time limit.
        """
        with self._with_status():
            write_with_timeout(self._requests, data, timeout_sec)

    @contextlib.contextmanager
    def _with_status(self) -> Generator[None, None, None]:
        """Add the exit status to the error if the program has ended."""
        try:
            yield
        except TransportClosedError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(_CLOSE_SECONDS)
                raise TransportClosedError(f"the program ended with status {status}") from None
            raise

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait(_CLOSE_SECONDS)
        for pipe in (self._requests, self._replies):
            if pipe >= 0:
                os.close(pipe)
        if self._folder is not None:
            self._folder.cleanup()
