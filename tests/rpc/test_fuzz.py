"""Damaged and hostile messages into the tracker and the proxy. ``TVM_FUZZ_CASES`` says how many of each; those into
servers and clients, which are C, are in ``csrc/tests/test_rpc.c``, so that the sanitizers see them."""

from __future__ import annotations

import json
import os
import random
import socket
import struct

import pytest

from tvm.rpc import base
from tvm.rpc.proxy import _Proxy
from tvm.rpc.tracker import _Tracker

MESSAGES = int(os.environ.get("TVM_FUZZ_CASES", "1500"))
SECRET = b"correct horse"
_NUMBERS = (0, 1, -1, 7, 2**31, 2**63, -(2**70), 1.5, 1e308)
_TEXTS = ("", "k", "board", "board:0", "server:board", "client:board", "x" * 2000, "\0", "\ud83d", "10.0.0.1")


class Hostile:
    """Peers of a loop that runs in this thread, one step at a time, so that nothing escapes and nothing waits."""

    def __init__(self, loop, seed: int):
        self.loop, self.draw = loop, random.Random(seed)
        self.ends: dict = {}  # the other ends of its peers, and what came there

    def join(self):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        peer = self.loop.add(theirs, "127.0.0.1")
        self.loop._strangers["127.0.0.1"] += 1
        self.ends[peer] = (ours, bytearray())
        return peer

    def send(self, peer, data: bytes) -> None:
        if peer not in self.ends:  # it was turned out
            return
        try:
            self.ends[peer][0].send(data)
        except OSError:
            self.leave(peer)

    def leave(self, peer) -> None:
        self.ends.pop(peer)[0].close()

    def step(self) -> None:
        for _ in range(3):
            self.loop.step(0)
        for peer, (sock, got) in list(self.ends.items()):
            try:
                piece = sock.recv(1 << 16)
                got += piece
            except BlockingIOError:
                continue
            except OSError:
                piece = b""
            if not piece:
                self.leave(peer)

    def damaged(self, data: bytes) -> bytes:
        """Mostly as it is, sometimes cut, changed or longer."""
        if self.draw.random() < 0.7 or not data:
            return data
        out = bytearray(data)
        for _ in range(self.draw.randrange(4)):
            out[self.draw.randrange(len(out))] = self.draw.randrange(256)
        if self.draw.random() < 0.3:
            del out[self.draw.randrange(len(out)) :]
        if self.draw.random() < 0.2:
            out += self.draw.randbytes(self.draw.randrange(64))
        return bytes(out)

    def finish(self) -> None:
        for peer in list(self.ends):
            self.leave(peer)
        for _ in range(4):
            self.loop.step(0)
        assert not self.loop.peers and not self.loop._strangers

    def run(self, messages: int, act) -> None:
        while messages > 0:
            while len(self.ends) < 6:
                self.join()
            peer = self.draw.choice(list(self.ends))
            messages -= act(self, peer)
            self.step()
            if peer in self.ends and self.draw.random() < 0.05:
                self.leave(peer)
        self.finish()


def value(draw: random.Random, depth: int = 0):
    kind = draw.randrange(9 if depth < 3 else 5)
    if kind < 2:
        return draw.choice(_TEXTS)
    if kind < 4:
        return draw.choice(_NUMBERS)
    if kind == 4:
        return draw.choice((None, True, False))
    if kind < 7:
        return [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {draw.choice(("key", "addr", "x")): value(draw, depth + 1) for _ in range(draw.randrange(3))}


def message(draw: random.Random) -> bytes:
    """A message of the tracker, right or nearly so."""
    key, number = draw.choice(("k", "board")), draw.randrange(100)
    made = draw.choice(
        (
            [base.PUT, key, [number, f"{key}:{number}"], None],
            [base.REQUEST, key, "", draw.randrange(3)],
            [base.UPDATE_INFO, {"key": f"server:{key}", "addr": [None, number]}],
            [base.SUMMARY],
            [base.GET_PENDING_MATCHKEYS],
            [base.PING],
            value(draw),
        )
    )
    if isinstance(made, list) and made and draw.random() < 0.2:
        made[draw.randrange(len(made))] = value(draw)
    text = json.dumps(made).encode()
    length = len(text) if draw.random() < 0.97 else draw.choice((-1, 0, 1, 2**20 + 1, 2**31 - 1))
    return struct.pack("<i", length) + text


@pytest.fixture
def listening():
    with base.listen("127.0.0.1", 0, 0, "test") as sock:
        yield sock


def test_a_tracker_outlives_whatever_it_is_told(listening, seed):
    tracker = _Tracker(listening, b"", -1, True)

    def act(hostile: Hostile, peer) -> int:
        data = b"" if peer.greeted else struct.pack("<i", base.TRACKER_MAGIC)
        count = 1 + hostile.draw.randrange(8)
        hostile.send(peer, data + b"".join(hostile.damaged(message(hostile.draw)) for _ in range(count)))
        for queue in tracker._queues.values():
            assert all(offer.server.is_open for offer in queue.free)
            assert all(entry[2].is_open for entry in queue.waiting)
            assert not (queue.free and queue.waiting)  # who waits is given what is free
        assert len(tracker._queues) <= 4096
        return count

    Hostile(tracker, seed).run(MESSAGES, act)
    assert not any(queue.free or queue.waiting for queue in tracker._queues.values())


def test_a_tracker_answers_nothing_but_the_handshake_without_the_secret(listening, seed):
    tracker = _Tracker(listening, SECRET, -1, True)
    failures: list[int] = []

    def act(hostile: Hostile, peer) -> int:
        got = hostile.ends[peer][1]
        greeting = struct.pack("<i", base.TRACKER_MAGIC) + hostile.draw.randbytes(64)
        hostile.send(peer, hostile.damaged(greeting) + message(hostile.draw))
        hostile.step()
        assert len(got) in (0, 4 + base.NONCE)
        assert not peer.greeted and not tracker._queues
        failures.append(tracker._failures["127.0.0.1"])
        return 2

    Hostile(tracker, seed).run(MESSAGES, act)
    assert max(failures) >= 8  # from there on the address is turned away


def introduction(draw: random.Random, secret: bytes, challenge: bytes, ours: bytes) -> bytes:
    names = b"client:board", b"server:board", b"client:k -timeout=1", b"server:k", b"x", b"", b"server:" + bytes(9)
    name = draw.choice(names)
    return base.introduce(secret, ours, challenge, name)


def last_word(draw: random.Random, secret: bytes, server) -> bytes:
    """What a server answers a proxy that has a client for it."""
    ours, text = draw.randbytes(base.NONCE), b"server:board"
    proved = draw.randbytes(32)
    if secret and server.other is not None:
        name = b"client:" + server.key.encode() + b"".join(server.other.name.partition(b" ")[1:])
        proved = base.proof(secret, "tvm rpc server", server.theirs, ours, name)
    answer = base.HELLO + struct.pack("<I", bool(secret)) + ours
    return answer + base.LAST_WORD.pack(draw.randrange(8) // 7, proved, 0.0, 1 << 20, len(text)) + text


@pytest.mark.parametrize("secret", [b"", SECRET], ids=["open", "secret"])
def test_a_proxy_outlives_whatever_it_is_told_and_joins_one_client_to_one_server(listening, seed, secret, monkeypatch):
    monkeypatch.setenv("TVM_RPC_SECRET", secret.decode())
    proxy = _Proxy(listening, (600.0, 600.0), None, silent=True)

    def act(hostile: Hostile, peer) -> int:
        ours = hostile.draw.randbytes(base.NONCE)
        if peer.stage is None:
            hostile.send(peer, hostile.damaged(base.HELLO + ours))
            hostile.step()
        if peer.stage == proxy._introduced and peer in hostile.ends:
            hostile.send(peer, hostile.damaged(introduction(hostile.draw, secret, peer.ours, peer.theirs)))
        elif peer.stage == proxy._answered:
            hostile.send(peer, hostile.damaged(last_word(hostile.draw, secret, peer)))
        elif peer.stage == proxy._relay:
            hostile.send(peer, hostile.draw.randbytes(hostile.draw.randrange(4096)))
        else:
            hostile.send(peer, hostile.draw.randbytes(hostile.draw.randrange(4)))
        hostile.step()
        for one in proxy.peers:
            assert one.other is None or one.other.other is one
            assert len(one.received) <= 2 * base.MOST_KEY + 4096
        assert all(one.other is None and one.is_open for one in (*proxy._clients, *proxy._servers))
        waiting = {one.key for one in proxy._clients} & {one.key for one in proxy._servers}
        assert not waiting
        return 2

    Hostile(proxy, seed).run(MESSAGES, act)
    assert not proxy._clients and not proxy._servers


def test_a_proxy_answers_nothing_but_the_handshake_without_the_secret(listening, seed, monkeypatch):
    monkeypatch.setenv("TVM_RPC_SECRET", SECRET.decode())
    proxy = _Proxy(listening, (600.0, 600.0), None, silent=True)
    refusal = base.LAST_WORD.pack(base.REFUSED_SECRET, bytes(32), 0.0, 0, 19) + b"the secret is wrong"
    failures: list[int] = []

    def act(hostile: Hostile, peer) -> int:
        got = hostile.ends[peer][1]
        known = introduction(hostile.draw, b"wrong horse", hostile.draw.randbytes(32), bytes(32))
        hostile.send(peer, hostile.damaged(base.HELLO + bytes(base.NONCE)) + hostile.damaged(known))
        hostile.step()
        assert got == b"" or (got.startswith(base.HELLO) and got[44:] in (b"", refusal))
        assert not peer.greeted and not proxy._clients and not proxy._servers
        failures.append(proxy._failures["127.0.0.1"])
        return 2

    Hostile(proxy, seed).run(MESSAGES, act)
    assert max(failures) >= 8  # from there on the address is turned away
