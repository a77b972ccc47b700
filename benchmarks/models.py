"""Whole models beside other runtimes in one run: ``python -m tools bench models``.

    python -m benchmarks.models --quick --models resnet50 --peers onnxruntime
    python -m benchmarks.models --before TREE             beside another checkout with a built runtime
    python -m benchmarks.models --profile resnet50        time of each operator
    python -m benchmarks.models --convs resnet50          each convolution alone, against the machine's peak
    python -m benchmarks.models --pair resnet50           two executors in one process, one thread each
    python -m benchmarks.models --table MACHINE           all models, written to benchmarks/results

Every program has its own process, which is stopped while another one runs. Outputs are compared before timing; rounds
have equal length and are interleaved. The frameworks (torch, torch.compile, torchscript, jax) take part in fewer
rounds, spread evenly. Missing models are created by a Python with torch (--peer-python).
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tvm.utils.rounds import ROUND_SECONDS, in_turn, runs_in_a_round

from . import operators, report, result_file, zoo
from .harness import commit, percentile, save
from .machine import Machine
from .workers import BEFORE, FRAMEWORKS, OURS, PEERS, ROOT, Worker, WorkerFailed, missing

ALLOWED_ERROR = 1e-3
WARM_UP_ROUNDS = 3
FRAMEWORK_ROUNDS = 30


def frobenius(got: np.ndarray, want: np.ndarray) -> float:
    """Return the error of ``got`` relative to the norm of ``want``."""
    if got.shape != want.shape:
        return float("inf")
    return float(np.linalg.norm(got.astype("float64") - want) / np.linalg.norm(want))


def bootstrap(function, columns: list[list[float]], draws: int = 400) -> list[float]:
    """Return a 95 % interval of a statistic of paired columns."""
    rng = random.Random(0)
    n = len(columns[0])
    got = []
    for _ in range(draws):
        at = [rng.randrange(n) for _ in range(n)]
        got.append(function(*([column[i] for i in at] for column in columns)))
    got.sort()
    return [got[int(draws * 0.025)], got[int(draws * 0.975)]]


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return percentile(ours, 20) / percentile(theirs, 20)


def takes_part(turn: int, wanted: int, rounds: int) -> bool:
    """Return whether a program takes part in this round, if it takes part in ``wanted`` of ``rounds`` evenly spread
    rounds."""
    return turn * wanted // rounds != (turn - 1) * wanted // rounds


@dataclasses.dataclass(frozen=True)
class Job:
    """A row to measure: a case, the threads of every program, and the peers."""

    case: zoo.Case
    threads: int
    peers: tuple[str, ...]


class Bench:
    """Measures one case after the other."""

    def __init__(self, options: argparse.Namespace, folder: str):
        self.options, self.folder = options, folder
        self.commit = commit()
        self.packages = os.path.abspath(options.packages or folder)
        os.makedirs(self.packages, exist_ok=True)
        self.tag = "" if options.target == "llvm" else "." + re.sub(r"\W+", "_", options.target)
        self.missing = {peer: missing(peer, options.peer_python) for peer in options.peers}
        for peer, module in self.missing.items():
            if module:
                print(f"not measured: {peer} ({os.path.basename(options.peer_python)} has no module {module})")

    def spec(self, case: zoo.Case, peer: str, threads: int | None = None, **more) -> dict:
        threads = threads or self.options.threads
        before = self.options.before if peer == BEFORE else ""
        folder = os.path.join(self.folder, BEFORE) if before else self.folder
        os.makedirs(folder, exist_ok=True)
        return {
            "peer": OURS if before else peer,
            "tree": before,
            "case": dataclasses.asdict(case),
            "model": os.path.abspath(zoo.model_path(self.options.zoo, case)),
            "package": os.path.join(folder if before else self.packages, f"{case.stem}.{threads}t{self.tag}.tar"),
            "threads": threads,
            "target": self.options.target,
            "folder": folder,
            **more,
        }

    def environment(self, threads: int) -> dict[str, str]:
        limits = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        # The peers' Python must not write bytecode into the checkout; tuning records must not be used.
        return {**dict.fromkeys(limits, str(threads)), "PYTHONDONTWRITEBYTECODE": "1", "TOPHUB_LOCATION": "NONE"}

    def worker(self, spec: dict, threads: int | None = None) -> Worker:
        ours = spec["peer"] in (OURS, "compile", "operators", "pair")
        python = sys.executable if ours else self.options.peer_python
        environment = self.environment(threads or self.options.threads)
        if spec["peer"] == "compile":
            environment["TVM_NO_CACHE"] = "1"  # Compile times are those of an empty cache.
        return Worker(spec, python, environment)

    def ensure_model(self, case: zoo.Case) -> None:
        if os.path.exists(zoo.model_path(self.options.zoo, case)):
            return
        absent = missing("torch", self.options.peer_python)
        if absent:
            raise WorkerFailed(f"{case.stem}: not in {self.options.zoo}; creating it needs {absent}")
        shape = ["--batch", str(case.batch), "--height", str(case.height), "--width", str(case.width)]
        command = [self.options.peer_python, "-m", "benchmarks.zoo", os.path.abspath(self.options.zoo), case.name]
        done = subprocess.run([*command, *shape, "--layout", case.layout], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise WorkerFailed(f"{case.stem}: cannot create the model: {done.stderr.strip().splitlines()[-1]}")

    def facts(self, job: Job) -> dict:
        """Return the fields that distinguish a row from other rows."""
        return {"case": dataclasses.asdict(job.case), "threads": job.threads, "target": self.options.target}

    # -- one case ----------------------------------------------------------------------------------------------

    def run(self, job: Job) -> dict:
        """Return the row of a job: load all peers, compare their outputs, and time them in turn."""
        case, started = job.case, time.monotonic()
        self.ensure_model(case)
        row = {
            **self.facts(job),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
            "commit": self.commit,
            "model_bytes": os.path.getsize(zoo.model_path(self.options.zoo, case)),
            "peers": {},
        }
        workers: dict[str, Worker] = {}
        try:
            for peer in (OURS, *job.peers):
                self._start(job, peer, workers, row)
            self._compare(case, workers, row)
            if workers and self.options.rounds:
                self._time(workers, row)
        finally:
            for worker in workers.values():
                worker.close()
        row["took_s"] = time.monotonic() - started
        return row

    def _start(self, job: Job, peer: str, workers: dict[str, Worker], row: dict) -> None:
        case = job.case
        if self.missing.get(peer):
            return
        try:
            if peer == OURS:
                row.update(self._compile(self.spec(case, OURS, job.threads)))
            elif peer == BEFORE:
                row["before"] = self._compile(self.spec(case, BEFORE, job.threads))
            worker = self.worker(self.spec(case, peer, job.threads), job.threads)
            try:
                row["peers"][peer] = worker.first()
            except WorkerFailed:
                worker.close()
                raise
            workers[peer] = worker
        except WorkerFailed as problem:
            row["peers"][peer] = {"problem": str(problem)}
            print(f"{case.stem}: {problem}", flush=True)

    def _compile(self, spec: dict) -> dict:
        """Return the cost of compilation; a stored package that has these facts is not compiled again."""
        spec = {**spec, "peer": "compile"}
        facts = Path(spec["package"]).with_suffix(".json")
        if facts.exists():
            return load(str(facts))
        compiler = self.worker(spec, spec["threads"])
        try:
            got = compiler.first()
        finally:
            compiler.close()
        save(str(facts), got)
        return got

    def _compare(self, case: zoo.Case, workers: dict[str, Worker], row: dict) -> None:
        """Compare outputs with double precision, or with the first peer; programs with wrong outputs are not timed."""
        results = {}
        for peer, worker in workers.items():
            path = os.path.join(self.folder, f"{case.stem}.{peer}.npy")
            row["peers"][peer].update(worker.ask(save=path))
            results[peer] = np.load(path)
        reference = zoo.reference_path(self.options.zoo, case)
        row["reference"] = "float64" if os.path.exists(reference) else next((p for p in results if p != OURS), OURS)
        want = np.load(reference) if row["reference"] == "float64" else results.get(row["reference"])
        if want is None:
            return
        for peer, got in results.items():
            error = frobenius(got, want)
            row["peers"][peer]["error"] = error
            if not error <= ALLOWED_ERROR:
                problem = f"{peer}: the output is {error:.2g} away from {row['reference']} (allowed {ALLOWED_ERROR:g})"
                row["peers"][peer]["problem"] = problem
                print(f"{case.stem}: {problem}", flush=True)
                workers.pop(peer).close()

    def _time(self, workers: dict[str, Worker], row: dict) -> None:
        machine = Machine(row["threads"])
        first = runs_in_a_round(workers, WARM_UP_ROUNDS)
        rounds = self.options.rounds
        number = max(1, round(ROUND_SECONDS / min(first.values())))
        # Frameworks are often several times slower; their rounds need not be longer than those of other programs.
        numbers = {peer: min(number, max(1, round(ROUND_SECONDS / first[peer]))) if peer in FRAMEWORKS else number
                   for peer in workers}  # fmt: skip
        wanted = {peer: min(rounds, FRAMEWORK_ROUNDS) if peer in FRAMEWORKS else rounds for peer in workers}
        try:
            answers = in_turn(
                workers,
                numbers,
                rounds,
                lambda peer, turn: takes_part(turn, wanted[peer], rounds),
                lambda turn: machine.round(),
            )
            row["peak_gflops"] = machine.gflops()
        finally:
            machine.close()
        seconds = {peer: {turn: one["seconds"] for turn, one in turns.items()} for peer, turns in answers.items()}
        row["rounds"], row["number"] = rounds, number
        for peer, times in ((peer, list(turns.values())) for peer, turns in seconds.items()):
            row["peers"][peer].update(
                rounds=len(times),
                number=numbers[peer],
                p20=percentile(times, 20),
                median=statistics.median(times),
                interval=bootstrap(lambda t: percentile(t, 20), [times]),
            )
        row["ratios"] = {}
        for peer, turns in seconds.items():
            if peer != OURS and OURS in seconds:
                # Compare only the rounds in which both programs took part.
                pair = [[seconds[OURS][turn] for turn in turns], list(turns.values())]
                row["ratios"][peer] = [_ratio(*pair), *bootstrap(_ratio, pair)]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--models", default=",".join(name for name in zoo.NAMES), help="comma-separated names (default: all)")
    add("--peers", default=",".join(name for name in PEERS if name != OURS), help="names with commas; none: only ours")
    add("--before", default="", metavar="TREE", help="also time the models as compiled by this other checkout")
    add("--rounds", type=int, default=100, help="0: compile, load and compare only")
    add("--quick", action="store_true", help="20 rounds")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--variants", action="store_true", help="also batch 4 and 8, 320x240, NHWC and one thread for some models")
    add("--table", default="", metavar="MACHINE", choices=result_file.MACHINES,
        help="measure all models, variants and peers and write them to benchmarks/results as those of MACHINE; "
        "rows of this commit that are in --json are not measured again")  # fmt: skip
    add("--batch", type=int, default=1)
    add("--size", default="", help="WIDTHxHEIGHT of the image, such as 320x240")
    add("--layout", default="NCHW", choices=("NCHW", "NHWC"))
    add("--target", default="llvm")
    add("--zoo", default=os.environ.get("TVM_BENCH_ZOO", str(ROOT / "build" / "zoo")), help="folder of the models")
    add("--peer-python", default=os.environ.get("TVM_BENCH_PYTHON", sys.executable), help="Python that has the peers")
    add("--json", default=str(ROOT / "build" / "bench" / "models.json"), help="file for the rows, by case")
    add("--packages", default="", help="store compiled models in this folder and reuse them")
    add("--svg", default="", help="also draw the ratios into this file")
    add("--compare", default="", metavar="OLD.json", help="print the ratios that changed")
    add("--show", action="store_true", help="measure nothing; print (with --table: write) the stored rows")
    add("--profile", default="", metavar="MODEL", help="time, GFLOPS and distance from the roofline of each operator")
    add("--convs", default="", metavar="MODEL", help="each distinct convolution alone, against the peak")
    add("--pair", default="", metavar="MODEL", help="two executors in one process, one thread each")
    options = parser.parse_args(arguments)
    options.models = [name for name in options.models.split(",") if name]
    options.peers = [name for name in options.peers.split(",") if name and name != "none"]
    unknown = [n for n in options.models if n not in zoo.NAMES] + [p for p in options.peers if p not in PEERS]
    if unknown:
        parser.error(f"unknown: {unknown[0]}; models: {', '.join(zoo.NAMES)}; peers: {', '.join(PEERS)}")
    if options.before:
        options.before = os.path.abspath(options.before)
        if not os.path.exists(os.path.join(options.before, "benchmarks", "workers.py")):
            parser.error(f"--before {options.before}: not a checkout of this project")
        options.peers.insert(0, BEFORE)
    options.rounds = 20 if options.quick else options.rounds
    options.variants = options.variants or bool(options.table)
    return options


def case_of(name: str, options: argparse.Namespace) -> zoo.Case:
    width, _, height = options.size.partition("x")
    size = (0, 0) if not options.size or name in zoo.FIXED_SIZE else (int(height), int(width))
    return zoo.Case(name, options.batch, *size, options.layout)


def jobs(options: argparse.Namespace) -> list[Job]:
    """Return the rows of a run: the requested models, then the variants."""
    made = [Job(case_of(name, options), options.threads, tuple(options.peers)) for name in options.models]
    if options.variants:
        peers = tuple(peer for peer in options.peers if peer not in FRAMEWORKS)
        for name in zoo.WITH_VARIANTS:
            if name in options.models:
                made += [Job(case, options.threads, peers) for case in zoo.variants(name)]
                made.append(Job(zoo.Case(name), 1, peers))
    return list(dict.fromkeys(made))


def is_done(row: dict | None, job: Job, bench: Bench) -> bool:
    """Return whether a stored row has all measurements of a job."""
    if row is None or row["commit"] != bench.commit or row.get("rounds", 0) < bench.options.rounds:
        return False
    return all(bench.missing.get(peer) or "p20" in row["peers"].get(peer, {}) for peer in (OURS, *job.peers))


def load(path: str) -> dict:
    return json.loads(Path(path).read_text(encoding="utf-8")) if os.path.exists(path) else {}


def _time_models(bench: Bench) -> dict:
    options = bench.options
    rows = {}
    os.makedirs(os.path.dirname(os.path.abspath(options.json)), exist_ok=True)
    for job in jobs(options):
        kept = load(options.json).get(report.key(bench.facts(job)))
        if options.table and is_done(kept, job, bench):
            rows[report.key(kept)] = kept
            continue
        if options.show:
            continue
        try:
            row = bench.run(job)
        except WorkerFailed as problem:
            print(problem)
            continue
        print(f"{report.line(row)}; took {row['took_s']:.0f} s", flush=True)
        if not options.rounds:
            continue
        rows[report.key(row)] = row
        # Rows are stored after every model: an interrupted run loses one row.
        save(options.json, {**load(options.json), report.key(row): row})
    return rows


def publish(rows: dict, machine: str) -> None:
    """Write the result files of times and of peak memory."""
    peers = [found for row in rows.values() for found in row["peers"].items() if found[0] != OURS and "p20" in found[1]]
    versions = {report.TITLES.get(peer, peer): facts["version"].partition("+")[0] for peer, facts in peers}
    command = f"python -m benchmarks.models --table {machine}"
    result_file.record(
        machine, "cpu-float32", [report.time_row(row) for row in rows.values()], unit="ms", command=command,
        versions=versions,
        method="batch 1 and no tuning unless the row says otherwise; interleaved rounds, their number in the details",
    )  # fmt: skip
    result_file.record(
        machine, "peak-memory", [report.memory_row(row) for row in rows.values() if not report.is_variant(row)],
        unit="MiB", command=command, versions=versions,
        method="peak resident memory of a process that loads and runs the model; batch 1, float32",
    )  # fmt: skip


def main() -> None:
    options = parse()
    # Workers are stopped most of the time and would not notice that this process ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        single = options.profile or options.convs or options.pair
        if single:
            case = case_of(single, options)
            bench.ensure_model(case)
            views = ((options.profile, operators.profile), (options.convs, operators.convolutions))
            print(next((view for asked, view in views if asked), operators.pair)(bench, case))
            return
        rows = load(options.json) if options.show and not options.table else _time_models(bench)
        rows = dict(sorted(rows.items(), key=lambda item: zoo.NAMES.index(item[1]["case"]["name"])))
    print("\n" + report.tables(rows))
    if options.table:
        publish(rows, options.table)
    if options.compare:
        print(report.compare(load(options.compare), rows))
    if options.svg:
        Path(options.svg).write_text(report.plot(load(options.json)), encoding="utf-8")


if __name__ == "__main__":
    main()
