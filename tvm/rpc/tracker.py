"""The tracker: servers register under a key, and clients request one of them. One thread serves all connections."""

from __future__ import annotations

import heapq
import hmac
import itertools
import json
import logging
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import base
from .loop import Loop, Peer
from .server import OwnProcess
from .tls import server_context

logger = logging.getLogger("RPCTracker")

_MOST_KEYS = 4096
# Maximum number of offers, and of requests, of one connection.
_MOST_OF_ONE = 64


class _Offer(NamedTuple):
    """A free server, available until a client uses its match key."""

    host: str
    port: int
    match_key: str
    server: _Connection


class _Connection(Peer):
    """A peer of the tracker: a server, a client, or both."""

    def __init__(self, sock: socket.socket, address: str):
        super().__init__(sock, address)
        self.challenge = b""
        self.info: dict = {}
        self.given: tuple[str, _Offer] | None = None  # the last assignment, which the client may not have received


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= base.MOST_KEY


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 2**53


def _is_address(host: Any, port: Any) -> bool:
    return (host is None or _is_key(host)) and _is_number(port)


class _Queue:
    """The offers and requests of one key."""

    def __init__(self) -> None:
        self.free: list[_Offer] = []
        self.waiting: list[tuple[int, int, _Connection]] = []


class _Tracker(Loop):
    logger = logger
    peer_type = _Connection

    def __init__(self, listening: socket.socket, secret: bytes, *options: Any):
        super().__init__(listening, secret, *options)
        self._queues: dict[str, _Queue] = {}
        self._order = itertools.count()

    def gone(self, peer: _Connection) -> None:
        for queue in self._queues.values():
            queue.free = [offer for offer in queue.free if offer.server is not peer]
            queue.waiting = [entry for entry in queue.waiting if entry[2] is not peer]
            heapq.heapify(queue.waiting)
        if peer.given is not None and peer.to_send and peer.given[1].server.is_open:
            key, offer = peer.given
            self._queue(key).free.insert(0, offer)
            self._match(key)

    def sent(self, peer: _Connection) -> None:
        peer.given = None

    # ---- messages ----

    def take(self, peer: _Connection) -> bool:
        """Handle the next complete message; return False if it is incomplete."""
        if not peer.greeted:
            return self._greet(peer)
        if len(peer.received) < 4:
            return False
        (length,) = struct.unpack_from("<i", peer.received)
        if not 0 <= length <= base.MOST_JSON:
            raise base.RPCError("received a message that is too long")
        if len(peer.received) < 4 + length:
            return False
        message = json.loads(bytes(peer.received[4 : 4 + length]))
        del peer.received[: 4 + length]
        answer = self._serve(peer, message)
        if answer is not None:
            self._reply(peer, answer)
        return True

    def _reply(self, peer: _Connection, value: Any) -> None:
        text = json.dumps(value).encode()
        self.send(peer, struct.pack("<i", len(text)) + text)

    def _greet(self, peer: _Connection) -> bool:
        if not peer.challenge:
            if len(peer.received) < 4:
                return False
            if struct.unpack_from("<i", peer.received)[0] != base.TRACKER_MAGIC:
                raise base.RPCError("expected a handshake")
            del peer.received[:4]
            if not self.secret:
                self.greeted(peer)
            peer.challenge = os.urandom(base.NONCE)
            magic = base.TRACKER_SECRET_MAGIC if self.secret else base.TRACKER_MAGIC
            self.send(peer, struct.pack("<i", magic) + (peer.challenge if self.secret else b""))
            return True
        if len(peer.received) < base.NONCE + 32:
            return False
        theirs, shown = bytes(peer.received[: base.NONCE]), bytes(peer.received[base.NONCE : base.NONCE + 32])
        del peer.received[: base.NONCE + 32]
        if not hmac.compare_digest(shown, base.proof(self.secret, "tvm tracker client", theirs, peer.challenge)):
            self.failed(peer)
            raise base.RPCError("wrong secret")
        self.greeted(peer)
        self.send(peer, base.proof(self.secret, "tvm tracker server", theirs, peer.challenge))
        return True

    def _serve(self, peer: _Connection, message: Any) -> Any:
        """Return the reply; None if it is sent later, FAIL for an invalid message."""
        if not isinstance(message, list) or not message:
            return base.FAIL
        code, *args = message
        if code == base.PUT and len(args) >= 2 and _is_key(args[0]):
            return self._put(peer, args[0], args[1], args[2] if len(args) > 2 else None)
        if code == base.REQUEST and len(args) >= 3 and _is_key(args[0]) and _is_number(args[2]):
            return self._request(peer, args[0], args[2])
        if code == base.UPDATE_INFO and len(args) == 1 and isinstance(args[0], dict):
            return self._update(peer, args[0])
        if code == base.SUMMARY:
            return [base.SUCCESS, self._summary()]
        if code == base.GET_PENDING_MATCHKEYS:
            return [offer.match_key for queue in self._queues.values() for offer in queue.free]
        return base.SUCCESS if code == base.PING else base.FAIL

    def _queue(self, key: str) -> _Queue:
        if key not in self._queues and len(self._queues) >= _MOST_KEYS:
            self._queues = {k: q for k, q in self._queues.items() if q.free or q.waiting}
        return self._queues.setdefault(key, _Queue())

    def _put(self, peer: _Connection, key: str, value: Any, custom: Any) -> int | None:
        good = isinstance(value, list) and len(value) == 2 and isinstance(value[0], int) and _is_key(value[1])
        if not good or not (custom is None or _is_key(custom)):
            return base.FAIL
        if sum(offer.server is peer for queue in self._queues.values() for offer in queue.free) >= _MOST_OF_ONE:
            return base.FAIL
        self._queue(key).free.append(_Offer(custom or peer.address, value[0], value[1], peer))
        self._reply(peer, base.SUCCESS)
        self._match(key)
        return None

    def _request(self, peer: _Connection, key: str, priority: float) -> list | None:
        if sum(entry[2] is peer for queue in self._queues.values() for entry in queue.waiting) >= _MOST_OF_ONE:
            return [base.FAIL, f"one connection waits for at most {_MOST_OF_ONE} devices"]
        heapq.heappush(self._queue(key).waiting, (-priority, next(self._order), peer))
        self._match(key)
        return None

    def _match(self, key: str) -> None:
        queue = self._queues[key]
        while queue.free and queue.waiting:
            offer, (_, _, peer) = queue.free.pop(0), heapq.heappop(queue.waiting)
            peer.given = key, offer
            self._reply(peer, [base.SUCCESS, [offer.host, offer.port, offer.match_key]])

    def _update(self, peer: _Connection, info: dict) -> int:
        key, addr = info.get("key"), info.get("addr")
        if key is not None and not _is_key(key):
            return base.FAIL
        if addr is not None and not (isinstance(addr, list) and len(addr) == 2 and _is_address(*addr)):
            return base.FAIL
        peer.info.update({"key": key} if key is not None else {})
        peer.info.update({"addr": [addr[0] or peer.address, addr[1]]} if addr is not None else {})
        return base.SUCCESS

    def _summary(self) -> dict:
        known = [peer.info for peer in self.peers if {"key", "addr"} <= peer.info.keys()]
        servers = [info for info in known if info["key"].startswith("server:")]
        queues = {key: {"free": len(q.free), "pending": len(q.waiting)} for key, q in self._queues.items()}
        return {"queue_info": queues, "server_info": servers}


def serve(listen_fd: int, silent: bool = False, watch_fd: int = -1, tls: list | None = None) -> None:
    """Serve on a listening socket until end of file on ``watch_fd``; ``tls``: paths of certificate, key and CA."""
    with socket.socket(fileno=listen_fd) as listening:
        _Tracker(listening, base.secret(), watch_fd, silent, server_context(*(tls or (None,)))).run()


class Tracker(OwnProcess):
    """A tracker in a separate process.

    Parameters
    ----------
    host : str, optional
        The address to listen on; an address outside loopback requires a secret (``TVM_RPC_SECRET_FILE``).
    port : int, optional
        The first port to try; 0 for any free port.
    port_end : int, optional
        The end of the port range (exclusive).
    silent : bool, optional
        Whether to print no messages.
    reuse_addr : bool, optional
        Whether a recently used port may be reused.
    timeout : float, optional
        Accepted for compatibility; must be None, because a tracker has no time limit.
    tls : Sequence, optional
        Paths of a certificate, its key, and a CA that must have signed the clients' certificates (key and CA may be
        None).
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9190,
        port_end: int = 9199,
        silent: bool = False,
        reuse_addr: bool = True,
        timeout: float | None = None,
        tls: Sequence[str | None] | None = None,
    ):
        if timeout is not None:
            raise ValueError("Tracker: timeout is not supported; call terminate() to stop the tracker")
        server_context(*(tls or (None,)))  # Errors in arguments are raised here.
        options = {"silent": silent, "tls": tls and list(tls)}
        self._start(serve, options, base.listen(host, port, port_end, "rpc.tracker.Tracker", reuse_addr))
        if not silent:
            logger.info("bind to %s:%d", self.host, self.port)


__all__ = ["Tracker"]
