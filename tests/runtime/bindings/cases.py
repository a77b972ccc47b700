"""Models and photos for the tests of the C++ header and of the Rust crate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tvm
from tests.plain_codegen import plainc
from tvm import relay
from tvm.contrib import graph_executor
from tvm.driver import tvmc
from tvm.relay.op.contrib import partition_for

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("graph.so", "graph.tar", "machine.so", "machine.tar", "partitions.so")


class Case(NamedTuple):
    """A compiled model, a folder with inputs and with the outputs of Python, and variables of programs that run it."""

    model: Path
    data: Path
    variables: dict[str, str]


def _module(rows: int | relay.Any) -> tvm.IRModule:
    x, y, w = (relay.var(name, shape=shape) for name, shape in (("x", (rows, 5)), ("y", (rows, 7)), ("w", (7, 5))))
    scores = relay.nn.softmax(relay.nn.dense(x, w) + y)
    return tvm.IRModule.from_expr(relay.Function([x, y, w], relay.Tuple([scores, relay.nn.relu(x)])))


def _reference(inputs: dict[str, np.ndarray], w: np.ndarray) -> list[np.ndarray]:
    logits = inputs["x"] @ w.T + inputs["y"]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return [powers / powers.sum(axis=1, keepdims=True), np.maximum(inputs["x"], 0)]


def compile_model(kind: str, folder: Path, rng: np.random.Generator) -> Case:
    """Compile a small model, run it in Python, compare it with NumPy, and write inputs and outputs as raw files."""
    executor, suffix = kind.split(".")
    model, rows = folder / kind, 3
    w = rng.standard_normal((7, 5)).astype("float32")
    inputs = {name: rng.standard_normal((rows, size)).astype("float32") for name, size in (("x", 5), ("y", 7))}
    mod, variables = _module(relay.Any() if executor == "machine" else rows), {}
    if executor == "partitions":
        variables["TVM_KERNEL_LIBRARIES"] = plainc().build_library(str(folder))
        mod, executor = partition_for("plainc", mod, {"w": tvm.nd.array(w)}), "graph"
        assert sum("Compiler" in f.attrs for f in mod.functions.values()) == 2
    if suffix == "tar":
        tvmc.compile(tvmc.TVMCModel(mod, {"w": tvm.nd.array(w)}), target="llvm", package_path=str(model))
    if executor == "graph":
        library = relay.build(mod, "llvm", params={"w": w})
        if suffix == "so":
            library.export_library(model)
        runner = graph_executor.GraphModule(library["default"](tvm.cpu()))
        runner.run(**inputs)
        outputs = [runner.get_output(i).numpy() for i in range(2)]
    else:
        executable = relay.vm.compile(mod, "llvm", params={"w": w})
        if suffix == "so":
            executable.mod.export_library(model)
        machine = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu())
        outputs = [field.numpy() for field in machine.run(*map(tvm.nd.array, inputs.values()))]
    for found, wanted in zip(outputs, _reference(inputs, w), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    named = {**inputs, **{f"output_{i}": output for i, output in enumerate(outputs)}}
    for name, array in named.items():
        (folder / f"{name}.bin").write_bytes(array.tobytes())
    lines = [f"{name} {' '.join(map(str, array.shape))}\n" for name, array in inputs.items()]
    (folder / "inputs.txt").write_text("".join(lines))
    return Case(model, folder, variables)


def compile_photo_model(folder: Path) -> Path:
    """A classifier of photos with 5 classes."""
    rng = np.random.default_rng(11)
    x = relay.var("photo", shape=(1, 3, 32, 40))
    pooled = relay.nn.avg_pool2d(x, pool_size=(8, 8), strides=(8, 8))
    weights = relay.const(rng.standard_normal((5, 60)).astype("float32") / 8)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(relay.nn.batch_flatten(pooled), weights)))
    path = folder / "photos.tar"
    tvmc.compile(tvmc.TVMCModel(mod, {}), target="llvm", package_path=str(path))
    return path


def prepare(photo: np.ndarray, height: int, width: int) -> np.ndarray:
    """What the examples do with a photo, in float64."""
    rows, columns = photo.shape[:2]
    scale = max(height / rows, width / columns) * 256 / 224
    y = np.clip((np.arange(height) + 0.5 - height / 2) / scale + rows / 2 - 0.5, 0, rows - 1)[:, None]
    x = np.clip((np.arange(width) + 0.5 - width / 2) / scale + columns / 2 - 0.5, 0, columns - 1)[None, :]
    top, left = y.astype(int), x.astype(int)
    bottom, right = np.minimum(top + 1, rows - 1), np.minimum(left + 1, columns - 1)
    down, across = (y - top)[..., None], (x - left)[..., None]
    photo = photo.astype("float64")
    above = photo[top, left] * (1 - across) + photo[top, right] * across
    below = photo[bottom, left] * (1 - across) + photo[bottom, right] * across
    pixels = (above * (1 - down) + below * down) / 255
    normal = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    return normal.transpose(2, 0, 1)[None].astype("float32")


class PhotoCase(NamedTuple):
    """The files of an example, and what it must print of the model."""

    model: Path
    photo: Path
    labels: Path
    label: str
    probability: float

    def check(self, printed: str) -> None:
        """Compare the line that an example printed."""
        head, probability, time = printed.strip().rsplit(", ", 2)
        assert head == f"{self.photo}: {self.label}"
        assert abs(float(probability.removeprefix("probability ")) - self.probability) < 2e-3
        assert time.endswith(" ms") and float(time[:-3]) >= 0


def photo_case(folder: Path, rng: np.random.Generator) -> PhotoCase:
    """A random photo of an odd size, named by Python."""
    photo = rng.integers(0, 256, (37, 61, 3), dtype="uint8")
    path, labels, model = folder / "photo.ppm", folder / "labels.txt", compile_photo_model(folder)
    path.write_bytes(b"P6\n61 37\n255\n" + photo.tobytes())
    labels.write_text("".join(f"label {i}\n" for i in range(5)))
    runner = graph_executor.GraphModule(_load(model)["default"](tvm.cpu()))
    runner.run(photo=prepare(photo, 32, 40))
    scores = runner.get_output(0).numpy()[0].astype("float64")
    best = int(scores.argmax())
    return PhotoCase(model, path, labels, f"label {best}", 1 / np.exp(scores - scores[best]).sum())


def _load(package: Path) -> tvm.runtime.Module:
    from tvm.runtime import _lib

    return tvm.runtime.Module(_lib.module_load(str(package), "tar"))


def page_programs(page: str, language: str) -> tuple[str, str, str]:
    """The Python program of a how-to page, its program in another language, and what the page says it prints."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (python,), (program,) = (re.findall(rf"^```{name}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
                             for name in ("python", language))  # fmt: skip
    (printed,) = re.findall(r"^   (\S.*\n   error: .*\n)", text, re.MULTILINE)
    return python, program, "".join(line.removeprefix("   ") for line in printed.splitlines(keepends=True))


DAMAGED = ("graph.so", "graph.tar", "machine.so")
EXAMPLE_ERRORS = (
    ("not_there.tar", "photo.ppm", "labels.txt", "not_there.tar"),
    ("photos.tar", "labels.txt", "labels.txt", "cannot be read as a PPM file (P6) with 8 bits"),
    ("photos.tar", "photo.ppm", "photo.txt", "photo.txt"),
    ("graph.so", "photo.ppm", "labels.txt", "the model has 2 inputs, not one photo"),
)
