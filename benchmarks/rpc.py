"""What a session costs: remote calls, copies, and timing a kernel remotely beside timing it here.

    python -m benchmarks.rpc [--rounds 5]

Prints a table in Markdown, for the server written in C and for the one behind ``tvm.rpc.Server``, both on loopback.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tvm
from tvm import rpc, te
from tvm.runtime import _lib

BYTES = 64 << 20
CALLS = 2000


def _library(folder: str) -> str:
    a = te.placeholder((512, 512), name="a")
    k = te.reduce_axis((0, 512), name="k")
    b = te.compute((512, 512), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name="b")
    schedule = te.create_schedule(b.op)
    schedule[b].reorder(b.op.axis[0], k, b.op.axis[1])
    schedule[b].vectorize(b.op.axis[1])
    n = te.var("n")
    c = te.placeholder((n,), name="c")
    d = te.compute((n,), lambda i: c[i], name="d")
    parts = tvm.lower(schedule, [a, b], name="matmul"), tvm.lower(te.create_schedule(d.op), [c, d], name="nothing")
    module = tvm.IRModule({key: function for part in parts for key, function in part.functions.items()})
    path = f"{folder}/bench.so"
    tvm.build(module, target="llvm").export_library(path)
    return path


def best(rounds: int, act: Callable[[], object]) -> float:
    """Seconds of the fastest of some rounds."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        act()
        found.append(time.perf_counter() - start)
    return min(found)


def measure(remote: rpc.RPCSession, path: str, rounds: int) -> dict[str, float]:
    remote.upload(path)
    module = remote.load_module("bench.so")
    empty = tvm.nd.array(np.zeros(1, "float32"), remote.cpu())
    call, some = module["nothing"], range(CALLS)
    data = np.ones(BYTES, "uint8")
    array = tvm.nd.array(data, remote.cpu())
    x = np.random.default_rng(0).random((512, 512), "float32")
    here, there = tvm.runtime.load_module(path), module
    times: dict[str, list[float]] = {"here": [], "there": []}
    for _ in range(rounds):  # in turn, so that a busy machine slows both alike
        for name, part, device in (("here", here, tvm.cpu()), ("there", there, remote.cpu())):
            args = tvm.nd.array(x, device), tvm.nd.empty((512, 512), "float32", device)
            times[name].append(part.time_evaluator("matmul", device, number=10, repeat=3)(*args).median)
    return {
        "call of an empty function (us)": best(rounds, lambda: [call(empty, empty) for _ in some]) / CALLS * 1e6,
        "copy to the device (GB/s)": BYTES / best(rounds, lambda: array.copyfrom(data)) / 1e9,
        "copy from the device (GB/s)": BYTES / best(rounds, array.numpy) / 1e9,
        "a kernel timed there, of the time here (%)": 100 * min(times["there"]) / min(times["here"]),
        "median of the same (%)": 100 * statistics.median(times["there"]) / statistics.median(times["here"]),
    }


def c_server() -> tuple[subprocess.Popen, int]:
    program = Path(_lib.find_library()).with_name("tvm_rpc_server")
    process = subprocess.Popen([program, "--port", "0"], stderr=subprocess.PIPE, text=True)
    return process, int(process.stderr.readline().rpartition(":")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = _library(folder)
        process, port = c_server()
        python = rpc.Server(port=0, silent=True)
        results = []
        for number in (port, python.port):
            with rpc.connect("127.0.0.1", number) as remote:
                results.append(measure(remote, path, args.rounds))
        process.terminate()
        process.communicate()
        python.terminate()
    print("| | tvm_rpc_server | tvm.rpc.Server |\n|---|---|---|")
    for name in results[0]:
        print(f"| {name} | {results[0][name]:.1f} | {results[1][name]:.1f} |")


if __name__ == "__main__":
    main()
