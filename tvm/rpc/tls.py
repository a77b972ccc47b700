"""TLS for connections: contexts from files, and tunnels, because the C server and client use plain sockets."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
from typing import Any

from ..error import RPCError, TVMError

_HANDSHAKE_SECONDS = 20.0
_MOST_TUNNELS = 256
_PIECE = 1 << 16


def _load(context: ssl.SSLContext, cert: str | None, key: str | None, ca: str | None) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if cert:
            context.load_cert_chain(cert, key or None)
        if ca:
            context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as problem:
        files = ", ".join(path for path in (cert, key, ca) if path)
        raise TVMError(f"cannot use the TLS files ({files}): {problem}") from None
    return context


def server_context(cert: str | None, key: str | None = None, ca: str | None = None) -> ssl.SSLContext | None:
    """Return the TLS context of a server, or None without a certificate. With ``ca``, clients must show a certificate
    that the CA has signed."""
    if not cert:
        if key or ca:
            raise TVMError("TLS: a key or a CA is given without a certificate (--tls-cert)")
        return None
    context = _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), cert, key, ca)
    context.verify_mode = ssl.CERT_REQUIRED if ca else ssl.CERT_NONE
    return context


def client_context() -> ssl.SSLContext | None:
    """Return the TLS context of this process's outgoing connections, or None if ``TVM_RPC_TLS_CA`` is not set.

    ``TVM_RPC_TLS_CA`` is the CA of the servers' certificates; ``TVM_RPC_TLS_CERT`` and ``TVM_RPC_TLS_KEY`` are the
    certificate and key of this side, for servers that require them."""
    ca = os.environ.get("TVM_RPC_TLS_CA")
    if not ca:
        return None
    cert, key = os.environ.get("TVM_RPC_TLS_CERT"), os.environ.get("TVM_RPC_TLS_KEY")
    return _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cert, key, ca)


class _End:
    """One end of a tunnel with the data to be sent to it."""

    def __init__(self, sock: socket.socket):
        sock.setblocking(False)
        self.sock, self.to_send, self.is_over = sock, bytearray(), False

    def may_read(self, other: _End) -> bool:
        return not self.is_over and len(other.to_send) < _PIECE

    def read(self, other: _End) -> bool:
        """Read received data unless the buffer of the other end is full; return whether any was read."""
        if not self.may_read(other):
            return False
        try:
            piece = self.sock.recv(_PIECE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        self.is_over = not piece
        other.to_send += piece
        return True

    def write(self) -> bool:
        if not self.to_send:
            return False
        try:
            del self.to_send[: self.sock.send(self.to_send)]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True


def pump(one: socket.socket, two: socket.socket) -> None:
    """Transfer data in both directions until one end is closed and its data has been sent; then close both."""
    first, second = _End(one), _End(two)
    try:
        while not (first.is_over and not second.to_send) and not (second.is_over and not first.to_send):
            moved = [first.read(second), second.read(first), first.write(), second.write()]
            if not any(moved):
                reads = [a.sock for a, b in ((first, second), (second, first)) if a.may_read(b)]
                select.select(reads, [end.sock for end in (first, second) if end.to_send], [])
    except (OSError, ValueError):
        pass
    finally:
        one.close()
        two.close()


def through(sock: socket.socket, context: ssl.SSLContext, host: str) -> socket.socket:
    """Return the plain end of a TLS tunnel over a connection to ``host``, whose certificate must name ``host``."""
    try:
        wrapped = context.wrap_socket(sock, server_hostname=host)
    except (OSError, ValueError) as problem:
        sock.close()
        reason = getattr(problem, "verify_message", None) or getattr(problem, "reason", None) or str(problem)
        raise RPCError(f"{host}: the TLS handshake failed: {reason}") from None
    ours, theirs = socket.socketpair()
    threading.Thread(target=pump, args=(wrapped, theirs), daemon=True, name="rpc tls").start()
    return ours


def serve(
    listen_fd: int, to: tuple[str, int], tls: list | None = None, is_front: bool = True, watch_fd: int = -1
) -> None:
    """Serve tunnels until end of file on ``watch_fd``.

    With ``is_front``, a tunnel leads from a TLS client to a plain address; otherwise from a plain client to an address
    with TLS. Each connection has its own thread and a time limit for its handshake, so a silent peer blocks no other.
    """
    from . import base

    context = server_context(*(tls or ())) if is_front else None
    places = threading.BoundedSemaphore(_MOST_TUNNELS)

    def connect(sock: socket.socket) -> None:
        try:
            with sock:
                sock.settimeout(_HANDSHAKE_SECONDS)
                outer: Any = context.wrap_socket(sock, server_side=True) if context else sock
                inner = socket.create_connection(to, _HANDSHAKE_SECONDS) if is_front else base.connect_to(to)
                pump(outer, inner)
        except (OSError, RPCError, ValueError):
            pass  # the peer disconnected or failed the handshake: the other end's connection is closed
        finally:
            places.release()

    with socket.socket(fileno=listen_fd) as listening:
        listening.settimeout(None)
        while watch_fd not in select.select([listening, watch_fd], [], [])[0]:
            sock = listening.accept()[0]
            base.keep_alive(sock)
            if places.acquire(blocking=False):
                threading.Thread(target=connect, args=(sock,), daemon=True).start()
            else:
                sock.close()


def add_arguments(parser: Any) -> None:
    """Add the TLS options of programs that listen."""
    parser.add_argument("--tls-cert", metavar="FILE", help="use TLS with this certificate (PEM)")
    parser.add_argument(
        "--tls-key", metavar="FILE", help="the key of the certificate, if it is not in the certificate file"
    )
    parser.add_argument("--tls-ca", metavar="FILE", help="clients must show a certificate that this CA has signed")


def files_of(args: Any) -> list[str | None] | None:
    """Return the checked TLS options, or None without TLS."""
    found = [args.tls_cert, args.tls_key, args.tls_ca]
    return found if server_context(*found) else None


__all__ = ["add_arguments", "client_context", "files_of", "pump", "serve", "server_context", "through"]
