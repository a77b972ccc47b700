"""Connections under TLS: to the tracker, the proxy and the Python server, with certificates that are checked.

The files in ``tls`` are a CA, a certificate of its for this machine with the key, and another CA. They guard nothing.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.rpc.test_tracker import free, until
from tvm import TVMError, rpc
from tvm.error import RPCError
from tvm.rpc.proxy import Proxy
from tvm.rpc.tracker import Tracker

FILES = Path(__file__).parent / "tls"
CA, PEER, OTHER = (str(FILES / f"{name}.pem") for name in ("ca", "peer", "other"))


@pytest.fixture(autouse=True)
def trusted(monkeypatch):
    """The client's side: it trusts the CA, and has a certificate of its own."""
    monkeypatch.setenv("TVM_RPC_TLS_CA", CA)
    monkeypatch.setenv("TVM_RPC_TLS_CERT", PEER)


def use(remote) -> None:
    data = np.random.default_rng(1).random(1 << 18)  # more than a tunnel holds
    array = tvm.nd.array(data, remote.cpu())
    np.testing.assert_array_equal(array.numpy(), data)
    remote.upload(bytes(100000), "file")
    assert remote.listdir() == "file" and len(remote.download("file")) == 100000


@pytest.mark.slow("starts a tracker, a server and a client")
def test_a_python_server_of_a_tracker_is_used_under_tls_all_the_way():
    tracker = Tracker(port=0, silent=True, tls=(PEER, None, CA))
    address = tracker.host, tracker.port
    server = rpc.Server(port=0, key="board", tracker_addr=address, tls=(PEER, None, CA), silent=True)
    client = rpc.connect_tracker(tracker.host, tracker.port)
    for _ in range(2):
        with client.request("board") as remote:
            use(remote)
    assert f"127.0.0.1:{server.port}" in client.text_summary()
    until(lambda: free(client, "board") == 1, "the device is back")
    client.close()
    for one in (server, tracker):
        one.terminate()
        assert one.proc.returncode == 0


def test_a_server_waits_at_a_proxy_under_tls():
    proxy = Proxy(port=0, silent=True, tls=(PEER,))
    server = rpc.Server(proxy.host, proxy.port, is_proxy=True, key="board", silent=True)
    for _ in range(2):
        with rpc.connect(proxy.host, proxy.port, "board") as remote:
            use(remote)
    server.terminate()
    proxy.terminate()


@pytest.fixture(scope="module")
def guarded():
    """A tracker that wants to see certificates."""
    made = Tracker(port=0, silent=True, tls=(PEER, None, CA))
    yield made
    made.terminate()


def test_who_cannot_show_what_is_asked_for_is_refused(guarded, monkeypatch):
    assert rpc.connect_tracker(guarded.host, guarded.port).summary()["server_info"] == []
    monkeypatch.setenv("TVM_RPC_TLS_CA", OTHER)
    with pytest.raises(RPCError, match="the TLS handshake failed: .*certificate"):
        rpc.connect_tracker(guarded.host, guarded.port)
    monkeypatch.setenv("TVM_RPC_TLS_CA", CA)
    monkeypatch.delenv("TVM_RPC_TLS_CERT")
    with pytest.raises(RPCError):  # it has no certificate
        rpc.connect_tracker(guarded.host, guarded.port).summary()
    monkeypatch.delenv("TVM_RPC_TLS_CA")
    with pytest.raises(RPCError):  # it speaks no TLS
        rpc.connect_tracker(guarded.host, guarded.port)
    monkeypatch.setenv("TVM_RPC_TLS_CA", CA)
    monkeypatch.setenv("TVM_RPC_TLS_CERT", PEER)
    assert rpc.connect_tracker(guarded.host, guarded.port).summary()["server_info"] == []


def test_a_certificate_of_another_name_is_refused(guarded, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", lambda address, *rest: connect(("127.0.0.1", guarded.port), *rest))
    with pytest.raises(RPCError, match="board.example: the TLS handshake failed"):
        rpc.connect_tracker("board.example", guarded.port)


connect = socket.create_connection


def test_a_peer_that_says_nothing_under_tls_holds_up_nobody(guarded):
    silent = [socket.create_connection((guarded.host, guarded.port)) for _ in range(10)]
    context = ssl.create_default_context(cafile=CA)
    context.load_cert_chain(PEER)
    greeted = context.wrap_socket(socket.create_connection((guarded.host, guarded.port)), server_hostname="127.0.0.1")
    assert rpc.connect_tracker(guarded.host, guarded.port).summary()["server_info"] == []
    for sock in (*silent, greeted):
        sock.close()


def test_files_that_cannot_be_used_are_named(tmp_path, monkeypatch):
    for make in (Tracker, Proxy, rpc.Server):
        with pytest.raises(TVMError, match="cannot use the TLS files .*nothing.pem"):
            make(port=0, tls=(str(tmp_path / "nothing.pem"),))
    with pytest.raises(TVMError, match="without a certificate"):
        Tracker(port=0, tls=(None, None, CA))
    monkeypatch.setenv("TVM_RPC_TLS_CA", str(tmp_path / "nothing.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(TVMError, match="nothing.pem"):
        rpc.connect_tracker(*listening.getsockname())


def test_a_server_in_c_behind_a_tunnel_tells_the_port_of_the_tunnel(c_server, monkeypatch):
    monkeypatch.delenv("TVM_RPC_TLS_CA")
    tracker = Tracker(port=0, silent=True)
    c_server("--key", "board", "--tracker", f"{tracker.host}:{tracker.port}", "--custom-port", "4711")
    client = rpc.connect_tracker(tracker.host, tracker.port)
    until(lambda: free(client, "board") == 1, "the server is offered")
    assert client.summary()["server_info"] == [{"key": "server:board", "addr": ["127.0.0.1", 4711]}]
    tracker.terminate()
