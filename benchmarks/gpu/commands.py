"""The commands of a user, on the device of this machine: packages compiled where no device is visible, tuning, and
candidates measured from a folder; all outputs are compared with the CPU.

    python -m benchmarks.gpu.commands [--target cuda] [--trials 24] [--seconds 25]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np

import tvm

MODEL = os.path.join(os.path.dirname(__file__), "..", "..", "demo", "mobilenet_v2.onnx")
INPUT, SHAPE = "data", (1, 3, 224, 224)
# With these variables, the driver is present but no device is visible.
UNSEEN = {"CUDA_VISIBLE_DEVICES": "", "OCL_ICD_VENDORS": os.devnull}
DEVICES = {"cuda": "cuda", "opencl": "cl"}
ERROR = 1e-4


class Commands:
    """Runs commands in a folder, and stops at the first failure."""

    def __init__(self, folder: str, target: str):
        self.folder = folder
        kind = target.split()[0]
        self.device = DEVICES[kind]
        # A complete target: where the device is not visible, its properties cannot be queried.
        self.target = f"{tvm.target.Target(target)}"
        # Modules that this program can import must be importable from any folder.
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}

    def python(self, *arguments: str, **environment: str) -> str:
        begin = time.monotonic()
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, env={**self.environment, **environment}, cwd=self.folder, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)  # fmt: skip
        said = f"{' '.join(arguments[:2])} ... {' '.join(arguments[-2:])}"
        print(f"{time.monotonic() - begin:5.1f} s  {said}", flush=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\nexit code {done.returncode}:\n{done.stdout}{done.stderr}"[-4000:])
        return done.stdout

    def compile(self, package: str, *options: str, target: str = "", **environment: str) -> None:
        self.python("tvm.driver.tvmc", "compile", MODEL, "--target", target or self.target, "--input-shapes",
                    "data:[1,3,224,224]", *options, "-o", package, **environment)  # fmt: skip

    def output(self, package: str, device: str) -> np.ndarray:
        self.python("tvm.driver.tvmc", "run", package, "--device", device, "--inputs", "inputs.npz", "-o", "out.npz")
        with np.load(os.path.join(self.folder, "out.npz")) as found:
            return found[found.files[0]].astype("float64")


def compare(what: str, got: np.ndarray, wanted: np.ndarray) -> None:
    error = float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))
    print(f"{what}: {error:.1e} from the CPU", flush=True)
    if not error <= ERROR:
        raise SystemExit(f"{what}: the outputs of the device and the CPU differ")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--trials", type=int, default=24, help="number of candidates built into the folder")
    parser.add_argument("--seconds", type=int, default=25, help="time limit of tuning")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="tvm-gpu-") as folder:
        run = Commands(folder, arguments.target)
        picture = np.random.default_rng(0).standard_normal(SHAPE, dtype="float32")
        np.savez(os.path.join(folder, "inputs.npz"), **{INPUT: picture})
        run.compile("cpu.tar", target="llvm")
        wanted = run.output("cpu.tar", "cpu")
        run.compile("package.tar", **UNSEEN)
        compare("a package made where no device is seen", run.output("package.tar", run.device), wanted)
        run.python("tvm.driver.tvmc", "tune", MODEL, "--target", run.target, "--trials", str(arguments.trials),
                   "--min-repeat-ms", "20", "--build-only", "candidates", **UNSEEN)  # fmt: skip
        print(run.python("tvm.runtime.measure_files", "candidates").strip().splitlines()[-1])
        records = os.path.join("candidates", "records.json")
        run.compile("folder.tar", "--tuning-records", records, **UNSEEN)
        compare("with records of a folder", run.output("folder.tar", run.device), wanted)
        run.python("tvm.driver.tvmc", "tune", MODEL, "--target", run.target, "--time-budget", f"{arguments.seconds}s",
                   "--min-repeat-ms", "20", "-o", "tuned.json")  # fmt: skip
        run.compile("tuned.tar", "--tuning-records", "tuned.json")
        compare("after tuning", run.output("tuned.tar", run.device), wanted)


if __name__ == "__main__":
    main()
