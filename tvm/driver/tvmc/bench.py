"""``tvmc bench``: measure a model and compare it with other runtimes."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from ... import __version__
from ...error import did_you_mean
from ...runtime import host_cpu
from ...runtime.benchmark import BenchmarkResult
from ...utils import rounds
from ...utils.peers import OURS
from ...utils.progress import Progress
from ...utils.rounds import Worker, WorkerFailed
from . import frontends
from .arguments import add_command, add_verbose, register_parser
from .devices import NAMES as DEVICES
from .dynamic_dims import Dims, completed, is_open
from .errors import TVMCException
from .files import check_records, check_writable, write_whole
from .info import Tensor
from .machine import check_machine
from .model import TVMCModel, TVMCPackage
from .model_files import one_model
from .runner import FILL_MODES, make_inputs_dict, package_inputs, positive, read_npz
from .shape_parser import parse_shape_string
from .target import check_code, target_from_cli
from .terminal import print_table, size

PERCENTS = (5, 20, 25, 75, 90, 95, 99)
TARGETS = {"cpu": "llvm", "cl": "opencl"}
# A larger relative difference indicates that two outputs are not of the same model.
ALLOWED_ERROR = {None: 1e-3, "float16": 5e-2, "bfloat16": 0.2}


class Peer(NamedTuple):
    """A runtime to compare with: the pip package, and the suffixes of the files it runs."""

    package: str
    suffixes: tuple[str, ...]


PEERS = {
    "onnxruntime": Peer("onnxruntime", (".onnx",)),
    "openvino": Peer("openvino", (".onnx",)),
    "torch": Peer("torch", (".pt", ".pth")),
}


def peers(text: str) -> list[str]:
    """Split comma-separated names of runtimes."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in PEERS:
            hint = did_you_mean(name, PEERS, "; ")
            raise argparse.ArgumentTypeError(f"unknown runtime '{name}'{hint} (choose from {', '.join(PEERS)})")
    return names


@register_parser
def add_bench_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``bench``."""
    parser = add_command(
        subparsers,
        "bench",
        usage="tvmc bench [options] FILE...",
        epilog="A runtime that is not installed is reported and skipped.",
    )
    parser.set_defaults(func=drive_bench)
    add = parser.add_argument
    add("--compare", type=peers, default=[], metavar="PEERS", help=f"other runtimes, with commas: {', '.join(PEERS)}")
    add("--rounds", metavar="N", type=positive, default=30, help="rounds to measure (default: 30)")
    add("--warm-up", metavar="N", type=positive, default=3, help="rounds before them (default: 3)")
    add("--number", metavar="N", type=positive, default=None, help="runs in a round (default: as many as fill 20 ms)")
    add("--threads", metavar="N", type=positive, default=None, help="threads of each program (default: all cores)")
    add("--device", choices=DEVICES, default="cpu", help="device to run on (default: cpu)")
    add("--batch", metavar="N", type=positive, default=None, help="batch size, if the batch dimension is dynamic")
    add(
        "--input-shapes",
        type=parse_shape_string,
        default=None,
        metavar="SHAPES",
        help='shapes of inputs; for a package, of its dynamic dimensions: "name:[dim1,dim2,...] other:[...]"',
    )
    add(
        "--precision",
        choices=["float16", "bfloat16"],
        default=None,
        help="a smaller float type where it is safe: for tvm and openvino; others run the model as it is",
    )
    add("-i", "--inputs", metavar="FILE", help="an .npz file of inputs")
    add("--fill-mode", choices=FILL_MODES, default="random", help="data of inputs that are not given")
    add("--json", metavar="FILE", help="write all times and figures")
    add("--report", metavar="FILE", help="write an HTML page with plots")
    add("--model", metavar="FILE", help="the model a package was compiled from, for the others to run")
    add("--torch-model", metavar="FILE", help="the same model as TorchScript, for torch to run")
    add("--peer-python", metavar="PATH", default=sys.executable, help="a Python that has the other runtimes")
    group = parser.add_argument_group("compilation of a model")
    group.add_argument("--target", help="compilation target (default: that of the device)")
    group.add_argument("--tuning-records", metavar="PATH", default="", help="tuning records to compile with")
    frontends.add_model_format(group)
    add_verbose(parser)
    add("FILE", nargs="+", help="a model, its network and its weights, or a package made by tvmc compile")


def drive_bench(args) -> int:
    """Run the benchmark."""
    for path in filter(None, (args.json, args.report)):
        check_writable(path)
    for path in filter(None, (*args.FILE, args.model, args.torch_model)):
        frontends.check_model(path)
    with tempfile.TemporaryDirectory(prefix="tvm-bench-") as folder:
        bench = Bench(args, folder)
        result = bench.run()
    head, rows = table_of(result)
    print_table(rows, head, sys.stdout, right=range(2, len(head)))
    notes = [f"{name}: {facts['problem']}" for name, facts in result["programs"].items() if "problem" in facts]
    print("\n".join([*notes, summary(result)]))
    if args.json:
        write_whole(args.json, lambda out: out.write(json.dumps(result, indent=1).encode() + b"\n"))
    if args.report:
        from .bench_page import page

        text = page(result, head, rows, [*notes, summary(result)])
        write_whole(args.report, lambda out: out.write(text.encode()))
    return 0


class Bench:
    """A benchmark: a package, its inputs, and one process per runtime."""

    def __init__(self, args: Any, folder: str):
        self.args, self.folder = args, folder
        self.threads = args.threads or host_cpu.usable_cores()
        self.files = one_model(args.FILE, "measure")
        self.file = self.files.path
        self.is_package = os.path.isfile(self.file) and tarfile.is_tarfile(self.file) or not self._has_importer()
        self.package = TVMCPackage(self.file if self.is_package else self._compile())
        check_machine(self.package.manifest.get("machine"))
        self.inputs = os.path.join(folder, "inputs.npz")
        self._save_inputs()

    def _has_importer(self) -> bool:
        """Whether the file is a model: its format is given, or recognized by its suffix."""
        if self.args.model_format is not None:
            return True
        try:
            frontends.guess_frontend(self.file)
        except TVMCException:
            return False
        return True

    def _compile(self) -> str:
        """Compile the model and return the path of the package."""
        from .compiler import compile_model

        args = self.args
        check_records(args.tuning_records)
        target = args.target or TARGETS.get(args.device, args.device)
        check_code(target_from_cli(target)[0])
        model = frontends.load_model(self.file, args.model_format, args.input_shapes, **self.files.options)
        model.mod = _fixed(model, args.batch)
        path = os.path.join(self.folder, "model.tar")
        compile_model(
            model,
            target,
            tuning_records=args.tuning_records or None,
            package_path=path,
            mixed_precision=bool(args.precision),
            mixed_precision_calculation_type=args.precision,
        )
        return path

    def _save_inputs(self) -> None:
        import numpy as np

        args = self.args
        if self.is_package and (args.precision or args.target):
            raise TVMCException(f"--precision and --target apply to models; {self.file} is already compiled")
        rows, dtypes = package_inputs(self.package)
        if self.is_package and (args.batch or args.input_shapes) and not any(is_open(dims) for dims in rows.values()):
            raise TVMCException(
                "--batch and --input-shapes apply to models and to packages with dynamic dimensions; "
                f"{self.file} is compiled for fixed shapes"
            )
        given = read_npz(args.inputs) if args.inputs else None
        shapes = args.input_shapes if self.is_package else None
        if self.is_package and args.batch is not None:
            shapes = {**_batched(rows, args.batch), **(shapes or {})}
        data = make_inputs_dict(rows, dtypes, given, args.fill_mode, shapes)
        self.tensors = [Tensor(name, data[name].shape, dtypes[name]) for name in rows]
        np.savez(self.inputs, **data)

    # -- runtimes --------------------------------------------------------------------------------------------------

    def reason(self, peer: str) -> str:
        """The reason why a runtime cannot run the model; empty if it can."""
        path = self.model_of(peer)
        if peer == "torch" and not path.lower().endswith(PEERS[peer].suffixes):
            return "runs TorchScript, not ONNX; --torch-model FILE gives it the same model"
        if not path:
            return "runs models, not packages; --model FILE names the one the package was compiled from"
        if not path.lower().endswith(PEERS[peer].suffixes):
            return f"cannot run {path}; it runs {' and '.join(PEERS[peer].suffixes)} files"
        if rounds.missing([peer], self.args.peer_python):
            return f"is not installed; pip install {PEERS[peer].package}"
        return ""

    def model_of(self, peer: str) -> str:
        """Return the file that another runtime executes."""
        model = self.args.model or ("" if self.is_package else self.file)
        return (self.args.torch_model or model) if peer == "torch" else model

    def start(self, name: str) -> Worker:
        args = self.args
        spec = {
            "peer": name,
            "package": self.package.package_path,
            "inputs": self.inputs,
            "threads": self.threads,
            "device": args.device,
            "precision": args.precision,
            "folder": self.folder,
            "model": os.path.abspath(self.model_of(name)) if name != OURS else "",
        }
        limits = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        worker = Worker(
            spec, sys.executable if name == OURS else args.peer_python, dict.fromkeys(limits, str(self.threads))
        )
        try:
            worker.first()
        except BaseException:
            worker.close()
            raise
        return worker

    def run(self) -> dict:
        """Run all measurements and return the results."""
        args = self.args
        programs: dict[str, dict] = {}
        with contextlib.ExitStack() as open_workers:
            workers: dict[str, Worker] = {}
            for name in (OURS, *args.compare):
                reason = "" if name == OURS else self.reason(name)
                try:
                    worker = None if reason else self.start(name)
                except WorkerFailed as problem:
                    if name == OURS:
                        raise TVMCException(str(problem)) from problem
                    reason, worker = str(problem).removeprefix(f"{name}: "), None
                programs[name] = {"problem": reason} if worker is None else dict(worker.facts)
                if worker is not None:
                    open_workers.callback(worker.close)
                    workers[name] = worker
            try:
                self._compare(workers, programs)
                number = self._time(workers, programs)
            except WorkerFailed as problem:
                raise TVMCException(str(problem)) from problem
        batch = self.tensors[0].shape[0] if self.tensors and self.tensors[0].shape else 1
        for facts in programs.values():
            if "median" in facts:
                facts["throughput"] = batch / facts["median"]
        return {
            "format": 1,
            "name": os.path.basename(self.file),
            "date": _now(),
            "tvm_version": __version__,
            "machine": host_cpu.triple(),
            "target": self.package.manifest.get("target"),
            "device": args.device,
            "threads": self.threads,
            "batch": batch,
            "rounds": args.rounds,
            "warm_up": args.warm_up,
            "number": number,
            "inputs": [str(tensor) for tensor in self.tensors],
            "programs": programs,
        }

    def _compare(self, workers: dict[str, Worker], programs: dict[str, dict]) -> None:
        """Store the differences between the first outputs of the other runtimes and ours, relative to their
        magnitude."""
        import numpy as np

        outputs = {}
        for name, worker in workers.items():
            path = os.path.join(self.folder, f"{name}.npy")
            worker.ask(save=path)
            outputs[name] = np.load(path).astype("float64")
        allowed = ALLOWED_ERROR[self.args.precision]
        for name, got in outputs.items():
            if name == OURS:
                continue
            ours = outputs[OURS]
            same = got.shape == ours.shape
            # If all values are zero, use the absolute difference.
            scale = float(np.linalg.norm(got)) or 1.0
            error = float(np.linalg.norm(got - ours)) / scale if same else float("inf")
            programs[name]["difference"] = error if same else None
            if not error <= allowed:
                programs[name]["problem"] = f"its first output has a relative difference of {error:.2g} to that of tvm"

    def _time(self, workers: dict[str, Worker], programs: dict[str, dict]) -> int:
        """Measure all runtimes, store their times, and return the number of runs per round."""
        args = self.args
        first = rounds.runs_in_a_round(workers, args.warm_up)
        number = args.number or max(1, round(rounds.ROUND_SECONDS / min(first.values())))
        with Progress(ticks=False) as show:
            show("measuring", 0, args.rounds)
            answers = rounds.in_turn(
                workers,
                dict.fromkeys(workers, number),
                args.rounds,
                between=lambda turn: show("measuring", turn + 1, args.rounds),
            )
        for name, turns in answers.items():
            programs[name].update(figures([one["seconds"] for one in turns.values()]))
            programs[name]["peak_bytes"] = max(one["peak_bytes"] for one in turns.values())
        for name in programs:
            if name != OURS and "median" in programs[name]:
                programs[name]["ratio"] = programs[name]["median"] / programs[OURS]["median"]
        return number


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _fixed(model: TVMCModel, batch: int | None) -> Any:
    """Return the module of a model whose dynamic batch is replaced by a fixed one (default: 1)."""
    from .module_sizes import fixed, inputs_of

    mod, batches = fixed(model.mod, model.params, batch or 1)
    if batch is not None:
        _refuse_fixed(
            {name: dims for name, dims in inputs_of(model.mod, model.params).items() if name not in batches}, batch
        )
    return mod


def _batched(rows: Mapping[str, Dims], batch: int) -> dict[str, list[int]]:
    """Return the shapes of a package's inputs, with the dynamic batch set to ``batch``."""
    shapes, batches, _ = completed(rows, {}, batch)
    _refuse_fixed({name: dims for name, dims in rows.items() if name not in batches}, batch)
    return {name: shapes[name] for name in batches}


def _refuse_fixed(rows: Mapping[str, Dims], batch: int) -> None:
    for name, dims in rows.items():
        if dims and isinstance(dims[0], int) and dims[0] != batch:
            raise TVMCException(f"--batch {batch}: input '{name}' has a fixed batch of {dims[0]}")


def figures(seconds: list[float]) -> dict:
    """Return the times and their statistics in seconds."""
    times = BenchmarkResult(seconds)
    names = ("min", "mean", "median", "max", "std")
    return {
        "seconds": seconds,
        **{name: getattr(times, name) for name in names},
        **{f"p{percent}": times.percentile(percent) for percent in PERCENTS},
    }


def table_of(result: dict) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the printed table: times in milliseconds, one row per runtime."""
    head = [
        "program",
        "precision",
        "min",
        "median",
        "p90",
        "p95",
        "p99",
        "per second",
        "load s",
        "peak memory",
        "against tvm",
    ]
    rows = []
    for name, facts in result["programs"].items():
        if "median" not in facts:
            continue
        times = [f"{facts[key] * 1e3:.3f}" for key in ("min", "median", "p90", "p95", "p99")]
        memory = size(facts["peak_bytes"]) if facts["peak_bytes"] else "-"
        rows.append(
            [
                f"{name} {facts['version']}",
                facts["precision"],
                *times,
                f"{facts['throughput']:.1f}",
                f"{facts['load_s']:.2f}",
                memory,
                f"{facts.get('ratio', 1.0):.2f}x",
            ]
        )
    return head, rows


def summary(result: dict) -> str:
    """Return a one-line description of the measurement."""
    return (
        f"{result['name']}: milliseconds of {result['rounds']} rounds of {result['number']} runs on "
        f"{result['device']}, {result['threads']} threads, batch {result['batch']}; above 1x is slower than tvm"
    )


__all__ = ["Bench", "PEERS", "drive_bench", "figures", "peers", "summary", "table_of"]
