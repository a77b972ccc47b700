"""Quality of the analytic choice: on random layers, compare its configuration with random configurations.

    python -m benchmarks.analytic_choice [--shapes 40] [--configs 200] [--seed 1] [--target llvm] [--json FILE]
    python -m benchmarks.analytic_choice --json FILE --seconds 50     in parts: repeat until all shapes are measured

The seed determines the layers (convolutions, depthwise convolutions and dense layers) and their configurations, which
are drawn uniformly from the search space of the template. Kernels run on one thread; worker processes, each on its own
core, share the layers. A configuration whose first run takes more than three times the best time so far is not measured
further. At the end the analytic choice and the best five are measured again in turn, so that momentary changes of the
machine's speed do not decide. Layers that the file has for the same seed, target, number of configurations and commit
are not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import time
from typing import Any

from benchmarks import result_file
from benchmarks.harness import commit, percentile, save


def shapes(seed: int, count: int) -> list[dict[str, Any]]:
    """Draw layers like those of real models, with random sizes."""
    rng = random.Random(seed)
    out: list[dict[str, Any]] = []
    for i in range(count):
        kind = ("conv2d", "conv2d", "conv2d", "dense", "depthwise")[i % 5]
        if kind == "dense":
            out.append({"kind": kind, "m": rng.choice([1, 7, 16, 49, 65, 128, 200]),
                        "n": 16 * rng.randint(4, 160), "k": 8 * rng.randint(8, 320)})  # fmt: skip
            continue
        size = rng.choice([7, 9, 13, 14, 17, 19, 26, 28, 33, 40, 52, 56])
        kernel = rng.choice([1, 3, 3, 5] if kind == "conv2d" else [3, 5, 7])
        most = max(2, min(40, 40 * 28 * 28 // (size * size * kernel)))
        channels = 16 * rng.randint(1, most)
        out.append({"kind": kind, "channels": channels, "size": size, "kernel": kernel, "stride": rng.choice([1, 1, 2]),
                    "filters": 16 * rng.randint(1, most) if kind == "conv2d" else channels})  # fmt: skip
    return out


def build_graph(shape: dict[str, Any], lanes: int):
    """Return the inputs, the output and the operation to schedule of a layer with bias and ReLU, fused as by the
    graph compiler."""
    from tvm import te, topi

    if shape["kind"] == "dense":
        from tvm.target import Target
        from tvm.topi.cpu import matmul, matmuls
        from tvm.topi.schedule.cpu import Machine

        width = matmul.panel_width(shape["m"], shape["n"], Machine(Target.current()), "float32")
        x = te.placeholder((shape["m"], shape["k"]), name="x")
        w = te.placeholder((-(-shape["n"] // width), shape["k"], width), name="w")
        out = matmuls.dense_pack(x, w, target=Target.current())
        b = te.placeholder((out.shape[1],), name="b")
        return [x, w, b], topi.nn.relu(topi.add(out, b)), out
    c, f, k, s, size = (shape[n] for n in ("channels", "filters", "kernel", "stride", "size"))
    layout = f"NCHW{lanes}c"
    x = te.placeholder((1, c // lanes, size, size, lanes), name="x")
    if shape["kind"] == "depthwise":
        w = te.placeholder((c // lanes, 1, k, k, 1, lanes), name="w")
        out = topi.nn.depthwise_conv2d_NCHWc(x, w, s, k // 2, 1, layout, layout, "float32")
    else:
        w = te.placeholder((f // lanes, c // lanes, k, k, lanes, lanes), name="w")
        out = topi.nn.conv2d_NCHWc(x, w, s, k // 2, 1, layout, layout, "float32")
    b = te.placeholder((f // lanes, 1, 1, lanes), name="b")
    return [x, w, b], topi.nn.relu(topi.add(out, b)), out


class Candidates:
    """The compiled kernels of one layer."""

    def __init__(self, shape: dict[str, Any], target: str):
        import numpy as np

        import tvm
        from tvm.topi.schedule import cpu

        self.target = tvm.target.Target(target)
        self.cpu = cpu
        with self.target:
            self.inputs, self.result, out = build_graph(shape, self.target.features.vector_bits // 32)
        # The operation after a matmul may remove the padding of the last panel.
        out = next(t for t in (out, *out.op.input_tensors) if t.op.tag in cpu.TEMPLATES)
        self.template = next(t for t in cpu.TEMPLATES[out.op.tag] if t.takes(out.op))
        self.machine = cpu.Machine(self.target)
        self.pick = self.template.choose(out.op, self.machine)
        self.space = self.template.space(out.op, self.machine)
        rng = np.random.default_rng(0)
        self.arrays = [tvm.nd.array(rng.standard_normal([int(d) for d in t.shape]).astype("float32"))
                       for t in (*self.inputs, self.result)]  # fmt: skip

    def timer(self, config: dict[str, Any]):
        """Return a function that runs the kernel a number of times and returns the seconds of one run."""
        import tvm
        from tvm.topi.schedule import schedule_for

        chosen = self.template.choose
        self.template.choose = lambda op, machine: dict(config)
        try:
            with self.target:
                library = tvm.build(schedule_for([self.result], self.target), [*self.inputs, self.result], self.target)
        finally:
            self.template.choose = chosen
        evaluator = library.time_evaluator("default_function", tvm.cpu(), number=1, repeat=1)

        def run(repeat: int) -> float:
            return min(evaluator(*self.arrays).mean for _ in range(repeat))

        run.library = library
        return run

    def draw(self, rng: random.Random, count: int) -> list[dict[str, Any]]:
        names = sorted(self.space)
        total = 1
        for n in names:
            total *= len(self.space[n])
        if total <= count:
            return [dict(zip(names, v)) for v in itertools.product(*(self.space[n] for n in names))]
        seen: dict[str, dict[str, Any]] = {}
        while len(seen) < count:
            config = {n: rng.choice(self.space[n]) for n in names}
            seen[json.dumps(config, sort_keys=True)] = config
        return list(seen.values())


def judge(shape: dict[str, Any], configs: int, seed: int, target: str) -> dict[str, Any]:
    started = time.monotonic()
    candidates = Candidates(shape, target)
    drawn = candidates.draw(random.Random(seed), configs)
    pick = candidates.timer(candidates.pick)
    pick(3)
    best = pick(5)
    found: list[tuple[float, dict[str, Any], Any]] = []
    for config in drawn:
        run = candidates.timer(config)
        run(1)
        first = run(1)
        if first <= 3 * best:
            first = min(first, run(4))
            best = min(best, first)
        found.append((first, config, run if first <= 1.3 * best else None))
    leaders = sorted((f for f in found if f[2] is not None), key=lambda f: f[0])[:5]
    times: list[list[float]] = [[] for _ in range(len(leaders) + 1)]
    for _ in range(15):
        for seconds, run in zip(times, [pick, *(f[2] for f in leaders)]):
            seconds.append(run(2))
    final = [percentile(t, 20) for t in times]
    ratio = final[0] / min(final)
    return {"shape": shape, "pick": candidates.pick, "seconds": final[0], "best": min(final), "ratio": ratio,
            "configs": len(drawn), "better": sum(f[0] < 0.98 * final[0] for f in found),
            "best_config": candidates.pick if ratio == 1 else leaders[final.index(min(final)) - 1][1],
            "took": time.monotonic() - started}  # fmt: skip


def worker(arguments: argparse.Namespace) -> None:
    """Measure this worker's share of the layers and print the results as lines of JSON."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[arguments.worker]})
    started = time.monotonic()
    drawn = shapes(arguments.seed, arguments.shapes)
    done = {r["index"] for r in kept(arguments)["results"]}
    left = [i for i in range(len(drawn)) if i not in done]
    for i in left[arguments.worker :: arguments.workers]:
        if time.monotonic() - started < arguments.seconds:
            shape = drawn[i]
            got = judge(shape, arguments.configs, arguments.seed * 1000 + i, arguments.target)
            print(json.dumps({"index": i, **got}), flush=True)


def kept(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the results in the file if they are from a run with the same options, else nothing."""
    facts = {"seed": arguments.seed, "target": arguments.target, "configs": arguments.configs, "commit": commit()}
    if arguments.json and os.path.exists(arguments.json):
        with open(arguments.json, encoding="utf-8") as file:
            found = json.load(file)
        if all(found.get(name) == value for name, value in facts.items()):
            return found
    return {**facts, "results": []}


def table(results: list[dict[str, Any]]) -> str:
    lines = ["| shape | pick, us | best of the drawn, us | ratio | drawn |", "| --- | --- | --- | --- | --- |"]
    for r in results:
        text = ", ".join(f"{k} {v}" for k, v in r["shape"].items() if k != "kind")
        lines.append(f"| {r['shape']['kind']} {text} | {r['seconds'] * 1e6:.1f} | {r['best'] * 1e6:.1f} "
                     f"| {r['ratio']:.2f} | {r['configs']} |")  # fmt: skip
    return "\n".join(lines)


def result_row(result: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a result file."""
    shape = result["shape"]
    if shape["kind"] == "dense":
        name = f"dense {shape['m']}x{shape['n']}x{shape['k']}"
    else:
        name = (f"{shape['kind']} {shape['channels']}>{shape['filters']} {shape['kernel']}x{shape['kernel']}/"
                f"{shape['stride']} at {shape['size']}")  # fmt: skip
    values = {"ours": result["seconds"] * 1e3, "best": result["best"] * 1e3}
    return {"name": name, "group": shape["kind"], "values": values, "details": result}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--configs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--workers", type=int, default=2, help="number of worker processes, one core each")
    parser.add_argument("--json", default="", help="file for the results")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no new layer after this time")
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    result_file.add_option(parser)
    arguments = parser.parse_args()
    if arguments.worker >= 0:
        worker(arguments)
        return
    environment = {**os.environ, "TVM_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.analytic_choice", *sys.argv[1:], "--worker"]
    children = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True, env=environment)
                for i in range(arguments.workers)]  # fmt: skip
    found = kept(arguments)
    results = found["results"]
    for child in children:
        results += [json.loads(line) for line in child.stdout or ()]
        results.sort(key=lambda r: r["index"])
        if arguments.json:
            save(arguments.json, found)
    if any(child.wait() for child in children):
        raise SystemExit("a worker failed; its message is above")
    print(table(results))
    near = sum(r["ratio"] <= 1.1 for r in results)
    print(f"\n{len(results)} of {arguments.shapes} layers; within 10 % of the best: {near} "
          f"({100 * near / max(len(results), 1):.0f} %; target 80 %)")  # fmt: skip
    question, command = "analytic-choice", "python -m benchmarks.analytic_choice"
    if arguments.target != "llvm":
        question, command = "analytic-choice-avx2", f'{command} --target "{arguments.target}"'
    result_file.record(
        arguments.record, question, list(map(result_row, results)), unit="ms", command=command,
        method=f"one thread per layer; up to {arguments.configs} random configurations of each layer, the analytic "
        f"choice and the best five measured again in turn; seed {arguments.seed}; target {arguments.target}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
