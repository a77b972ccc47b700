"""TFLite models beside LiteRT with XNNPACK: each program in its own process, interleaved, 20th percentile of rounds.

    python -m benchmarks.tflite --peer-python PYTHON_WITH_LITERT --packages FOLDER MODEL.tflite ...

``--packages`` stores compiled models, so that a second call only measures; ``--compile`` only compiles. On a busy
machine, use ``--cpu-time``: it measures processor time, which is meaningful for one thread only.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable

from . import harness, result_file

_MODEL, _PACKAGE, _CLOCK, _THREADS = "TVM_BENCH_MODEL", "TVM_BENCH_PACKAGE", "TVM_BENCH_CLOCK", "TVM_NUM_THREADS"
_CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def _timed(run: Callable[[], object]) -> Callable[[], float]:
    """Return a round of two runs: the first refills the caches and wakes the threads after the other program ran;
    the second one is timed."""

    clock = _CLOCKS[os.environ[_CLOCK]]

    def one() -> float:
        run()
        start = clock()
        run()
        return clock() - start

    return one


def _data(shape, dtype: str):
    import numpy as np

    state = np.random.RandomState(0)
    if np.dtype(dtype).kind in "iu":
        low = np.iinfo(dtype).min
        return state.randint(low, low + 256, tuple(shape)).astype(dtype)
    return state.uniform(-1, 1, tuple(shape)).astype(dtype)


def litert() -> Callable[[], float]:
    """Return a round of the model in LiteRT, whose default delegate for floats and integers is XNNPACK."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=os.environ[_MODEL], num_threads=int(os.environ[_THREADS]))
    interpreter.allocate_tensors()
    for row in interpreter.get_input_details():
        interpreter.set_tensor(row["index"], _data(row["shape"], np.dtype(row["dtype"]).name))
    return _timed(interpreter.invoke)


def ours() -> Callable[[], float]:
    """Return a round of the compiled model in the graph executor."""
    import tvm
    from tvm.contrib import graph_executor
    from tvm.driver.tvmc.model import TVMCPackage
    from tvm.driver.tvmc.runner import package_inputs

    package = TVMCPackage(os.environ[_PACKAGE])
    module = graph_executor.create(package.graph, tvm.runtime.load_module(package.lib_path), tvm.cpu())
    module.load_params_from_file(package.params_path)
    shapes, dtypes = package_inputs(package)
    module.set_input(**{name: _data(shape, dtypes[name]) for name, shape in shapes.items()})
    return _timed(module.run)


def compiled(model: str, folder: str) -> str:
    """Return the package of a model; compile it if it does not exist."""
    from tvm.driver import tvmc

    path = os.path.join(folder, os.path.basename(model) + ".tar")
    if not os.path.exists(path):
        tvmc.compile(tvmc.load(model, model_format="tflite"), target="llvm", package_path=path)
    return path


def measured(model: str, package: str, python: str, threads: int, rounds: int, clock: str) -> dict[str, harness.Result]:
    paths = {_MODEL: os.path.abspath(model), _PACKAGE: os.path.abspath(package)}
    environment = {**paths, _CLOCK: clock, _THREADS: str(threads)}
    peers = {
        "tvm": ("benchmarks.tflite:ours", environment),
        "litert": ("benchmarks.tflite:litert", environment, python),
    }
    return harness.interleave(peers, rounds)


def result_rows(rows: dict[str, dict[str, float]], threads: int) -> list[dict]:
    """Return the rows of a result file."""
    group = "1 thread" if threads == 1 else f"{threads} threads"
    return [
        {
            "name": name.removesuffix(".tflite"),
            "group": group,
            "values": {"ours": row["tvm"] * 1e3, "LiteRT": row["litert"] * 1e3},
        }
        for name, row in rows.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="TFLite files")
    parser.add_argument("--peer-python", required=True, help="Python that has ai-edge-litert")
    parser.add_argument("--packages", required=True, help="folder of compiled models")
    parser.add_argument("--compile", action="store_true", help="compile and measure nothing")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--cpu-time", action="store_true", help="measure processor time; needs --threads 1")
    parser.add_argument("--save", help="JSON file for the results")
    result_file.add_option(parser)
    args = parser.parse_args()
    if args.cpu_time and args.threads != 1:
        parser.error("--cpu-time needs --threads 1: processor time is no measure of several threads")
    clock = "cpu" if args.cpu_time else "wall"
    os.makedirs(args.packages, exist_ok=True)
    rows, ratios = {}, []
    for model in args.models:
        package = compiled(model, args.packages)
        if args.compile:
            continue
        found = measured(model, package, args.peer_python, args.threads, args.rounds, clock)
        own, peer = found["tvm"].p20, found["litert"].p20
        name = os.path.basename(model)
        print(f"{name:50s} tvm {own * 1e3:8.3f} ms   litert {peer * 1e3:8.3f} ms   ratio {own / peer:.3f}", flush=True)
        rows[name] = {"tvm": own, "litert": peer, "ratio": own / peer}
        ratios.append(own / peer)
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
        if args.save:
            harness.save(
                args.save, {"commit": harness.commit(), "threads": args.threads, "clock": clock, "models": rows}
            )
        result_file.record(
            args.record, "tflite", result_rows(rows, args.threads), unit="ms",
            command="python -m benchmarks.tflite MODELS --peer-python PYTHON --packages FOLDER",
            versions=result_file.installed({"LiteRT": "ai-edge-litert"}, args.peer_python),
            method=f"float32; {args.rounds} interleaved rounds; {'processor' if args.cpu_time else 'wall'} time",
        )  # fmt: skip


if __name__ == "__main__":
    main()
