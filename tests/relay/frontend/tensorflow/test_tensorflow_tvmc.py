"""TensorFlow files and folders on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow_writer import constant, graph, placeholder, write_saved_model

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import OnnxFrontend, TensorflowFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main

NODES = [placeholder("x", None, 3), constant("w", [1.0, 2.0, 3.0]), ("y", "AddV2", ["x", "w"], {})]


def test_a_graph_is_found_by_its_content_whatever_its_ending(tmp_path):
    for name in ("model.pb", "model", "model.onnx"):
        (tmp_path / name).write_bytes(graph(*NODES))
        assert isinstance(guess_frontend(str(tmp_path / name)), TensorflowFrontend)
        assert len(load_model(str(tmp_path / name)).mod["main"].params) == 1


def test_an_onnx_file_is_no_graph_of_tensorflow(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"\x08\x08\x12\x07backend")
    assert isinstance(guess_frontend(str(tmp_path / "model.onnx")), OnnxFrontend)


def test_compile_and_run_a_graph(tmp_path):
    (tmp_path / "model.pb").write_bytes(graph(*NODES))
    np.savez(tmp_path / "in.npz", x=np.array([[0.5, -1.0, 2.0]], "float32"))
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    shapes = ["--input-shapes", "x:[1,3]"]
    assert _main(["compile", "--target", "llvm", "--output", package, *shapes, str(tmp_path / "model.pb")]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_array_equal(np.load(outputs)["output_0"], [[1.5, 1.0, 5.0]])


def test_a_folder_is_a_saved_model(tmp_path):
    write_saved_model(tmp_path / "model", NODES, {}, {"serving_default": ({"data": "x:0"}, {"sum": "y:0"})})
    loaded = load_model(str(tmp_path / "model"), shape_dict={"data": [2, 3]})
    assert [p.name_hint for p in loaded.mod["main"].params] == ["data"]
    assert load_model(str(tmp_path / "model" / "saved_model.pb"), model_format="pb").mod["main"].params


@pytest.mark.parametrize("content", [b"", b"x", b"\x0a\xff\xff\xff\xff\xff\x0f", b"\xff" * 64, b"\x0a\x03\x0a\x01x"])
def test_what_is_no_graph_is_refused_in_words(content, tmp_path):
    (tmp_path / "model.pb").write_bytes(content)
    with pytest.raises(TVMCException, match="is damaged|has no nodes|unsupported"):
        load_model(str(tmp_path / "model.pb"))


def test_a_folder_that_is_no_saved_model_is_refused(tmp_path):
    with pytest.raises(TVMCException, match="doesn't exist"):
        load_model(str(tmp_path))
