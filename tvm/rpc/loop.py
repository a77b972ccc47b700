"""An event loop: one thread serves all connections of a tracker or a proxy without blocking on any of them."""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
import time
from collections import Counter
from typing import Any

from ..error import RPCError, not_defined
from . import base

try:
    import resource
except ImportError:  # not on Windows, which does not limit the number of open files
    resource = None

_MOST_CONNECTIONS, _MOST_STRANGERS = 4096, 256
# Sockets that select accepts on Windows.
_SELECTABLE = 512
_MOST_FAILURES, _FAILURE_SECONDS = 8, 60.0
_PIECE, _MOST_UNSENT = 1 << 18, 1 << 20
# File descriptors used for other purposes: the listening socket, the selector, standard streams, and Python's files.
_OTHER_FILES = 32
_TLS_HANDSHAKE = b"\x16"
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def most_connections() -> int:
    """Return the maximum number of connections, derived from the limit of open files."""
    if resource is None:
        return _SELECTABLE - _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, soft - _OTHER_FILES)


class Peer:
    """A connection: received data, data to send, and whether the peer has proved the secret."""

    def __init__(self, sock: socket.socket, address: str):
        self.sock, self.address, self.since = sock, address, time.monotonic()
        self.received, self.to_send = bytearray(), bytearray()
        self.greeted, self.is_open, self.ends = False, True, False
        self.events, self.awaits_tls = 0, False


class Loop:
    """Accept connections and transfer their data; a subclass implements the protocol."""

    logger: logging.Logger
    peer_type: Any = Peer

    def __init__(
        self,
        listening: socket.socket,
        secret: bytes,
        watch_fd: int = -1,
        silent: bool = False,
        context: ssl.SSLContext | None = None,
    ):
        self._context = context  # TLS context
        self.secret, self._watch_fd, self._silent = secret, watch_fd, silent
        self._listening, self._selector = listening, selectors.DefaultSelector()
        self.peers: set[Any] = set()
        self._strangers: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._failures_since = time.monotonic()
        self._most, self._next_tick = most_connections(), 0.0

    # ---- methods that subclasses implement ----

    def take(self, peer: Any) -> bool:
        """Handle the next complete message in ``peer.received``; return False if it is incomplete. An error ends the
        peer."""
        raise not_defined(self, "take")

    def gone(self, peer: Any) -> None:
        """Handle the end of a connection."""

    def turn_away(self, sock: socket.socket) -> None:
        """Send the rejection message to a connection that is not accepted."""

    def wants(self, peer: Any) -> bool:
        """Whether to read more from a peer: no, while the peer does not read its replies."""
        return len(peer.to_send) < _MOST_UNSENT

    def sent(self, peer: Any) -> None:
        """Called when all pending data has been sent to a peer."""

    def tick(self, now: float) -> None:
        """Called about every second."""

    # ---- connections ----

    def run(self) -> None:
        """Serve until the watched file descriptor reaches end of file."""
        self._listening.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ)
        if self._watch_fd >= 0:
            self._selector.register(self._watch_fd, selectors.EVENT_READ)
        while self.step(1.0):
            pass

    def step(self, seconds: float) -> bool:
        """Wait for events at most ``seconds`` and handle them; return False at the end of the watched file
        descriptor."""
        for key, events in self._selector.select(seconds):
            if key.fileobj == self._watch_fd:
                return False
            if key.fileobj is self._listening:
                self._accept()
            elif key.data.is_open:
                self._move(key.data, events)
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + 1.0
            self._tidy(now)
            self.tick(now)
        return True

    def _tidy(self, now: float) -> None:
        if now - self._failures_since > _FAILURE_SECONDS:
            self._failures.clear()
            self._failures_since = now
        # A peer that is about to be closed has the same time limit to read its last message.
        for peer in [p for p in self.peers if p.ends or not p.greeted]:
            if now - peer.since > base.HANDSHAKE_SECONDS:
                self.close(peer)

    def _accept(self) -> None:
        try:
            sock, (address, _) = self._listening.accept()
        except OSError:
            return
        few = len(self.peers) < self._most and self._strangers[address] < _MOST_STRANGERS
        if not few or self._failures[address] >= _MOST_FAILURES:
            if self._context is None:  # Before the TLS handshake the peer cannot read a message.
                self.turn_away(sock)
            sock.close()
            return
        self.add(sock, address).awaits_tls = self._context is not None
        self._strangers[address] += 1

    def _begin_tls(self, peer: Any) -> None:
        """Start the TLS handshake, which continues in reads. A peer that does not start with TLS is disconnected at
        once."""
        if peer.sock.recv(1, socket.MSG_PEEK) != _TLS_HANDSHAKE:
            raise RPCError("no TLS")
        peer.awaits_tls = False
        peer.sock = self._context.wrap_socket(peer.sock, server_side=True, do_handshake_on_connect=False)

    def add(self, sock: socket.socket, address: str) -> Any:
        """Create the peer of a new connection."""
        sock.setblocking(False)
        base.keep_alive(sock)
        peer = self.peer_type(sock, address)
        self.peers.add(peer)
        self.watch(peer)
        return peer

    def greeted(self, peer: Any) -> None:
        """Record that the peer has proved the secret."""
        peer.greeted = True
        self._forget_stranger(peer)

    def _forget_stranger(self, peer: Any) -> None:
        self._strangers[peer.address] -= 1
        if self._strangers[peer.address] <= 0:
            del self._strangers[peer.address]

    def failed(self, peer: Any) -> None:
        """Record that the peer has sent an invalid proof of the secret."""
        self._failures[peer.address] += 1
        if not self._silent:
            self.logger.warning("a client at %s is rejected: wrong secret", peer.address)

    def close(self, peer: Any) -> None:
        """Close a connection immediately."""
        if not peer.is_open:
            return
        peer.is_open = False
        if peer.events:
            self._selector.unregister(peer.sock)
        peer.sock.close()
        self.peers.discard(peer)
        if not peer.greeted:
            self._forget_stranger(peer)
        self.gone(peer)

    def end(self, peer: Any) -> None:
        """Close a connection after all pending data has been sent."""
        peer.ends, peer.since = True, time.monotonic()
        if not peer.to_send:
            self.close(peer)

    # ---- sending and receiving ----

    def _move(self, peer: Any, events: int) -> None:
        try:
            if peer.awaits_tls:
                self._begin_tls(peer)
            if events & selectors.EVENT_WRITE:
                self._flush(peer)
            while events & selectors.EVENT_READ and peer.is_open:
                piece = peer.sock.recv(_PIECE)
                if not piece:
                    raise RPCError("closed")
                if not peer.ends:  # Data after the last message is ignored.
                    peer.received += piece
                while peer.is_open and not peer.ends and self.take(peer):
                    pass
                # Data that TLS has buffered does not make the socket readable.
                if not (peer.is_open and isinstance(peer.sock, ssl.SSLSocket) and peer.sock.pending()):
                    return
        except _AGAIN:
            return
        except (OSError, RPCError, ValueError, RecursionError):
            self.close(peer)

    def send(self, peer: Any, data: bytes | bytearray) -> None:
        """Send as much data as possible now, and the rest when the socket becomes writable."""
        if not peer.is_open:
            return
        done = 0
        if not peer.to_send:
            try:
                done = peer.sock.send(data)
            except _AGAIN:
                pass
            except OSError:
                peer.to_send += data  # nothing was sent
                self.close(peer)
                return
        peer.to_send += memoryview(data)[done:]
        self._all_sent(peer)

    def _flush(self, peer: Any) -> None:
        if peer.to_send:
            del peer.to_send[: peer.sock.send(peer.to_send)]
        self._all_sent(peer)

    def _all_sent(self, peer: Any) -> None:
        if not peer.to_send:
            self.sent(peer)
            if peer.ends:
                self.close(peer)
        self.watch(peer)

    def watch(self, peer: Any) -> None:
        """Register the peer's socket for the events it needs next, or for none."""
        if not peer.is_open:
            return
        wanted = (selectors.EVENT_READ if self.wants(peer) else 0) | (selectors.EVENT_WRITE if peer.to_send else 0)
        if peer.events and wanted:
            self._selector.modify(peer.sock, wanted, peer)
        elif wanted:
            self._selector.register(peer.sock, wanted, peer)
        elif peer.events:
            self._selector.unregister(peer.sock)
        peer.events = wanted


__all__ = ["Loop", "Peer"]
