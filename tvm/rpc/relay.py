"""Relays messages of sessions through this process, to log them or to forward them to another server.

``docs/rpc.md`` describes the messages. The relay has one end of a socket pair, the session has the other.
"""

from __future__ import annotations

import json
import logging
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from ..error import RPCError, TVMError
from ..runtime.registry import register_func
from . import base

logger = logging.getLogger("RPCMessages")

_HEADER = struct.Struct("<IIQ")
_MAGIC = 0x4D565452
_KINDS = {
    1: "RETURN", 2: "ERROR", 3: "CALL", 4: "FUNCTION", 5: "FREE", 6: "COPY_TO", 7: "COPY_FROM", 8: "DATA", 9: "CLOSE",
}  # fmt: skip
# Kinds of messages that have no reply.
_FREE, _CLOSE = 5, 9


def _read(sock: socket.socket) -> tuple[int, bytes]:
    """Return the next message and its kind."""
    head = base.recv_exact(sock, _HEADER.size)
    magic, kind, length = _HEADER.unpack(head)
    if magic != _MAGIC or kind not in _KINDS:
        raise RPCError("received data that is not a message of a session")
    return kind, head + base.recv_exact(sock, length)


def _read_turn(sock: socket.socket) -> tuple[int, bytes]:
    """Return the messages up to and including one that expects a reply or is a reply, and its kind."""
    found = bytearray()
    while True:
        kind, message = _read(sock)
        found += message
        if kind != _FREE:
            return kind, bytes(found)


def _ended(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other thread or the peer has already closed it


def logged(sock: socket.socket, what: str) -> socket.socket:
    """Return a connection to the same peer that logs every message, at level INFO of the logger ``RPCMessages``."""
    ours, inner = socket.socketpair()
    outer = sock.dup()
    outer.settimeout(None)

    def pass_on(source: socket.socket, target: socket.socket, way: str) -> None:
        try:
            while True:
                kind, message = _read(source)
                logger.info("%s %s: %s, %d bytes", way, what, _KINDS[kind], len(message) - _HEADER.size)
                target.sendall(message)
        except (OSError, RPCError):
            pass  # One end is closed; the other end gets an error.
        finally:
            _ended(inner)
            _ended(outer)

    for source, target, way in ((inner, outer, "to"), (outer, inner, "from")):
        threading.Thread(target=pass_on, args=(source, target, way), daemon=True, name="rpc log").start()
    return ours


@register_func("rpc.Connect", override=True)
def connect_onward(url: str, port: int, key: str = "", *unused: Any) -> Callable[[Any], bytes]:
    """Open a session with another server, on a server; return a function that forwards messages and returns the
    replies.

    Called without messages, the function returns the time limit, the maximum message size and the server's description.

    Parameters
    ----------
    url : str
        The address of the other server.
    port : int
        The port of the other server.
    key : str, optional
        The key of the other server.
    *unused
        A logging flag, which is ignored, because the client logs.

    Returns
    -------
    callable
    """
    what = f"the RPC server {url}:{port}"
    sock = base.connect_to((url, int(port)))
    try:
        limits = base.guarded(what, lambda: base.greet_server(sock, what, f"client:{key}"))
    except BaseException:
        sock.close()
        raise
    sock.settimeout(None)

    def exchange(messages: Any) -> bytes:
        if not messages:
            return json.dumps(limits).encode()
        sock.sendall(messages)
        return base.guarded(what, lambda: _read_turn(sock)[1])

    return exchange


def _function_of(session: Any, what: str) -> Callable[..., Any]:
    try:
        return session.get_function("rpc.Connect")
    except (AttributeError, TVMError) as problem:
        raise RPCError(
            f"{what} cannot open sessions with other servers ({problem}); use tvm.rpc.Server there"
        ) from None


def behind(session: Any, what: str, args: list[Any]) -> tuple[socket.socket, float, int, str]:
    """Return a connection through a session to the server named by ``args`` (``["rpc.Connect", host, port, key]``),
    with that server's time limit in seconds, its maximum message size and its description."""
    name, *rest = args
    if name != "rpc.Connect" or len(rest) < 2:
        raise RPCError(f"connect: session_constructor_args {args}: expected ['rpc.Connect', host, port, key]")
    exchange = _function_of(session, what)(*rest)
    seconds, most, said = json.loads(bytes(exchange(b"")))
    ours, inner = socket.socketpair()

    def pass_on() -> None:
        try:
            kind = 0
            while kind != _CLOSE:
                kind, messages = _read_turn(inner)
                # The remote server ends its session itself when the function is freed.
                if kind != _CLOSE:
                    inner.sendall(bytes(exchange(messages)))
        except (OSError, TVMError) as problem:
            logger.debug("the session behind %s has ended: %s", what, problem)
        finally:
            _ended(inner)

    threading.Thread(target=pass_on, daemon=True, name="rpc relay").start()
    return ours, seconds, most, said


__all__ = ["behind", "connect_onward", "logged"]
