"""Compile a model for another platform, and run it there with a C program that uses the runtime library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

PROGRAM = Path(__file__).resolve().with_suffix(".c")
INCLUDE = PROGRAM.parent.parent / "csrc" / "include"
_TRIPLES = {"windows-gnu": "pc-windows-gnu", "macos": "apple-macosx", "linux-gnu": "unknown-linux-gnu"}


def triple_of(target: str) -> str:
    """Return LLVM's triple for a target of zig, such as aarch64-macos.11.0."""
    machine, system = target.split("-", 1)
    system, _, version = system.partition(".")
    return f"{machine}-{_TRIPLES[system]}{version if system == 'macos' else ''}"


def weights() -> np.ndarray:
    import numpy as np

    return np.random.default_rng(7).standard_normal((8, 16)).astype("float32")


def export(target: str, path: Path) -> None:
    """Write the library of a small model."""
    import tvm
    from tvm import relay

    x, w = relay.var("x", shape=(1, 16)), relay.var("w", shape=(8, 16))
    model = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.softmax(relay.tanh(relay.nn.dense(x, w)))))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(model, target=f"llvm -mtriple={triple_of(target)}", params={"w": weights()})
    library.export_library(path)


def run(target: str, library: Path, emulator: list[str]) -> float:
    """Compile the program, run the model, and return the largest error beside NumPy.

    Raises
    ------
    RuntimeError
        The program failed.
    """
    import numpy as np

    folder = library.parent
    model, program = folder / f"model{library.suffix}", folder / "platform_model.exe"
    export(target, model)
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        target,
        "-O2",
        f"-I{INCLUDE}",
        "-o",
        program,
        PROGRAM,
        library,
    ]
    subprocess.run([*map(str, command), *([f"-Wl,-rpath,{folder}"] if library.suffix == ".so" else [])], check=True)
    done = subprocess.run([*emulator, str(program), str(model)], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the model failed with status {done.returncode}: {done.stderr[-2000:]}")
    powers = np.exp(np.tanh(weights() @ (np.arange(16, dtype="float32") / 16)))
    return float(np.abs(np.array(done.stdout.split(), "float32") - powers / powers.sum()).max())
