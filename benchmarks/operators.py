"""Time of each operator of a model against the roofline, and of its convolutions against the peak."""

from __future__ import annotations

import statistics
from typing import Any, Protocol

from tvm.utils.rounds import Worker

from . import zoo
from .harness import percentile
from .machine import Machine

HASWELL = "llvm -mcpu=haswell"


class Bench(Protocol):
    """The interface of ``benchmarks.models.Bench`` that the functions of this module use."""

    options: Any

    def spec(self, case: zoo.Case, peer: str, threads: int | None = None, **more: Any) -> dict: ...

    def worker(self, spec: dict, threads: int | None = None) -> Worker: ...


def _lines(head: list[str], body: list[list[str]]) -> str:
    """Return text in columns: the first and the last (shapes) left-aligned, numbers right-aligned."""
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
    last = len(head) - 1
    text = []
    for row in [head, *body]:
        cells = [c.ljust(w) if i in (0, last) else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text) + "\n"


# ---- the profile ----


def _roof(row: dict, peak: float, bandwidth: dict[int, float]) -> float:
    """Return the minimum time: operations at the peak, or bytes at the bandwidth of a working set of that size."""
    fitting = [size for size in bandwidth if size >= row["bytes"]]
    speed = bandwidth[min(fitting)] if fitting else bandwidth[max(bandwidth)]
    return max(row["flop"] / peak, row["bytes"] / speed)


def profile(bench: Bench, case: zoo.Case) -> str:
    """Return a table of each operator: time in whole runs, speed, and ratio to the roofline."""
    options = bench.options
    worker = bench.worker(bench.spec(case, "operators"))
    machine = Machine(options.threads, bandwidth=True)
    try:
        rows = worker.first()["rows"]
        runs, wholes = [], []
        for turn in range(options.rounds):
            got = worker.ask()
            runs.append([got["nodes"][row["node"]] for row in rows])
            wholes.append(got["whole"])
            if turn % 5 == 0:
                machine.round()
        peak, bandwidth = machine.gflops("narrow" if "haswell" in options.target else "wide") * 1e9, machine.bandwidth()
    finally:
        worker.close()
        machine.close()
    for row, column in zip(rows, zip(*runs)):
        row["seconds"] = percentile(list(column), 20)
        row["roof"] = _roof(row, peak, bandwidth)
    total = sum(row["seconds"] for row in rows)
    speeds = ", ".join(f"{size / 2**20:.0f} MiB {speed / 1e9:.0f}" for size, speed in bandwidth.items())
    title = (
        f"{case.stem}, {options.threads} threads, {options.rounds} rounds: {percentile(wholes, 20) * 1e3:.2f} ms whole "
        f"(median {statistics.median(wholes) * 1e3:.2f}), {total * 1e3:.2f} ms in {len(rows)} operators, "
        f"{sum(r['roof'] for r in rows) * 1e3:.2f} ms at the roofline\n"
        f"peak {peak / 1e9:.0f} GFLOPS; bandwidth by working set, GB/s: {speeds}\n"
    )
    return "\n".join([title, _classes(rows, total, peak), _each(rows, total, peak)])


def _cells(seconds: float, total: float, flop: float, size: float, roof: float, peak: float) -> list[str]:
    heavy = flop > 0
    return [
        f"{seconds * 1e6:.0f}",
        f"{seconds / total:.1%}",
        f"{flop / 1e9:.3f}" if heavy else "",
        f"{flop / seconds / 1e9:.0f}" if heavy else "",
        f"{flop / seconds / peak:.0%}" if heavy else "",
        f"{size / 1e6:.2f}",
        f"{size / seconds / 1e9:.0f}",
        f"{seconds / roof:.2f}",
        f"{(seconds - roof) * 1e6:.0f}",
    ]


HEAD = ["us", "part", "GFLOP", "GFLOPS", "of peak", "MB", "GB/s", "x roof", "lost us"]


def _classes(rows: list[dict], total: float, peak: float) -> str:
    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(row["what"], []).append(row)
    body = []
    for name, members in sorted(groups.items(), key=lambda item: -sum(r["seconds"] for r in item[1])):
        seconds, flop, size, roof = (sum(row[f] for row in members) for f in ("seconds", "flop", "bytes", "roof"))
        body.append([name, str(len(members)), *_cells(seconds, total, flop, size, roof, peak), ""])
    return "by kind:\n" + _lines(["kind", "calls", *HEAD, ""], body)


def _each(rows: list[dict], total: float, peak: float) -> str:
    body = []
    for row in rows:
        cells = _cells(row["seconds"], total, row["flop"], row["bytes"], row["roof"], peak)
        body.append([row["what"], str(row["node"]), *cells, f"{row['shapes']}  {row['source'] or row['name'][:60]}"])
    return "in order:\n" + _lines(["operator", "node", *HEAD, "shapes, node of the model (without one: kernel)"], body)


# ---- convolutions alone ----


def convolutions(bench: Bench, case: zoo.Case) -> str:
    """Return a table of each distinct convolution kernel, run alone on one thread and on all, for this machine and
    for AVX2."""
    text = []
    for target, vectors in ((bench.options.target, "wide"), (HASWELL, "narrow")):
        for threads in sorted({1, bench.options.threads}):
            text.append(_convolutions(bench, case, target, vectors, threads))
    return "\n".join(text)


def _convolutions(bench: Bench, case: zoo.Case, target: str, vectors: str, threads: int) -> str:
    worker = bench.worker(bench.spec(case, "operators", target=target), threads)
    machine = Machine(threads)
    try:
        rows = worker.first()["rows"]
        distinct: dict[str, dict] = {}
        for row in rows:
            if "conv" in row["what"] and row["flop"]:
                distinct.setdefault(row["name"], {**row, "count": 0, "times": []})["count"] += 1
        for _ in range(max(bench.options.rounds // 4, 5)):
            machine.round()
            for row in distinct.values():
                number = max(1, round(2e-3 / max(row["flop"] / 200e9, 1e-6)))
                row["times"].append(worker.ask(node=row["node"], number=number)["seconds"])
        peak = machine.gflops(vectors) * 1e9
    finally:
        worker.close()
        machine.close()
    for row in distinct.values():
        row["seconds"] = percentile(row["times"], 20)
    return _convolution_table(list(distinct.values()), peak, f"{case.stem}, {target}, {threads} threads")


def _convolution_table(rows: list[dict], peak: float, title: str) -> str:
    total = sum(row["seconds"] * row["count"] for row in rows)
    flop = sum(row["flop"] * row["count"] for row in rows)
    body = []
    for row in sorted(rows, key=lambda row: -row["seconds"] * row["count"]):
        part, share = row["seconds"] * row["count"] / total, row["flop"] / row["seconds"] / peak
        mark = " <65%" if part > 0.03 and share < 0.65 else ""
        body.append(
            [
                row["what"],
                str(row["count"]),
                f"{row['seconds'] * 1e6:.0f}",
                f"{part:.1%}",
                f"{row['flop'] / 1e9:.3f}",
                f"{row['flop'] / row['seconds'] / 1e9:.0f}",
                f"{share:.0%}{mark}",
                row["shapes"],
            ]
        )
    weighted = sum(row["flop"] ** 2 * row["count"] / row["seconds"] for row in rows) / flop / peak
    return (
        f"{title}: peak {peak / 1e9:.0f} GFLOPS, FLOP-weighted mean {weighted:.1%} of it, "
        f"all together {flop / total / peak:.1%}\n"
        + _lines(["convolution", "times", "us", "part", "GFLOP", "GFLOPS", "of peak", "shapes"], body)
    )


# ---- two executors ----


def pair(bench: Bench, case: zoo.Case) -> str:
    """Return by how much two executors of one process, with one thread each, slow down each other."""
    worker = bench.worker(bench.spec(case, "pair"), threads=1)
    machines = {1: Machine(1), 2: Machine(2)}
    times: dict[int, list[float]] = {1: [], 2: []}
    try:
        worker.first()
        for turn in range(bench.options.rounds):
            for executors in (1, 2) if turn % 2 else (2, 1):
                times[executors].append(worker.ask(executors=executors, number=3)["seconds"])
                machines[executors].round()
    finally:
        worker.close()
        for machine in machines.values():
            machine.close()
    alone, both = (percentile(times[n], 20) for n in (1, 2))
    bare = 2 * machines[1].gflops() / machines[2].gflops()
    return (
        f"{case.stem}: alone {alone * 1e3:.2f} ms, beside another {both * 1e3:.2f} ms: {both / alone - 1:+.1%} "
        f"(target +15%); bare loops on both cores slow each other by {bare - 1:+.1%}"
    )
