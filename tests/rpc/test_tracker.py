"""The tracker: devices lent by key, back in the pool when their sessions end, no request lost or given twice."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time

import pytest

from tvm import TVMError, rpc
from tvm.error import RPCError
from tvm.rpc import base
from tvm.rpc.server import start_process
from tvm.rpc.tracker import Tracker, serve


@pytest.fixture
def tracker():
    made = Tracker(port=0, silent=True)
    yield made
    made.terminate()
    assert made.proc.returncode == 0


def until(condition, what: str):
    """Waits for what another process does in its own time."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(f"it never came about that {what}")


def free(client, key: str) -> int:
    return client.summary()["queue_info"].get(key, {"free": 0})["free"]


def serve_key(c_server, tracker, key: str, *options: str, **environment: str):
    return c_server("--key", key, "--tracker", f"{tracker.host}:{tracker.port}", *options, **environment)


def test_a_device_is_lent_and_comes_back(c_server, tracker):
    serve_key(c_server, tracker, "board")
    client = rpc.connect_tracker(tracker.host, tracker.port)
    for _ in range(3):
        session = client.request("board")
        assert session.listdir() == "" and free(client, "board") == 0
        session.close()
    until(lambda: free(client, "board") == 1, "the device is back")
    text = client.text_summary()
    assert "Server List" in text and "server:board" in text and "Queue Status" in text
    assert text.splitlines()[-2].split() == ["board", "1", "1", "0"]
    assert client.request_and_run("board", lambda remote: remote.listdir()) == ""
    client.close()


def test_each_of_two_devices_is_lent_once(c_server, tracker):
    for _ in range(2):
        serve_key(c_server, tracker, "board")
    client = rpc.connect_tracker(tracker.host, tracker.port)
    until(lambda: free(client, "board") == 2, "both are offered")
    sessions = [client.request("board") for _ in range(2)]
    assert free(client, "board") == 0
    assert len({session.get_function("tvm.rpc.server.workpath")() for session in sessions}) == 2
    got = []
    other = rpc.connect_tracker(tracker.host, tracker.port)
    waiting = threading.Thread(target=lambda: got.append(other.request("board")))
    waiting.start()
    until(lambda: client.summary()["queue_info"]["board"]["pending"] == 1, "the third waits")
    assert not got
    sessions.pop().close()
    waiting.join(30)
    assert got[0].listdir() == ""
    got[0].close()


def raw(tracker) -> socket.socket:
    sock = socket.create_connection((tracker.host, tracker.port), 60)
    base.greet_tracker(sock, "the tracker")
    return sock


def ask(sock: socket.socket, *message):
    base.send_json(sock, list(message))
    return base.recv_json(sock)


def test_requests_of_higher_priority_come_first_and_those_of_the_gone_are_dropped(tracker):
    low, gone, high, later, server = (raw(tracker) for _ in range(5))
    base.send_json(gone, [base.REQUEST, "k", "", 9])
    base.send_json(low, [base.REQUEST, "k", "", 1])
    base.send_json(high, [base.REQUEST, "k", "", 5])
    base.send_json(later, [base.REQUEST, "k", "", 5])

    def pending() -> int:
        return ask(server, base.SUMMARY)[1]["queue_info"].get("k", {"pending": 0})["pending"]

    until(lambda: pending() == 4, "four wait")
    gone.close()
    until(lambda: pending() == 3, "one is gone")
    for number in range(3):
        assert ask(server, base.PUT, "k", [1000 + number, f"k:{number}"], None) == base.SUCCESS
    # The order of requests that came on different connections is that of their arrival.
    first, second = base.recv_json(high), base.recv_json(later)
    assert {first[1][1], second[1][1]} == {1000, 1001}
    assert base.recv_json(low) == [0, ["127.0.0.1", 1002, "k:2"]]
    for sock in (low, high, later, server):
        sock.close()


def test_what_a_server_offered_goes_with_it(tracker):
    server, client = raw(tracker), raw(tracker)
    assert ask(server, base.UPDATE_INFO, {"key": "server:k", "addr": [None, 77]}) == base.SUCCESS
    assert ask(server, base.PUT, "k", [77, "k:1"], "board.local") == base.SUCCESS
    assert ask(client, base.GET_PENDING_MATCHKEYS) == ["k:1"]
    assert ask(client, base.SUMMARY)[1] == {
        "queue_info": {"k": {"free": 1, "pending": 0}},
        "server_info": [{"key": "server:k", "addr": ["127.0.0.1", 77]}],
    }
    assert ask(client, base.REQUEST, "k", "", 1) == [0, ["board.local", 77, "k:1"]]
    assert ask(server, base.PUT, "k", [77, "k:2"], None) == base.SUCCESS
    server.close()
    until(lambda: ask(client, base.GET_PENDING_MATCHKEYS) == [], "the offer is gone")
    client.close()


@pytest.mark.parametrize(
    "message",
    [
        [],
        {},
        "x",
        3,
        None,
        [99],
        [base.PUT],
        [base.PUT, 3, [1, "a"], None],
        [base.PUT, "k", ["a", 1], None],
        [base.PUT, "k", [1, "a"], 5],
        [base.REQUEST, "k", "", "high"],
        [base.UPDATE_INFO, {"key": 5}],
        [base.UPDATE_INFO, 3],
        [base.UPDATE_INFO, {"addr": "here"}],
        [base.STOP, "now"],
    ],
)
def test_what_is_no_message_fails_and_the_connection_goes_on(tracker, message):
    with raw(tracker) as sock:
        base.send_json(sock, message)
        assert base.recv_json(sock) == base.FAIL
        assert ask(sock, base.PING) == base.SUCCESS


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<ii", base.TRACKER_MAGIC, -1),
        struct.pack("<ii", base.TRACKER_MAGIC, 1 << 30),
        struct.pack("<ii", base.TRACKER_MAGIC, 3) + b"[[[",
        struct.pack("<ii", base.TRACKER_MAGIC, 2) + b"\xff\xff",
        struct.pack("<ii", base.TRACKER_MAGIC, 100000) + b"[" * 100000,
    ],
    ids=["http", "negative", "too long", "no json", "no text", "nested"],
)
def test_what_breaks_the_rules_ends_the_connection(tracker, sent):
    with socket.create_connection((tracker.host, tracker.port), 60) as sock:
        sock.sendall(sent)
        try:
            while sock.recv(4096):
                pass
        except ConnectionResetError:
            pass
    assert rpc.connect_tracker(tracker.host, tracker.port).summary()["server_info"] == []


def test_a_tracker_with_a_secret_asks_for_it(c_server, monkeypatch):
    with pytest.raises(TVMError, match="outside loopback requires a secret"):
        Tracker("0.0.0.0", port=0)
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    tracker = Tracker("0.0.0.0", port=0, silent=True)
    tracker.host = "127.0.0.1"
    serve_key(c_server, tracker, "board")
    client = rpc.connect_tracker(tracker.host, tracker.port)
    assert client.request("board").listdir() == ""
    monkeypatch.delenv("TVM_RPC_SECRET")
    with pytest.raises(RPCError, match="requires a secret"):
        rpc.connect_tracker(tracker.host, tracker.port)
    monkeypatch.setenv("TVM_RPC_SECRET", "wrong horse")
    for _ in range(12):
        with pytest.raises(RPCError, match=r"rejects this client|closed the connection|Connection reset|Broken pipe"):
            rpc.connect_tracker(tracker.host, tracker.port)
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    with pytest.raises(RPCError):  # turned away for the rest of the minute
        rpc.connect_tracker(tracker.host, tracker.port)
    tracker.terminate()


def test_a_client_with_a_secret_refuses_a_tracker_without(tracker, monkeypatch):
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    with pytest.raises(RPCError, match="does not use a secret"):
        rpc.connect_tracker(tracker.host, tracker.port)


def test_servers_offer_themselves_again_when_the_tracker_comes_back(c_server):
    # The socket stays with the test, so that nobody else can take its port meanwhile.
    with base.listen("127.0.0.1", 0, 0, "tracker") as listening:
        host, port = listening.getsockname()
        for _ in range(2):
            options = {"listen_fd": listening.fileno(), "silent": True}
            process, held = start_process(serve, options, (listening.fileno(),))
            client = rpc.connect_tracker(host, port)
            if not c_server.started:
                c_server("--key", "board", "--tracker", f"{host}:{port}")
            until(lambda: free(client, "board") == 1, "the device is offered")
            assert client.request("board").listdir() == ""
            os.close(held)
            assert process.wait(30) == 0
            with pytest.raises(RPCError):
                client.summary()


def test_a_match_key_is_good_for_one_session(c_server, tracker):
    serve_key(c_server, tracker, "board")
    sock = raw(tracker)
    status, (host, port, match_key) = ask(sock, base.REQUEST, "board", "", 1)
    assert status == base.SUCCESS and match_key.startswith("board:")
    with pytest.raises(RPCError, match="the key does not match"):
        rpc.connect(host, port, "board")
    rpc.connect(host, port, match_key).close()
    client = rpc.connect_tracker(tracker.host, tracker.port)
    until(lambda: free(client, "board") == 1, "the device is back")
    with pytest.raises(RPCError, match="the key does not match"):
        rpc.connect(host, port, match_key)
    sock.close()


def test_a_server_of_a_tracker_that_has_died_is_not_the_end_of_a_request(c_server, tracker, sessions_folder):
    first = serve_key(c_server, tracker, "board")
    client = rpc.connect_tracker(tracker.host, tracker.port)
    until(lambda: free(client, "board") == 1, "the device is offered")
    first.proc.kill()
    first.proc.wait()
    serve_key(c_server, tracker, "board")
    assert client.request("board").listdir() == ""


def test_the_python_server_offers_itself_too(tracker):
    with pytest.raises(RuntimeError, match="requires a key"):
        rpc.Server(port=0, tracker_addr=(tracker.host, tracker.port))
    server = rpc.Server(port=0, key="desk", tracker_addr=(tracker.host, tracker.port), silent=True)
    client = rpc.connect_tracker(tracker.host, tracker.port)
    assert free(client, "desk") == 1  # as soon as it is made
    assert client.request("desk", session_timeout=60).listdir() == ""
    server.terminate()


def test_a_client_with_another_secret_is_told_so(monkeypatch):
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    made = Tracker(port=0, silent=True)
    rpc.connect_tracker(made.host, made.port).close()
    monkeypatch.setenv("TVM_RPC_SECRET", "wrong horse")
    with pytest.raises(RPCError, match="rejects this client: its secret differs from the secret that is set here"):
        rpc.connect_tracker(made.host, made.port)
    made.terminate()


def test_random_keys_are_split_again():
    keys = {base.random_key("board") for _ in range(20)}
    assert len(keys) == 20 and {base.split_random_key(key)[0] for key in keys} == {"board"}

    class All(set):
        """Contains the first key it is asked for."""

        asked = 0

        def __contains__(self, key):
            self.asked += 1
            return self.asked == 1

    known = All()
    assert base.random_key("a", "|", known).startswith("a|") and known.asked == 2


def test_the_summary_is_a_table():
    from tvm.rpc.client import format_summary

    servers = [{"key": "server:a", "addr": ["10.0.0.1", 9090]}]
    text = format_summary({"queue_info": {"b": {"free": 1, "pending": 2}}, "server_info": servers})
    assert text.splitlines() == [
        "Server List",
        "-------------------------",
        "server-address   key",
        "-------------------------",
        "10.0.0.1:9090    server:a",
        "-------------------------",
        "",
        "Queue Status",
        "----------------------------",
        "key   total   free   pending",
        "----------------------------",
        "a     1       0      0",
        "b     0       1      2",
        "----------------------------",
    ]
