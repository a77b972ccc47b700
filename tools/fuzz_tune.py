"""Kill a tuner or one of its workers at random moments, start it again, and check that nothing is lost.

    python tools/fuzz_tune.py [--kills 50] [--seed N] [--search auto_scheduler] [--last-trials 40]

The tuner is ``tvmc tune`` with templates, or AutoScheduler's ``TaskScheduler``. After every kill, the program checks:
each line of the record file is complete and readable; earlier lines are still there; no configuration has two records
(except winners that are measured again and marked as final); no worker process and no temporary file is left. A tuner
that lost a worker continues. Sometimes the last line is truncated as well, as by a power failure. At the end, the tuner
runs undisturbed until its budget is used.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = "TVM_FUZZ_TUNE"
# Tuners with a cost model need xgboost; without it, others run.
HAS_XGBOOST = importlib.util.find_spec("xgboost") is not None
# Longer than the start of the tuner and one batch take on a busy machine.
PATIENCE = 300.0


def write_model(path: Path) -> None:
    """Write a model of two convolutions and a matmul, small enough for many trials per second, with large search
    spaces."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(1)
    shapes = {"w": (64, 64, 3, 3), "v": (64, 64, 5, 5), "u": (4096, 64)}
    weights = [numpy_helper.from_array(rng.uniform(-1, 1, s).astype("float32"), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Conv", ["a", "v"], ["b"], pads=[2, 2, 2, 2]),
        helper.make_node("Flatten", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "u"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, (1, 64, 16, 16))],
        [helper.make_tensor_value_info("y", 1, (1, 64))], weights,
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


class Failed(AssertionError):
    """A guarantee of the tuner did not hold."""


def check(holds: Any, text: str) -> None:
    if not holds:
        raise Failed(text)


class Templates:
    """``tvmc tune`` with templates, whose budget includes existing records."""

    title = "autotvm"
    last_trials = 40

    def __init__(self, folder: Path):
        self.model = folder / "model.onnx"
        write_model(self.model)

    def command(self, records: Path, trials: int, chance: random.Random) -> list[str]:
        tuner = chance.choice(["random", "ga", *["xgb"] * HAS_XGBOOST])
        return ["-m", "tvm.driver.tvmc", "tune", "-o", str(records), "--trials", str(trials), "--number", "1",
                "--tuner", tuner, str(self.model)]  # fmt: skip

    def budget(self, measured: int) -> int:
        return measured + self.last_trials

    def check_added(self, added: int, trials: int, number: int) -> None:
        check(number == 0 or added == 0, f"a budget that was spent is spent again: {added} trials")

    def key(self, line: str) -> str | None:
        """Return the identity of the measured configuration; None for a winner that was measured again."""
        from tvm.autotvm import record

        found = record.decode(line)
        assert found is not None
        return None if found[0].final else record.measure_str_key(found[0])

    def has_failed(self, row: dict[str, Any]) -> bool:
        return row["result"][1] != 0


class Sketches:
    """A ``TaskScheduler`` that continues from its records; its budget counts only new records."""

    title = "auto_scheduler"
    last_trials = 12

    def __init__(self, folder: Path):
        pass

    def command(self, records: Path, trials: int, chance: random.Random) -> list[str]:
        return [__file__, "--records", str(records), "--trials", str(trials), "--policy",
                chance.choice(["sketch.random", *["sketch.xgb"] * HAS_XGBOOST])]  # fmt: skip

    def budget(self, measured: int) -> int:
        return self.last_trials

    def check_added(self, added: int, trials: int, number: int) -> None:
        check(added == trials, f"{added} of {trials} trials were measured")

    def key(self, line: str) -> str | None:
        from tvm.auto_scheduler.measure_record import load_record_from_string

        inp, _ = load_record_from_string(line)
        return json.dumps([inp.task.workload_key, inp.task.target_text, repr(inp.state.transform_steps)])

    def has_failed(self, row: dict[str, Any]) -> bool:
        return row["r"][1] != 0


SEARCHES = {search.title: search for search in (Templates, Sketches)}


def search_sketches(records: str, trials: int, policy: str) -> None:
    """Tune three small computations, starting from the existing records."""
    from tvm import auto_scheduler
    from tvm.testing import auto_scheduler as workloads

    work = [
        (workloads.matmul_auto_scheduler_test, (64, 64, 64)),
        (workloads.softmax_nm_auto_scheduler_test, (64, 64)),
        (workloads.conv2d_nchw_bn_relu_auto_scheduler_test, (1, 14, 14, 16, 16, 3, 1, 1)),
    ]
    tasks = [auto_scheduler.SearchTask(func=function, args=args, target="llvm") for function, args in work]
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=4,
        verbose=0,
        runner=auto_scheduler.LocalRunner(number=1, min_repeat_ms=0),
        measure_callbacks=[auto_scheduler.RecordToFile(records)],
    )
    scheduler = auto_scheduler.TaskScheduler(tasks, load_log_file=records, callbacks=[])
    scheduler.tune(options, policy, {"evolutionary_search_population": 32, "evolutionary_search_num_iters": 2})


class Fuzz:
    def __init__(self, folder: Path, seed: int, search: str = Templates.title, cut_share: float = 0.2):
        self.chance = random.Random(seed)
        self.folder, self.cut_share = folder, cut_share
        self.records, self.search = folder / "records.json", SEARCHES[search](folder)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.token = f"{os.getpid()}-{seed}"
        self.process: subprocess.Popen | None = None
        self.whole = b""
        self.counts = dict.fromkeys(("tuner", "worker", "cut", "starts"), 0)
        self.slowest_end = 0.0

    # -- processes -----------------------------------------------------------------------------------------------------

    def start(self, trials: int = 10**6) -> None:
        environment = {**os.environ, MARK: self.token, "TMPDIR": str(self.temporary), "TVM_NO_CACHE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
        command = [sys.executable, *self.search.command(self.records, trials, self.chance)]
        with open(self.folder / "output.txt", "ab") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        self.counts["starts"] += 1

    def alive(self) -> list[int]:
        """Return the processes of the run that have not ended."""
        word = f"{MARK}={self.token}".encode()
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and word in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    state = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[0]
                    found += [int(name)] if state not in "ZX" else []
            except OSError:
                continue
        return found

    def said(self) -> str:
        return (self.folder / "output.txt").read_text(errors="replace")[-2000:]

    def wait_for_records(self, more: int) -> None:
        """Wait until the file has more records."""
        wanted = self.size() + more
        until = time.monotonic() + PATIENCE
        while self.size() < wanted:
            assert self.process is not None
            code = self.process.poll()
            check(code is None, f"the tuner ended by itself with {code}:\n{self.said()}")
            check(time.monotonic() < until, f"no record for {PATIENCE:g} s:\n{self.said()}")
            time.sleep(0.01)

    def size(self) -> int:
        return self.records.stat().st_size if self.records.exists() else 0

    # -- kills ---------------------------------------------------------------------------------------------------------

    def disturb(self) -> str:
        """Kill once, and check the guarantees."""
        if self.process is None:
            self.start()
        assert self.process is not None
        if self.chance.random() < 0.8:
            self.wait_for_records(1)
            time.sleep(self.chance.random() * 2.0)
        else:
            time.sleep(self.chance.random() * 3.0)
        workers = [pid for pid in self.alive() if pid != self.process.pid]
        if workers and self.chance.random() < 0.4:
            return self.kill_worker(self.chance.choice(workers))
        return self.kill_tuner()

    def kill_worker(self, pid: int) -> str:
        os.kill(pid, signal.SIGKILL)
        self.counts["worker"] += 1
        self.wait_for_records(1)
        return "worker"

    def kill_tuner(self) -> str:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        self.counts["tuner"] += 1
        began = time.monotonic()
        while self.alive():
            check(time.monotonic() < began + 30, f"workers are left behind: {self.alive()}")
            time.sleep(0.02)
        self.slowest_end = max(self.slowest_end, time.monotonic() - began)
        self.check_records()
        left = sorted(p.name for p in self.temporary.iterdir())
        check(not left, f"temporary files are left behind: {left}")
        if self.whole and self.chance.random() < self.cut_share:
            self.cut()
            return "tuner, last line cut"
        return "tuner"

    def cut(self) -> None:
        """Remove some bytes of the last line, like a file system that did not write the end."""
        lines = self.whole.splitlines(keepends=True)
        off = self.chance.randrange(2, len(lines[-1]))
        os.truncate(self.records, len(self.whole) - off)
        self.whole = b"".join(lines[:-1])
        # A configuration whose record was removed is not measured any more.
        self.measured = len({self.search.key(line.decode()) for line in lines[:-1]} - {None})
        self.counts["cut"] += 1

    # -- guarantees ----------------------------------------------------------------------------------------------------

    def check_records(self) -> None:
        data = self.records.read_bytes() if self.records.exists() else b""
        check(data.startswith(self.whole), "records that were written before are gone")
        lines = data.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            # The kill happened in the middle of a write.
            lines.pop()
            self.counts["cut"] += 1
        seen: set[str] = set()
        for number, line in enumerate(lines):
            try:
                key = self.search.key(line.decode())
            except Exception as error:
                raise Failed(f"line {number + 1} is not a record: {error}: {line[:200]!r}") from error
            if key is not None:
                check(key not in seen, f"line {number + 1} was measured before: {key}")
                seen.add(key)
        self.whole = b"".join(lines)
        self.measured = len(seen)

    def finish(self) -> None:
        """Run undisturbed until the budget is used, and once more."""
        if self.process is not None:
            self.kill_tuner()
        trials = self.search.budget(self.measured)
        for number in range(2):
            before = self.measured
            self.start(trials)
            assert self.process is not None
            code = self.process.wait(PATIENCE * 4)
            self.process = None
            check(code == 0, f"the last run ended with {code}:\n{self.said()}")
            check(not self.alive(), f"workers are left behind: {self.alive()}")
            self.check_records()
            self.search.check_added(self.measured - before, trials, number)

    def table(self) -> str:
        rows = [json.loads(line) for line in self.whole.splitlines()]
        final = sum(bool(row.get("final")) for row in rows)
        failed = sum(map(self.search.has_failed, rows))
        columns = {
            "kills of the tuner": self.counts["tuner"], "kills of a worker": self.counts["worker"],
            "lines cut": self.counts["cut"], "records": len(rows) - final, "of them failed": failed,
            "measured twice": len(rows) - final - self.measured, "lost": 0, "workers left": 0, "files left": 0,
            "last worker gone after, s": f"{self.slowest_end:.2f}",
        }  # fmt: skip
        table = (columns, ["---"] * len(columns), columns.values())
        return "\n".join(f"| {' | '.join(map(str, row))} |" for row in table)


def fuzz(kills: int, seed: int, folder: Path, search: str, last_trials: int | None = None) -> Fuzz:
    """Kill this number of times; raise Failed if a guarantee does not hold."""
    run = Fuzz(folder, seed, search)
    run.search.last_trials = last_trials or run.search.last_trials
    try:
        for number in range(kills):
            what = run.disturb()
            print(f"{number + 1:3d}. {what}: {len(run.whole.splitlines())} records", flush=True)
        run.finish()
    finally:
        for pid in run.alive():
            os.kill(pid, signal.SIGKILL)
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--search", choices=sorted(SEARCHES), default=Templates.title)
    parser.add_argument("--last-trials", type=int, help="trials of the undisturbed run at the end (40; of sketches 12)")
    parser.add_argument("--records", help="do not kill; tune with sketches into this file")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--policy", default="sketch.random")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if arguments.records:
        search_sketches(arguments.records, arguments.trials, arguments.policy)
        return 0
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = fuzz(arguments.kills, arguments.seed, Path(folder), arguments.search, arguments.last_trials)
        except Failed as problem:
            print(f"seed {arguments.seed}: {problem}")
            return 1
    print(f"seed {arguments.seed}\n{run.table()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
