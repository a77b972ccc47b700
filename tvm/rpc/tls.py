"""TLS around connections: contexts from files, and tunnels, since C serves and uses sessions on plain sockets."""

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
        raise TVMError(f"the files of TLS cannot be used ({files}): {problem}") from None
    return context


def server_context(cert: str | None, key: str | None = None, ca: str | None = None) -> ssl.SSLContext | None:
    """The TLS context of a server; None without a certificate. With ``ca`` clients must show one that it signed."""
    if not cert:
        if key or ca:
            raise TVMError("TLS: a key or a CA is given, and no certificate (--tls-cert)")
        return None
    context = _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), cert, key, ca)
    context.verify_mode = ssl.CERT_REQUIRED if ca else ssl.CERT_NONE
    return context


def client_context() -> ssl.SSLContext | None:
    """What this process's own connections use; None where ``TVM_RPC_TLS_CA``, who signed others' certificates, is not
    set. ``TVM_RPC_TLS_CERT`` and ``TVM_RPC_TLS_KEY`` are this side's own, where it is asked for one."""
    ca = os.environ.get("TVM_RPC_TLS_CA")
    if not ca:
        return None
    cert, key = os.environ.get("TVM_RPC_TLS_CERT"), os.environ.get("TVM_RPC_TLS_KEY")
    return _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cert, key, ca)


class _End:
    """One end of a tunnel, and what is to go there."""

    def __init__(self, sock: socket.socket):
        sock.setblocking(False)
        self.sock, self.to_send, self.is_over = sock, bytearray(), False

    def may_read(self, other: _End) -> bool:
        return not self.is_over and len(other.to_send) < _PIECE

    def read(self, other: _End) -> bool:
        """Read received bytes unless the buffer of the other end is full; returns whether anything was read."""
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
    """Transfer bytes in both directions until one end is closed and its bytes are sent; then close both."""
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
    """The plain end of a tunnel over a connection to ``host``, whose certificate must name it."""
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
    """Tunnels until ``watch_fd`` ends: from TLS to a plain address (a front), or from here to an address with TLS.

    Each connection has a thread, so one that says nothing holds up no other, and its handshake some seconds.
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
            pass  # the peer is gone, has no certificate, or is not spoken to: the other end sees its connection end
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
    """The options of programs that listen."""
    parser.add_argument("--tls-cert", metavar="FILE", help="use TLS with this certificate (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", help="the key of the certificate, where it is not in its file")
    parser.add_argument("--tls-ca", metavar="FILE", help="clients must show a certificate that this CA has signed")


def files_of(args: Any) -> list[str | None] | None:
    """The checked TLS options; None without TLS."""
    found = [args.tls_cert, args.tls_key, args.tls_ca]
    return found if server_context(*found) else None


__all__ = ["add_arguments", "client_context", "files_of", "pump", "serve", "server_context", "through"]
