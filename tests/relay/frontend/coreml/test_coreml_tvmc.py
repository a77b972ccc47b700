"""Core ML's files and packages on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from coreml_writer import NetworkWriter, ProgramWriter

from tvm.driver.tvmc.errors import TVMCException, TVMCFileNotFoundError
from tvm.driver.tvmc.frontends import CoremlFrontend, OnnxFrontend, check_model, guess_frontend, load_model
from tvm.driver.tvmc.main import _main


def _network() -> bytes:
    writer = NetworkWriter(False)
    writer.input("x", (3,))
    writer.output(writer.layer("bias", "x", shape=[3], bias=np.array([1.0, 2, 3])), (3,))
    return writer.bytes()


def _program(folder):
    writer = ProgramWriter()
    x = writer.input("x", (1, 3))
    weights = writer.blob(np.array([1.0, 2, 3], "float16").tobytes(), "float16", (3,))
    writer.output(writer.op("add", x=x, y=writer.op("cast", x=weights, dtype="fp32")))
    return writer.package(folder)


def test_a_model_is_found_by_its_content_whatever_its_ending(tmp_path):
    for name in ("model.mlmodel", "model", "model.onnx"):
        (tmp_path / name).write_bytes(_network())
        assert isinstance(guess_frontend(str(tmp_path / name)), CoremlFrontend)
    (tmp_path / "other.onnx").write_bytes(b"\x08\x08\x12\x07backend:\x0a")
    assert isinstance(guess_frontend(str(tmp_path / "other.onnx")), OnnxFrontend)


@pytest.mark.parametrize("is_package", [False, True])
def test_compile_and_run(tmp_path, is_package):
    path = tmp_path / ("model.mlpackage" if is_package else "model.mlmodel")
    _program(path) if is_package else path.write_bytes(_network())
    np.savez(tmp_path / "in.npz", x=np.array([[0.5, -1.0, 2.0]], "float32"))
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    assert _main(["compile", "--target", "llvm", "--output", package, str(path)]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_array_equal(np.load(outputs)["output_0"], [[1.5, 1.0, 5.0]])


def test_a_folder_that_is_no_package_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(TVMCFileNotFoundError, match="a directory"):
        check_model(str(tmp_path / "folder"))


def test_a_damaged_package_is_told_in_words(tmp_path):
    package = _program(tmp_path / "model.mlpackage")
    (package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin").write_bytes(b"")
    with pytest.raises(TVMCException, match="weights file"):
        load_model(str(package))


def test_a_package_is_not_sent_to_other_machines(tmp_path):
    with pytest.raises(TVMCException, match="a Core ML package is a folder"):
        CoremlFrontend().companions(str(_program(tmp_path / "model.mlpackage")))
