"""Shared code of both ends of a connection: addresses, the secret, proofs of the handshakes (``docs/rpc.md``)."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import os
import secrets
import select
import socket
import stat
import struct
from collections.abc import Callable, Container
from typing import Any

from ..error import RPCError, TVMError
from . import tls

TRACKER_MAGIC, TRACKER_SECRET_MAGIC = 0x2F271, 0x2F272
FAIL, SUCCESS, PING, STOP, PUT, REQUEST, UPDATE_INFO, SUMMARY, GET_PENDING_MATCHKEYS = range(-1, 8)
HELLO = b"TVMRPC1\n"
NONCE = 32
MOST_JSON = 1 << 20
MOST_KEY = 1024
# How long a peer may take for its part of a handshake; and how long a client waits for a peer that may still be
# starting.
HANDSHAKE_SECONDS = 20.0
ANSWER_SECONDS = 60.0
# A message is printed after waiting this long for a device.
PATIENCE_SECONDS = 5.0

logger = logging.getLogger("RPCClient")


def secret() -> bytes:
    """Return the secret from the file or variable that is set, or empty bytes if neither is set."""
    path = os.environ.get("TVM_RPC_SECRET_FILE")
    if not path:
        return os.environ.get("TVM_RPC_SECRET", "").encode()
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        raise TVMError(f"the secret file must be readable by its owner only (chmod 600): {path}")
    with open(path, "rb") as file:
        found = file.read().rstrip(b"\r\n")
    if not found:
        raise TVMError(f"the secret file is empty: {path}")
    return found


def proof(key: bytes, role: str, client: bytes, server: bytes, name: bytes = b"") -> bytes:
    return hmac.new(key, role.encode() + client + server + name, hashlib.sha256).digest()


def random_key(prefix: str, delimiter: str = ":", cmap: Container[str] | None = None) -> str:
    """Return ``prefix``, ``delimiter`` and random letters that are not a key in ``cmap``."""
    while True:
        key = f"{prefix}{delimiter}{secrets.token_hex(16)}"
        if cmap is None or key not in cmap:
            return key


def split_random_key(key: str, delimiter: str = ":") -> list[str]:
    """Split a key from ``random_key`` into its prefix and its random letters."""
    return key.rsplit(delimiter, 1)


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback


def check_reach(host: str, what: str) -> None:
    """Raise an error if an address outside loopback is used without a secret."""
    held = secret()  # an unusable secret is an error for any address
    if not held and not is_loopback(host):
        raise TVMError(
            f"{what} on {host}: an address outside loopback requires a secret: set TVM_RPC_SECRET_FILE to a "
            "file that contains it (or TVM_RPC_SECRET to the secret), here and on the clients; or listen on 127.0.0.1"
        )


def listen(host: str, port: int, port_end: int, what: str, reuse_addr: bool = True) -> socket.socket:
    """Return a socket that listens on the first free port of ``port`` to ``port_end`` (exclusive).

    If ``port_end`` is not greater than ``port``, only ``port`` is tried; for port 0 the system selects a free port. An
    address outside loopback requires a secret."""
    check_reach(host, what)
    port_end = max(port_end, port + 1)
    for number in range(port, port_end) if port else (0,):
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if reuse_addr:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, number))
            found.listen(128)
            return found
        except OSError:
            found.close()
    tried = f"port {port} of {host}" if port_end == port + 1 else f"no port of {host} from {port} to {port_end - 1}"
    raise ValueError(f"{what}: {tried} is {'not ' if port_end == port + 1 else ''}free; give another port")


def recv_exact(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        piece = sock.recv(min(size - len(parts), 1 << 16))
        if not piece:
            raise RPCError("the other side closed the connection")
        parts += piece
    return bytes(parts)


def connect_to(address: tuple[str, int], seconds: float = ANSWER_SECONDS) -> socket.socket:
    """Return a connection with a timeout for every reply; errors contain the address."""
    try:
        sock = socket.create_connection(address, seconds)
    except OSError as problem:
        raise RPCError(f"cannot connect to {address[0]}:{address[1]}: {problem.strerror or problem}") from None
    keep_alive(sock)
    context = tls.client_context()
    return tls.through(sock, context, address[0]) if context else sock


def keep_alive(sock: socket.socket) -> None:
    """Disable Nagle's algorithm and enable keep-alive, to detect a vanished peer after about half a minute."""
    if sock.family != socket.AF_INET:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30000)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def guarded(what: str, act: Callable[[], Any]) -> Any:
    """Convert socket errors to RPC errors that name the connection ``what``."""
    try:
        return act()
    except TimeoutError:
        raise RPCError(f"{what} did not respond in time") from None
    except OSError as problem:
        raise RPCError(f"{what}: {problem.strerror or problem}") from None


# ---- messages of the tracker protocol ----


def send_json(sock: socket.socket, value: Any) -> None:
    text = json.dumps(value).encode()
    sock.sendall(struct.pack("<i", len(text)) + text)


def recv_json(sock: socket.socket) -> Any:
    (length,) = struct.unpack("<i", recv_exact(sock, 4))
    if not 0 <= length <= MOST_JSON:
        raise RPCError(f"received a message of {length} bytes; the maximum is {MOST_JSON}")
    return json.loads(recv_exact(sock, length))


def greet_tracker(sock: socket.socket, what: str) -> None:
    """Perform the handshake with a tracker: both sides prove the secret, or neither side has one."""
    key = secret()
    sock.sendall(struct.pack("<i", TRACKER_MAGIC))
    (answer,) = struct.unpack("<i", recv_exact(sock, 4))
    if answer == TRACKER_MAGIC and not key:
        return
    if answer == TRACKER_MAGIC:
        raise RPCError(f"{what} does not use a secret, but one is set here")
    if answer != TRACKER_SECRET_MAGIC:
        raise RPCError(f"{what} is not an RPC tracker")
    if not key:
        raise RPCError(f"{what} requires a secret: set TVM_RPC_SECRET_FILE or TVM_RPC_SECRET")
    theirs, ours = recv_exact(sock, NONCE), os.urandom(NONCE)
    sock.sendall(ours + proof(key, "tvm tracker client", ours, theirs))
    try:
        shown = recv_exact(sock, 32)
    except RPCError:
        raise RPCError(
            f"{what} rejects this client: its secret differs from the secret that is set here "
            "(TVM_RPC_SECRET_FILE or TVM_RPC_SECRET)"
        ) from None
    if not hmac.compare_digest(shown, proof(key, "tvm tracker server", ours, theirs)):
        raise RPCError(f"{what} did not prove that it has the secret")


# ---- handshake of sessions ----

# Lengths of the server's messages in a session handshake: its reply to the greeting, and its last message without text.
ANSWER_BYTES, LAST_WORD = len(HELLO) + 4 + NONCE, struct.Struct("<I32sdQI")
REFUSED_SECRET, REFUSED_KEY, TURNED_AWAY = 1, 2, 2
_MOST_TEXT = 4096


def read_answer(answer: bytes, key: bytes, what: str) -> bytes:
    """Check the server's reply, including whether both sides use a secret; return the server's nonce."""
    flags, theirs = int.from_bytes(answer[8:12], "little"), answer[12:]
    if answer[:6] == HELLO[:6] and answer[:8] != HELLO:
        said, ours = answer[6:7].decode("ascii", "replace"), HELLO[6:7].decode()
        raise RPCError(
            f"{what} uses version {said} of the protocol and this side version {ours}: "
            "install the same release on both machines"
        )
    if answer[:8] != HELLO or flags > 2:
        raise RPCError(f"{what} is not an RPC server of this version")
    if flags == TURNED_AWAY:
        raise RPCError(f"{what} rejects this address after too many failed handshakes or connections; wait a minute")
    if flags == 1 and not key:
        raise RPCError(f"{what} requires a secret: set TVM_RPC_SECRET_FILE or TVM_RPC_SECRET")
    if flags == 0 and key:
        raise RPCError(f"{what} does not use a secret, but one is set here")
    return theirs


def introduce(key: bytes, ours: bytes, theirs: bytes, name: bytes) -> bytes:
    """Return the client's proof of the secret and its identity."""
    shown = proof(key, "tvm rpc client", ours, theirs, name) if key else bytes(32)
    return shown + struct.pack("<I", len(name)) + name


def read_last_word(head: bytes, what: str) -> tuple[int, bytes, float, int, int]:
    """Return status, proof, time limit in seconds, maximum message size and the length of the following text."""
    word = LAST_WORD.unpack(head)
    if word[4] > _MOST_TEXT:
        raise RPCError(f"{what} is not an RPC server of this version")
    return word


def greet_server(sock: socket.socket, what: str, name: str) -> tuple[float, int, str]:
    """Perform the client's side of a session handshake.

    Return the session's time limit in seconds, its maximum message size and the server's key."""
    key, ours, text = secret(), os.urandom(NONCE), name.encode()
    sock.sendall(HELLO + ours)
    theirs = read_answer(recv_exact(sock, ANSWER_BYTES), key, what)
    sock.sendall(introduce(key, ours, theirs, text))
    sock.settimeout(None)  # wait without a limit, because the device may be in use
    if not select.select([sock], [], [], PATIENCE_SECONDS)[0]:
        logger.info("%s is in use by another client; waiting for it", what)
    status, proved, seconds, most, length = read_last_word(recv_exact(sock, LAST_WORD.size), what)
    said = recv_exact(sock, length).decode("utf-8", "replace")
    if status:
        raise RPCError(f"{what} rejects the session: {said}")
    if key and not hmac.compare_digest(proved, proof(key, "tvm rpc server", ours, theirs, text)):
        raise RPCError(f"{what} did not prove that it has the secret")
    return seconds, most, said
