"""What a session cannot do, and what is left of one that ends badly."""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.rpc.conftest import register
from tvm import rpc
from tvm.error import RPCError, RPCSessionTimeoutError
from tvm.rpc import base

MAGIC, RETURN, ERROR, CALL, FUNCTION, FREE, COPY_TO, COPY_FROM, DATA, CLOSE = 0x4D565452, *range(1, 10)


def greeted(server) -> socket.socket:
    """A connection on which the handshake is done, for messages by hand."""
    sock = socket.create_connection((server.host, server.port), 60)
    base.greet_server(sock, "the server", "client:")
    sock.settimeout(60)
    return sock


def frame(kind: int, body: bytes = b"", length: int | None = None, magic: int = MAGIC) -> bytes:
    return struct.pack("<IIQ", magic, kind, len(body) if length is None else length) + body


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode() + b"\0"


def answer(sock: socket.socket) -> tuple[int, bytes]:
    magic, kind, length = struct.unpack("<IIQ", base.recv_exact(sock, 16))
    assert magic == MAGIC
    return kind, base.recv_exact(sock, length)


def is_over(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "message",
    [
        frame(CALL, bytes(12), magic=0x4D565453),
        frame(0),
        frame(10),
        frame(CALL, b"", length=(1 << 20) + 1),
        frame(CALL, b"", length=(1 << 64) - 1),
        frame(RETURN, struct.pack("<I", 0)),
        frame(DATA, b"abc"),
        frame(COPY_TO, bytes(15)),
        frame(FREE, bytes(9)),
    ],
    ids=["magic", "kind 0", "kind 10", "too long", "very much too long", "answer", "data", "short copy", "cut free"],
)
def test_a_message_that_breaks_the_rules_ends_the_session(c_server, message):
    server = c_server("--max-message", str(1 << 20))
    with greeted(server) as sock:
        sock.sendall(message)
        assert is_over(sock)
    rpc.connect(server.host, server.port).close()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (frame(CALL, struct.pack("<QI", 1 << 32 | 1, 0)), b"no function with the handle"),
        (frame(CALL, bytes(7)), b"shorter than"),
        (frame(FUNCTION, struct.pack("<Q", 7) + text("f")), b"no module with the handle"),
        (frame(FUNCTION, struct.pack("<QQ", 0, 1 << 63) + b"f\0"), b"shorter than"),
        (frame(FUNCTION, struct.pack("<QQ", 0, 1) + b"ff"), b"without a terminating null"),
        (frame(FUNCTION, struct.pack("<Q", 0) + text("f") + b"more"), b"longer than its content"),
        (frame(COPY_TO, struct.pack("<QQ", 5, 0) + b"abc"), b"no array with the handle"),
        (frame(COPY_FROM, struct.pack("<QQQ", 5, 0, 1)), b"no array with the handle"),
        (frame(COPY_FROM, struct.pack("<QQ", 5, 0)), b"shorter than"),
    ],
)
def test_a_message_about_nothing_is_an_error_and_the_session_goes_on(c_server, message, said):
    server = c_server()
    with greeted(server) as sock:
        for _ in range(2):
            sock.sendall(message)
            kind, body = answer(sock)
            assert kind == ERROR and said in body


def ask_function(sock: socket.socket, name: str) -> int:
    sock.sendall(frame(FUNCTION, struct.pack("<Q", 0) + text(name)))
    kind, body = answer(sock)
    count, code = struct.unpack_from("<II", body)
    assert kind == RETURN and (count, code) == (1, 10)
    return struct.unpack_from("<Q", body, 8)[0]


def array_value(handle: int, shape: tuple[int, ...], offset: int = 0, dtype=(1, 8, 1)) -> bytes:
    dims = struct.pack(f"<{len(shape)}q", *shape)
    return struct.pack("<IQiiBBHI", 13, handle | 1 << 63, 1, 0, *dtype, len(shape)) + dims + struct.pack("<Q", offset)


def test_arrays_that_do_not_lie_in_their_memory_are_refused(c_server):
    server = c_server()
    with greeted(server) as sock:
        alloc, copy = ask_function(sock, "tvm.rpc.server.alloc"), ask_function(sock, "tvm.rpc.server.copy")
        device = struct.pack("<Iii", 6, 1, 0)
        sock.sendall(frame(CALL, struct.pack("<QI", alloc, 2) + device + struct.pack("<Iq", 0, 64)))
        kind, body = answer(sock)
        array = struct.unpack_from("<Q", body, 8)[0]
        assert kind == RETURN
        good = array_value(array, (64,))
        for bad in (
            array_value(array, (65,)),
            array_value(array, (64,), 1),
            array_value(array, (8,), (1 << 64) - 4),
            array_value(array, (1 << 62, 4)),
            array_value(array, (-1,)),
            array_value(array, (17,), 0, (2, 32, 1)),
            array_value(array, (1,) * 33),
            array_value(array + (1 << 32), (64,)),
            array_value(array, (4,), 0, (0, 0, 1)),
            struct.pack("<I", 3) + bytes(8),
            struct.pack("<I", 8) + bytes(8),
            struct.pack("<I", 99),
        ):
            sock.sendall(frame(CALL, struct.pack("<QI", copy, 2) + good + bad))
            assert answer(sock)[0] == ERROR
        for handle, offset, count in ((array, 65, 0), (array, 60, 5), (array, (1 << 64) - 1, 2), (array, 0, 1 << 63)):
            sock.sendall(frame(COPY_FROM, struct.pack("<QQQ", handle, offset, count)))
            assert answer(sock)[0] == ERROR
        sock.sendall(frame(COPY_TO, struct.pack("<QQ", array, 60) + bytes(5)))
        assert answer(sock)[0] == ERROR
        sock.sendall(frame(COPY_TO, struct.pack("<QQ", array, 60) + b"abcd"))
        assert answer(sock)[0] == RETURN
        sock.sendall(frame(FREE, struct.pack("<QQQ", array, array, 12345)))
        sock.sendall(frame(COPY_FROM, struct.pack("<QQQ", array, 0, 4)))
        assert answer(sock)[0] == ERROR
        sock.sendall(frame(CALL, struct.pack("<QI", alloc, 1025)))
        assert b"the maximum is 1024" in answer(sock)[1]


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "..", "", "a/..", "x" * 5000])
def test_paths_outside_the_folder_are_refused(remote, name):
    for use in (
        lambda: remote.upload(b"x", name or None),
        lambda: remote.download(name),
        lambda: remote.remove(name),
        lambda: remote.load_module(name),
    ):
        words = "outside the folder of the session|requires a file name|does not exist"
        with pytest.raises((ValueError, RPCError), match=words):
            use()


def test_links_out_of_the_folder_are_refused(python_server, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    with rpc.connect(python_server.host, python_server.port) as remote:
        folder = Path(remote.get_function("tvm.rpc.server.workpath")())
        (folder / "link").symlink_to(tmp_path / "secret")
        (folder / "out").symlink_to(tmp_path)
        for name in ("link", "out", "out/secret", "out/new"):
            for use in (remote.download, remote.load_module, remote.listdir, lambda name: remote.upload(b"x", name)):
                with pytest.raises((ValueError, RPCError), match="outside the folder of the session"):
                    use(name)
    assert os.listdir(tmp_path) == ["secret"] and (tmp_path / "secret").read_bytes() == b"secret"


def test_unknown_functions_and_modules_are_refused_in_words(remote):
    with pytest.raises(AttributeError, match="the server has no global function 'test.nothing'"):
        remote.get_function("test.nothing")
    with pytest.raises((RPCError, ValueError), match=r"nothing\.so"):
        remote.load_module("nothing.so")
    remote.upload(b"\x7fELF" + bytes(100), "broken.so")
    with pytest.raises(RPCError, match="cannot load library"):
        remote.load_module("broken.so")


def test_what_lies_on_this_machine_is_not_passed_to_the_other(remote, library):
    remote.upload(library)
    module = remote.load_module("add_one.so")
    here = tvm.nd.array(np.zeros(3, "float32"))
    with pytest.raises(ValueError, match=r"tvm\.nd\.array\(x, remote\.cpu\(\)\)"):
        module(here, here)
    with pytest.raises(TypeError, match="cannot pass a value of type code"):
        remote.get_function("tvm.rpc.server.sync")([1, 2])
    with pytest.raises(tvm.TVMError, match="a remote function requires remote devices"):
        remote.get_function("tvm.rpc.server.sync")(tvm.cpu())
    with pytest.raises(tvm.TVMError, match="a local module"):
        remote.get_function("tvm.rpc.server.sync")(tvm.runtime.load_module(library))


def test_a_closed_session_refuses_to_be_used(server):
    remote = rpc.connect(server.host, server.port)
    array = tvm.nd.array(np.zeros(3), remote.cpu())
    remote.close()
    for use in (array.numpy, remote.listdir, remote.cpu().sync, lambda: tvm.nd.empty((3,), "int8", remote.cpu())):
        with pytest.raises(RPCError, match="the session was closed"):
            use()
    remote.close()


def test_sessions_that_must_not_fork_from_a_used_process_are_refused_a_callback_there():
    with pytest.raises(tvm.TVMError, match="runs server_init_callback, so it cannot be combined with no_fork=True"):
        rpc.Server(port=0, silent=True, no_fork=True, server_init_callback=register)


def test_a_crash_costs_its_session_only(sessions_folder):
    server = rpc.Server(port=0, silent=True, server_init_callback=register)
    remote = rpc.connect(server.host, server.port)
    array = tvm.nd.array(np.zeros(3), remote.cpu())
    remote.upload(b"x", "file")
    with pytest.raises(RPCError, match="the session process was killed: Segmentation fault"):
        remote.get_function("test.rpc.die")()
    with pytest.raises(RPCError, match="the session has ended"):
        array.numpy()
    with rpc.connect(server.host, server.port) as another:
        assert another.listdir() == ""
        pid = another.get_function("test.rpc.fork")()
    # The device is free again only when what the session has started is gone.
    rpc.connect(server.host, server.port).close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    server.terminate()
    assert not list(sessions_folder.iterdir())


def test_the_time_of_a_session_is_limited_by_either_side(c_server):
    server = c_server("--max-seconds", "1")
    remote = rpc.connect(server.host, server.port)
    with pytest.raises(RPCSessionTimeoutError, match=r"limit of 1 s"):
        while True:
            remote.listdir()
    server = c_server()
    remote = rpc.connect(server.host, server.port, session_timeout=1.0)
    with pytest.raises(RPCSessionTimeoutError, match="limit of 1 s"):
        while True:
            remote.listdir()
            time.sleep(0.01)


def test_a_client_that_goes_frees_the_device(c_server, sessions_folder):
    server = c_server()
    for _ in range(3):
        with greeted(server) as sock:
            sock.sendall(frame(CALL, b"", length=1000))  # and no more
    with rpc.connect(server.host, server.port) as remote:
        remote.upload(b"x", "file")
        assert len(list(next(sessions_folder.iterdir()).iterdir())) >= 2  # the lock and this session's folder
    server.terminate()
    assert not list(sessions_folder.iterdir())


def test_files_and_memory_of_a_session_are_limited(c_server):
    server = c_server("--max-files", "1000", "--max-memory", str(256 << 20))
    with rpc.connect(server.host, server.port) as remote:
        for _ in range(3):
            remote.upload(bytes(900), "a")
            remote.remove("a")
        remote.upload(bytes(900), "a")
        with pytest.raises(RPCError, match="at most 1000 bytes in total"):
            remote.upload(bytes(101), "b")
        with pytest.raises(RPCError, match="cannot allocate"):
            tvm.nd.empty((1 << 30,), "uint8", remote.cpu())
        assert tvm.nd.array(np.arange(3), remote.cpu()).numpy().tolist() == [0, 1, 2]


def test_messages_that_are_too_long_are_refused_here(c_server):
    server = c_server("--max-message", "100000")
    with rpc.connect(server.host, server.port) as remote:
        with pytest.raises(RPCError, match="exceeds the session's limit"):
            remote.get_function("tvm.rpc.server.upload")("a", bytes(100001))
        data = np.arange(200000, dtype="uint8")
        np.testing.assert_array_equal(tvm.nd.array(data, remote.cpu()).numpy(), data)


def test_a_server_that_only_measures_gives_only_what_measuring_needs(c_server, library):
    server = c_server("--measure-only")
    with rpc.connect(server.host, server.port) as remote:
        remote.upload(library)
        module = remote.load_module("add_one.so")
        x = tvm.nd.array(np.zeros(3, "float32"), remote.cpu())
        assert module.time_evaluator("add_one", remote.cpu(), number=2)(x, x).mean > 0
        for name in ("tvm.rpc.server.download", "tvm.graph_executor.create", "runtime.SystemLib"):
            with pytest.raises(RPCError, match=f"allows measuring only; the function '{name}'"):
                remote.get_function(name)


def test_a_second_client_waits_for_the_device(c_server):
    server = c_server()
    first = rpc.connect(server.host, server.port)
    sock = socket.create_connection((server.host, server.port), 60)
    sock.sendall(base.HELLO + bytes(32))
    base.recv_exact(sock, 44)
    sock.sendall(bytes(32) + struct.pack("<I", 7) + b"client:")
    sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    first.close()
    sock.settimeout(60)
    assert base.recv_exact(sock, 4) == bytes(4)
    sock.close()
