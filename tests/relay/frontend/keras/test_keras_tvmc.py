"""Keras files on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from keras_archive import cases

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import KerasFrontend, PyTorchFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main


def test_both_kinds_of_files_are_found_by_their_content_whatever_their_ending(tmp_path):
    case = cases()["graph_sequential"]
    for ending in ("h5", "keras"):
        for name in (f"model.{ending}", "model", "model.onnx", "model.zip"):
            path = tmp_path / name
            path.write_bytes(case.file(ending))
            assert isinstance(guess_frontend(str(path)), KerasFrontend)
            assert len(load_model(str(path)).mod["main"].params) == 1


def test_another_archive_is_not_taken_for_a_model_of_keras(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("config.json", "{}")
    assert isinstance(guess_frontend(str(tmp_path / "model.pt")), PyTorchFrontend)


def test_shapes_on_the_command_line_have_channels_last(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(cases()["graph_sequential"].h5)
    loaded = load_model(str(path), model_format="keras", shape_dict={"x": [3, 8, 7, 3]})
    assert loaded.mod["main"].body.checked_type.concrete_shape == (3, 5)
    assert load_model(str(path)).mod["main"].params[0].checked_type.concrete_shape == (1, 8, 7, 3)


def test_compile_and_run(tmp_path):
    case = cases()["dense_0"]
    (tmp_path / "model.keras").write_bytes(case.archive)
    np.savez(tmp_path / "in.npz", x=case.feeds["x"])
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    shapes = ["--input-shapes", "x:[2,7]"]
    assert _main(["compile", "--target", "llvm", *shapes, "--output", package, str(tmp_path / "model.keras")]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_allclose(np.load(outputs)["output_0"], case.wanted[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("content", [b"", b"x", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"\xff" * 64])
def test_what_is_no_keras_model_is_refused_in_words(content, tmp_path):
    (tmp_path / "model.h5").write_bytes(content)
    with pytest.raises(TVMCException, match="is damaged|neither an HDF5 file"):
        load_model(str(tmp_path / "model.h5"), model_format="keras")
