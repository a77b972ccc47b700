"""Run int8 models on emulated boards, compare their outputs with this machine, and write the table of docs/micro.md.

    python -m tools micro [--only TEXT] [--models FOLDER] [--peer PYTHON]

Each model is compiled ahead of time to C for the processor of each board, with ``-std=c99 -Wall -Wextra -Werror
-ffreestanding``. The sizes are those of the object files (``size``, ``nm``): the runtime is the request loop, the
platform functions and the start of the board. On Cortex-M, qemu counts the instructions of a run. With ``--peer``, the
interpreter PYTHON, which has the package tflite-micro, also runs the models that are .tflite files.
"""

from __future__ import annotations

import argparse
import re
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
# The platform, the name and the target of each board.
BOARDS = [
    ("qemu_cortex_m", "mps2-an385", "c -mcpu=cortex-m3"),
    ("qemu_cortex_m", "mps2-an386", "c -mcpu=cortex-m4"),
    ("qemu_cortex_m", "mps2-an521", "c -mcpu=cortex-m33+nodsp"),
    ("qemu_cortex_m", "mps3-an547", "c -mcpu=cortex-m55"),
    ("qemu_riscv", "rv32", "c"),
    ("qemu_riscv", "rv64", "c"),
]
PEER_MARK = "<!-- peer: written by python -m tools micro --peer PYTHON -->"
SIZE_TOOLS = {"qemu_cortex_m": "arm-none-eabi-", "qemu_riscv": "riscv64-unknown-elf-"}


class Row(NamedTuple):
    """The measurement of a model on a board; sizes are in bytes, ``instructions`` in millions (0: not counted).
    ``error`` replaces the numbers."""

    model: str
    board: str
    is_equal: bool = False
    instructions: float = 0.0
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


def mobilenet(models: Path) -> Any:
    """MobileNetV2 from ONNX: float32 images of 244x244 pixels, quantized inside."""
    import onnx

    model = onnx.load(str(models / "onnx" / "mobilenet_v2_int8_qdq.onnx"))
    return relay.frontend.from_onnx(model, shape={"image": (1, 3, 244, 244)})


TFLITE_FILES = {
    "keyword spotting (MLPerf Tiny)": "kws_ref_model.tflite",
    "ResNet-8 (MLPerf Tiny)": "pretrainedResnet_quant.tflite",
}
MODELS: dict[str, Callable[[Path], Any]] = {
    **{name: from_tflite(file) for name, file in TFLITE_FILES.items()},
    "anomaly detection (random weights)": anomaly_detection,
    "visual wake words (random weights)": visual_wake_words,
    "MobileNetV2 (ONNX)": mobilenet,
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
    module, params = load(models)[:2]
    executor = Executor("aot", {"interface-api": "c", "unpacked-api": True})
    rows: list[Row] = []
    with tvm.transform.PassContext(opt_level=3), tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        for number, target in enumerate(dict.fromkeys(target for _, _, target in BOARDS)):
            built = relay.build(module, target, params=params, executor=executor, runtime=Runtime("crt"))
            path = Path(folder, f"model{number}.tar")
            archive = Path(micro.export_model_library_format(built, path, timestamp=0))
            rows += _on_boards(name, built.plain_model.interface, archive, target)
    order = [board for _, board, _ in BOARDS]
    return sorted(rows, key=lambda row: order.index(row.board))


def _on_boards(name: str, interface: Any, archive: Path, target: str) -> list[Row]:
    """The rows of a model on the boards with a target."""
    rng = np.random.default_rng(0)
    inputs = {t.name: _values(rng, t) for t in interface.inputs}
    plan = sum(t.nbytes for t in (*interface.inputs, *interface.outputs)) + interface.workspace_bytes
    expected = run_model(archive, *HOST, inputs)[0].outputs
    rows: list[Row] = []
    for platform, board, _ in (entry for entry in BOARDS if entry[2] == target):
        try:
            run, sizes = run_model(archive, platform, board, inputs)
        except tvm.TVMError as problem:
            rows.append(Row(name, board, error=" ".join(str(problem).split())[-160:]))
        else:
            is_equal = all(np.array_equal(run.outputs[key], value) for key, value in expected.items())
            # One instruction takes a nanosecond of the clock of the emulated Cortex-M boards.
            millions = run.seconds * 1e3 if platform == "qemu_cortex_m" else 0.0
            rows.append(Row(name, board, is_equal, millions, sizes[0], sizes[1], plan, sizes[2]))
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
    lines = ["| model | board | outputs equal those of the host | instructions (million) | runtime code (B) | "
             "model code and constants (B) | RAM planned (B) | RAM in object files (B) |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        if row.error:
            lines.append(f"| {row.model} | {row.board} | error: {row.error.replace('|', '/')} | | | | | |")
        else:
            equal, count = "yes" if row.is_equal else "no", f"{row.instructions:.1f}" if row.instructions else ""
            numbers = (row.runtime_code, row.model_rom, row.plan, row.ram)
            lines.append(f"| {row.model} | {row.board} | {equal} | {count} | {' | '.join(f'{n:,}' for n in numbers)} |")
    return "\n".join(lines)


# The interpreter of tflite-micro prints its allocations when the model has run.
_PEER = """
import sys
import numpy as np
from tflite_micro.python.tflite_micro import runtime
kind = runtime.InterpreterConfig.kAllocationRecording
interpreter = runtime.Interpreter.from_file(sys.argv[1], intrepreter_config=kind)
details = interpreter.get_input_details(0)
interpreter.set_input(np.zeros(details["shape"], details["dtype"]), 0)
interpreter.invoke()
interpreter.print_allocations()
"""


def peer_table(rows: list[Row], models: Path, python: str) -> str:
    """The memory of the models that are .tflite files, beside that of TFLite Micro, as a table of Markdown."""
    lines = ["| model | RAM (B) | RAM of TFLite Micro (B) | code and constants (B) | .tflite file (B) |",
             "|---|---|---|---|---|"]  # fmt: skip
    for name, file in TFLITE_FILES.items():
        path = models / "formats" / "mlperf_tiny" / file
        own = next((row for row in rows if row.model == name and not row.error), None)
        if own is not None:
            done = subprocess.run([python, "-c", _PEER, str(path)], check=True, capture_output=True, text=True)
            arena = int(re.findall(r"Arena allocation total (\d+) bytes", done.stdout + done.stderr)[0])
            numbers = (own.ram, arena, own.model_rom, path.stat().st_size)
            lines.append(f"| {name} | {' | '.join(f'{n:,}' for n in numbers)} |")
    return "\n".join(lines)


def _write(mark: str, text: str) -> None:
    """Replace a table of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(mark)
    after = rest.partition("<!-- end of table -->")[2]
    PAGE.write_text(f"{before}{mark}\n{text}\n<!-- end of table -->{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run int8 models on emulated boards.")
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose name contains this text")
    parser.add_argument("--models", default=str(ROOT.parent / "shared" / "models"), metavar="FOLDER",
                        help="folder of the models")  # fmt: skip
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter with the package tflite-micro")
    args = parser.parse_args()
    models = Path(args.models)
    rows = [row for name, load in MODELS.items() if args.only in name for row in measure(name, load, models)]
    peers = peer_table(rows, models, args.peer) if args.peer else ""
    print(table(rows), peers, sep="\n")
    if not args.only:
        _write(MARK, table(rows))
    if peers and not args.only:
        _write(PEER_MARK, peers)


if __name__ == "__main__":
    main()
