"""Registers the servers of a proxy with a tracker, using one connection per server; closing it withdraws the server."""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from ..error import RPCError
from . import base

# Time after which the tracker gets a new offer if the assigned client does not connect, and time between connection
# attempts, in seconds.
_UNCLAIMED_SECONDS, _RETRY_SECONDS = 3.0, 1.0


class _Link:
    """The tracker connection of one server: its protocol state and the current match key."""

    def __init__(self, server: Any):
        self.server, self.peer = server, None
        self.match_key, self.pending_since = "", 0.0
        self.asked: Callable[[_Link, Any], None] | None = None
        self.next_try = 0.0


class Offers:
    """The registrations of all servers, as peers of the proxy's loop.

    Parameters
    ----------
    loop : Loop
        The loop of the proxy.
    tracker : tuple
        Host and port of the tracker.
    address : tuple
        Host and port of the proxy.
    """

    def __init__(self, loop: Any, tracker: tuple[str, int], address: tuple[str, int]):
        self._loop = loop
        # Resolve the name once: resolving it later could block all connections.
        self._tracker = socket.gethostbyname(tracker[0]), int(tracker[1])
        host, self._port = address
        outside = not (base.is_loopback(host) or host == "0.0.0.0")
        self._host = host if outside else None
        self._links: dict[Any, _Link] = {}

    def match_key(self, server: Any) -> str:
        """Return the match key that a client of this server must send; empty if the server is not offered."""
        link = self._links.get(server)
        return link.match_key if link and link.match_key else "\0"

    def offer(self, server: Any) -> None:
        """Offer a server that waits for a client."""
        self._links[server] = link = _Link(server)
        self._open(link)

    def gone(self, peer: Any) -> None:
        """Handle the end of a peer: a server or a tracker connection."""
        link = self._links.pop(peer, None)
        if link is not None and link.peer is not None:
            link.peer.link = None
            self._loop.close(link.peer)
        link = getattr(peer, "link", None)
        if link is not None:
            link.peer, link.match_key, link.next_try = None, "", time.monotonic() + _RETRY_SECONDS

    def tick(self, now: float) -> None:
        """Reconnect to the tracker, and offer servers again whose assigned client did not connect."""
        for link in list(self._links.values()):
            if link.peer is None and now >= link.next_try:
                self._open(link)
            elif link.peer is not None and link.asked is None and link.server.other is None:
                self._ask(link, [base.GET_PENDING_MATCHKEYS], self._pending)

    # ---- handshake with the tracker, in which the proxy is the client ----

    def _open(self, link: _Link) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.connect_ex(self._tracker)  # the result is available when the socket becomes writable
        link.peer = peer = self._loop.add(sock, "tracker")
        self._loop.greeted(peer)
        peer.link, peer.stage = link, self._greeted
        peer.to_send += struct.pack("<i", base.TRACKER_MAGIC)
        self._loop.watch(peer)

    def _greeted(self, peer: Any) -> bool:
        key = self._loop.secret
        if len(peer.received) < (4 + base.NONCE if key else 4):
            return False
        (magic,) = struct.unpack_from("<i", peer.received)
        if magic != (base.TRACKER_SECRET_MAGIC if key else base.TRACKER_MAGIC):
            self._loop.logger.warning("the tracker and this proxy do not have the same secret")
            raise RPCError("the tracker has a different secret")
        if not key:
            del peer.received[:4]
            return self._introduce(peer)
        peer.theirs, peer.ours = bytes(peer.received[4 : 4 + base.NONCE]), os.urandom(base.NONCE)
        del peer.received[: 4 + base.NONCE]
        self._loop.send(peer, peer.ours + base.proof(key, "tvm tracker client", peer.ours, peer.theirs))
        peer.stage = self._proved
        return True

    def _proved(self, peer: Any) -> bool:
        if len(peer.received) < 32:
            return False
        wanted = base.proof(self._loop.secret, "tvm tracker server", peer.ours, peer.theirs)
        if not hmac.compare_digest(bytes(peer.received[:32]), wanted):
            raise RPCError("the tracker did not prove that it has the secret")
        del peer.received[:32]
        return self._introduce(peer)

    def _introduce(self, peer: Any) -> bool:
        peer.stage = self._replied
        info = {"key": f"server:{peer.link.server.key}", "addr": [self._host, self._port]}
        self._ask(peer.link, [base.UPDATE_INFO, info], lambda link, _: self._put(link))
        return True

    # ---- requests and replies ----

    def _ask(self, link: _Link, message: list, then: Callable[[_Link, Any], None]) -> None:
        link.asked = then
        text = json.dumps(message).encode()
        self._loop.send(link.peer, struct.pack("<i", len(text)) + text)

    def _replied(self, peer: Any) -> bool:
        if len(peer.received) < 4:
            return False
        (length,) = struct.unpack_from("<i", peer.received)
        link = peer.link
        if not 0 <= length <= base.MOST_JSON or link is None or link.asked is None:
            raise RPCError("the tracker sent a reply without a request")
        if len(peer.received) < 4 + length:
            return False
        answer = json.loads(bytes(peer.received[4 : 4 + length]))
        del peer.received[: 4 + length]
        then, link.asked = link.asked, None
        then(link, answer)
        return True

    def _put(self, link: _Link) -> None:
        """Offer the server under a new match key, unless it has a client."""
        link.match_key, link.pending_since = "", time.monotonic()
        if link.server.other is not None:
            return
        new = f"{link.server.key}:{os.urandom(16).hex()}"
        link.match_key = new  # a client may connect before the tracker's reply arrives
        self._ask(link, [base.PUT, link.server.key, [self._port, new], self._host], self._offered)

    def _offered(self, link: _Link, answer: Any) -> None:
        if answer != base.SUCCESS:
            raise RPCError("the tracker rejects the server")

    def _pending(self, link: _Link, answer: Any) -> None:
        now = time.monotonic()
        if isinstance(answer, list) and link.match_key in answer:
            link.pending_since = now
        elif now - link.pending_since > _UNCLAIMED_SECONDS and link.server.other is None:
            self._put(link)


__all__ = ["Offers"]
