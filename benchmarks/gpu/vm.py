"""The VM on an NVIDIA GPU: models compiled once for all sizes, in half precision, beside eager PyTorch.

    python -m benchmarks.gpu.vm [--models bert_base,resnet50,resnet50_image] [--static] [--checks] [--profile]

Needs torch and onnx, and transformers and torchvision for the column of their own models. Libraries are compiled side
by side in separate processes; then, at each size, outputs are compared with PyTorch in float32 and the programs are
timed in turn: ``vm`` with dynamic shapes, ``static`` (the graph executor, a build for the one size), ``torch`` (the
same network), ``library`` (the network of transformers or torchvision, without folded normalization). Rows are written
as they are measured. ``--checks`` runs a loop with a run-time number of steps, and non-maximum suppression on the
device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from ..harness import commit, percentile
from ..vm_models import CASES, Sizes, model_path, sample
from .vm_checks import check
from .vm_peers import Eager, library_model, modules, weights_of

ALLOWED_ERROR = 2e-2
MODELS = ("bert_base", "resnet50", "resnet50_image")


def compile_one(spec: dict) -> None:
    """Write the library of a model: for the VM with dynamic shapes, or for the graph executor and one size."""
    import tvm
    from tvm import relay

    started = time.perf_counter()
    mod, params = relay.frontend.from_onnx(spec["model"], shape=spec["shapes"])
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    mod = relay.transform.ToMixedPrecision("float16")(relay.transform.InferType()(mod))
    target = tvm.target.Target(spec["target"], host="llvm")
    with tvm.transform.PassContext(opt_level=3):
        made = relay.vm.compile(mod, target) if spec["shapes"] is None else relay.build(mod, target)
    made.export_library(spec["library"] + ".part.so")
    os.replace(spec["library"] + ".part.so", spec["library"])
    print(f"compiled in {time.perf_counter() - started:.1f} s", flush=True)


class OnMachine:
    """The model with dynamic shapes."""

    def __init__(self, path: str, device: Any):
        import tvm

        self.tvm, self.device = tvm, device
        self.machine = tvm.runtime.vm.VirtualMachine(tvm.runtime.load_module(path), device)
        self.invoke = self.machine.module["invoke_stateful"]

    def set_input(self, feeds: dict[str, np.ndarray]) -> None:
        self.machine.set_input("main", **{k: self.tvm.nd.array(v, self.device) for k, v in feeds.items()})

    def run(self) -> None:
        self.invoke("main")

    def output(self) -> np.ndarray:
        self.run()
        return self.machine.get_outputs()[0].numpy().astype("float32")

    def sync(self) -> None:
        self.device.sync()


class OnGraph:
    """A build for one size."""

    def __init__(self, path: str, device: Any):
        import tvm
        from tvm.contrib import graph_executor

        self.device = device
        self.module = graph_executor.GraphModule(tvm.runtime.load_module(path)["default"](device))

    def set_input(self, feeds: dict[str, np.ndarray]) -> None:
        self.module.set_input(**feeds)

    def run(self) -> None:
        self.module.run()

    def output(self) -> np.ndarray:
        self.run()
        return self.module.get_output(0).numpy().astype("float32")

    def sync(self) -> None:
        self.device.sync()


class Builds:
    """Libraries that are compiled in separate processes, a few at a time."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.waiting: list[tuple[str, dict]] = []
        self.running: dict[str, subprocess.Popen] = {}
        os.makedirs(options.packages, exist_ok=True)

    def path(self, name: str, shapes: dict[str, Sizes] | None) -> str:
        tag = "open" if shapes is None else "_".join("x".join(map(str, s)) for s in list(shapes.values())[:1])
        return os.path.join(self.options.packages, f"{name}.{tag}.so")

    def ask(self, name: str, shapes: dict[str, Sizes] | None) -> None:
        path = self.path(name, shapes)
        if not os.path.exists(path):
            model = str(model_path(self.options.zoo, name))
            self.waiting.append((path, {"model": model, "shapes": shapes, "library": path,
                                        "target": self.options.target}))  # fmt: skip

    def get(self, name: str, shapes: dict[str, Sizes] | None) -> str:
        """Wait for a library and return its path."""
        path = self.path(name, shapes)
        while not os.path.exists(path):
            self.start()
            process = self.running.get(path)
            if process is not None and process.poll() is not None and not os.path.exists(path):
                with open(path + ".txt", encoding="utf-8") as said:
                    raise RuntimeError(f"{os.path.basename(path)} was not compiled: {said.read()[-1500:]}")
            if time.monotonic() > self.options.end:
                raise RuntimeError(f"{os.path.basename(path)} was not compiled in time")
            time.sleep(0.2)
        return path

    def start(self) -> None:
        busy = sum(p.poll() is None for p in self.running.values())
        while self.waiting and busy < self.options.jobs:
            path, spec = self.waiting.pop(0)
            with open(path + ".txt", "w", encoding="utf-8") as said:
                command = [sys.executable, "-m", "benchmarks.gpu.vm", "--compile", json.dumps(spec)]
                self.running[path] = subprocess.Popen(command, stdout=said, stderr=said)
            busy += 1

    def wait(self) -> None:
        """Wait until all are compiled: no program is timed beside a compiler."""
        while self.waiting or any(p.poll() is None for p in self.running.values()):
            self.start()
            if time.monotonic() > self.options.end:
                break
            time.sleep(0.2)

    def stop(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.kill()


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Return the relative error by the Frobenius norm."""
    return float(np.linalg.norm(got.astype("float64") - wanted) / np.linalg.norm(wanted))


def timed(programs: dict[str, Any], rounds: int, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return the milliseconds of each program: of a whole run, and until the host has queued all of it."""
    whole: dict[str, list[float]] = {name: [] for name in programs}
    asked: dict[str, list[float]] = {name: [] for name in programs}
    for program in programs.values():
        for _ in range(10):
            program.run()
        program.sync()
    end = time.monotonic() + seconds
    for _ in range(rounds):
        for name, program in programs.items():
            program.sync()
            started = time.perf_counter()
            program.run()
            asked[name].append(time.perf_counter() - started)
            program.sync()
            whole[name].append(time.perf_counter() - started)
        if time.monotonic() > end:
            break
    return tuple({n: 1e3 * percentile(row, 20) for n, row in rows.items()} for rows in (whole, asked))


class Bench:
    def __init__(self, options: argparse.Namespace, say: Any):
        import tvm

        self.options, self.say = options, say
        self.device = tvm.cuda(0)
        self.builds = Builds(options)

    def ask(self) -> None:
        for name in self.options.models:
            self.builds.ask(name, None)
        if self.options.static:
            for name in self.options.models:
                for shapes in CASES[name].shapes:
                    self.builds.ask(name, shapes)
        self.builds.wait()

    def model(self, name: str) -> None:
        import onnx

        programs: dict[str, Any] = {"vm": OnMachine(self.builds.get(name, None), self.device)}
        weights = weights_of(onnx.load(str(model_path(self.options.zoo, name))))
        made = modules()[name]
        exact, programs["torch"] = Eager(made(weights), "float32"), Eager(made(weights))
        try:
            programs["library"] = Eager(library_model(name))
        except Exception as problem:
            self.say({"model": name, "library": f"{type(problem).__name__}: {problem}"})
        for shapes in CASES[name].shapes:
            try:
                self.say(self.row(name, shapes, programs, exact))
            except Exception as problem:
                said = f"{type(problem).__name__}: {str(problem)[-1500:]}"
                self.say({"model": name, "shapes": shapes, "failed": said})

    def row(self, name: str, shapes: dict[str, Sizes], programs: dict[str, Any], exact: Eager) -> dict[str, Any]:
        feeds, programs = sample(shapes), dict(programs)
        row: dict[str, Any] = {"model": name, "shape": list(shapes.values())[0]}
        if self.options.static:
            try:
                programs["static"] = OnGraph(self.builds.get(name, shapes), self.device)
            except RuntimeError as problem:
                row["static"] = str(problem)
        for program in (exact, *programs.values()):
            program.set_input(feeds)
        wanted = exact.output()
        row["error"] = {n: error(p.output(), wanted) for n, p in programs.items() if n != "library"}
        row["ms"], row["asked_ms"] = timed(programs, self.options.rounds, self.options.seconds)
        row["graphs"] = programs["vm"].machine.module["graph_capture"]()
        row["ratio"] = {n: row["ms"]["vm"] / ms for n, ms in row["ms"].items() if n != "vm"}
        row["good"] = row["error"]["vm"] <= ALLOWED_ERROR
        return row

    def profile(self, name: str, at: int) -> None:
        """Return the slowest kernels at one size."""
        import tvm

        shapes = CASES[name].shapes[at]
        machine = tvm.runtime.profiler_vm.VirtualMachineProfiler(
            tvm.runtime.load_module(self.builds.get(name, None)), self.device
        )
        feeds = {k: tvm.nd.array(v, self.device) for k, v in sample(shapes).items()}
        machine.set_input("main", **feeds)
        machine.profile(func_name="main")
        calls = machine.profile(func_name="main").calls
        rows = [(call["Duration (us)"].us, str(call["Name"])) for call in calls]
        total: dict[str, list[float]] = {}
        for us, kernel in rows:
            total.setdefault(kernel, []).append(us)
        shown = sorted(((sum(v), len(v), k) for k, v in total.items()), reverse=True)[:16]
        self.say({"model": name, "shape": list(shapes.values())[0], "profile_us": sum(us for us, _ in rows),
                  "calls": len(rows), "kernels": [f"{us:.1f} us in {n}: {k}" for us, n, k in shown]})  # fmt: skip


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu.vm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--models", default=",".join(MODELS), help="comma-separated names; none for no model")
    add("--target", default="cuda -arch=sm_90a")
    add("--static", action="store_true", help="also measure builds for each size")
    add("--checks", action="store_true", help="run a loop and non-maximum suppression")
    add("--profile", action="store_true", help="print the slowest kernels at the first and the last size of each model")
    add("--rounds", type=int, default=60)
    add("--seconds", type=float, default=3.0, help="time limit of timing one size")
    add("--limit", type=float, default=540.0, help="seconds after which nothing new starts")
    add("--jobs", type=int, default=max(len(os.sched_getaffinity(0)) - 1, 1), help="number of compilers at a time")
    add("--zoo", default=os.path.join(tempfile.gettempdir(), "tvm_vm_zoo"))
    add("--packages", default=os.path.join(tempfile.gettempdir(), "tvm_vm_packages"))
    add("--output", default="", help="file for the rows, one JSON object per line")
    add("--compile", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.end = time.monotonic() + options.limit
    options.models = [n for n in options.models.split(",") if n and n != "none"]
    unknown = [n for n in options.models if n not in MODELS]
    if unknown:
        parser.error(f"--models: unknown model '{unknown[0]}'; known: {', '.join(MODELS)}")
    return options


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    if options.compile:
        compile_one(json.loads(options.compile))
        return 0
    rows: list[dict] = []

    def say(row: dict) -> None:
        rows.append(row)
        line = json.dumps(row, default=str)
        print(line, flush=True)
        if options.output:
            with open(options.output, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    say({"commit": commit(), "target": options.target})
    bench = Bench(options, say)
    try:
        bench.ask()
        if options.checks:
            check(options.target, say)
        for name in options.models:
            bench.model(name)
        if options.profile:
            for name in options.models:
                for at in (0, len(CASES[name].shapes) - 1):
                    bench.profile(name, at)
    finally:
        bench.builds.stop()
    timings = [row["ratio"] for row in rows if "ratio" in row]
    say({"worst": {peer: max(r[peer] for r in timings if peer in r) for peer in {p for r in timings for p in r}}})
    return int(any(row.get("good") is False or "failed" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
