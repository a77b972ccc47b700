"""The VM with dynamic shapes: models compiled once and run at many sizes, beside onnxruntime and our builds for one
size.

    python -m benchmarks.vm --models mobilenet_v2,bert_base --rounds 20
    python -m benchmarks.vm --models mobilenet_v2 --at 0,2 --no-static
    python -m benchmarks.vm --rounds 10 --jobs 8 --threads 2    all, eight models at a time, each on its own cores
    python -m benchmarks.vm --chain --memory        the VM alone: 100 trivial calls, 1,000 runs of random sizes

Every program has its own process, which is stopped while another one runs. Outputs are compared before timing; rounds
are interleaved, and the 20th percentile counts. ``vm`` is the model compiled once with dynamic shapes; ``static`` is a
build for the one size: for the graph executor, or for the VM where output shapes depend on data.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from tvm.utils.peers import PROGRAMS, Program, answers, peak_bytes, serve
from tvm.utils.rounds import ROOT, ROUND_SECONDS, Worker, WorkerFailed, in_turn, missing, runs_in_a_round

from . import result_file
from .harness import commit, percentile, save
from .vm_models import CASES, Sizes, model_path, sample

ALLOWED_ERROR = 1e-3
WARM_UP_ROUNDS = 3
RUNS = 1000
# Where models run at the same time, those that take longest to compile and run start first.
LONGEST = ("bert_base", "resnet50", "resnet50_image", "gpt2_decode", "gpt2")


# ---- our programs, each in a worker ----


def compile_model(spec: dict) -> dict:
    """Write the library of a model, for the VM or for the graph executor, and return the seconds it took."""
    import tvm
    from tvm import relay

    start = time.perf_counter()
    mod, params = relay.frontend.from_onnx(spec["model"], shape=spec["shapes"])
    with tvm.transform.PassContext(opt_level=3):
        if spec["executor"] == "vm":
            made = relay.vm.compile(mod, target=spec["target"], params=params)
        else:
            made = relay.build(mod, target=spec["target"], params=params)
    made.export_library(spec["library"])
    return {"compile_s": time.perf_counter() - start, "peak_bytes": peak_bytes()}


def _machine(path: str):
    import tvm

    return tvm.runtime.vm.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())


def _on_machine(spec: dict, inputs: dict) -> Program:
    import tvm

    machine = _machine(spec["library"])
    machine.set_input("main", **{name: tvm.nd.array(array) for name, array in inputs.items()})
    run = machine.module["invoke_stateful"]
    return Program(lambda: run("main"), lambda: machine.get_outputs()[0].numpy(), tvm.__version__)


def _decoded(steps: int, version: str, step: Callable[[dict, str, Any], list], inputs: dict, place: Any) -> Program:
    """Return steps in a row as one run: each step takes the further outputs of the previous one in place of all its
    inputs but the first, which is a new number."""
    (first, numbers), *others = inputs.items()
    words = [place(numbers + i) for i in range(steps)]
    start = {name: place(array) for name, array in others}
    last: list = []

    def run() -> None:
        kept = start
        for word in words:
            last[:] = step(kept, first, word)
            kept = dict(zip(start, last[1:]))

    return Program(run, lambda: last[0].numpy(), version)


def _decode_on_machine(spec: dict, inputs: dict) -> Program:
    import tvm

    machine = _machine(spec["library"])

    def step(kept: dict, name: str, word: Any) -> list:
        machine.set_input("main", **{name: word}, **kept)
        machine.invoke_stateful("main")
        return machine.get_outputs()

    return _decoded(CASES[spec["name"]].steps, tvm.__version__, step, inputs, tvm.nd.array)


def _decode_onnxruntime(spec: dict, inputs: dict) -> Program:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = spec["threads"]
    session = onnxruntime.InferenceSession(spec["model"], options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def step(kept: dict, name: str, word: Any) -> list:
        return session.run_with_ort_values(names, {name: word, **kept})

    place = onnxruntime.OrtValue.ortvalue_from_numpy
    return _decoded(CASES[spec["name"]].steps, onnxruntime.__version__, step, inputs, place)


def _on_graph(spec: dict, inputs: dict) -> Program:
    import tvm
    from tvm.contrib import graph_executor

    module = graph_executor.GraphModule(tvm.runtime.load_module(spec["library"])["default"](tvm.cpu()))
    module.set_input(**inputs)
    return Program(module.run, lambda: module.get_output(0).numpy(), tvm.__version__)


def _for_one_size(spec: dict, inputs: dict) -> Program:
    return (_on_graph if CASES[spec["name"]].fixed else _on_machine)(spec, inputs)


MAKERS = {"vm": _on_machine, "static": _for_one_size, "onnxruntime": PROGRAMS["onnxruntime"]}
DECODERS = {"vm": _decode_on_machine, "onnxruntime": _decode_onnxruntime}


# ---- the VM alone ----


def chain(spec: dict) -> dict:
    """Return the microseconds of a chain of 100 calls: of kernels that add one, and of functions that are not
    inlined."""
    import tvm
    from tvm import relay

    def seconds(mod, depth: int) -> float:
        with tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": depth}):
            machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, target="llvm"), tvm.cpu())
        machine.set_input("main", tvm.nd.array(np.zeros(1, "float32")))
        time_run = machine.module.time_evaluator("invoke_stateful", tvm.cpu(), number=10, repeat=500)
        return percentile(time_run("main").results, 20)

    x = relay.var("x", shape=(1,))
    body = x
    for _ in range(100):
        body = body + x
    kernels = seconds(tvm.IRModule.from_expr(relay.Function([x], body)), 1)
    y, z = relay.var("y", shape=(1,)), relay.var("z", shape=(1,))
    f = relay.GlobalVar("f")
    # The function returns one of its arguments: no kernel runs, and the recursion in the other branch prevents
    # inlining.
    never = relay.const(False)
    mod = tvm.IRModule({f: relay.Function([y], relay.If(never, f(y), y), relay.TensorType((1,)))})
    body = z
    for _ in range(100):
        body = f(body)
    mod["main"] = relay.Function([z], body)
    return {"kernels_us": 1e6 * kernels, "functions_us": 1e6 * seconds(mod, 256)}


def memory(spec: dict) -> dict:
    """Return the bytes of the VM over many runs of random sizes, beside those of a run of the largest size."""
    import tvm

    rng = np.random.default_rng(1)
    rooms: list[Sizes] = [
        (int(n), 3, 8 * int(h), 8 * int(w))
        for n, h, w in zip(rng.integers(1, 5, RUNS), rng.integers(4, 17, RUNS), rng.integers(4, 17, RUNS))
    ]

    def run(machine, shape: Sizes) -> int:
        machine.set_input("main", tvm.nd.array(np.zeros(shape, "float32")))
        machine.invoke_stateful("main")
        return machine.module["get_memory"]()

    largest = run(_machine(spec["library"]), max(rooms, key=math.prod))
    machine = _machine(spec["library"])
    bytes_of = [run(machine, shape) for shape in rooms]
    half = RUNS // 2
    return {"runs": RUNS, "largest_run": largest, "most": max(bytes_of), "ratio": max(bytes_of) / largest,
            "most_of_halves": [max(bytes_of[:half]), max(bytes_of[half:])], "peak_bytes": peak_bytes()}  # fmt: skip


def main_of_worker() -> None:
    """Execute the request of the argument (JSON), or serve a program."""
    answer = answers()
    spec = json.loads(sys.argv[1])
    tasks: dict[str, Callable[[dict], dict]] = {"compile": compile_model, "chain": chain, "memory": memory}
    if spec["peer"] in tasks:
        answer(tasks[spec["peer"]](spec))
    else:
        makers = MAKERS if CASES[spec["name"]].steps == 1 else DECODERS
        serve(makers[spec["peer"]], spec, sample({name: tuple(s) for name, s in spec["shapes"].items()}), answer)


# ---- the process that asks ----


class Bench:
    """Measures one model after the other."""

    def __init__(self, options: argparse.Namespace, folder: str):
        self.options, self.folder = options, folder
        self.packages = os.path.abspath(options.packages or folder)
        os.makedirs(self.packages, exist_ok=True)
        self.others = [] if missing(["onnxruntime"]) else ["onnxruntime"]

    def worker(self, peer: str, **more: Any) -> Worker:
        spec = {"peer": peer, "threads": self.options.threads, "target": self.options.target, "folder": self.folder,
                **more}  # fmt: skip
        limits = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**dict.fromkeys(limits, str(self.options.threads)), "TOPHUB_LOCATION": "NONE"}
        if peer == "compile":
            environment["TVM_NO_CACHE"] = "1"  # compile times are those of an empty cache
        return Worker(spec, sys.executable, environment, "benchmarks.vm", ROOT)

    def once(self, peer: str, **more: Any) -> dict:
        """Return the only answer of a worker."""
        worker = self.worker(peer, **more)
        try:
            return worker.first()
        finally:
            worker.close()

    def library(self, name: str, executor: str, shapes: dict[str, Sizes] | None) -> tuple[str, float | None]:
        """Return the library of a model, and the seconds of compilation if it did not exist."""
        model = model_path(self.options.zoo, name)
        tag = "open" if shapes is None else "_".join("x".join(map(str, s)) for s in dict.fromkeys(shapes.values()))
        parts = [model.stem.removesuffix(".open"), executor, tag, f"{self.options.threads}t", "so"]
        path = os.path.join(self.packages, ".".join(parts))
        if os.path.exists(path):
            return path, None
        return path, self.once("compile", model=str(model), shapes=shapes, executor=executor, library=path)["compile_s"]

    def row(self, name: str, shapes: dict[str, Sizes]) -> dict:
        """Return the row of a model at one size: compare the outputs of the programs, then time them in turn."""
        case = CASES[name]
        builds = {"vm": self.library(name, "vm", None)}
        if self.options.static and case.steps == 1:
            builds["static"] = self.library(name, "graph" if case.fixed else "vm", shapes)
        row: dict[str, Any] = {"model": name, "shapes": shapes, "commit": commit(),
                               "compile_s": {k: s for k, (_, s) in builds.items() if s is not None}}  # fmt: skip
        model = str(model_path(self.options.zoo, name))
        workers: dict[str, Worker] = {}
        try:
            for peer in [*builds, *self.others]:
                path = builds[peer][0] if peer in builds else ""
                workers[peer] = self.worker(peer, model=model, shapes=shapes, library=path, name=name)
                workers[peer].first()
            row["error"] = self._errors(workers)
            first = runs_in_a_round(workers, WARM_UP_ROUNDS)
            number = max(1, round(ROUND_SECONDS / min(first.values())))
            turns = in_turn(workers, dict.fromkeys(workers, number), self.options.rounds)
        finally:
            for worker in workers.values():
                worker.close()
        row["seconds"] = {peer: [one["seconds"] for one in got.values()] for peer, got in turns.items()}
        row["p20"] = {peer: percentile(seconds, 20) for peer, seconds in row["seconds"].items()}
        return row

    def _errors(self, workers: dict[str, Worker]) -> dict[str, float]:
        """Return the relative error of the first output of each program, compared with ours with dynamic shapes."""
        got = {}
        for peer, worker in workers.items():
            path = os.path.join(self.folder, f"{peer}.npy")
            worker.ask(save=path)
            got[peer] = np.load(path).astype("float64")
        ours = got.pop("vm")
        found = {}
        for peer, want in got.items():
            same = want.shape == ours.shape
            found[peer] = float(np.linalg.norm(ours - want) / np.linalg.norm(want)) if same else math.inf
            if not found[peer] <= ALLOWED_ERROR:
                raise WorkerFailed(f"vm: the output differs from that of {peer} (relative error {found[peer]:.2g})")
        return found


# ---- several models at a time ----


def core_groups(count: int, each: int) -> list[list[int]]:
    """Return as many groups of processors as possible: one hardware thread of each core, ``each`` cores in a group."""
    cores: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(path.read_text() if path.exists() else str(cpu), cpu)
    own = list(cores.values())
    groups = [own[at : at + each] for at in range(0, len(own) - each + 1, each)]
    return groups[:count] or [own]


def run_together(options: argparse.Namespace, folder: str) -> list[dict]:
    """Return the rows of all models, each model in its own process on its own cores. The output of a model is
    printed at its end."""
    free: SimpleQueue[list[int]] = SimpleQueue()
    groups = core_groups(options.jobs, options.threads)
    for group in groups:
        free.put(group)

    def one(name: str) -> list[dict]:
        group, path = free.get(), os.path.join(folder, f"{name}.json")
        command = [sys.executable, "-m", "benchmarks.vm", "--models", name, "--json", path, "--zoo", options.zoo,
                   "--rounds", str(options.rounds), "--threads", str(options.threads), "--target", options.target,
                   "--at", ",".join(map(str, options.at))]  # fmt: skip
        command += [] if options.static else ["--no-static"]
        command += ["--packages", options.packages] if options.packages else []
        try:
            made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, group))  # fmt: skip
        finally:
            free.put(group)
        print(made.stdout.rstrip() if made.returncode == 0 else f"{name}: {made.stderr[-2000:]}", flush=True)
        return json.loads(Path(path).read_text())["rows"] if made.returncode == 0 else []

    print(f"{len(groups)} models at a time on {options.threads} cores each", flush=True)
    for name in options.models:
        model_path(options.zoo, name)  # two processes must not write one file
    order = sorted(options.models, key=lambda name: name not in LONGEST)
    with ThreadPoolExecutor(len(groups)) as pool:
        rows = dict(zip(order, pool.map(one, order)))
    return [row for name in options.models for row in rows[name]]


# ---- output ----


def size_text(row: dict) -> str:
    return " ".join(dict.fromkeys("x".join(map(str, shape)) for shape in row["shapes"].values()))


def line(row: dict) -> str:
    """Return a row as text: milliseconds of each program, and ratios of ours with dynamic shapes to the others."""
    ours = row["p20"]["vm"]
    parts = [f"vm {1e3 * ours:.3f} ms"]
    parts += [f"{peer} {1e3 * p:.3f} ({ours / p:.2f})" for peer, p in row["p20"].items() if peer != "vm"]
    return f"{row['model']} {size_text(row)}: {', '.join(parts)}"


def table(rows: list[dict]) -> list[str]:
    """Return all rows in Markdown: milliseconds and ratios."""
    said = ["| model | input | ours | onnxruntime | one size | of onnxruntime | of one size |", "|" + "---|" * 7]
    for row in rows:
        ours, others = row["p20"]["vm"], [row["p20"].get(peer) for peer in ("onnxruntime", "static")]
        cells = [row["model"], size_text(row), f"{1e3 * ours:.3f}"]
        cells += ["" if p is None else f"{1e3 * p:.3f}" for p in others]
        cells += ["" if p is None else f"{ours / p:.2f}" for p in others]
        said.append("| " + " | ".join(cells) + " |")
    return said


def compile_seconds(rows: list[dict], name: str) -> tuple[list[float], list[float]]:
    """Return the seconds of compiling a model with dynamic shapes, and for each single size."""
    took = [row["compile_s"] for row in rows if row["model"] == name]
    return [t["vm"] for t in took if "vm" in t], [t["static"] for t in took if "static" in t]


def compile_ratios(rows: list[dict]) -> list[str]:
    """Return the seconds of compilation with dynamic shapes divided by those for one size, for each model."""
    said = []
    for name in dict.fromkeys(row["model"] for row in rows):
        ours, one = compile_seconds(rows, name)
        if ours and one:
            mean = sum(one) / len(one)
            said.append(f"compiling {name}: {ours[0]:.1f} s, {mean:.1f} for one size ({ours[0] / mean:.2f})")
    return said


def summary(rows: list[dict]) -> list[str]:
    """Return the geometric mean and the worst case of ours with dynamic shapes against each other program."""
    said = compile_ratios(rows)
    for other in ("onnxruntime", "static"):
        ratios = [(r["p20"]["vm"] / r["p20"][other], r["model"]) for r in rows if other in r["p20"]]
        if ratios:
            mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
            said.append(
                f"vm against {other}: geometric mean {mean:.3f}, worst {max(ratios)[0]:.3f} "
                f"({max(ratios)[1]}), {len(ratios)} rows"
            )
    return said


def result_rows(rows: list[dict]) -> tuple[list[dict], list[dict]]:
    """Return the rows of result files: milliseconds of each input, and seconds of compiling each model."""
    names = {"vm": "ours", "static": "one size"}
    times = [
        {"name": row["model"], "input": size_text(row), "details": {"compile_s": row["compile_s"]},
         "values": {names.get(peer, peer): 1e3 * p for peer, p in row["p20"].items()}} for row in rows
    ]  # fmt: skip
    compiled = []
    for name in dict.fromkeys(row["model"] for row in rows):
        ours, one = compile_seconds(rows, name)
        if ours and one:
            values = {"ours": ours[0], "one size": sum(one) / len(one)}
            compiled.append({"name": name, "values": values, "details": {"one size, each input": one}})
    return times, compiled


def record(options: argparse.Namespace, rows: list[dict]) -> None:
    """Write the result files of times and of compilation."""
    times, compiled = result_rows(rows)
    command = f"python -m benchmarks.vm --threads {options.threads}"
    if times:
        versions = result_file.installed({"onnxruntime": "onnxruntime"})
        result_file.record(
            options.record,
            "dynamic-shapes",
            times,
            unit="ms",
            command=command,
            versions=versions,
            method=f"{options.threads} threads; {options.rounds} interleaved rounds",
        )
    if compiled:
        result_file.record(options.record, "dynamic-compile", compiled, unit="s", command=command,
                           method="seconds from the ONNX file to the library with an empty cache; 'one size' is the "
                           "mean over the inputs")  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.vm", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--models", default="", help=f"comma-separated names of {', '.join(CASES)}; all without --chain and --memory")
    add("--at", default="", metavar="NUMBERS", help="numbers of the sizes to measure, such as 0,2 (default: all)")
    add("--rounds", type=int, default=30)
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--jobs", type=int, default=1, help="models at a time, each on its own cores; prints a table")
    add("--target", default="llvm")
    add("--no-static", dest="static", action="store_false", help="leave out builds for one size")
    add("--chain", action="store_true", help="measure a chain of 100 trivial calls")
    add("--memory", action="store_true", help=f"measure the memory of {RUNS} runs of random sizes")
    add("--zoo", default=str(ROOT / "build" / "zoo"), help="folder of the models; missing ones are created")
    add("--packages", default="", help="store compiled models in this folder and reuse them")
    add("--json", default=str(ROOT / "build" / "bench" / "vm.json"), help="file for the rows")
    result_file.add_option(parser)
    options = parser.parse_args()
    alone = options.chain or options.memory
    options.models = [n for n in (options.models or ("" if alone else ",".join(CASES))).split(",") if n]
    unknown = [n for n in options.models if n not in CASES]
    if unknown:
        parser.error(f"unknown model {unknown[0]}; known: {', '.join(CASES)}")
    options.at = [int(n) for n in options.at.split(",") if n]
    return options


def main() -> None:
    options = parse()
    # Workers are stopped most of the time and would not notice that this process ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    result: dict[str, Any] = {"rows": []}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        if options.chain:
            result["chain"] = bench.once("chain")
            print("100 calls: " + ", ".join(f"{name} {value:.1f}" for name, value in result["chain"].items()))
        if options.memory:
            path, _ = bench.library("mobilenet_v2_image", "vm", None)
            result["memory"] = bench.once("memory", library=path)
            print(f"memory: {result['memory']}")
        if options.jobs > 1:
            result["rows"] = run_together(options, folder)
            print("\n".join(table(result["rows"])))
        for name in options.models if options.jobs == 1 else ():
            shapes = CASES[name].shapes
            for at in options.at or range(len(shapes)):
                try:
                    row = bench.row(name, shapes[at])
                except WorkerFailed as problem:
                    print(f"{name} {shapes[at]}: {problem}", flush=True)
                    continue
                print(line(row), flush=True)
                result["rows"].append(row)
    print("\n".join(summary(result["rows"])))
    Path(options.json).parent.mkdir(parents=True, exist_ok=True)
    save(options.json, result)
    record(options, result["rows"])


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith("{"):
        main_of_worker()
    else:
        main()
