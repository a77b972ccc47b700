"""The proxy connects clients with servers that cannot accept connections. It proves the secret to both sides."""

from __future__ import annotations

import hmac
import logging
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..error import RPCError
from . import base
from .loop import Loop, Peer
from .offer import Offers
from .server import OwnProcess
from .tls import server_context

logger = logging.getLogger("RPCProxy")

_GREETING = len(base.HELLO) + base.NONCE
_INTRODUCTION = 32 + 4
_MOST_MESSAGE = 1 << 30
_RELAYED_UNSENT = 1 << 20


class _Peer(Peer):
    """A client or a server: its protocol state and its counterpart."""

    def __init__(self, sock: socket.socket, address: str):
        super().__init__(sock, address)
        self.stage: Callable[[_Peer], bool] | None = None
        self.ours = self.theirs = b""
        self.name = b""  # the identity that it sent
        self.key = ""
        self.other: _Peer | None = None
        self.waits_since = 0.0


class _Proxy(Loop):
    logger = logger
    peer_type = _Peer

    def __init__(self, listening: socket.socket, limits: tuple[float, float], tracker: Any, **options: Any):
        super().__init__(listening, base.secret(), **options)
        self._client_seconds, self._server_seconds = limits
        self._clients: list[_Peer] = []  # in the order of connection
        self._servers: list[_Peer] = []
        self._offers = Offers(self, tracker, listening.getsockname()) if tracker else None

    # ---- handshake, in which the proxy is the server ----

    def take(self, peer: _Peer) -> bool:
        return (peer.stage or self._greet)(peer)

    def turn_away(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        try:
            sock.send(base.HELLO + struct.pack("<I", base.TURNED_AWAY) + bytes(base.NONCE))
        except OSError:
            pass

    def _greet(self, peer: _Peer) -> bool:
        if len(peer.received) < _GREETING:
            return False
        hello = bytes(peer.received[: len(base.HELLO)])
        if hello[:6] != base.HELLO[:6]:
            raise RPCError("expected a handshake")
        peer.theirs, peer.ours = bytes(peer.received[len(base.HELLO) : _GREETING]), os.urandom(base.NONCE)
        del peer.received[:_GREETING]
        self.send(peer, base.HELLO + struct.pack("<I", bool(self.secret)) + peer.ours)
        if hello != base.HELLO:  # A peer of another version receives only our version.
            self.end(peer)
        peer.stage = self._introduced
        return True

    def _introduced(self, peer: _Peer) -> bool:
        if len(peer.received) < _INTRODUCTION:
            return False
        length = int.from_bytes(peer.received[32:_INTRODUCTION], "little")
        if length > base.MOST_KEY:
            raise RPCError("the key is too long")
        if len(peer.received) < _INTRODUCTION + length:
            return False
        shown = bytes(peer.received[:32])
        peer.name = bytes(peer.received[_INTRODUCTION : _INTRODUCTION + length])
        del peer.received[: _INTRODUCTION + length]
        wanted = base.proof(self.secret, "tvm rpc client", peer.theirs, peer.ours, peer.name)
        if self.secret and not hmac.compare_digest(shown, wanted):
            self.failed(peer)
            self._refuse(peer, base.REFUSED_SECRET, "the secret is wrong")
            return True
        self.greeted(peer)
        kind, _, key = peer.name.decode("utf-8", "replace").partition(":")
        peer.key, peer.waits_since = key.partition(" ")[0], time.monotonic()
        peer.stage = self._waits
        if kind == "client":
            self._clients.append(peer)
        elif kind == "server":
            self._last_word(peer, 0, 0.0, _MOST_MESSAGE, "proxy")
            self._servers.append(peer)
            if self._offers:
                self._offers.offer(peer)
        else:
            self._refuse(peer, base.REFUSED_KEY, "expected the key of a client or a server")
        self._pair()
        return True

    def _last_word(self, peer: _Peer, status: int, seconds: float, most: int, text: str) -> None:
        proved = bytes(32)
        if self.secret and not status:
            proved = base.proof(self.secret, "tvm rpc server", peer.theirs, peer.ours, peer.name)
        said = text.encode()
        self.send(peer, base.LAST_WORD.pack(status, proved, seconds, most, len(said)) + said)

    def _refuse(self, peer: _Peer, status: int, text: str) -> None:
        self._last_word(peer, status, 0.0, 0, text)
        self.end(peer)

    def _waits(self, peer: _Peer) -> bool:
        if peer.received:
            raise RPCError("received a message before the session started")
        return False

    # ---- connecting a client with a server ----

    def _fits(self, client: _Peer, server: _Peer) -> bool:
        return client.key == (self._offers.match_key(server) if self._offers else server.key)

    def _pair(self) -> None:
        for client in list(self._clients):
            server = next((one for one in self._servers if self._fits(client, one)), None)
            if server is None and self._offers is None:
                continue
            self._clients.remove(client)
            if server is None:  # a match key is valid for one server and one session
                self._refuse(client, base.REFUSED_KEY, "no server is registered under this key")
                continue
            self._servers.remove(server)
            client.other, server.other = server, client
            # In the handshake with the server the proxy is the client, so the nonces change roles.
            server.theirs = os.urandom(base.NONCE)
            server.stage, server.waits_since = self._answered, time.monotonic()
            self.send(server, base.HELLO + server.theirs)

    def _client_name(self, server: _Peer) -> bytes:
        """Return the client's identity for the server: the server's key, and the options that the client sent."""
        options = server.other.name.partition(b" ")
        return f"client:{server.key}".encode() + options[1] + options[2]

    def _answered(self, server: _Peer) -> bool:
        if len(server.received) < base.ANSWER_BYTES:
            return False
        server.ours = base.read_answer(bytes(server.received[: base.ANSWER_BYTES]), self.secret, "the server")
        del server.received[: base.ANSWER_BYTES]
        self.send(server, base.introduce(self.secret, server.theirs, server.ours, self._client_name(server)))
        server.stage = self._decided
        return True

    def _decided(self, server: _Peer) -> bool:
        size = base.LAST_WORD.size
        if len(server.received) < size:
            return False
        status, proved, seconds, most, length = base.read_last_word(bytes(server.received[:size]), "the server")
        if len(server.received) < size + length:
            return False
        said = bytes(server.received[size : size + length]).decode("utf-8", "replace")
        del server.received[: size + length]
        client = server.other
        wanted = base.proof(self.secret, "tvm rpc server", server.theirs, server.ours, self._client_name(server))
        if not status and self.secret and not hmac.compare_digest(proved, wanted):
            raise RPCError("the server did not prove that it has the secret")
        server.stage = client.stage = self._relay
        if status:
            self._refuse(client, status, said)
        else:
            self._last_word(client, status, seconds, most, said)
        return True

    def _relay(self, peer: _Peer) -> bool:
        data, peer.received = peer.received, bytearray()
        if peer.other is not None and data:
            self.send(peer.other, data)
        return False

    def wants(self, peer: _Peer) -> bool:
        if peer.stage == self._relay and peer.other is not None:
            return len(peer.other.to_send) < _RELAYED_UNSENT
        return super().wants(peer)

    def sent(self, peer: _Peer) -> None:
        if peer.stage == self._relay and peer.other is not None:
            self.watch(peer.other)

    # ---- closing connections ----

    def gone(self, peer: _Peer) -> None:
        if self._offers:
            self._offers.gone(peer)
        for waiting in (self._clients, self._servers):
            if peer in waiting:
                waiting.remove(peer)
        other, peer.other = peer.other, None
        if other is None or not other.is_open:
            return
        other.other = None
        if other.stage == self._waits:  # its server disconnected before the session started
            self._clients.insert(0, other)
            self._pair()
        else:
            self.end(other)

    def tick(self, now: float) -> None:
        if self._offers:
            self._offers.tick(now)
        for client in [one for one in self._clients if now - one.waits_since > self._client_seconds]:
            self._clients.remove(client)
            self._refuse(
                client, base.REFUSED_KEY, f"no server '{client.key}' connected within {self._client_seconds:g} s"
            )
        for server in [one for one in self._servers if now - one.waits_since > self._server_seconds]:
            self.close(server)
        for server in [one for one in self.peers if one.stage in (self._answered, self._decided)]:
            if now - server.waits_since > base.HANDSHAKE_SECONDS:
                self.close(server)


def serve(
    listen_fd: int,
    *,
    silent: bool = False,
    watch_fd: int = -1,
    timeout_client: float = 600,
    timeout_server: float = 600,
    tracker_addr: tuple[str, int] | None = None,
    tls: list | None = None,
) -> None:
    """Serve on a listening socket until end of file on ``watch_fd``; ``tls``: paths of certificate, key and CA."""
    context = server_context(*(tls or (None,)))
    with socket.socket(fileno=listen_fd) as listening:
        limits = float(timeout_client), float(timeout_server)
        _Proxy(listening, limits, tracker_addr, watch_fd=watch_fd, silent=silent, context=context).run()


def check_web(web_port: int, index_page: Any = None, resource_files: Any = None) -> None:
    """Raise an error if options for browser sessions, which are not supported, are given."""
    if web_port or index_page or resource_files:
        raise ValueError("rpc proxy: sessions in a browser (web_port, index_page, resource_files) are not supported")


class Proxy(OwnProcess):
    """A proxy in a separate process, for servers that cannot accept connections.

    Servers connect to the proxy (``Server(..., is_proxy=True)``) and wait for clients; clients connect to the proxy
    with the server's key.

    Parameters
    ----------
    host : str
        The address to listen on; an address outside loopback requires a secret (``TVM_RPC_SECRET_FILE``).
    port : int, optional
        The first port to try; 0 for any free port.
    port_end : int, optional
        The end of the port range (exclusive).
    web_port : int, optional
        Not supported: sessions in a browser. Must be 0.
    timeout_client : float, optional
        Seconds that a client waits for a server.
    timeout_server : float, optional
        Seconds that a server waits for a client before it has to connect again.
    tracker_addr : tuple, optional
        Host and port of a tracker with which the servers are registered.
    index_page, resource_files : optional
        Not supported: sessions in a browser. Must be None.
    reuse_addr : bool, optional
        Whether a recently used port may be reused.
    silent : bool, optional
        Whether to print no messages.
    tls : Sequence, optional
        Paths of a certificate, its key, and a CA that must have signed the clients' certificates (key and CA may be
        None).

    Raises
    ------
    ValueError
        An unsupported option is given, or no port is free.
    TVMError
        The address is outside loopback and there is no secret, or the TLS files cannot be used.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        web_port: int = 0,
        timeout_client: float = 600,
        timeout_server: float = 600,
        tracker_addr: tuple[str, int] | None = None,
        index_page: Any = None,
        resource_files: Any = None,
        reuse_addr: bool = True,
        silent: bool = False,
        tls: Sequence[str | None] | None = None,
    ):
        check_web(web_port, index_page, resource_files)
        server_context(*(tls or (None,)))  # Raise errors in arguments here.
        options = {
            "silent": silent,
            "timeout_client": timeout_client,
            "timeout_server": timeout_server,
            "tracker_addr": tracker_addr,
            "tls": tls and list(tls),
        }
        self._start(serve, options, base.listen(host, port, port_end, "rpc.proxy.Proxy", reuse_addr))
        if not silent:
            logger.info("bind to %s:%d", self.host, self.port)


__all__ = ["Proxy"]


def __getattr__(name: str):
    try:
        from ..not_built import name_of
    except ImportError:  # The runtime-only package does not list features that are not implemented.
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None
    return name_of(__name__, name)
