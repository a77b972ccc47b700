"""Models, their outputs in Python, and compiled programs for the tests of bundles."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.backend.bundle import export_bundle

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = Path(__file__).resolve().parent / "programs"
INCLUDE = ROOT / "csrc" / "include"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SUFFIXES = {"shared": "so", "static": "a", "c": "c"}
ROWS = 3


class Compiled(NamedTuple):
    """A compiled model, the arguments of ``export_bundle``, its inputs, and its outputs in Python."""

    model: Any
    options: dict[str, Any]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]

    def export(self, path: Path, kind: str = "shared", threads: bool = True) -> Any:
        """Write the bundle."""
        return export_bundle(self.model, path, kind, threads, **self.options)

    def save(self, folder: Path) -> None:
        """Write inputs and outputs as files for the programs."""
        for name, arrays in (("input", self.inputs), ("wanted", self.outputs)):
            for i, array in enumerate(arrays):
                (folder / f"{name}_{i}.bin").write_bytes(array.tobytes())

    def check(self, folder: Path) -> None:
        """Compare the files that a program wrote, bit for bit."""
        for i, wanted in enumerate(self.outputs):
            assert (folder / f"result_{i}.bin").read_bytes() == wanted.tobytes()


def small_module(rows: int | relay.Any, seed: int = 5) -> tvm.IRModule:
    """A convolution, a dense layer and a softmax on two inputs, with two outputs."""
    rng = np.random.default_rng(seed)

    def weight(*shape: int) -> relay.Constant:
        return relay.const(rng.standard_normal(shape).astype("float32"))

    x, y = relay.var("x", shape=(rows, 3, 7, 9)), relay.var("y", shape=(rows, 5))
    pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.nn.relu(relay.nn.conv2d(x, weight(4, 3, 3, 3)))))
    scores = relay.nn.softmax(relay.nn.dense(pooled, weight(5, 4)) + y)
    return tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple([scores, relay.exp(y)])))


def compile_static(
    mod: tvm.IRModule, inputs: list[np.ndarray], target: str = "llvm", name: str = "default"
) -> Compiled:
    """Compile a model with static shapes ahead of time; the graph executor gives the reference."""
    model = relay.build(mod, target, executor=relay.backend.Executor("aot"), mod_name=name)
    reference = relay.build(mod, target)
    runner = graph_executor.GraphModule(reference["default"](tvm.cpu()))
    runner.run(**{p.name_hint: value for p, value in zip(mod["main"].params, inputs, strict=True)})
    outputs = [runner.get_output(i).numpy() for i in range(runner.get_num_outputs())]
    return Compiled(model, {}, inputs, outputs)


def compile_dynamic(mod: tvm.IRModule, inputs: list[np.ndarray], target: str = "llvm") -> Compiled:
    """Compile a model for the virtual machine, which also gives the reference."""
    model = relay.vm.compile(mod, target)
    found = tvm.runtime.vm.VirtualMachine(model, tvm.cpu()).run(*map(tvm.nd.array, inputs))
    outputs = [found.numpy()] if isinstance(found, tvm.nd.NDArray) else [field.numpy() for field in found]
    return Compiled(model, {"ir_mod": mod}, inputs, outputs)


def small(engine: str, target: str = "llvm") -> Compiled:
    """Compile the small model for an engine: "static" or "dynamic"."""
    rng = np.random.default_rng(7)
    inputs = [rng.standard_normal(shape).astype("float32") for shape in ((ROWS, 3, 7, 9), (ROWS, 5))]
    if engine == "static":
        return compile_static(small_module(ROWS), inputs, target)
    return compile_dynamic(small_module(relay.Any()), inputs, target)


def compiler(name: str) -> str:
    """Return the path of a compiler, or skip the test."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def build_program(source: str, out: Path, *flags: str | Path) -> Path:
    """Compile a program of the folder ``programs``; a linked bundle is one of the flags."""
    is_c = source.endswith(".c")
    standard = ["-std=c11", "-D_GNU_SOURCE"] if is_c else ["-std=c++17"]
    command = [compiler("gcc" if is_c else "g++"), *standard, *WARNINGS, f"-I{INCLUDE}", str(PROGRAMS / source)]
    subprocess.run([*command, *map(str, flags), "-pthread", "-lm", "-ldl", "-o", str(out)], check=True)
    return out


def run(*command: object) -> str:
    """Run a program; an error shows its output."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


__all__ = ["Compiled", "build_program", "compile_dynamic", "compile_static", "compiler", "run", "small", "small_module"]
