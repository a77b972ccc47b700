"""Everything on a machine with a GPU, built, checked and timed in one call of a few minutes.

    python -m benchmarks.gpu [--only models,matmul] [--output FOLDER] [--limit 560] [--plan]

Parts: tests (every operator test on the device), numbers (kernels compute what they do on the emulator; tests of the
runtime), sanitize (compute-sanitizer's memcheck and racecheck on a sample), refusals, guide (the Relay quick start word
for word), commands (tvmc: packages, tuning, a folder of candidates), models (six, float32 and float16, beside PyTorch),
matmul (four types, beside cuBLAS), operators, tuning; and search (all configurations of a large product), which is only
run where it is chosen.
Programs compile side by side on all cores; checks come first; then each program has the GPU to itself while it times.
The folder has ``results.json``, ``results.md`` and what every program said.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from ..harness import commit, save
from .jobs import Machine
from .plan import PARTS, USUAL, Choice, plan
from .report import collect, is_good, tables


def device_of(target: str) -> tuple[str, str]:
    """The device's name and architecture; nothing where it is not there."""
    import tvm

    device = tvm.device(target.split()[0], 0)
    return (str(device.device_name), str(device.compute_version)) if device.exist else ("", "")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(USUAL), metavar="PARTS", help="parts with commas")
    parser.add_argument("--output", default="gpu_results", help="the folder for results (default: gpu_results)")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=float, default=560.0, help="seconds after which all is stopped (default: 560)")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of a model (default: 100)")
    parser.add_argument("--tune-seconds", type=float, default=40.0)
    parser.add_argument("--profile", action="store_true", help="show the slowest kernels of each model")
    parser.add_argument("--plan", action="store_true", help="print what would be run")
    arguments = parser.parse_args(argv)
    parts = arguments.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"--only: there is no part '{unknown[0]}'; there are {', '.join(PARTS)}")
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
        print(f"there is no device for '{arguments.target}' here", file=sys.stderr)
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
    return 0 if is_good(results) else 1


if __name__ == "__main__":
    sys.exit(main())
