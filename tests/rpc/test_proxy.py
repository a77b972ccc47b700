"""The proxy: sessions with servers that can only call out, as closed as a server is."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
import time

import numpy as np
import pytest

import tvm
from tests.rpc.conftest import PROGRAM, register
from tests.rpc.test_tracker import free, until
from tvm import TVMError, rpc
from tvm.error import RPCError, RPCSessionTimeoutError
from tvm.rpc import base
from tvm.rpc.proxy import Proxy
from tvm.rpc.tracker import Tracker


@pytest.fixture(scope="module")
def proxy():
    made = Proxy(port=0, silent=True)
    yield made
    made.terminate()
    assert made.proc.returncode == 0


@pytest.fixture
def called(proxy):
    """Starts C servers that wait at the proxy."""
    started = []

    def start(key: str, *options: str):
        words = [PROGRAM, "--proxy", f"{proxy.host}:{proxy.port}", "--key", key, *options]
        started.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.wait(60)


def test_sessions_go_through_the_proxy_one_after_the_other(proxy, called, library):
    called("board")
    data = np.random.default_rng(1).random(3 << 20).astype("float32")  # longer than what the proxy holds
    for _ in range(3):
        with rpc.connect(proxy.host, proxy.port, "board") as remote:
            assert remote.listdir() == ""
            remote.upload(library)
            array = tvm.nd.array(data, remote.cpu())
            module = remote.load_module("add_one.so")
            module(array, array)
            np.testing.assert_array_equal(array.numpy(), data + 1)


def test_the_python_server_waits_at_a_proxy_and_callbacks_come_back_through_it(proxy):
    server = rpc.Server(proxy.host, proxy.port, is_proxy=True, key="desk", server_init_callback=register, silent=True)
    with rpc.connect(proxy.host, proxy.port, "desk") as remote:
        assert remote.get_function("test.rpc.twice")(lambda x: x * 3, 7) == 63
        assert remote.get_function("test.rpc.add")(2, 5) == 7
    server.terminate()
    assert server.proc.returncode == 0
    with pytest.raises(ValueError, match="custom_addr cannot be used with a proxy"):
        rpc.Server(proxy.host, proxy.port, is_proxy=True, key="desk", custom_addr="127.0.0.1")


def test_a_server_behind_a_proxy_may_name_the_tracker_of_the_proxy():
    tracker = Tracker(port=0, silent=True)
    where = (tracker.host, tracker.port)
    proxy = Proxy("127.0.0.1", 0, tracker_addr=where, silent=True)
    server = rpc.Server(proxy.host, proxy.port, is_proxy=True, key="desk", tracker_addr=where, silent=True)
    with rpc.connect_tracker(*where).request("desk", session_timeout=60) as remote:
        assert remote.get_function("rpc.test.addone")(1) == 2
    for one in (server, proxy, tracker):
        one.terminate()


def test_a_client_waits_for_a_server_of_its_key(proxy, called):
    called("other")
    got: list = []
    waiting = threading.Thread(target=lambda: got.append(rpc.connect(proxy.host, proxy.port, "board")))
    waiting.start()
    with rpc.connect(proxy.host, proxy.port, "other") as remote:
        assert remote.listdir() == "" and not got
    called("board")
    waiting.join(60)
    assert got[0].listdir() == ""
    got[0].close()


def test_a_server_that_dies_ends_its_session_and_the_next_client_gets_another(proxy, called, sessions_folder):
    first = called("board")
    remote = rpc.connect(proxy.host, proxy.port, "board")
    first.kill()
    with pytest.raises(RPCError, match="the session has ended"):
        while True:
            remote.listdir()
    called("board")
    with rpc.connect(proxy.host, proxy.port, "board") as remote:
        assert remote.listdir() == ""


def test_a_client_that_goes_frees_the_server(proxy, called):
    called("board")
    for _ in range(2):
        sock = socket.create_connection((proxy.host, proxy.port), 60)
        base.greet_server(sock, "the proxy", "client:board")
        sock.close()
    with rpc.connect(proxy.host, proxy.port, "board") as remote:
        assert remote.listdir() == ""


def test_the_limit_of_a_session_goes_through(proxy, called):
    called("board", "--max-seconds", "0.3")
    remote = rpc.connect(proxy.host, proxy.port, "board")
    with pytest.raises(RPCSessionTimeoutError, match=r"limit of 0\.3 s"):
        while True:
            remote.listdir()


def test_a_client_is_told_when_no_server_comes():
    proxy = Proxy(port=0, silent=True, timeout_client=0.1)
    with pytest.raises(RPCError, match=r"no server 'board' connected within 0\.1 s"):
        rpc.connect(proxy.host, proxy.port, "board")
    proxy.terminate()


def test_a_proxy_offers_its_servers_to_a_tracker():
    tracker = Tracker(port=0, silent=True)
    proxy = Proxy(port=0, silent=True, tracker_addr=(tracker.host, tracker.port))
    server = rpc.Server(proxy.host, proxy.port, is_proxy=True, key="board", silent=True)
    client = rpc.connect_tracker(tracker.host, tracker.port)
    for _ in range(3):
        with client.request("board") as remote:
            assert remote.listdir() == "" and free(client, "board") == 0
    until(lambda: free(client, "board") == 1, "the server is offered again")
    assert f"127.0.0.1:{proxy.port}" in client.text_summary() and "server:board" in client.text_summary()
    with pytest.raises(RPCError, match="no server is registered under this key"):
        rpc.connect(proxy.host, proxy.port, "board")
    server.terminate()
    until(lambda: free(client, "board") == 0, "the offer is gone with the server")
    for one in (proxy, tracker):
        one.terminate()


# ---- closed by default ----


def test_a_proxy_outside_loopback_needs_a_secret_and_asks_for_it(monkeypatch):
    with pytest.raises(TVMError, match="outside loopback requires a secret"):
        Proxy("0.0.0.0", port=0)
    with pytest.raises(TVMError, match="outside loopback requires a secret"):
        rpc.Server("192.0.2.1", 9090, is_proxy=True, key="board")
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    proxy = Proxy("0.0.0.0", port=0, silent=True)
    server = rpc.Server("127.0.0.1", proxy.port, is_proxy=True, key="board", silent=True)
    with rpc.connect("127.0.0.1", proxy.port, "board") as remote:
        assert remote.listdir() == ""
    monkeypatch.delenv("TVM_RPC_SECRET")
    with pytest.raises(RPCError, match="requires a secret"):
        rpc.connect("127.0.0.1", proxy.port, "board")
    monkeypatch.setenv("TVM_RPC_SECRET", "wrong horse")
    for _ in range(8):
        with pytest.raises(RPCError, match="the secret is wrong"):
            rpc.connect("127.0.0.1", proxy.port, "board")
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    with pytest.raises(RPCError, match="rejects this address"):
        rpc.connect("127.0.0.1", proxy.port, "board")
    server.terminate()
    proxy.terminate()


def test_a_server_without_the_secret_is_not_taken(proxy, called, monkeypatch):
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    with pytest.raises(RPCError, match="does not use a secret"):
        rpc.connect(proxy.host, proxy.port, "board")


def raw(proxy, sent: bytes) -> bytes:
    with socket.create_connection((proxy.host, proxy.port), 60) as sock:
        sock.sendall(sent)
        got = b""
        try:
            while piece := sock.recv(4096):
                got += piece
        except ConnectionResetError:
            pass
        return got


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"GET / HTTP/1.1\r\nHost: board\r\n\r\n" + bytes(40), 0),
        (base.HELLO + bytes(64) + struct.pack("<I", 1025), 44),
        (base.HELLO + bytes(64) + struct.pack("<I", 12) + b"nobody:board", 140),
        (base.HELLO + bytes(64) + struct.pack("<I", 7) + b"client:" + b"too soon", 44),
        (b"TVMRPC9\n" + bytes(32), 44),
    ],
    ids=["http", "long key", "neither", "too soon", "other version"],
)
def test_what_is_no_handshake_ends_the_connection_and_nothing_else(proxy, called, sent, answered):
    assert len(raw(proxy, sent)) == answered
    called("board")
    rpc.connect(proxy.host, proxy.port, "board").close()


def test_a_peer_that_says_nothing_holds_up_nobody(proxy, called):
    silent = [socket.create_connection((proxy.host, proxy.port), 60) for _ in range(20)]
    half = socket.create_connection((proxy.host, proxy.port), 60)
    half.sendall(base.HELLO)
    called("board")
    start = time.monotonic()
    with rpc.connect(proxy.host, proxy.port, "board") as remote:
        assert remote.listdir() == ""
    assert time.monotonic() - start < base.HANDSHAKE_SECONDS  # nobody's time had to run out
    for sock in (*silent, half):
        sock.close()


def test_sessions_in_a_browser_are_refused_in_words():
    with pytest.raises(ValueError, match="sessions in a browser"):
        Proxy(port=0, web_port=8888)
