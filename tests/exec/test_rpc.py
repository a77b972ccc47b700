"""The programs of RPC, and ``tvmc`` over them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import tvm
from tvm import relay, rpc
from tvm.driver import tvmc
from tvm.driver.tvmc.main import _main


@pytest.fixture(autouse=True)
def no_secret(monkeypatch):
    monkeypatch.delenv("TVM_RPC_SECRET", raising=False)
    monkeypatch.delenv("TVM_RPC_SECRET_FILE", raising=False)


class Program:
    """``python -m`` a program that says where it listens."""

    def __init__(self, *words: str):
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        line = self.process.stdout.readline()
        self.port = int(re.search(r"bind to 127\.0\.0\.1:(\d+)", line)[1])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


@pytest.fixture(scope="module")
def pool():
    """The port of a tracker with one server, both programs of ``tvm.exec``."""
    tracker = Program("tvm.exec.rpc_tracker")
    server = Program("tvm.exec.rpc_server", "--key", "board", "--tracker", f"127.0.0.1:{tracker.port}")
    yield tracker.port
    server.stop()
    tracker.stop()


def test_a_session_is_had_and_the_tracker_can_be_asked(pool, capsys):
    assert rpc.connect_tracker("127.0.0.1", pool).request("board").listdir() == ""
    words = [sys.executable, "-m", "tvm.exec.query_rpc_tracker", "--port", str(pool)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Tracker address 127.0.0.1:{pool}\n\nServer List") and "server:board" in done.stdout
    assert _main(["devices", "--rpc-tracker", f"127.0.0.1:{pool}"]) == 0
    assert "server:board" in capsys.readouterr().out
    assert _main(["devices", "--watch"]) == 4


def test_a_server_behind_the_proxy_program_is_reached_through_it():
    proxy = Program("tvm.exec.rpc_proxy")
    words = [sys.executable, "-m", "tvm.exec.rpc_server", "--through-proxy", "--key=hidden", f"--port={proxy.port}"]
    server = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    with rpc.connect("127.0.0.1", proxy.port, "hidden") as remote:
        assert remote.listdir() == ""
    server.terminate()
    assert server.wait(60) == 0
    proxy.stop()
    words = [sys.executable, "-m", "tvm.exec.rpc_proxy", "--web-port", "8888"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode and "sessions in a browser" in done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    x = relay.var("x", shape=(2, 3), dtype="float32")
    w = relay.var("w", shape=(4, 3), dtype="float32")
    weights = np.random.default_rng(5).standard_normal((4, 3)).astype("float32")
    module = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    path = str(tmp_path_factory.mktemp("package") / "model.tar")
    model = tvmc.TVMCModel(module, {"w": tvm.nd.array(weights)})
    return tvmc.compile(model, target="llvm", package_path=path), path, weights


def test_tvmc_runs_a_package_on_a_device_of_the_tracker(pool, package, tmp_path, capsys):
    made, path, weights = package
    data = np.random.default_rng(6).standard_normal((2, 3)).astype("float32")
    result = tvmc.run(made, "cpu", hostname="127.0.0.1", port=pool, rpc_key="board", inputs={"x": data})
    np.testing.assert_allclose(result.get_output("output_0"), data @ weights.T, rtol=1e-5, atol=1e-6)
    np.savez(tmp_path / "in.npz", x=data)
    words = ["run", "--rpc-tracker", f"127.0.0.1:{pool}", "--rpc-key", "board", "--print-time", "--inputs"]
    assert not _main([*words, str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz"), path])
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["output_0"], data @ weights.T, rtol=1e-5, atol=1e-6)
    assert "mean (ms)" in capsys.readouterr().out
    assert _main(["run", "--rpc-key", "board", path]) == 4
    assert "--rpc-tracker" in capsys.readouterr().err


def test_tvmc_runs_a_package_on_a_server_without_a_tracker(package, capsys):
    made, path, _ = package
    server = rpc.Server(port=0, silent=True)
    assert not _main(["run", "--rpc-tracker", f"127.0.0.1:{server.port}", path])
    server.terminate()
    assert _main(["run", "--rpc-tracker", f"127.0.0.1:{server.port}", path]) == 4
    assert "cannot connect to" in capsys.readouterr().err


@pytest.mark.parametrize("sketches", [False, True])
def test_tvmc_tunes_on_a_device_of_the_tracker(pool, sketches, tmp_path):
    x = relay.var("x", shape=(2, 8), dtype="float32")
    w = relay.var("w", shape=(4, 8), dtype="float32")
    module = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    model = tvmc.TVMCModel(module, {"w": tvm.nd.array(np.ones((4, 8), "float32"))})
    records = tvmc.tune(
        model,
        "llvm",
        str(tmp_path / "records.json"),
        enable_autoscheduler=sketches,
        hostname="127.0.0.1",
        port=pool,
        rpc_key="board",
        trials=1,
        tuner="random",
        timeout=60,
        repeat=1,
        number=1,
        parallel=1,
    )
    with open(records, encoding="utf-8") as file:
        assert file.read().strip()


@pytest.mark.parametrize("words", [["server", "--host", "0.0.0.0"], ["tracker", "--host", "0.0.0.0"]])
def test_tvmc_server_and_tracker_need_a_secret_outside_loopback(words, capsys):
    assert _main(words) == 4
    assert "outside loopback requires a secret" in capsys.readouterr().err


def test_tvmc_server_and_tracker_work_together():
    tracker = Program("tvm.driver.tvmc", "tracker")
    server = Program("tvm.driver.tvmc", "server", "--key", "desk", "--tracker", f"127.0.0.1:{tracker.port}")
    assert rpc.connect_tracker("127.0.0.1", tracker.port).request("desk").listdir() == ""
    server.stop()
    tracker.stop()
    assert _main(["server", "--tracker", "127.0.0.1:1"]) == 4
