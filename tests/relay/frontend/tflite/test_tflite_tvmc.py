"""TFLite files on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_writer import Spec, constant, one_node

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import TFLiteFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main


@pytest.fixture
def model() -> bytes:
    return one_node("ADD", [Spec((1, 3)), constant([1.0, 2.0, 3.0], "float32")], [Spec((1, 3))], {})


def test_a_file_is_found_to_be_tflite_by_its_content_whatever_its_ending(model, tmp_path):
    for name in ("model.tflite", "model", "model.onnx"):
        (tmp_path / name).write_bytes(model)
        assert isinstance(guess_frontend(str(tmp_path / name)), TFLiteFrontend)
        assert len(load_model(str(tmp_path / name)).mod["main"].params) == 1


def test_shapes_on_the_command_line_are_those_of_the_model_or_given(model, tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(model)
    loaded = load_model(str(path), model_format="tflite", shape_dict={"t0": [4, 3]})
    assert loaded.mod["main"].body.checked_type.concrete_shape == (4, 3)


def test_compile_and_run(model, tmp_path):
    (tmp_path / "model.tflite").write_bytes(model)
    np.savez(tmp_path / "in.npz", t0=np.array([[0.5, -1.0, 2.0]], "float32"))
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    assert _main(["compile", "--target", "llvm", "--output", package, str(tmp_path / "model.tflite")]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_array_equal(np.load(outputs)["output_0"], [[1.5, 1.0, 5.0]])


def streaming() -> bytes:
    """A filter over time that keeps its state between runs."""
    state = Spec((1, 6), variable=True)
    weights = [constant(np.ones((2, 2), "float32")), constant(np.ones((2, 3), "float32"))]
    return one_node("SVDF", [Spec((1, 2)), *weights, None, state], [Spec((1, 2))], {"rank": 1})


def test_state_begins_anew_with_every_run_and_compile_says_so(tmp_path, capsys):
    (tmp_path / "model.tflite").write_bytes(streaming())
    loaded = load_model(str(tmp_path / "model.tflite"))
    assert len(loaded.params) == 1
    assert "model.tflite keeps state between runs ('t3'): every run of the package starts" in capsys.readouterr().out


def test_state_as_inputs_streams_over_several_runs(tmp_path, capsys):
    path, package, outputs = (str(tmp_path / name) for name in ("model.tflite", "model.tar", "out.npz"))
    (tmp_path / "model.tflite").write_bytes(streaming())
    assert _main(["compile", "--target", "llvm", "--states", "inputs", "--output", package, path]) == 0
    assert "(output_1 -> 't3'); the initial values are zeros" in capsys.readouterr().out
    state, sums = np.zeros((1, 6), "float32"), []
    for _ in range(3):
        np.savez(tmp_path / "in.npz", t0=np.ones((1, 2), "float32"), t3=state)
        assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
        made = np.load(outputs)
        state = made["output_1"]
        sums.append(made["output_0"][0, 0])
    assert sums == [2, 4, 6]


def test_states_of_a_model_without_state_are_rejected(model, tmp_path):
    (tmp_path / "model.tflite").write_bytes(model)
    with pytest.raises(TVMCException, match="model.tflite keeps no state between runs; remove --states"):
        load_model(str(tmp_path / "model.tflite"), states="inputs")


@pytest.mark.parametrize("content", [b"", b"x", b"\x1c\0\0\0TFL3", b"\xff" * 64])
def test_what_is_no_tflite_model_is_refused_in_words(content, tmp_path):
    (tmp_path / "model.tflite").write_bytes(content)
    with pytest.raises(TVMCException, match="the file is damaged|not a TFLite model"):
        load_model(str(tmp_path / "model.tflite"))
