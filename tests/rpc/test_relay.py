"""Sessions with a server behind another one, and logs of messages."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

import tvm
from tests.rpc.conftest import register
from tvm import rpc, te
from tvm.error import RPCError


def start(key: str) -> rpc.Server:
    return rpc.Server(port=0, key=key, silent=True, server_init_callback=register)


@pytest.fixture(scope="module")
def servers():
    """Python servers with the keys a, b and c."""
    started = [start(key) for key in "abc"]
    yield started
    for server in started:
        server.terminate()


@pytest.fixture
def behind():
    """Opens a session through the first server, which is closed at the end of the test: a server has one at a time."""
    opened = []

    def connect(first, *others, **options):
        opened.append(_connect(first, *others, **options))
        return opened[-1]

    yield connect
    for session in opened:
        session.close()


def _connect(first, *others, **options):
    args = [a for server, key in others for a in ("rpc.Connect", "127.0.0.1", server.port, key, False)]
    return rpc.connect("127.0.0.1", first.port, key="a", session_constructor_args=args, **options)


def test_functions_files_and_arrays_are_those_of_the_server_behind(servers, behind):
    first, second, _ = servers
    session = behind(first, (second, "b"))
    assert session.get_function("rpc.test.add_to_lhs")(10)(5) == 15
    assert session.get_function("rpc.test.strcat")("x", 3) == "x:3"
    data = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    np.testing.assert_array_equal(tvm.nd.array(data, session.cpu()).numpy(), data)
    session.upload(b"some bytes", "a file")
    assert session.download("a file") == b"some bytes" and "a file" in session.listdir()
    session.close()
    with rpc.connect("127.0.0.1", first.port, key="a") as direct:
        assert "a file" not in direct.listdir()


def test_large_arrays_and_kernels_pass_through(servers, behind):
    first, second, _ = servers
    session = behind(first, (second, "b"))
    n = 3_000_001
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0)
    library = tvm.build(te.create_schedule(y.op), [x, y], "llvm", name="plus_one")
    folder = tvm.contrib.utils.tempdir()
    library.save(folder.relpath("kernel.o"))
    session.upload(folder.relpath("kernel.o"))
    kernel = session.load_module("kernel.o")["plus_one"]
    a, b = tvm.nd.array(np.arange(n, dtype="float32"), session.cpu()), tvm.nd.empty((n,), "float32", session.cpu())
    kernel(a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(n, dtype="float32") + 1)


def test_functions_of_the_client_are_called_through_both(servers, behind):
    first, second, _ = servers
    session = behind(first, (second, "b"))
    assert session.get_function("test.rpc.twice")(lambda x: x * 3, 5) == 45
    add = session.get_function("test.rpc.add")
    assert session.get_function("test.rpc.twice")(lambda x: add(x, 1), 5) == 7


def test_three_servers_in_a_row(servers, behind):
    first, second, third = servers
    session = behind(first, (second, "b"), (third, "c"))
    assert session.get_function("rpc.test.addone")(1) == 2


def test_errors_of_the_server_behind_arrive(servers, behind):
    first, second, _ = servers
    session = behind(first, (second, "b"))
    with pytest.raises(ValueError, match="wrong value"):
        session.get_function("rpc.test.except")("wrong value")
    assert session.get_function("rpc.test.addone")(1) == 2


def test_a_server_that_cannot_be_reached_from_the_first_is_named(servers, behind):
    first = servers[0]
    closed = rpc.Server(port=0, silent=True)
    closed.terminate()
    with pytest.raises(tvm.TVMError, match=f"cannot connect to 127.0.0.1:{closed.port}"):
        behind(first, (closed, "b"))
    with pytest.raises(RPCError, match=r"'rpc.NonExisting'.*: expected \['rpc.Connect', host, port, key\]"):
        rpc.connect("127.0.0.1", first.port, key="a", session_constructor_args=["rpc.NonExisting"])


def test_a_server_without_python_opens_no_sessions_with_others(c_server, servers, behind):
    second = servers[1]
    first = c_server("--key", "a")
    with pytest.raises(RPCError, match=r"cannot open sessions with other servers .*; use tvm.rpc.Server there"):
        behind(first, (second, "b"))


def test_a_server_that_only_measures_opens_no_sessions_with_others(servers, behind):
    first = rpc.Server(port=0, key="a", silent=True, measure_only=True)
    try:
        with pytest.raises(RPCError, match="cannot open sessions with other servers"):
            behind(first, (servers[1], "b"))
    finally:
        first.terminate()


def test_a_session_whose_server_behind_ends_is_over(servers, behind):
    first, second = servers[0], start("b")
    session = behind(first, (second, "b"))
    add = session.get_function("rpc.test.addone")
    assert add(1) == 2
    second.terminate()
    with pytest.raises(RPCError):
        add(1)


def test_every_message_is_logged(servers, caplog):
    first = servers[0]
    with caplog.at_level(logging.INFO, "RPCMessages"):
        with rpc.connect("127.0.0.1", first.port, key="a", enable_logging=True) as session:
            assert session.get_function("rpc.test.addone")(41) == 42
        # The session ends with messages that its log may not have written yet.
        for thread in threading.enumerate():
            if thread.name == "rpc log":
                thread.join(10)
    kinds = [(line.split()[0], line.partition(": ")[2].partition(",")[0]) for line in caplog.messages]
    assert kinds[:4] == [("to", "FUNCTION"), ("from", "RETURN"), ("to", "CALL"), ("from", "RETURN")]
    assert f"the RPC server 127.0.0.1:{first.port}" in caplog.messages[0]


def test_nothing_is_logged_by_default(servers, caplog):
    first = servers[0]
    with caplog.at_level(logging.INFO, "RPCMessages"):
        with rpc.connect("127.0.0.1", first.port, key="a") as session:
            assert session.get_function("rpc.test.addone")(1) == 2
    assert not [r for r in caplog.records if r.name == "RPCMessages"]
