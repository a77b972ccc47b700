"""Transports: byte streams to programs on a device. ``TransportLogger`` wraps a transport and logs its calls."""

from __future__ import annotations

import abc
import contextlib
import logging
from typing import Any

from .project_api.server import IoTimeoutError, TransportClosedError, TransportTimeouts

_logger = logging.getLogger(__name__)
_LOGGED_BYTES = 32


def debug_transport_timeouts(session_start_retry_timeout_sec: float = 0) -> TransportTimeouts:
    """Return time limits for a program under a debugger: reads and writes have no limit.

    Parameters
    ----------
    session_start_retry_timeout_sec : float, optional
        The time between attempts to connect, in seconds.

    Returns
    -------
    TransportTimeouts
        The time limits.
    """
    return TransportTimeouts(session_start_retry_timeout_sec, 0, 0)


class Transport(abc.ABC):
    """A byte stream to a program. As a context manager, it opens and closes the stream."""

    def __enter__(self) -> Transport:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @abc.abstractmethod
    def timeouts(self) -> TransportTimeouts:
        """Return the time limits of this transport.

        Returns
        -------
        TransportTimeouts
            The time limits.
        """

    @abc.abstractmethod
    def open(self) -> None:
        """Open the stream."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the stream."""

    @abc.abstractmethod
    def read(self, n: int, timeout_sec: float | None) -> bytes:
        """Read bytes.

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

    @abc.abstractmethod
    def write(self, data: bytes, timeout_sec: float | None) -> None:
        """Write bytes.

        Parameters
        ----------
        data : bytes
            The bytes.
        timeout_sec : float, optional
            The time limit.
        """


class TransportLogger(Transport):
    """A transport that forwards all calls to another transport and logs them.

    Parameters
    ----------
    name : str
        The name in the log.
    child : Transport
        The logged transport.
    logger : logging.Logger, optional
        The logger.
    level : int, optional
        The level of the messages.
    """

    def __init__(self, name: str, child: Transport, logger: logging.Logger | None = None, level: int = logging.INFO):
        self.name, self.child, self.logger, self.level = name, child, logger or _logger, level

    def _log(self, text: str, *args: Any) -> None:
        self.logger.log(self.level, "%s: " + text, self.name, *args)

    def timeouts(self) -> TransportTimeouts:
        return self.child.timeouts()

    def open(self) -> None:
        self._log("opening transport")
        self.child.open()

    def close(self) -> None:
        self._log("closing transport")
        self.child.close()

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        with self._logged_errors(f"read of {n} bytes"):
            data = self.child.read(n, timeout_sec)
        self._log("read %s", _shown(data))
        return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        with self._logged_errors(f"write of {len(data)} bytes"):
            self.child.write(data, timeout_sec)
        self._log("write %s", _shown(data))

    @contextlib.contextmanager
    def _logged_errors(self, what: str):
        try:
            yield
        except IoTimeoutError:
            self._log("%s exceeded its time limit", what)
            raise
        except TransportClosedError:
            self._log("%s failed: the transport is closed", what)
            raise


def _shown(data: bytes) -> str:
    """Return a summary for the log: the number of bytes, and the first bytes in hexadecimal."""
    dots = " ..." if len(data) > _LOGGED_BYTES else ""
    return f"{len(data)} bytes: {data[:_LOGGED_BYTES].hex(' ')}{dots}"


TransportContextManager = contextlib.AbstractContextManager[Transport]
