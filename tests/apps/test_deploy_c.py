"""The C program of apps/deploy_c classifies with the three files of a package that tvmc compiled."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tvm import runtime
from tvm.driver.tvmc.main import _main

SOURCE = Path(__file__).resolve().parents[2] / "apps" / "deploy_c" / "main.c"
CLASSES = 9


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    out = tmp_path_factory.mktemp("classify") / "classify"
    folder = Path(runtime.find_library()).parent
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{runtime.include_path()}", f"-L{folder}"]
    subprocess.run([compiler, str(SOURCE), *flags, f"-Wl,-rpath,{folder}", "-ltvm_runtime", "-o", str(out)], check=True)
    return out


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A small classifier with an open batch."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(3)
    weights = {"w": (8, 3, 3, 3), "b": (8,), "d": (8, CLASSES)}
    initializers = [
        numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), name) for name, shape in weights.items()
    ]
    nodes = [
        helper.make_node("Conv", ["data", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "d"], ["out"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["N", CLASSES])],
        initializers,
    )
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def files(model, tmp_path_factory) -> Path:
    """The folder a package was unpacked into."""
    folder = tmp_path_factory.mktemp("package")
    shapes = ["--input-shapes", "data:[1,3,8,8]"]
    assert not _main(["compile", "--target", "llvm", *shapes, "--output", str(folder / "net.tar"), str(model)])
    with tarfile.open(folder / "net.tar") as archive:
        # Before Python 3.11.4 extractall has no filter, and later ones warn without it.
        for member in archive:
            (folder / member.name).write_bytes(archive.extractfile(member).read())
    return folder


def run(program: Path, files: Path, *rest: Path) -> subprocess.CompletedProcess:
    parts = [files / name for name in ("mod.so", "mod.json", "mod.params")]
    return subprocess.run([program, *parts, *rest], capture_output=True, text=True)


def test_classes_are_those_of_onnxruntime(program, model, files, tmp_path, rng):
    onnxruntime = pytest.importorskip("onnxruntime")
    data = rng.standard_normal((1, 3, 8, 8)).astype("float32")
    (tmp_path / "input.bin").write_bytes(data.tobytes())
    (tmp_path / "labels.txt").write_text("".join(f"name {i}\n" for i in range(CLASSES)))
    done = run(program, files, tmp_path / "input.bin", tmp_path / "labels.txt")
    assert done.returncode == 0, done.stderr
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    scores = session.run(None, {"data": data})[0][0]
    lines = done.stdout.splitlines()
    assert lines[0] == "input data"
    for rank, (line, best) in enumerate(zip(lines[1:], np.argsort(-scores)[:5], strict=True)):
        place, number, score, label = line.split(maxsplit=3)
        assert (place, int(number), label) == (f"{rank + 1}.", best, f"name {best}")
        assert float(score) == pytest.approx(scores[best], abs=1e-4)


def test_bad_files_are_told(program, files, tmp_path):
    (tmp_path / "short.bin").write_bytes(b"1234")
    short = run(program, files, tmp_path / "short.bin")
    assert short.returncode == 1 and "takes 768 bytes, the file has 4" in short.stderr
    missing = run(program, files, tmp_path / "none.bin")
    assert missing.returncode == 1 and "none.bin: cannot be read" in missing.stderr
    broken = subprocess.run(
        [program, files / "mod.so", tmp_path / "short.bin", files / "mod.params", tmp_path / "short.bin"],
        capture_output=True,
        text=True,
    )
    assert broken.returncode == 1 and broken.stderr.startswith("graph: ")
