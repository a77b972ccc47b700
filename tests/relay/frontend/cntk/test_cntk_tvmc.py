"""CNTK files on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_cases import cases

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import CntkFrontend, OnnxFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_both_formats_are_found_by_their_content_whatever_their_ending(kind, tmp_path):
    for name in ("x.model", "x.dnn", "x", "x.onnx"):
        path = tmp_path / name
        path.write_bytes(cases()["Times"].files[kind])
        assert isinstance(guess_frontend(str(path)), CntkFrontend)
        assert load_model(str(path)).mod["main"].params[0].checked_type.concrete_shape == (1, 5)


def test_an_onnx_file_is_not_taken_for_one_of_cntk(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"\x08\x07\x12\x07pytorch\x1a\x031.4" + bytes(40))
    assert isinstance(guess_frontend(str(tmp_path / "x.onnx")), OnnxFrontend)


def test_compile_and_run(tmp_path):
    case = cases()["Convolution/layer"]
    (tmp_path / "conv.dnn").write_bytes(case.files["v1"])
    np.savez(tmp_path / "in.npz", **case.feeds)
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    shapes = ["--input-shapes", "x:[2,4,7,9]"]
    assert _main(["compile", "--target", "llvm", *shapes, "--output", package, str(tmp_path / "conv.dnn")]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_allclose(np.load(outputs)["output_0"], case.wanted[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("content", [b"", b"x", "BCN\0".encode("utf-16-le"), b"\x08\x02\x12", b"\xff" * 64])
def test_what_is_no_cntk_model_is_refused_in_words(content, tmp_path):
    (tmp_path / "model.dnn").write_bytes(content)
    with pytest.raises(TVMCException, match="end of the file|not a CNTK model|is corrupt|is damaged"):
        load_model(str(tmp_path / "model.dnn"), model_format="cntk")
