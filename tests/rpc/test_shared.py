"""Memory that both ends of a session on one machine have: large copies go through it."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.rpc.conftest import PROGRAM
from tests.rpc.test_limits import CALL, ERROR, RETURN, answer, array_value, ask_function, frame, greeted
from tvm import rpc

PIECE = 4 << 20
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems send all copies through the socket")


def shared() -> int:
    """How many of them this process has."""
    return Path("/proc/self/maps").read_text().count("memfd:tvm_rpc")


def can_be_opened(number: int) -> bool:
    """Whether another process of this user may open a file of this one: not on every machine."""
    words = ["sh", "-c", f"exec 3<>/proc/{os.getpid()}/fd/{number}"]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


@on_linux
def test_large_copies_go_through_memory_and_it_goes_with_the_session(server, tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        is_possible = can_be_opened(file.fileno())
    before = shared()
    with rpc.connect(server.host, server.port) as remote:
        small = tvm.nd.array(np.arange(100), remote.cpu())
        assert small.numpy().tolist() == list(range(100)) and shared() == before
        large = tvm.nd.array(np.arange(1 << 16), remote.cpu())
        assert shared() == before + is_possible
        np.testing.assert_array_equal(large.numpy(), np.arange(1 << 16))
    del remote, small, large
    assert shared() == before


@pytest.mark.parametrize("size", [65535, 65536, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 77777])
def test_copies_of_every_length_are_whole(remote, size, rng):
    data = rng.integers(0, 256, size, dtype="uint8")
    array = tvm.nd.array(data, remote.cpu())
    np.testing.assert_array_equal(array.numpy(), data)
    other = tvm.nd.empty((size,), "uint8", remote.cpu())
    array.copyto(other)
    array.copyfrom(data[::-1].copy())
    np.testing.assert_array_equal(other.numpy(), data)
    np.testing.assert_array_equal(array.numpy(), data[::-1])


def test_a_session_with_a_started_program_has_it_too(rng):
    data = rng.integers(0, 256, PIECE + 5, dtype="uint8")
    with rpc.PopenSession(PROGRAM) as remote:
        np.testing.assert_array_equal(tvm.nd.array(data, remote.cpu()).numpy(), data)


def call_share(sock, share: int, pid: int, file: int, token: bytes) -> bytes:
    value = struct.pack("<IqIqIQ", 0, pid, 0, file, 12, len(token)) + token + b"\0"
    sock.sendall(frame(CALL, struct.pack("<QI", share, 3) + value))
    kind, body = answer(sock)
    assert kind == RETURN
    return body


@on_linux
def test_what_is_not_the_clients_memory_is_not_taken(c_server, tmp_path):
    """A file of the right length, of this process, with another content is what a tunnel's far end would find."""
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * (PIECE // 256))
    server = c_server()
    no = struct.pack("<IIq", 1, 0, 0)
    with open(file, "r+b") as other, greeted(server) as sock:
        share = ask_function(sock, "tvm.rpc.server.share")
        for pid, number, token in (
            (os.getpid(), other.fileno(), bytes(32)),
            (os.getpid(), sock.fileno(), bytes(32)),
            (1 << 40, 3, bytes(32)),
            (-1, -1, bytes(32)),
            (os.getpid(), other.fileno(), b""),
            (os.getpid(), other.fileno(), bytes(33)),
        ):
            assert call_share(sock, share, pid, number, token) == no
        alloc, copy = ask_function(sock, "tvm.rpc.server.alloc"), ask_function(sock, "tvm.rpc.server.copy_shared")
        sock.sendall(frame(CALL, struct.pack("<QIIiiIq", alloc, 2, 6, 1, 0, 0, 64)))
        array = struct.unpack_from("<Q", answer(sock)[1], 8)[0]
        sock.sendall(frame(CALL, struct.pack("<QI", copy, 2) + array_value(array, (64,)) + struct.pack("<Iq", 0, 0)))
        kind, body = answer(sock)
        assert kind == ERROR and b"exceed the size of the shared memory" in body
        found = call_share(sock, share, os.getpid(), other.fileno(), bytes(range(32)))
        assert found == struct.pack("<IIq", 1, 0, can_be_opened(other.fileno()))
    assert file.read_bytes() == bytes(range(256)) * (PIECE // 256)
