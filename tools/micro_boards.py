"""Run int8 models on emulated boards, compare their outputs with this machine, and write the table of docs/micro.md.

    python -m tools micro [--only TEXT] [--models FOLDER]

Each model is compiled ahead of time to C with ``-std=c99 -Wall -Wextra -Werror -ffreestanding``. The sizes are those of
the object files (``size``, ``nm``): the runtime is the request loop, the platform functions and the start of the board.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tvm  # noqa: E402
from tvm import micro, relay  # noqa: E402
from tvm.relay.backend import Executor, Runtime  # noqa: E402

PAGE = ROOT / "docs" / "micro.md"
MARK = "<!-- table: written by python -m tools micro -->"
HOST = ("host", "")
BOARDS = [("qemu_cortex_m", board) for board in ("mps2-an385", "mps2-an386", "mps2-an521", "mps3-an547")]
BOARDS += [("qemu_riscv", board) for board in ("rv32", "rv64")]
SIZE_TOOLS = {"qemu_cortex_m": "arm-none-eabi-", "qemu_riscv": "riscv64-unknown-elf-"}


class Row(NamedTuple):
    """The measurement of a model on a board; sizes are in bytes. ``error`` replaces the numbers."""

    model: str
    board: str
    is_equal: bool = False
    runtime_code: int = 0
    model_rom: int = 0
    plan: int = 0
    ram: int = 0
    error: str = ""


# Models ---------------------------------------------------------------------------------------------------------------


def from_tflite(name: str) -> Callable[[Path], Any]:
    def load(models: Path) -> Any:
        data = (models / "formats" / "mlperf_tiny" / name).read_bytes()
        return relay.frontend.from_tflite(data)

    return load


def _weights(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return relay.const(rng.integers(-127, 128, shape).astype("int8"))


def _scaled(x: Any, reduction: int) -> Any:
    """The int8 activation of an int32 sum: requantized so that values use most of the range, then clipped at 0."""
    scale, zero = relay.const(np.float32(1)), relay.const(0)
    out = relay.qnn.op.requantize(x, scale, zero, relay.const(np.float32(40 * reduction**0.5)), zero, out_dtype="int8")
    return relay.maximum(out, relay.const(np.int8(0)))


def anomaly_detection(models: Path) -> Any:
    """The autoencoder of MLPerf Tiny with random weights: dense layers of 128, 8 and 128 units."""
    rng = np.random.default_rng(0)
    x = value = relay.var("x", shape=(1, 640), dtype="int8")
    zero, one = relay.const(0), relay.const(np.float32(1))
    last = 640
    for units in (128, 128, 128, 128, 8, 128, 128, 128, 128, 640):
        value = relay.qnn.op.dense(value, _weights(rng, (units, last)), zero, zero, one, one, units)
        value, last = _scaled(value, last), units
    return tvm.IRModule.from_expr(relay.Function([x], value)), {}


def visual_wake_words(models: Path) -> Any:
    """The MobileNetV1 of MLPerf Tiny (width 0.25, 96x96) with random weights."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 96, 96, 3), dtype="int8")
    zero, one = relay.const(0), relay.const(np.float32(1))

    def convolution(value: Any, kernel: int, stride: int, channels: int, last: int, groups: int = 1) -> Any:
        before = kernel // 2 if stride == 1 else 0
        shape = (kernel, kernel, channels, 1) if groups > 1 else (kernel, kernel, last, channels)
        out = relay.qnn.op.conv2d(
            value, _weights(rng, shape), zero, zero, one, one, (kernel, kernel), channels, (stride, stride),
            (before, before, kernel // 2, kernel // 2), (1, 1), groups, "NHWC", "HWOI" if groups > 1 else "HWIO",
        )  # fmt: skip
        return _scaled(out, kernel * kernel * (1 if groups > 1 else last))

    value, last = convolution(x, 3, 2, 8, 3), 8
    blocks = [(1, 16), (2, 32), (1, 32), (2, 64), (1, 64), (2, 128), *[(1, 128)] * 5, (2, 256), (1, 256)]
    for stride, channels in blocks:
        value = convolution(value, 3, stride, last, last, last)
        value, last = convolution(value, 1, 1, channels, last), channels
    value = relay.nn.avg_pool2d(relay.cast(value, "int32"), (3, 3), layout="NHWC")
    value = relay.reshape(relay.cast(value, "int8"), (1, 256))
    return tvm.IRModule.from_expr(relay.Function([x], relay.qnn.op.dense(
        value, _weights(rng, (2, 256)), zero, zero, one, one, 2))), {}  # fmt: skip


MODELS: dict[str, Callable[[Path], Any]] = {
    "keyword spotting (MLPerf Tiny)": from_tflite("kws_ref_model.tflite"),
    "ResNet-8 (MLPerf Tiny)": from_tflite("pretrainedResnet_quant.tflite"),
    "anomaly detection (random weights)": anomaly_detection,
    "visual wake words (random weights)": visual_wake_words,
}


# Measurement ----------------------------------------------------------------------------------------------------------


def _output(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def _rom(prefix: str, paths: list[Path]) -> int:
    """Bytes of code, constants and initial values in object files."""
    rows = [line.split() for line in _output(f"{prefix}size", *map(str, paths))[1:]]
    return sum(int(text) + int(data) for text, data, *_ in rows)


def _ram(prefix: str, paths: list[Path]) -> int:
    """Bytes of variables in object files."""
    rows = [line.split() for line in _output(f"{prefix}nm", "-S", "--defined-only", *map(str, paths))]
    return sum(int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "bBdDcC")


def run_model(archive: Path, platform: str, board: str, inputs: dict[str, Any]) -> tuple[Any, tuple]:
    """The outputs of a model on a board, and the sizes (runtime code, model, RAM of the model)."""
    options = {"board": board} if board else {}
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        project = Path(folder, "project")
        template = micro.get_microtvm_template_projects(platform)
        with micro.generate_project_from_mlf(template, project, archive, options) as made:
            made.options = {"warning_as_error": True}
            made.build()
            run = micro.run_project(made, inputs)
        objects = sorted((project / "build").glob("*.o"))
        own = [path for path in objects if path.stem.startswith("src_") and "lib" in path.stem]
        entry = [path for path in objects if path.stem == "src_model_entry"]
        runtime = [path for path in objects if path not in own + entry]
        prefix = SIZE_TOOLS.get(platform, "")
        return run, (_rom(prefix, runtime), _rom(prefix, own), _ram(prefix, own + entry))


def measure(name: str, load: Callable[[Path], Any], models: Path) -> list[Row]:
    """The rows of a model."""
    loaded = load(models)
    module, params = loaded[0], loaded[1]
    executor = Executor("aot", {"interface-api": "c", "unpacked-api": True})
    with tvm.transform.PassContext(opt_level=3), tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        built = relay.build(module, "c", params=params, executor=executor, runtime=Runtime("crt"))
        archive = micro.export_model_library_format(built, Path(folder, "model.tar"), timestamp=0)
        interface = built.plain_model.interface
        rng = np.random.default_rng(0)
        inputs = {t.name: _values(rng, t) for t in interface.inputs}
        plan = sum(t.nbytes for t in (*interface.inputs, *interface.outputs)) + interface.workspace_bytes
        expected, _ = run_model(archive, *HOST, inputs)
        rows: list[Row] = []
        for platform, board in BOARDS:
            try:
                found, sizes = run_model(archive, platform, board, inputs)
            except tvm.TVMError as problem:
                rows.append(Row(name, board, error=" ".join(str(problem).split())[-160:]))
            else:
                is_equal = all(np.array_equal(found[key], value) for key, value in expected.items())
                rows.append(Row(name, board, is_equal, sizes[0], sizes[1], plan, sizes[2]))
            print(rows[-1], f"{len(np.unique(next(iter(expected.values()))))} values", flush=True)
    return rows


def _values(rng: np.random.Generator, tensor: Any) -> np.ndarray:
    dtype = tensor.type.dtype
    if dtype.startswith("float"):
        return rng.normal(size=tensor.shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, tensor.shape, dtype=dtype, endpoint=True)


def table(rows: list[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = ["| model | board | outputs equal those of the host | runtime code (B) | model code and constants (B) | "
             "RAM planned (B) | RAM in object files (B) |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        if row.error:
            lines.append(f"| {row.model} | {row.board} | error: {row.error.replace('|', '/')} | | | | |")
        else:
            equal = "yes" if row.is_equal else "no"
            numbers = (row.runtime_code, row.model_rom, row.plan, row.ram)
            lines.append(f"| {row.model} | {row.board} | {equal} | {' | '.join(f'{n:,}' for n in numbers)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run int8 models on emulated boards.")
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose name contains this text")
    parser.add_argument("--models", default=str(ROOT.parent / "shared" / "models"), metavar="FOLDER",
                        help="folder of the models")  # fmt: skip
    args = parser.parse_args()
    rows = [row for name, load in MODELS.items() if args.only in name for row in measure(name, load, Path(args.models))]
    print(table(rows))
    if not args.only:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
        after = rest.partition("<!-- end of table -->")[2]
        PAGE.write_text(f"{before}{MARK}\n{table(rows)}\n<!-- end of table -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
