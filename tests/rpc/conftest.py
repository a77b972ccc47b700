"""Servers for the tests, on ports the system chooses, and what they leave behind."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

import tvm
from tvm import rpc, te
from tvm.runtime import _lib

PROGRAM = Path(_lib.find_library()).with_name("tvm_rpc_server")


class CServer:
    """``tvm_rpc_server`` with these options."""

    host = "127.0.0.1"

    def __init__(self, *options: str, **environment: str):
        self.proc = subprocess.Popen(
            [PROGRAM, "--port", "0", *options], stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        line = self.proc.stderr.readline()
        self.port = int(re.fullmatch(r"RPCServer: bind to 127\.0\.0\.1:(\d+)\n", line)[1])

    def terminate(self) -> str:
        self.proc.terminate()
        return self.proc.communicate(timeout=60)[1]


@pytest.fixture(autouse=True)
def no_secret(monkeypatch):
    monkeypatch.delenv("TVM_RPC_SECRET", raising=False)
    monkeypatch.delenv("TVM_RPC_SECRET_FILE", raising=False)
    monkeypatch.delenv("TVM_RPC_TLS_CA", raising=False)


@pytest.fixture
def sessions_folder(monkeypatch):
    """Where servers started by the test keep the folders of their sessions."""
    # The path of a folder below that of pytest may be too long for a server, which then takes /tmp.
    with tempfile.TemporaryDirectory(prefix="tvm_test_", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.fixture
def c_server():
    """Starts servers written in C, and ends them."""
    started = []

    def start(*options: str, **environment: str) -> CServer:
        started.append(CServer(*options, **environment))
        return started[-1]

    start.started = started
    yield start
    for server in started:
        if server.proc.poll() is None:
            server.terminate()


@pytest.fixture(scope="module")
def python_server():
    """A Python server with the functions of ``register``."""
    found = rpc.Server(port=0, silent=True, server_init_callback=register)
    yield found
    found.terminate()


@pytest.fixture(scope="module", params=["c", "python"])
def server(request):
    """A server of either kind, for tests that any can serve."""
    found = CServer() if request.param == "c" else request.getfixturevalue("python_server")
    found.kind = request.param
    yield found
    if request.param == "c":
        found.terminate()


@pytest.fixture
def remote(server):
    with rpc.connect(server.host, server.port) as session:
        yield session


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> str:
    """A shared library with ``add_one``."""
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    path = str(tmp_path_factory.mktemp("rpc") / "add_one.so")
    tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="add_one").export_library(path)
    return path


def register() -> None:
    """Functions of a Python server."""
    tvm.register_func("test.rpc.add", lambda x, y: x + y)
    tvm.register_func("test.rpc.echo", lambda x: x)
    tvm.register_func("test.rpc.twice", lambda f, x: f(f(x)))
    tvm.register_func("test.rpc.adder", lambda x: lambda y: x + y)
    tvm.register_func("test.rpc.shown", lambda f, array: f(array))

    @tvm.register_func("test.rpc.wrong")
    def wrong(text):
        raise ValueError(text)

    @tvm.register_func("test.rpc.die")
    def die():
        os.kill(os.getpid(), 11)

    @tvm.register_func("test.rpc.fork")
    def fork():
        """A process that outlives its parent unless somebody ends it."""
        pid = os.fork()
        if pid == 0:
            os.setsid()
            while True:
                os.read(os.pipe()[0], 1)
        return pid
