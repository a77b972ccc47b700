"""Build, check and time everything on a machine with a GPU, in one call of a few minutes.

    python -m benchmarks.gpu [--only models,matmul] [--output FOLDER] [--limit 560] [--plan]

Parts: tests (every operator test on the device), numbers (kernels compute the same as on the emulator; tests of the
runtime), sanitize (compute-sanitizer's memcheck and racecheck on a sample), refusals (errors for exceeded limits),
guide (the Relay quick start verbatim), commands (tvmc: packages, tuning, a folder of candidates), models (six, float32
and float16, beside PyTorch), matmul (four types, beside cuBLAS), operators, tuning; and search (all configurations of a
large matmul), which runs only if it is selected.

Programs compile side by side on all cores. Checks run first; then each program has the GPU to itself while it times.
The folder gets ``results.json``, ``results.md`` and the output of every program.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from .. import result_file
from ..harness import commit, save
from .jobs import Machine
from .plan import PARTS, USUAL, Choice, plan
from .report import collect, is_good, result_rows, tables


def device_of(target: str) -> tuple[str, str]:
    """Return the device's name and architecture, or "" if there is no device."""
    import tvm

    device = tvm.device(target.split()[0], 0)
    return (str(device.device_name), str(device.compute_version)) if device.exist else ("", "")


def record(machine: str, results: dict[str, Any], folder: Path = result_file.FOLDER) -> None:
    """Write result files of models and matmuls, if the run measured them."""
    models, matmuls = result_rows(results)
    versions = result_file.installed({"PyTorch": "torch"})
    for question, rows, unit, method in (
        ("gpu-models", models, "ms", "batch 1, no tuning; both replay a captured graph; interleaved rounds"),
        ("gpu-matmul", matmuls, "TFLOPS", "each matmul is waited for"),
    ):
        if rows:
            result_file.record(
                machine, question, rows, unit=unit, method=method, versions=versions, folder=folder,
                command=f"python -m benchmarks.gpu --target {results['target'].split()[0]}",
            )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(USUAL), metavar="PARTS", help="comma-separated parts")
    parser.add_argument("--output", default="gpu_results", help="folder for results (default: gpu_results)")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=float, default=560.0, help="time limit of everything (default: 560)")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of a model (default: 100)")
    parser.add_argument("--tune-seconds", type=float, default=40.0)
    parser.add_argument("--profile", action="store_true", help="print the slowest kernels of each model")
    parser.add_argument("--plan", action="store_true", help="print the programs and exit")
    result_file.add_option(parser)
    arguments = parser.parse_args(argv)
    parts = arguments.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"--only: unknown part '{unknown[0]}'; known: {', '.join(PARTS)}")
    folder = os.path.abspath(arguments.output)
    name, architecture = device_of(arguments.target)
    choice = Choice(folder, arguments.target, architecture, arguments.cores, arguments.rounds, arguments.tune_seconds,
                    arguments.profile)  # fmt: skip
    jobs = plan(choice, parts)
    if arguments.plan:
        for job in jobs:
            text = job.missing or " ".join([*(f"{k}={v}" for k, v in job.environment.items()), *job.command])
            print(f"{job.name} ({job.cores} cores, {job.seconds:.0f} s): {text}")
        return 0
    if not name:
        print(f"this machine has no device for the target '{arguments.target}'", file=sys.stderr)
        return 2
    os.makedirs(folder, exist_ok=True)
    begin = time.monotonic()
    outcomes = Machine(jobs, folder, arguments.cores, arguments.limit, lambda text: print(text, flush=True)).run()
    facts = {"device": name, "target": arguments.target, "commit": commit(), "cores": arguments.cores,
             "date": time.strftime("%Y-%m-%d"), "seconds": round(time.monotonic() - begin, 1)}  # fmt: skip
    results = collect(folder, facts, outcomes)
    save(os.path.join(folder, "results.json"), results)
    text = tables(results)
    with open(os.path.join(folder, "results.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text)
    record(arguments.record, results)
    return 0 if is_good(results) else 1


if __name__ == "__main__":
    sys.exit(main())
