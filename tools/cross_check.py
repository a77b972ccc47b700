"""Compile models for other machines, run them there in the C server under qemu-user, and compare with this machine's
outputs.

A machine is left out, with a line that gives the reason, if its emulator, C library or compiler is missing. Writes the
table in docs/cross_tests.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# The folder in which tests find models, too.
MODELS = Path(os.environ.get("TVM_TEST_MODELS") or ROOT.parent / "shared" / "models")
TABLE = ROOT / "docs" / "cross_tests.md"
HEAD = """# Models on other machines

This page lists models that run on Arm, RISC-V and x86 boards, for users who cross-compile. `python -m tools test
cross` writes the table: each model is compiled here for the machine, run there by `tvm_rpc_server` under qemu-user,
and compared with the output of this machine's own code. The difference is that of the worst output, relative to the
largest one. A run of some machines (`--only`) or models (`--models`) renews only their rows.

"""
# The largest difference, relative to the largest element, that a different order of reductions alone causes.
TOLERANCE = 1e-5
MODEL_NAMES = ("MobileNetV2", "ResNet-18", "MobileNetV2 int8")
MODEL_ROWS = tuple(f"| {name} |" for name in MODEL_NAMES)


class Machine(NamedTuple):
    """A machine: its target, the prefix of its compilers, and its options in qemu."""

    target: str
    triple: str
    emulator: str
    options: tuple[str, ...] = ()


MACHINES = {
    "aarch64, Cortex-A72": Machine(
        "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", "aarch64-linux-gnu", "aarch64", ("-cpu", "cortex-a72")
    ),
    "aarch64, Neoverse-N1": Machine(
        "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "aarch64-linux-gnu", "aarch64", ("-cpu", "neoverse-n1")
    ),
    "aarch64, Neoverse-V1": Machine(
        "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1", "aarch64-linux-gnu", "aarch64", ("-cpu", "max")
    ),
    "armv7, rasp3b": Machine(
        "llvm -device=arm_cpu -model=bcm2837 -mtriple=armv7l-linux-gnueabihf -mattr=+neon",
        "arm-linux-gnueabihf", "arm", ("-cpu", "max"),
    ),
    "riscv64": Machine("llvm -mtriple=riscv64-linux-gnu", "riscv64-linux-gnu", "riscv64", ("-cpu", "rv64")),
    "riscv64 with V": Machine(
        "llvm -mtriple=riscv64-linux-gnu -mattr=+v", "riscv64-linux-gnu", "riscv64", ("-cpu", "rv64,v=true,vlen=128")
    ),
    "x86-64, Haswell": Machine(
        "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", "x86_64-linux-gnu", "x86_64", ("-cpu", "Haswell")
    ),
}  # fmt: skip


def load_model(name: str):
    from tvm import relay
    from tvm.relay import testing

    if name == "ResNet-18":
        return testing.resnet.get_workload(num_layers=18, batch_size=1)
    import onnx

    files = {"MobileNetV2": "imagenet/mobilenet_v2.onnx", "MobileNetV2 int8": "onnx/mobilenet_v2_int8_qdq.onnx"}
    model = onnx.load(MODELS / files[name])
    given = model.graph.input[0]
    shape = [dim.dim_value or 1 for dim in given.type.tensor_type.shape.dim]
    return relay.frontend.from_onnx(model, shape={given.name: shape}, freeze_params=True)


def build(mod, params, target: str):
    import tvm
    from tvm import relay

    with tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, target=target, params=params)


def run(library, device, inputs) -> list:
    from tvm.contrib import graph_executor

    model = graph_executor.GraphModule(library["default"](device))
    model.run(**inputs)
    return [model.get_output(i).numpy() for i in range(model.get_num_outputs())]


def command_of(machine: Machine, sysroots: Path) -> list[str] | str:
    """Return the command that starts a program of the machine here, or the reason why there is none."""
    name = f"qemu-{machine.emulator}"
    emulator = shutil.which(name) or shutil.which(f"{name}-static")
    if emulator is None:
        return f"qemu-{machine.emulator} is missing (Debian: apt install qemu-user)"
    from tvm.runtime import host_cpu

    libraries = Path("/") if host_cpu.runs(machine.triple) else sysroots / machine.triple
    if not (libraries / "lib").is_dir():
        return f"there is no C library in {libraries} (Debian: apt install libc6-dev-ARCH-cross; or SYSROOTS=)"
    made = subprocess.run(
        ["make", "-s", "-C", str(ROOT / "csrc"), "lib", f"CROSS={machine.triple}", f"PYTHON={sys.executable}"],
        capture_output=True, text=True, env={k: v for k, v in os.environ.items() if k != "OUT"},
    )  # fmt: skip
    if made.returncode:
        return made.stderr.strip().splitlines()[-1]
    server = ROOT / "csrc" / "build" / machine.triple / "tvm_rpc_server"
    return [emulator, *machine.options, "-L", str(libraries), str(server)]


@contextlib.contextmanager
def session(command: list[str]) -> Iterator:
    """Return a session with the server that ``command`` starts."""
    from tvm import rpc

    server = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        # The emulator may print warnings before the server's first line.
        ports = (re.search(r"bind to \S+:(\d+)", line) for line in server.stderr)
        port = next(filter(None, ports), None)
        if port is None:
            raise RuntimeError(f"{command[0]} exited before the server started")
        yield rpc.connect("127.0.0.1", int(port[1]))
    finally:
        server.terminate()
        server.wait()


def check(model: str, names: list[str], commands: dict[str, list[str]]) -> list[str]:
    """Return the table rows of a model on some machines."""
    import numpy as np

    import tvm

    mod, params = load_model(model)
    free = [p for p in mod["main"].params if p.name_hint not in params]
    rng = np.random.default_rng(0)
    inputs = {
        p.name_hint: rng.standard_normal([int(n) for n in p.type_annotation.shape]).astype(p.type_annotation.dtype)
        for p in free
    }
    (want,) = run(build(mod, params, "llvm"), tvm.cpu(), inputs)
    rows = []
    for name in names:
        began = time.time()
        library = build(mod, params, MACHINES[name].target)
        with tempfile.TemporaryDirectory(prefix="tvm-cross-") as folder, session(commands[name]) as remote:
            library.export_library(path := os.path.join(folder, "model.so"))
            seconds = time.time() - began
            remote.upload(path)
            (found,) = run(remote.load_module("model.so"), remote.cpu(), inputs)
        scale = float(np.abs(want).max())
        worst = float(np.abs(found.astype("float64") - want).max()) / scale
        same = int(found.argmax()) == int(want.argmax())
        verdict = "same" if worst <= TOLERANCE and same else "DIFFERENT"
        rows.append(f"| {model} | {name} | {seconds:.0f} | {worst:.1e} | {verdict} |")
        print(rows[-1], flush=True)
    return rows


def on_machine(target: str, remote, path: str):
    """Return a function that computes a graph on the machine of a session."""

    def compute(mod, inputs):
        build(mod, {}, target).export_library(path)
        remote.upload(path)
        return run(remote.load_module(os.path.basename(path)), remote.cpu(), inputs)[0]

    return compute


def check_operators(names: list[str], commands: dict[str, list[str]], count: int, seed: int) -> list[str]:
    """Return lines about a sample of operators on some machines, each compared with NumPy."""
    import cross_ops

    known, lines = cross_ops.cases(), []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="tvm-cross-") as folder, session(commands[name]) as remote:
            for number, operator in enumerate(cross_ops.sample(list(known), count, seed)):
                compute = on_machine(MACHINES[name].target, remote, os.path.join(folder, f"operator{number}.so"))
                worst = cross_ops.difference(known[operator], compute, seed)
                is_same = worst == 0 if known[operator].exact else worst <= TOLERANCE
                lines.append(f"{operator} on {name}: {worst:.1e} {'same' if is_same else 'DIFFERENT'}")
                print(lines[-1], flush=True)
    return lines


def place(row: str) -> tuple[int, int]:
    """Return the sort key of a row: by model, then by machine in the order of this program."""
    model, machine = (cell.strip() for cell in row.split("|")[1:3])
    return MODEL_NAMES.index(model), list(MACHINES).index(machine)


def write_table(rows: list[str]) -> None:
    """Write rows into the table in place of older ones, so that a run of some machines or models updates its part."""
    known = {place(line): line for line in TABLE.read_text().splitlines() if line.startswith(MODEL_ROWS)}
    known |= {place(row): row for row in rows}
    columns = "| model | machine | seconds to compile and link | difference | result |\n|---|---|---|---|---|\n"
    TABLE.write_text(HEAD + columns + "\n".join(known[key] for key in sorted(known)) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sysroots", type=Path, default=Path("/usr"), help="folder of the C libraries by triple")
    parser.add_argument("--models", default=",".join(MODEL_NAMES))
    parser.add_argument("--only", default="", help="machine of this name, or those with this text in it")
    parser.add_argument("--ops", type=int, default=0, help="compare this many operators with NumPy instead")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86400, help="seed of --ops (default: the day)")
    args = parser.parse_args()
    commands, left_out = {}, []
    asked = [args.only] if args.only in MACHINES else [name for name in MACHINES if args.only in name]
    for name in asked:
        command = command_of(MACHINES[name], args.sysroots)
        if isinstance(command, str):
            left_out.append(f"{name}: {command}")
        else:
            commands[name] = command
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if args.ops:
        rows = check_operators(list(commands), commands, args.ops, args.seed)
    else:
        rows = [row for model in args.models.split(",") for row in check(model, list(commands), commands)]
        write_table(rows)
    return 1 if not rows or any("DIFFERENT" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
