"""Open sessions with servers: by address, through a tracker, or with a server program that this process starts."""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

from ..error import RPCError, TVMError
from ..runtime import _lib
from . import base, relay
from .local import LocalSession
from .session import Connection, RPCSession


def connect(
    url: str,
    port: int,
    key: str = "",
    session_timeout: float = 0,
    session_constructor_args: Any = None,
    enable_logging: bool = False,
) -> RPCSession:
    """Open a session with the server at an address. If another client uses the device, wait for it.

    Parameters
    ----------
    url : str
        The address of the server.
    port : int
        The port of the server.
    key : str, optional
        The key of the server.
    session_timeout : float, optional
        The time limit of the session in seconds; 0 for no limit.
    session_constructor_args : list, optional
        Connect to a further server through the first one, which must be a ``tvm.rpc.Server``:
        ``["rpc.Connect", host, port, key]``. The key may be followed by a logging flag (ignored; ``enable_logging``
        decides) and the arguments of a further server.
    enable_logging : bool, optional
        Whether to log every message, at level INFO of the logger ``RPCMessages``.

    Returns
    -------
    RPCSession
        The session.

    Raises
    ------
    RPCError
        The session cannot be opened, or ``session_constructor_args`` is invalid.
    """
    what = f"the RPC server {url}:{port}"
    option = f" -timeout={session_timeout:g}" if session_timeout else ""
    sock = base.connect_to((url, int(port)))
    try:
        seconds, most, said = base.guarded(what, lambda: base.greet_server(sock, what, f"client:{key}{option}"))
        _check_runtime(what, said)
        session = _open(sock, most, seconds, what if enable_logging else "")
    finally:
        sock.close()
    onward = list(session_constructor_args or ())
    while onward:
        # The first five arguments are the name, host, port, key and logging flag; the arguments of the next server
        # follow.
        session = _behind(session, what, onward[:5], enable_logging)
        what, onward = f"the RPC server {onward[1]}:{onward[2]}", onward[5:]
    return session


def _behind(session: RPCSession, what: str, args: list, enable_logging: bool) -> RPCSession:
    sock, seconds, most, said = relay.behind(session, what, args)
    try:
        name = f"the RPC server {args[1]}:{args[2]}"
        _check_runtime(name, said)
        return _open(sock, most, seconds, name if enable_logging else "")
    finally:
        sock.close()


def _check_runtime(what: str, said: str) -> None:
    """Raise an error if the runtime of the device lacks functions that libraries compiled here may call."""
    theirs = re.search(r" -runtime=(\d+)\.(\d+)$", said)
    ours = _lib.runtime_interface()
    if theirs and not (int(theirs[1]) == ours[0] and int(theirs[2]) >= ours[1]):
        raise RPCError(
            f"{what} has runtime version {theirs[1]}.{theirs[2]} and this side has {ours[0]}.{ours[1]}, so code "
            "compiled here cannot run there: build the server from the release that is used here"
        )


# The server enforces the time limit of a session; the client's limit is longer and only detects a lost server.
_GRACE_SECONDS = 2.0


def _open(sock: socket.socket, most: int, seconds: float, logged_as: str = "") -> RPCSession:
    fd = relay.logged(sock, logged_as).detach() if logged_as else os.dup(sock.fileno())
    try:
        number = _lib.session_open(fd, most, seconds + _GRACE_SECONDS if seconds > 0 else 0.0)
    except BaseException:
        os.close(fd)
        raise
    return RPCSession(Connection(number))


class PopenSession(RPCSession):
    """A session with a server program that this process starts and ends.

    The program is ``tvm_rpc_server`` or a server made by ``with_minrpc``.

    Parameters
    ----------
    binary : str | os.PathLike[str]
        The path of the program.
    """

    def __init__(self, binary: str | os.PathLike[str]):
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_session_")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                self._process = subprocess.Popen(
                    [os.path.abspath(binary), "--stdio", "--silent"], stdin=theirs, cwd=self._folder.name
                )
            except OSError as problem:
                raise RPCError(f"PopenSession: cannot start {os.fspath(binary)}: {problem.strerror}") from None
            super().__init__(_open(ours, 1 << 30, 0.0)._sess)

    def close(self) -> None:
        super().close()
        self._process.wait(60)
        self._folder.cleanup()

    def __del__(self) -> None:
        if hasattr(self, "_process") and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class NoDeviceFree(RPCError):
    """A tracker did not assign a device within the time limit."""


class TrackerSession:
    """A connection to a tracker.

    Parameters
    ----------
    addr : tuple
        The host and port of the tracker.
    """

    def __init__(self, addr: tuple[str, int]):
        self._addr = (addr[0], int(addr[1]))
        self._what = f"the RPC tracker {addr[0]}:{addr[1]}"
        self._sock: socket.socket | None = None
        self._connect()

    def __del__(self) -> None:
        self.close()

    def _connect(self) -> socket.socket:
        sock = base.connect_to(self._addr)
        try:
            base.guarded(self._what, lambda: base.greet_tracker(sock, self._what))
        except BaseException:
            sock.close()
            raise
        sock.settimeout(None)
        self._sock = sock
        return sock

    def close(self) -> None:
        """Close the connection."""
        if getattr(self, "_sock", None) is not None:
            self._sock.close()
            self._sock = None

    def _ask(self, message: list, wait: Callable[[socket.socket], None] | None = None) -> Any:
        sock = self._sock or self._connect()
        sock.settimeout(base.ANSWER_SECONDS)

        def ask() -> Any:
            base.send_json(sock, message)
            if wait is not None:
                wait(sock)
            return base.recv_json(sock)

        try:
            return base.guarded(self._what, ask)
        except BaseException:
            # The reply may still arrive, so the next request needs a new connection.
            self.close()
            raise

    def summary(self) -> dict:
        """Return the state of the tracker: ``server_info``, and ``queue_info`` by key.

        Returns
        -------
        dict
            The servers and queues.

        Raises
        ------
        RPCError
            The tracker rejects the request.
        """
        status, found = self._ask([base.SUMMARY])
        if status != base.SUCCESS:
            raise RPCError(f"{self._what} rejects the request for a summary")
        return found

    def text_summary(self) -> str:
        """Return the state of the tracker as a table.

        Returns
        -------
        str
            The table.
        """
        return format_summary(self.summary())

    def _wait(self, key: str, seconds: float) -> Callable[[socket.socket], None]:
        """Wait until the tracker assigns a device, and print a message if that takes long."""

        def wait(sock: socket.socket) -> None:
            end = time.monotonic() + (seconds or float("inf"))
            if select.select([sock], [], [], min(base.PATIENCE_SECONDS, seconds or base.PATIENCE_SECONDS))[0]:
                return
            base.logger.info("waiting for a device '%s' of %s: all are in use, or there is none", key, self._what)
            while not select.select([sock], [], [], min(60.0, max(end - time.monotonic(), 0.0)))[0]:
                if time.monotonic() >= end:
                    raise NoDeviceFree(f"no device '{key}' of {self._what} was free within {seconds:g} s")

        return wait

    def request(
        self,
        key: str,
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 5,
        session_constructor_args: Any = None,
        wait_timeout: float = 0,
    ) -> RPCSession:
        """Open a session with a device; wait until one is free.

        Parameters
        ----------
        key : str
            The device key.
        priority : int, optional
            Requests with a higher priority are served first.
        session_timeout : float, optional
            The time limit of the session in seconds; 0 for no limit.
        max_retry : int, optional
            The maximum number of devices to try if an assigned device cannot be reached.
        session_constructor_args : list, optional
            Arguments of a further server that is reached through the device, as for ``connect``.
        wait_timeout : float, optional
            Seconds to wait for a device; 0 for no limit.

        Returns
        -------
        RPCSession
            The session.

        Raises
        ------
        RPCError
            No device was free in time, or no session with an assigned device could be opened.
        """
        problem: Exception = RPCError(f"no device '{key}'")
        for attempt in range(max_retry):
            try:
                status, found = self._ask([base.REQUEST, key, "", priority], self._wait(key, wait_timeout))
                if status != base.SUCCESS:
                    raise RPCError(f"{self._what} rejects the request for '{key}': {found}")
                host, port, match_key = found
                return connect(host, port, match_key, session_timeout, session_constructor_args)
            except NoDeviceFree:
                raise
            except (RPCError, OSError) as error:
                problem = error
                time.sleep(min(0.1 * 2**attempt, 2.0))
        raise RPCError(
            f"no session with a device '{key}' of {self._what} could be opened in {max_retry} attempts: {problem}"
        )

    def request_and_run(
        self,
        key: str,
        func: Callable[[RPCSession], Any],
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 2,
    ) -> Any:
        """Call ``func(session)`` on a device; if the session fails, retry on another device.

        Parameters
        ----------
        key : str
            The device key.
        func : Callable
            The function to call with the session.
        priority : int
            The priority of the request.
        session_timeout : float
            The time limit of the session in seconds; 0 for no limit.
        max_retry : int
            The number of devices to try.

        Returns
        -------
        Any
            The return value of the function.

        Raises
        ------
        RPCError
            The call failed on every device.
        """
        problem: Exception = RPCError(f"no device '{key}'")
        for _ in range(max_retry):
            session = None
            try:
                session = self.request(key, priority, session_timeout)
                return func(session)
            except TVMError as error:
                problem = error
            finally:
                if session is not None:
                    session.close()
        raise RPCError(f"request_and_run: '{key}' failed {max_retry} times: {problem}")


def format_summary(found: dict) -> str:
    """Format the summary of a tracker as a table of its servers and of the queue of each key."""
    servers = sorted((str(one["key"]), f"{one['addr'][0]}:{one['addr'][1]}") for one in found["server_info"])
    totals = {key.partition(":")[2]: 0 for key, _ in servers}
    for key, _ in servers:
        totals[key.partition(":")[2]] += 1
    queues = found["queue_info"]
    rows = [("server-address", "key"), *((address, key) for key, address in servers)]
    text = ["Server List", *_table(rows), "", "Queue Status"]
    lines = [("key", "total", "free", "pending")]
    for key in sorted({*queues, *totals}):
        queue = queues.get(key, {"free": 0, "pending": 0})
        lines.append((key, str(totals.get(key, 0)), str(queue["free"]), str(queue["pending"])))
    return "\n".join([*text, *_table(lines)]) + "\n"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    rule = "-" * (sum(widths) + 3 * (len(widths) - 1))
    return [rule, lines[0], rule, *lines[1:], rule]


def connect_tracker(url: str, port: int) -> TrackerSession:
    """Connect to a tracker.

    Parameters
    ----------
    url : str
        The address of the tracker.
    port : int
        The port of the tracker.

    Returns
    -------
    TrackerSession
    """
    return TrackerSession((url, port))


__all__ = [
    "LocalSession",
    "PopenSession",
    "RPCSession",
    "TrackerSession",
    "connect",
    "connect_tracker",
    "format_summary",
]
