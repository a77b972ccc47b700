"""Nobody gets in who should not: the secret, the key, and what is no handshake at all."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.rpc.conftest import PROGRAM
from tvm import TVMError, rpc
from tvm.error import RPCError
from tvm.rpc import base

SECRET = {"TVM_RPC_SECRET": "correct horse"}


def raw(server) -> socket.socket:
    return socket.create_connection((server.host, server.port), 60)


def test_the_secret_opens_and_a_wrong_one_does_not(c_server, monkeypatch):
    server = c_server(**SECRET)
    with pytest.raises(RPCError, match="requires a secret: set TVM_RPC_SECRET_FILE"):
        rpc.connect(server.host, server.port)
    monkeypatch.setenv("TVM_RPC_SECRET", "wrong horse")
    with pytest.raises(RPCError, match="rejects the session: the secret is wrong"):
        rpc.connect(server.host, server.port)
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    with rpc.connect(server.host, server.port) as remote:
        assert remote.listdir() == ""


def test_the_secret_of_a_file_is_for_its_owner_alone(c_server, monkeypatch, tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"correct horse\n")
    monkeypatch.setenv("TVM_RPC_SECRET_FILE", str(path))
    path.chmod(0o644)
    with pytest.raises(TVMError, match="owner only"):
        rpc.Server(port=0)
    done = subprocess.run([PROGRAM, "--port", "0"], capture_output=True, text=True)
    assert done.returncode == 2 and "owner only" in done.stderr
    path.chmod(0o600)
    server = c_server()
    with rpc.connect(server.host, server.port) as remote:
        assert remote.listdir() == ""
    # The same secret, given in another way.
    monkeypatch.delenv("TVM_RPC_SECRET_FILE")
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    rpc.connect(server.host, server.port).close()
    path.write_bytes(b"\n")
    monkeypatch.setenv("TVM_RPC_SECRET_FILE", str(path))
    with pytest.raises(TVMError, match="is empty"):
        rpc.connect(server.host, server.port)


def test_a_server_that_proves_nothing_is_refused_by_a_client_with_a_secret(c_server, monkeypatch):
    server = c_server()
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    with pytest.raises(RPCError, match="does not use a secret, but one is set here"):
        rpc.connect(server.host, server.port)


def test_an_impostor_that_knows_only_the_protocol_is_refused(monkeypatch):
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(base.HELLO + struct.pack("<I", 1) + bytes(32))
        theirs.sendall(struct.pack("<I32sdQI", 0, bytes(32), 0.0, 1 << 20, 7) + b"server:")
        with pytest.raises(RPCError, match="did not prove that it has the secret"):
            base.greet_server(ours, "the server", "client:")


def test_a_proof_is_good_for_one_handshake(c_server, monkeypatch):
    """What somebody has seen on the network opens nothing: the server's random number is another each time."""
    server = c_server(**SECRET)
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    ours = bytes(32)
    with raw(server) as sock:
        sock.sendall(base.HELLO + ours)
        theirs = base.recv_exact(sock, 44)[12:]
        shown = base.proof(b"correct horse", "tvm rpc client", ours, theirs, b"client:")
        sock.sendall(shown + struct.pack("<I", 7) + b"client:")
        assert base.recv_exact(sock, 4) == bytes(4)
    with raw(server) as sock:
        sock.sendall(base.HELLO + ours)
        assert base.recv_exact(sock, 44)[12:] != theirs
        sock.sendall(shown + struct.pack("<I", 7) + b"client:")
        assert base.recv_exact(sock, 4) == struct.pack("<I", 1)


def test_no_bind_outside_loopback_without_a_secret(monkeypatch):
    with pytest.raises(TVMError, match="outside loopback requires a secret: set TVM_RPC_SECRET_FILE"):
        rpc.Server("0.0.0.0", port=0)
    done = subprocess.run([PROGRAM, "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "outside loopback requires a secret" in done.stderr
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    server = rpc.Server("0.0.0.0", port=0, silent=True)
    with rpc.connect("127.0.0.1", server.port) as remote:
        assert remote.listdir() == ""
    server.terminate()


def test_failed_handshakes_are_limited(c_server, monkeypatch):
    server = c_server(**SECRET)
    monkeypatch.setenv("TVM_RPC_SECRET", "wrong horse")
    texts = []
    for _ in range(60):  # the server counts a failure when its process has ended, so one or two more may pass
        with pytest.raises(RPCError) as problem:
            rpc.connect(server.host, server.port)
        texts.append(str(problem.value))
        if "rejects this address" in texts[-1]:
            break
    assert "rejects this address" in texts[-1] and "the secret is wrong" in texts[0]
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    with pytest.raises(RPCError, match="rejects this address"):
        rpc.connect(server.host, server.port)
    assert "correct horse" not in server.terminate()


def test_the_key_must_be_the_servers(c_server):
    server = c_server("--key", "board")
    for key in ("", "boar", "board2"):
        with pytest.raises(RPCError, match="the key does not match"):
            rpc.connect(server.host, server.port, key)
    rpc.connect(server.host, server.port, "board").close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: board\r\nConnection: close\r\n\r\n",
        b"\x71\xf2\x0f\x00" + bytes(60),
        base.HELLO + bytes(64) + struct.pack("<I", 1025) + b"x" * 1025,
        base.HELLO + bytes(64) + struct.pack("<I", 0xFFFFFFFF),
    ],
    ids=["http", "classic", "key too long", "key without end"],
)
def test_what_is_no_handshake_is_not_answered(c_server, sent):
    server = c_server()
    with raw(server) as sock:
        sock.sendall(sent)
        got = b""
        try:
            while piece := sock.recv(4096):
                got += piece
        except ConnectionResetError:
            pass
        assert got == b"" or (sent.startswith(base.HELLO) and len(got) == 44)
    rpc.connect(server.host, server.port).close()


def test_addresses_without_a_server_are_named(c_server):
    server = c_server()
    server.terminate()
    with pytest.raises(RPCError, match=f"cannot connect to 127.0.0.1:{server.port}"):
        rpc.connect(server.host, server.port)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        with client, other.accept()[0] as peer:
            peer.sendall(b"SSH-2.0-OpenSSH_9.9\r\n" + bytes(44))
            with pytest.raises(RPCError, match="is not an RPC server of this version"):
                base.greet_server(client, "the server", "client:")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--tracker", "127.0.0.1:1"], "requires --key"),
        (["--tracker", "nowhere", "--key", "a"], "HOST:PORT"),
        (["--port", "many"], "not a number"),
        (["--colour", "red"], "unknown option '--colour'"),
        (["--key"], "needs a value"),
        (["--key", "a b"], "the key must not contain blanks"),
    ],
)
def test_wrong_options_are_refused_in_words(options, text):
    done = subprocess.run([PROGRAM, "--port", "0", *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and text in done.stderr


def test_the_secret_is_not_among_the_arguments_of_the_process(monkeypatch):
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    server = rpc.Server(port=0, silent=True)
    assert not any("horse" in str(word) for word in server.proc.args)
    assert os.environ["TVM_RPC_SECRET"] == "correct horse"
    server.terminate()
    assert server.proc.returncode == 0


def test_a_port_above_the_usual_end_is_tried_alone():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(ValueError, match=f"rpc.Server: port {port} of 127.0.0.1 is not free; give another port"):
            rpc.Server(port=port, port_end=port)
        command = [sys.executable, "-m", "tvm.exec.rpc_server", "--port", str(port), "--port-end", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.splitlines() == [
        f"rpc_server: error: rpc_server: port {port} of 127.0.0.1 is not free; give another port"
    ]
    with base.listen("127.0.0.1", port, 1, "a server") as listening:
        assert listening.getsockname()[1] == port


def test_silent_connections_of_an_address_do_not_keep_others_of_it_out(c_server, monkeypatch):
    server = c_server(**SECRET)
    monkeypatch.setenv("TVM_RPC_SECRET", "correct horse")
    silent = [raw(server) for _ in range(60)]
    for _ in range(3):
        began = time.monotonic()
        with rpc.connect(server.host, server.port) as remote:
            assert remote.listdir() == ""
        assert time.monotonic() - began < 10  # the handshake of a silent connection may take twice as long
    for sock in silent:
        sock.close()


def greet_slowly(server, others: int, pause: float) -> tuple[bytes, float]:
    """What a client hears that greets only after other silent connections have come, and the seconds from its own
    connection to the end of its pause."""
    with raw(server) as client:
        began = time.monotonic()
        silent = [raw(server) for _ in range(others)]
        time.sleep(pause)
        took = time.monotonic() - began
        try:
            client.sendall(base.HELLO + bytes(32))
            heard = client.recv(len(base.HELLO))
        except ConnectionError:
            heard = b""
        for sock in silent:
            sock.close()
    return heard, took


def test_a_connection_has_time_for_its_handshake_while_others_come(c_server):
    server = c_server()
    # A place is kept for half a second; on a busy machine an attempt that took longer shows nothing.
    attempts = (greet_slowly(server, 20, 0.1) for _ in range(30))
    heard = next(heard for heard, took in attempts if took < 0.35)
    assert heard == base.HELLO


def test_a_connection_that_stays_silent_gives_its_place_to_others(c_server):
    heard, _ = greet_slowly(c_server(), 20, 3.0)
    assert heard == b""


def waits_for_a_lock(parent: int) -> bool:
    """Whether a child of a process is blocked by a file lock. Linux lists these with an arrow."""
    blocked = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines() if " -> " in line]
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    return any(set(words) & set(children) for words in blocked)


def test_clients_that_wait_for_the_device_keep_their_places(c_server):
    server = c_server()
    first = rpc.connect(server.host, server.port)
    got = []
    waits = threading.Thread(target=lambda: got.append(rpc.connect(server.host, server.port).listdir()))
    waits.start()
    # A connection keeps its place once its handshake has been read; then it waits for the lock of the device.
    until = time.monotonic() + 20
    while not waits_for_a_lock(server.proc.pid) and time.monotonic() < until:
        time.sleep(0.01)
    silent = [raw(server) for _ in range(60)]
    assert waits.is_alive() and first.listdir() == ""
    first.close()
    waits.join(60)
    assert got == [""]
    for sock in silent:
        sock.close()


def test_python_servers_have_functions_to_try_a_session_with():
    server = rpc.Server(port=0, silent=True)
    with rpc.connect(server.host, server.port) as remote:
        call = remote.get_function
        assert call("rpc.test.addone")(10) == 11 and call("rpc.test.strcat")("abc", 11) == "abc:11"
        assert call("rpc.test.add_to_lhs")(10)(12) == 22 and call("rpc.test.runtime_str_concat")("a", "b") == "ab"
        with pytest.raises(ValueError, match="^abc"):
            call("rpc.test.except")("abc")
        call("rpc.test.remote_array_func")(tvm.nd.array(np.ones((3, 4)), remote.cpu(0)))
        make = call("rpc.test.remote_return_nd")
        array = make("get_arr")()
        assert array.numpy().tolist() == [0.0] * 10 and make("get_elem")(3) == 0
        array.copyfrom(np.arange(10, dtype="float32"))
        assert make("get_arr_elem")(array, 7) == 7 and make("ref_count")() == 1
        with pytest.raises(RuntimeError, match="'other' is not one of get_arr"):
            make("other")
    server.terminate()
