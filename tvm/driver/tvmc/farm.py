"""``--farm ray``: tuning and compiling on the machines of a Ray cluster."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...error import TVMError
from ...target import Target
from ...target.backend import compiled_cpu
from ...tuning.ray_cluster import MeasuringNodes, connect
from ...utils.progress import Progress
from . import frontends
from .errors import TVMCException
from .files import check_records, write_whole
from .model_files import ModelFiles, models_of
from .parser import detail_group
from .target import check_code, reconstruct_target_args, target_from_cli

# The number of models that wait for a node in addition to those being compiled.
_AT_HAND = 2
_RECORDS = "records of tuning"


@dataclass(frozen=True)
class Farm:
    """A Ray cluster, and the Ray resource of the nodes that measure (None: the default of the target)."""

    address: str = "auto"
    resource: str | None = None

    def check(self, target: Target) -> None:
        """Raise an error if the cluster is unreachable or cannot measure for a target."""
        try:
            MeasuringNodes(self.address, self.resource).of(target)
        except TVMError as problem:
            raise TVMCException(str(problem)) from problem


def add_farm(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options of a cluster to a command; return their group."""
    parser.add_argument("--farm", choices=["ray"], default=None, help="run the work on the machines of a Ray cluster")
    details = detail_group(parser, "for --farm")
    details.add_argument(
        "--farm-address",
        metavar="ADDRESS",
        default=None,
        help="address of the cluster's head node (default: a head on this machine, or RAY_ADDRESS)",
    )
    return details


def farm_of(args: argparse.Namespace) -> Farm | None:
    """Return the cluster that the arguments select, or None to work on this machine."""
    resource = getattr(args, "farm_resource", None)
    if args.farm is None:
        if args.farm_address or resource:
            raise TVMCException("--farm-address and --farm-resource need --farm ray")
        return None
    return Farm(args.farm_address or "auto", resource)


def compile_many(farm: Farm, args: argparse.Namespace) -> int:
    """Compile every model of the arguments on a node and write the packages to the folder of ``--output``."""
    paths, folder = _packages(models_of(args.FILE), args.output)
    check_records(args.tuning_records)
    target = target_from_cli(args.target or "llvm", reconstruct_target_args(args))[0]
    check_code(target)
    if args.dump_code or args.dump_offloads:
        raise TVMCException("--dump-code and --dump-offloads cannot be used with --farm")
    try:
        ray = connect(farm.address)
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem
    values = {name: value for name, value in vars(args).items() if name != "func"}
    task = ray.remote(compile_here).options(num_cpus=1, max_retries=3)
    os.makedirs(folder, exist_ok=True)
    machine = _machine(target)
    waiting: dict[Any, tuple[ModelFiles, str]] = {}
    left, failed = list(paths.items()), []
    with Progress() as show:
        try:
            while left or waiting:
                # Read models one by one, because a long list of models may not fit in memory.
                while left and len(waiting) < ray.cluster_resources().get("CPU", 0) + _AT_HAND:
                    model, made = left.pop(0)
                    named = {**values, "FILE": [Path(path).name for path in model if path is not None]}
                    waiting[task.remote(named, _files(model, args), machine)] = model, made
                show("compiling", len(paths) - len(left) - len(waiting), len(paths))
                for one in ray.wait(list(waiting), timeout=0.5)[0]:
                    _take(ray, one, *waiting.pop(one), failed)
        finally:
            for one in waiting:
                ray.cancel(one)
    if failed:
        raise TVMCException(f"{len(failed)} of {len(paths)} models failed to compile: {', '.join(failed)}")
    return 0


def _packages(models: Sequence[ModelFiles], folder: str) -> tuple[dict[ModelFiles, str], str]:
    """Return the path of each model's package in the folder, named after the model."""
    if folder == "module.tar":
        folder = "."
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise TVMCException(f"--output {folder}: compiling several models requires a folder, but this is a file")
    made = {model: os.path.join(folder, f"{Path(model.path).stem}.tar") for model in models}
    if len(set(made.values())) < len(models):
        raise TVMCException(
            "two models have the same file name, and their packages would have the same path; "
            "compile them into different folders"
        )
    return made, folder


def _files(model: ModelFiles, args: argparse.Namespace) -> dict[str, bytes]:
    """Return the files that a node needs: the model, its weights or other required files, and tuning records, by
    name."""
    path, weights = model
    try:
        frontend = (
            frontends.get_frontend_by_name(args.model_format) if args.model_format else frontends.guess_frontend(path)
        )
        others = frontend.companions(path) if weights is None else {Path(weights).name: Path(weights).read_bytes()}
        found = {Path(path).name: Path(path).read_bytes(), **others}
        if args.tuning_records:
            found[_RECORDS] = Path(args.tuning_records).read_bytes()
    except OSError as problem:
        raise TVMCException(f"cannot read {path}: {problem.strerror or problem}") from problem
    return found


def _machine(target: Target) -> tuple | None:
    """Return the CPU of this machine if the target does not specify one, else None."""
    cpu = compiled_cpu(target)
    if cpu is None or (target.host or target).attrs.get("mcpu"):
        return None
    return cpu.triple, cpu.cpu, tuple(sorted(cpu.enabled))


def compile_here(values: dict[str, Any], files: dict[str, bytes], machine: tuple | None) -> tuple:
    """Compile a model on a Ray node; return ("done", printed text, package) or ("failed", reason).

    ``values`` are the arguments, in which FILE contains names of the model's ``files``; ``machine`` is the CPU to
    compile for if the target does not specify one."""
    from .compiler import compile_file

    args = argparse.Namespace(**values)
    target = target_from_cli(args.target or "llvm", reconstruct_target_args(args))[0]
    if machine is not None and _machine(target) != machine:
        return "failed", (
            f"the node {platform.node()} has another CPU than this machine ({machine[1]}); name the one "
            "to compile for, as in --target 'llvm -mcpu=...'"
        )
    said = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="tvm_farm_") as folder:
        for name, data in files.items():
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        package = Path(folder, "made", f"{Path(args.FILE[0]).stem}.tar")
        package.parent.mkdir()
        args.output = str(package)
        args.tuning_records = str(Path(folder, _RECORDS)) if _RECORDS in files else ""
        try:
            with contextlib.redirect_stdout(said):
                line = compile_file(args, ModelFiles(*(str(Path(folder, name)) for name in args.FILE)))
        except TVMError as problem:
            return "failed", str(problem).replace(f"{folder}{os.sep}", "")
        text = said.getvalue() + line.replace(f"{package.parent}{os.sep}", "")
        return "done", f"{text}, on {platform.node()}", package.read_bytes()


def _take(ray: Any, one: Any, model: ModelFiles, package: str, failed: list[str]) -> None:
    """Write the package of a model, or print why compiling it failed."""
    try:
        kind, text, *data = ray.get(one)
    except ray.exceptions.RayError as problem:
        kind, text, data = "failed", f"lost with its node: {str(problem).splitlines()[0]}", []
    if kind == "done":
        write_whole(package, lambda file: file.write(data[0]))
        print(text.replace(os.path.basename(package), package, 1), flush=True)
    else:
        failed.append(model.path)
        print(f"{model.path}: {text}", flush=True)


__all__ = ["Farm", "add_farm", "compile_here", "compile_many", "farm_of"]
