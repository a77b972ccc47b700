"""PaddlePaddle's files on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from paddle_writer import parameters, program, write

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import OnnxFrontend, PaddleFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main

W = {"w": np.array([1.0, 2.0, 3.0], "float32")}
PROGRAM = program([("elementwise_add", {"X": "x", "Y": "w"}, {"Out": "y"}, {})], {"x": ((-1, 3), "float32")}, ["y"], W)


def test_compile_and_run_a_program(tmp_path):
    path = write(tmp_path, "model", PROGRAM, W)
    np.savez(tmp_path / "in.npz", x=np.array([[0.5, -1.0, 2.0]], "float32"))
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    shapes = ["--input-shapes", "x:[1,3]"]
    assert _main(["compile", "--target", "llvm", "--output", package, *shapes, str(path)]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_array_equal(np.load(outputs)["output_0"], [[1.5, 1.0, 5.0]])


def test_a_program_is_found_by_its_content_whatever_its_ending(tmp_path):
    (tmp_path / "__params__").write_bytes(parameters(W))
    for name in ("__model__", "model", "model.onnx"):
        (tmp_path / name).write_bytes(PROGRAM)
        assert isinstance(guess_frontend(str(tmp_path / name)), PaddleFrontend)
        assert len(load_model(str(tmp_path / name)).mod["main"].params) == 1
    (tmp_path / "model.onnx").write_bytes(b"\x08\x08\x12\x07backend")
    assert isinstance(guess_frontend(str(tmp_path / "model.onnx")), OnnxFrontend)


def test_the_parameters_go_along_to_other_machines(tmp_path):
    path = write(tmp_path, "model", PROGRAM, W)
    assert PaddleFrontend().companions(str(path)) == {"model.pdiparams": parameters(W)}


@pytest.mark.parametrize("content", [b"", b"x", b"\x0a\xff\xff\xff\xff\xff\x0f", b"\xff" * 64, PROGRAM[:40]])
def test_what_is_no_program_is_refused_in_words(content, tmp_path):
    (tmp_path / "model.pdmodel").write_bytes(content)
    with pytest.raises(TVMCException, match="is damaged|has no operators"):
        load_model(str(tmp_path / "model.pdmodel"))


def test_missing_parameters_are_named(tmp_path):
    with pytest.raises(TVMCException, match="model.pdiparams"):
        load_model(str(write(tmp_path, "model", PROGRAM)))
