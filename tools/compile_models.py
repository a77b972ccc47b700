"""Compile every model in a folder with ``tvmc compile`` and no shape options: dynamic dimensions stay dynamic.

    python tools/compile_models.py FOLDER [PATTERN ...]

Prints a line for each model: seconds and the executor, or the error. The exit code is 1 if a model does not compile.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# For a model of several files, tvmc takes this file, or the folder.
SUFFIXES = (".onnx", ".jit", ".tflite", ".h5", ".pdmodel", ".cfg", ".prototxt", ".dnn", ".cmf")
FOLDERS = {"saved_model.pb", "Manifest.json"}


def models(folder: Path) -> list[Path]:
    """Return the argument of tvmc compile for each model below a folder."""
    found = {path for path in folder.rglob("*") if path.suffix in SUFFIXES}
    found |= {path.parent for path in folder.rglob("*") if path.name in FOLDERS}
    found |= {path for path in folder.rglob("*.pb") if path.name not in {*FOLDERS, "init_net.pb"}}
    return sorted(found)


def compile_one(path: Path, seconds: int) -> tuple[bool, str]:
    """Return whether a model compiles, and the last line of the output."""
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", "tvm.driver.tvmc", "compile", str(path), "--target", "llvm", "--output",
                   os.path.join(made, "model.tar")]  # fmt: skip
        start = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return False, f"not in {seconds} s"
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        took = f"{time.perf_counter() - start:.0f} s"
        return done.returncode == 0, f"{took}, {lines[-1] if lines else 'nothing said'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs="*", help="compile only models whose name contains one of these texts")
    parser.add_argument("--seconds", type=int, default=300, help="time limit of a model")
    options = parser.parse_args()
    failed = 0
    for path in models(options.folder):
        name = str(path.relative_to(options.folder))
        if options.patterns and not any(pattern in name for pattern in options.patterns):
            continue
        works, said = compile_one(path, options.seconds)
        failed += not works
        print(f"{'ok  ' if works else 'FAIL'} {name}: {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
