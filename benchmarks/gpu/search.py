"""Configurations of a matmul, built in parallel and timed on the NVIDIA GPU of this machine.

    python -m benchmarks.gpu.matmul --search [--size 1024 2048 197x768x3072] [--dtype float32]
        [--target "cuda -arch=sm_90"] [--seconds 55] [--records search.json] [--graph] [--only warpgroup=True stages=4]
        [--change OLD NEW]

A size is one number for m, n and k, or m x n x k. Each size starts with the template's choice; then follows the
configuration with the least estimated cost of each tile and number of threads (and of split-k, where a side is short),
then the second of each, and so on until the time limit. Outputs that differ from double precision are listed as wrong.
The table shows the estimate beside the time, to fit the template's constants. ``--graph`` times matmuls as in a model:
many in a captured CUDA graph, each with its own right operand, so that no operand is in the cache and launches do not
count.

``--only`` selects the configurations with these values. ``--change`` replaces a text in the kernels, to measure its
cost: "tvm_warpgroup_visible();" by "", or "shared.global [" by "shared.global.L2::256B [".
"""

from __future__ import annotations

import concurrent.futures
import importlib
import itertools
import json
import multiprocessing
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

# The type of the matrices, the largest allowed error relative to double precision, and the template.
KINDS = {
    "float32": ("float32", 1e-5, "gemm"),
    "tf32": ("float32", 2e-3, "tensor_cores"),
    "float16": ("float16", 2e-3, "tensor_cores"),
    "bfloat16": ("bfloat16", 1e-2, "tensor_cores"),
}
# The largest split-k to try, for matmuls with m, n and k of at least LARGE, and for others.
LARGE = 1024
MAX_SPLIT_K = {True: 4, False: 16}
# Configurations with a larger estimate, relative to the least one, are not tried.
WORST = 3.0
# Lines of the table of one size.
SHOWN = 25
# With --graph: bytes of all right operands together, more than the caches hold, and the largest number of matmuls.
COLD = 192 << 20
NODES = 64

# m, n and k.
Size = tuple[int, int, int]


class Candidate(NamedTuple):
    """A configuration to try; ``cost`` is the template's estimate in cycles."""

    size: Size
    cost: float
    config: dict[str, Any]


class Timed(NamedTuple):
    """A candidate's milliseconds; ``note`` is the reason if there are none."""

    candidate: Candidate
    milliseconds: float | None
    note: str


def template_of(kind: str) -> Any:
    return importlib.import_module(f"tvm.topi.gpu.{KINDS[kind][2]}").TEMPLATE


def has_values(config: dict[str, Any], only: Sequence[str]) -> bool:
    """Return whether a configuration has the values of "knob=value"; a tuple is written like 64x256."""
    pairs = (text.partition("=")[::2] for text in only)
    return all(written(config.get(knob)) == value for knob, value in pairs)


def written(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def size_of(text: str) -> Size:
    """Return the size of "4096" (m, n and k) or "197x768x3072"."""
    numbers = [int(x) if x.isdigit() else 0 for x in text.split("x")]
    if len(numbers) not in (1, 3) or min(numbers) < 1:
        raise ValueError(f"size '{text}': expected one number, or m, n and k such as 197x768x3072")
    return (numbers[0], numbers[0], numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1], numbers[2])


def size_text(size: Size) -> str:
    return str(size[0]) if len(set(size)) == 1 else written(size)


def operations(size: Size) -> int:
    """Return the number of multiplications and additions."""
    return 2 * size[0] * size[1] * size[2]


def candidates(size: Size, kind: str, target_text: str, only: Sequence[str] = ()) -> list[Candidate]:
    """Return the valid configurations without hopeless ones: the template's choice first, then those of different
    tiles in turn."""
    import tvm
    from tvm.dtype import info
    from tvm.topi.gpu.gemm import Sizes
    from tvm.topi.gpu.machine import Machine

    template, machine = template_of(kind), Machine(tvm.target.Target(target_text))
    # Rows of the left operand are along the K dimension.
    copies = (1, 4 if KINDS[kind][2] == "gemm" and size[1] % 4 == 0 else 1)
    sizes = Sizes(1, *size, info(KINDS[kind][0]).bytes, copies)
    is_large = min(size) >= LARGE
    most = MAX_SPLIT_K[is_large]
    table = template.space(sizes, machine)
    groups: dict[tuple[Any, ...], list[Candidate]] = {}
    for values in itertools.product(*table.values()):
        config = dict(zip(table, values))
        if has_values(config, only) and template.valid(sizes, machine, config) and config["split_k"] <= most:
            shape = config["tile"], config.get("threads") or config["warps"], 1 if is_large else config["split_k"]
            groups.setdefault(shape, []).append(Candidate(size, template.cost(sizes, machine, config), config))
    least = min((c.cost for some in groups.values() for c in some), default=0.0)
    groups = {shape: [c for c in some if c.cost <= WORST * least] for shape, some in groups.items()}
    turns = [(turn, c.cost, c) for some in groups.values() for turn, c in enumerate(sorted(some, key=lambda c: c.cost))]
    made = [c for _, _, c in sorted(turns, key=lambda x: x[:2])]
    picked = template.choose(sizes, machine)
    made = [Candidate(size, template.cost(sizes, machine, picked), picked), *(c for c in made if c.config != picked)]
    return [c for c in made if has_values(c.config, only)]


def build(size: Size, kind: str, target_text: str, config: dict[str, Any] | None = None) -> Any:
    """Build a matmul with a configuration in place of the template's choice."""
    import tvm
    from tvm import te, topi

    target, dtype = tvm.target.Target(target_text), KINDS[kind][0]
    template = template_of(kind)
    pick = template.choose
    if config is not None:
        template.choose = lambda sizes, machine: config
    try:
        with target, tvm.transform.PassContext(config={"topi.allow_tf32": kind == "tf32"}):
            m, n, k = size
            a, b = te.placeholder((m, k), dtype, name="a"), te.placeholder((k, n), dtype, name="b")
            c = topi.cuda.matmul(a, b)
            schedule = topi.schedule.schedule_for([c], target)
            return tvm.build(schedule, [a, b, c], target)
    finally:
        template.choose = pick


def change_text(old: str, new: str) -> None:
    """In a build process, compile kernels with ``new`` in place of ``old``, if ``old`` is given."""
    import tvm

    if old:
        tvm.register_func("tvm_callback_cuda_postproc", lambda source, target: str(source).replace(old, new))


def built(job: tuple[Candidate, str, str, str]) -> str:
    """Build a candidate into a file. An error is returned as text: not every exception can be sent to another
    process."""
    candidate, kind, target_text, path = job
    try:
        build(candidate.size, kind, target_text, candidate.config).export_library(path)
    except Exception as error:
        return (str(error).strip() or type(error).__name__).splitlines()[0][:90]
    return ""


class Bench:
    """The matrices of one size on the device, and the time of cuBLAS. ``in_graph`` times calls as in a model."""

    def __init__(self, size: Size, kind: str, in_graph: bool = False):
        import torch

        import tvm

        dtype, self.allowed, _ = KINDS[kind]
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        self.torch, self.device = torch, tvm.cuda(0)
        m, n, k = size
        kept = getattr(torch, dtype)
        self.left, self.right = (torch.randn(shape, device="cuda").to(kept) for shape in ((m, k), (k, n)))
        self.result = torch.zeros((m, n), device="cuda", dtype=kept)
        # Both use the same memory.
        views = (tvm.nd.from_dlpack(torch.utils.dlpack.to_dlpack(x)) for x in (self.left, self.right, self.result))
        self.arguments = list(views)
        self.wanted = self.left.double() @ self.right.double()
        # A measurement takes about fifteen milliseconds.
        self.number = max(1, int(15e-3 / (operations(size) / 4e13)))
        self.stream = torch.cuda.Stream() if in_graph else None
        count = min(NODES, max(1, COLD // (self.right.numel() * self.right.element_size())))
        self.rights = [self.right.clone() for _ in range(count)] if in_graph else []
        self.views = [tvm.nd.from_dlpack(torch.utils.dlpack.to_dlpack(x)) for x in self.rights]
        torch.cuda.synchronize()

    def cublas(self) -> float:
        """Return the milliseconds of a matmul by cuBLAS."""
        if self.stream is not None:
            return self.in_graph([lambda x=x: self.torch.mm(self.left, x, out=self.result) for x in self.rights])
        event = self.torch.cuda.Event
        times = []
        for _ in range(4):
            start, end = event(enable_timing=True), event(enable_timing=True)
            start.record()
            for _ in range(self.number):
                self.torch.mm(self.left, self.right)
            end.record()
            self.torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / self.number)
        return statistics.median(times[1:])

    def in_graph(self, calls: list[Any]) -> float:
        """Return the milliseconds of one of these calls, one after the other in a captured graph."""
        torch, event = self.torch, self.torch.cuda.Event
        graph = torch.cuda.CUDAGraph()
        self.device.set_raw_stream(self.stream.cuda_stream)
        try:
            with torch.cuda.stream(self.stream):
                # Allocate the workspaces of this stream before the capture, which cannot allocate memory.
                calls[0]()
                torch.cuda.synchronize()
                graph.capture_begin(capture_error_mode="relaxed")
                try:
                    for call in calls:
                        call()
                finally:
                    graph.capture_end()
        finally:
            self.device.set_raw_stream(None)
        times = []
        for _ in range(12):
            start, end = event(enable_timing=True), event(enable_timing=True)
            with torch.cuda.stream(self.stream):
                start.record()
                graph.replay()
                end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / len(calls))
        return statistics.median(times[2:])

    def time(self, candidate: Candidate, path: str) -> Timed:
        import tvm

        try:
            library = tvm.runtime.load_module(path)
            self.result.fill_(float("nan"))
            self.torch.cuda.synchronize()
            library(*self.arguments)
            self.device.sync()
            error = float((self.result.double() - self.wanted).norm() / self.wanted.norm())
            if not error <= self.allowed:
                return Timed(candidate, None, f"wrong: {error:.1e}")
            if self.stream is not None:
                left, _, result = self.arguments
                return Timed(candidate, self.in_graph([lambda x=x: library(left, x, result) for x in self.views]), "")
            times = library.time_evaluator(library.entry_name, self.device, number=self.number, repeat=3)
            return Timed(candidate, statistics.median(times(*self.arguments).results) * 1e3, "")
        except (tvm.TVMError, RuntimeError) as error:
            return Timed(candidate, None, str(error).strip().splitlines()[0][:100])


def measure(
    jobs: list[tuple[Candidate, str, str, str]],
    benches: dict[Size, Bench],
    until: float,
    change: tuple[str, str] = ("", ""),
) -> list[Timed]:
    """Build on all cores but one, and time built candidates until the time limit."""
    done: list[Timed] = []
    workers = max(1, (os.cpu_count() or 2) - 1)
    # A process with an open device cannot be forked.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, context, change_text, change) as pool:
        # Submit only as many candidates as are built at once: candidates that are not started at the time limit are not
        # built.
        ahead, waiting = iter(jobs), {}
        while time.monotonic() < until:
            for job in itertools.islice(ahead, 2 * workers - len(waiting)):
                waiting[pool.submit(built, job)] = job[0], job[3]
            if not waiting:
                break
            ready, _ = concurrent.futures.wait(waiting, 1.0, concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                candidate, path = waiting.pop(future)
                if problem := future.result():
                    done.append(Timed(candidate, None, f"not built: {problem}"))
                else:
                    done.append(benches[candidate.size].time(candidate, path))
        pool.shutdown(wait=True, cancel_futures=True)
    return done


def table(rows: list[Timed], size: Size, reference: float) -> list[str]:
    """Return the lines of one size, the fastest first. The first column is the rank by the template's estimate."""
    work = operations(size)
    some = [row for row in rows if row.candidate.size == size]
    ranks = {id(row): i for i, row in enumerate(sorted(some, key=lambda row: row.candidate.cost), start=1)}
    good = sorted(((row.milliseconds, i, row) for i, row in enumerate(some) if row.milliseconds is not None))
    lines = [
        f"{size_text(size)}: cuBLAS {reference:.4f} ms, {work / reference / 1e6:.0f} GFLOP/s; {len(good)} of "
        f"{len(some)} configurations timed",
        f"{'rank':>5} {'kilocycles':>10} {'ms':>8} {'GFLOP/s':>9} {'ratio':>6}  configuration",
    ]
    for milliseconds, _, row in good[:SHOWN]:
        knobs = " ".join(f"{k}={written(v)}" for k, v in row.candidate.config.items())
        lines.append(
            f"{ranks[id(row)]:5} {row.candidate.cost / 1e3:10.0f} {milliseconds:8.4f} "
            f"{work / milliseconds / 1e6:9.0f} {reference / milliseconds:6.2f}  {knobs}"
        )
    notes: dict[str, int] = {}
    for row in some:
        if row.milliseconds is None:
            notes[row.note] = notes.get(row.note, 0) + 1
    return [*lines, *(f"  {count} x {note}" for note, count in sorted(notes.items(), key=lambda x: -x[1])[:5])]


def search(
    sizes: list[Size],
    kind: str,
    target_text: str,
    seconds: float,
    records: str | None,
    only: Sequence[str] = (),
    change: tuple[str, str] = ("", ""),
    in_graph: bool = False,
) -> None:
    import tvm

    started = time.monotonic()
    # The build processes get the architecture of this device.
    target_text = str(tvm.target.Target(target_text))
    lists = [candidates(size, kind, target_text, only) for size in sizes]
    benches = {size: Bench(size, kind, in_graph) for size in sizes}
    references = {size: bench.cublas() for size, bench in benches.items()}
    with tempfile.TemporaryDirectory() as folder:
        in_turn = [c for some in itertools.zip_longest(*lists) for c in some if c is not None]
        jobs = [(c, kind, target_text, str(pathlib.Path(folder) / f"{i}.so")) for i, c in enumerate(in_turn)]
        rows = measure(jobs, benches, started + seconds, change)
    if records is not None:
        plain = [
            {**c._asdict(), "kind": kind, "cublas": references[c.size], "milliseconds": milliseconds, "note": note}
            for c, milliseconds, note in rows
        ]
        pathlib.Path(records).write_text(json.dumps(plain, indent=1))
    for size in sizes:
        print("\n".join(table(rows, size, references[size])), end="\n\n")
    print(f"{kind}, {target_text}: {len(rows)} configurations of {len(jobs)} in {time.monotonic() - started:.0f} s")
