"""Sessions by address, by tracker, and with a program this process starts."""

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
    """A session with the server at an address; waits while another client has the device.

    Parameters
    ----------
    url : str
        The address of the server.
    port : int
        Its port.
    key : str, optional
        Its key.
    session_timeout : float, optional
        Seconds after which the server ends the session; 0 for no limit.
    session_constructor_args : list, optional
        A server that the first one reaches: ``["rpc.Connect", host, port, key]``. The session is one with that server,
        and its messages go through the first one, a ``tvm.rpc.Server``. After the key come whether to log (which
        ``enable_logging`` decides), and the arguments of a further server.
    enable_logging : bool, optional
        Whether every message is logged, at the level INFO of the logger ``RPCMessages``.

    Returns
    -------
    RPCSession

    Raises
    ------
    RPCError
        There is no session, or the arguments of a session behind the server are wrong.
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
        # The name, host, port, key and whether to log; then the arguments of the next server.
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
            f"{what} has version {theirs[1]}.{theirs[2]} of the runtime and this side {ours[0]}.{ours[1]}, so what is "
            "compiled here cannot run there: build the server from the release that is used here"
        )


# The server ends a session that takes too long; the client checks the time only for a server that is gone.
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
    """A session with a server this process starts and ends: ``tvm_rpc_server`` or one made by ``with_minrpc``.

    Parameters
    ----------
    binary : str | os.PathLike[str]
        The program.
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
                raise RPCError(f"PopenSession: {os.fspath(binary)} cannot be started: {problem.strerror}") from None
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
        Its host and port.
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
        """End the connection."""
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
            # An answer may still be on its way; the next question needs a new connection.
            self.close()
            raise

    def summary(self) -> dict:
        """The state of the tracker: ``server_info`` and, by key, ``queue_info``.

        Returns
        -------
        dict
            The servers and queues.

        Raises
        ------
        RPCError
            The tracker refuses.
        """
        status, found = self._ask([base.SUMMARY])
        if status != base.SUCCESS:
            raise RPCError(f"{self._what} refuses to tell what it has")
        return found

    def text_summary(self) -> str:
        """The same as a table.

        Returns
        -------
        str
            The table.
        """
        return format_summary(self.summary())

    def _wait(self, key: str, seconds: float) -> Callable[[socket.socket], None]:
        """Wait until the tracker assigns a device; prints a message if that takes long."""

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
        """A session with a device of the kind ``key``; waits until one is free. Higher priorities come first.

        Parameters
        ----------
        key : str
            The kind of device.
        priority : int, optional
            Requests of higher priority are served first.
        session_timeout : float, optional
            Seconds after which the server ends the session; 0 for no limit.
        max_retry : int, optional
            How many devices are tried where one that was given cannot be reached.
        session_constructor_args : list, optional
            A server that the device reaches, as for ``connect``.
        wait_timeout : float, optional
            Seconds to wait for a device; 0 for no limit.

        Returns
        -------
        RPCSession
            The session.

        Raises
        ------
        RPCError
            There is no session: no device was free in time, or none of those that were given could be reached.
        """
        problem: Exception = RPCError(f"no device '{key}'")
        for attempt in range(max_retry):
            try:
                status, found = self._ask([base.REQUEST, key, "", priority], self._wait(key, wait_timeout))
                if status != base.SUCCESS:
                    raise RPCError(f"{self._what} refuses the request for '{key}': {found}")
                host, port, match_key = found
                return connect(host, port, match_key, session_timeout, session_constructor_args)
            except NoDeviceFree:
                raise
            except (RPCError, OSError) as error:
                problem = error
                time.sleep(min(0.1 * 2**attempt, 2.0))
        raise RPCError(f"no device '{key}' could be had from {self._what} in {max_retry} tries: {problem}")

    def request_and_run(
        self,
        key: str,
        func: Callable[[RPCSession], Any],
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 2,
    ) -> Any:
        """``func(session)`` on a device of the kind ``key``; where the session fails, on another.

        Parameters
        ----------
        key : str
            The kind of device.
        func : Callable
            The function to call with the session.
        priority : int
            The priority of the request.
        session_timeout : float
            The seconds the session may last; 0 for no limit.
        max_retry : int
            The number of devices to try.

        Returns
        -------
        Any
            The return value of the function.

        Raises
        ------
        RPCError
            It failed on every one.
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
    """The table of a tracker: its servers, and the queue of each key."""
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
    """A connection to a tracker.

    Parameters
    ----------
    url : str
        Its address.
    port : int
        Its port.

    Returns
    -------
    TrackerSession
    """
    return TrackerSession((url, port))


__all__ = [
    "LocalSession", "PopenSession", "RPCSession", "TrackerSession", "connect", "connect_tracker", "format_summary"
]
