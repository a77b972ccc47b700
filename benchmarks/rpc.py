"""Cost of an RPC session: remote calls, copies, timing a kernel remotely and locally, and tuning through a tracker.

    python -m benchmarks.rpc [--rounds 5]

Prints a table in Markdown, for the server written in C and for ``tvm.rpc.Server``, both on loopback.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tvm
from tvm import autotvm, rpc, te
from tvm.autotvm.measure.measure import create_measure_batch
from tvm.rpc.tracker import Tracker
from tvm.runtime import _lib

from . import result_file

BYTES = 64 << 20
# The project's targets, by measurement.
TARGETS = {"call of an empty function (us)": 150, "copy to the device (GB/s)": 1, "copy from the device (GB/s)": 1,
           "a kernel's time there / here (%)": 100,
           "trials a second / those of the local runner (%)": 90}  # fmt: skip
CALLS = 2000
TRIALS = 32


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
    """Return the seconds of the fastest round."""
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
    for _ in range(rounds):  # in turn, so that a busy machine slows both
        for name, part, device in (("here", here, tvm.cpu()), ("there", there, remote.cpu())):
            args = tvm.nd.array(x, device), tvm.nd.empty((512, 512), "float32", device)
            times[name].append(part.time_evaluator("matmul", device, number=10, repeat=3)(*args).median)
    return {
        "call of an empty function (us)": best(rounds, lambda: [call(empty, empty) for _ in some]) / CALLS * 1e6,
        "copy to the device (GB/s)": BYTES / best(rounds, lambda: array.copyfrom(data)) / 1e9,
        "copy from the device (GB/s)": BYTES / best(rounds, array.numpy) / 1e9,
        "a kernel's time there / here (%)": 100 * min(times["there"]) / min(times["here"]),
        "median of the same (%)": 100 * statistics.median(times["there"]) / statistics.median(times["here"]),
    }


@autotvm.template("bench/rpc_matmul")
def _matmul(n: int):
    """Return a matmul with tiles of all sizes."""
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    schedule, config = te.create_schedule(c.op), autotvm.get_config()
    axes = (*c.op.axis, k)
    for name, axis in zip("ijk", axes):
        config.define_split(name, axis, num_outputs=2)
    (io, ii), (jo, ji), (ko, ki) = (config[name].apply(schedule, c, axis) for name, axis in zip("ijk", axes))
    schedule[c].reorder(io, jo, ko, ii, ki, ji)
    schedule[c].vectorize(ji)
    return schedule, [a, b, c]


def trials(key: str, tracker: Tracker, rounds: int) -> tuple[float, float]:
    """Return the milliseconds of building and measuring a candidate, by the local runner and through a tracker, in
    turn."""
    task = autotvm.task.create("bench/rpc_matmul", args=(128,), target="llvm")
    draw = random.Random(0)
    configs = [task.config_space.get(draw.randrange(len(task.config_space))) for _ in range(3 * TRIALS)]
    inputs = [autotvm.MeasureInput(task.target, task, one) for one in configs if one["j"].size[-1] <= 64][:TRIALS]
    options = {"number": 4, "repeat": 3, "cooldown_interval": 0}
    here = autotvm.LocalRunner(**options)
    there = autotvm.RPCRunner(key, tracker.host, tracker.port, n_parallel=1, **options)
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds + 1):  # the first run starts the workers
        for times, runner in zip(seconds, (here, there)):
            builder = autotvm.LocalBuilder()
            create_measure_batch(task, autotvm.measure_option(builder=builder, runner=runner))
            start = time.perf_counter()
            runner.run(inputs, builder.build(inputs))
            times.append(time.perf_counter() - start)
    return tuple(1e3 * min(times[1:]) / len(inputs) for times in seconds)


def c_server(*options: str) -> tuple[subprocess.Popen, int]:
    program = Path(_lib.find_library()).with_name("tvm_rpc_server")
    process = subprocess.Popen([program, "--port", "0", *options], stderr=subprocess.PIPE, text=True)
    return process, int(process.stderr.readline().rpartition(":")[2])


def measure_trials(rounds: int) -> list[tuple[float, float]]:
    """Return the speed of trials on a server of either kind."""
    tracker = Tracker(port=0, silent=True)
    process, _ = c_server("--key", "c", "--tracker", f"{tracker.host}:{tracker.port}")
    python = rpc.Server(port=0, silent=True, key="python", tracker_addr=(tracker.host, tracker.port))
    found = []
    for key in ("c", "python"):
        rpc.connect_tracker(tracker.host, tracker.port).request(key).close()
        found.append(trials(key, tracker, rounds))
    process.terminate()
    process.communicate()
    python.terminate()
    tracker.terminate()
    return found


def result_rows(in_c: dict[str, float], in_python: dict[str, float]) -> list[dict]:
    """Return the rows of a result file; the unit is at the end of each measurement's name."""
    rows = []
    for title in in_c:
        name, unit = title.removesuffix(")").rsplit(" (", 1)
        values = {"tvm_rpc_server": round(in_c[title], 2), "tvm.rpc.Server": round(in_python[title], 2)}
        if title in TARGETS:
            values["target"] = TARGETS[title]
        rows.append({"name": name, "unit": unit, "values": values})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    result_file.add_option(parser)
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
    for result, (here, there) in zip(results, measure_trials(args.rounds)):
        result["a trial of the local runner (ms)"], result["a trial through the server (ms)"] = here, there
        result["trials a second / those of the local runner (%)"] = 100 * here / there
    print("| | tvm_rpc_server | tvm.rpc.Server |\n|---|---|---|")
    for name in results[0]:
        print(f"| {name} | {results[0][name]:.1f} | {results[1][name]:.1f} |")
    result_file.record(
        args.record, "rpc", result_rows(*results), unit="us", command="python -m benchmarks.rpc",
        method="servers on loopback",
    )  # fmt: skip


if __name__ == "__main__":
    main()
