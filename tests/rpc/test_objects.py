"""Objects linked by the runtime itself: what a candidate of a tuner is sent as, also to a board without a linker."""

from __future__ import annotations

import math
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvm
from tvm import rpc, te
from tvm.error import RPCError

LINKS = platform.machine() in ("x86_64", "aarch64")
needs_link = pytest.mark.skipif(not LINKS, reason="the runtime links objects for x86-64 and aarch64")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """An object that calls libm, reads constants, runs in parallel and fills memory."""
    n = 1003
    a = te.placeholder((n,), name="a")
    table = te.compute((n,), lambda i: te.exp(a[i]) + te.erf(a[i]) * te.cos(a[i]), name="table")
    b = te.compute((n,), lambda i: te.if_then_else(i % 3 == 0, te.power(table[i], 1.7), te.tanh(table[i])), name="b")
    schedule = te.create_schedule(b.op)
    outer, inner = schedule[b].split(b.op.axis[0], 64)
    schedule[b].parallel(outer)
    path = str(tmp_path_factory.mktemp("object") / "kernel.o")
    tvm.build(schedule, [a, b], "llvm", name="kernel").save(path)
    x = np.random.default_rng(3).random(n).astype("float32")
    t = np.exp(x) + np.vectorize(math.erf)(x) * np.cos(x)
    return path, x, np.where(np.arange(n) % 3 == 0, t**1.7, np.tanh(t))


def test_a_server_runs_an_object_without_a_linker(server, kernel, monkeypatch):
    if server.kind == "c" and not LINKS:
        pytest.skip("the runtime links objects for x86-64 and aarch64")
    path, x, wanted = kernel
    with rpc.connect(server.host, server.port) as remote:
        remote.upload(path)
        module = remote.load_module("kernel.o")
        for _ in range(2):
            a, b = tvm.nd.array(x, remote.cpu()), tvm.nd.empty(x.shape, "float32", remote.cpu())
            module["kernel"](a, b)
            np.testing.assert_allclose(b.numpy(), wanted, rtol=1e-4)
        assert module.time_evaluator("kernel", remote.cpu(), number=2)(a, b).mean > 0
        # Its arguments are checked as those of a library.
        with pytest.raises((ValueError, RPCError, tvm.TVMError), match="expected 2 arguments, got 1"):
            module["kernel"](a)


@needs_link
def test_objects_of_a_c_compiler_and_what_they_lack(c_server, tmp_path):
    (tmp_path / "lacks.c").write_text("int nothing_of_the_kind(int); int f(int x) { return nothing_of_the_kind(x); }\n")
    (tmp_path / "thread.c").write_text("_Thread_local int x; int f(void) { return ++x; }\n")
    server = c_server()
    with rpc.connect(server.host, server.port) as remote:
        for name, text in (
            ("lacks", "needs the symbol 'nothing_of_the_kind', which is not defined"),
            ("thread", "need a linker"),
        ):
            subprocess.run(["cc", "-c", "-fPIC", "-o", tmp_path / f"{name}.o", tmp_path / f"{name}.c"], check=True)
            remote.upload(str(tmp_path / f"{name}.o"))
            with pytest.raises(RPCError, match=text):
                remote.load_module(f"{name}.o")
        assert remote.listdir() == "lacks.o,thread.o"


@needs_link
def test_damaged_objects_are_refused_and_cost_nothing(c_server, kernel, rng):
    """They are loaded, never run: what lies in a changed object's code is not looked at."""
    whole = Path(kernel[0]).read_bytes()
    server = c_server()
    with rpc.connect(server.host, server.port) as remote:
        for turn in range(120):
            data = bytearray(whole)
            if turn % 3 == 0:
                del data[int(rng.integers(len(data))) :]
            # Headers, tables of symbols and relocations lie at the ends.
            places = [*range(16, 64), *range(len(data) * 2 // 3, len(data))]
            for _ in range(int(rng.integers(1, 9))):
                at = places[int(rng.integers(len(places)))]
                if at < len(data):
                    data[at] = int(rng.integers(256))
            remote.upload(bytes(data), "damaged.o")
            try:
                remote.load_module("damaged.o")
            except RPCError as problem:
                assert "died" not in str(problem), problem
        assert remote.listdir() == "damaged.o"


def test_an_object_of_another_machine_is_refused_in_words(c_server, kernel):
    data = bytearray(Path(kernel[0]).read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    server = c_server()
    with rpc.connect(server.host, server.port) as remote:
        remote.upload(bytes(data), "other.o")
        with pytest.raises(RPCError, match=r"another architecture|not a shared library"):
            remote.load_module("other.o")
