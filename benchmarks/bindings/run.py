"""Measure calls from C++ and Rust beside the same calls in C (``python -m tools bench bindings``).

The model is one ReLU of 16 numbers: its run is little more than the calls themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tvm
from tvm import relay, runtime

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(runtime.find_library()).parent


def cpp(folder: Path) -> list[str]:
    """The command of the program in C++, which is compiled."""
    program = folder / "overhead"
    link = [f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}", "-ltvm_runtime"]
    source = Path(__file__).with_name("overhead.cpp")
    subprocess.run(["g++", "-std=c++17", "-O2", f"-I{ROOT / 'csrc/include'}", source, *link, "-o", program], check=True)
    return [str(program)]


def rust(folder: Path) -> list[str]:
    """The command of the program in Rust, which cargo compiles."""
    return ["cargo", "bench", "--offline", "--quiet", "--manifest-path", str(ROOT / "rust" / "Cargo.toml"),
            "--target-dir", str(folder / "target"), "--bench", "overhead", "--"]  # fmt: skip


def main() -> int:
    """Print a line for each language and call."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x = relay.var("x", shape=(1, 16))
        library = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))), "llvm")
        library.export_library(folder / "model.so")
        environment = {**os.environ, "TVM_LIBRARY_PATH": str(LIBRARY)}
        for language, command in (("C++", cpp), ("Rust", rust)):
            words = [*command(folder), str(folder / "model.so")]
            done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            for line in done.stdout.splitlines():
                call, c, ours = line.rsplit(" ", 2)
                print(f"{language:4} {call:30} {float(ours):7.1f} ns, in C {float(c):7.1f} ns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
