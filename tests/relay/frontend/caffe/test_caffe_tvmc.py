"""Networks of Caffe on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from caffe_cases import made
from caffe_writer import weights

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import CaffeFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main


def files(folder):
    case = made("InnerProduct")
    (folder / "net.prototxt").write_text(case.text)
    (folder / "net.caffemodel").write_bytes(weights(case.blobs))
    return str(folder / "net.prototxt"), case


def test_a_network_is_compiled_with_the_weights_beside_it_and_run(tmp_path):
    path, case = files(tmp_path)
    assert isinstance(guess_frontend(path), CaffeFrontend)
    np.savez(tmp_path / "in.npz", **case.feeds)
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    assert _main(["compile", "--target", "llvm", "--output", package, path]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_allclose(np.load(outputs)["output_0"], case.expected[0], rtol=1e-5, atol=1e-5)


def test_the_weights_travel_with_the_network(tmp_path):
    path, case = files(tmp_path)
    assert CaffeFrontend().companions(path) == {"net.caffemodel": weights(case.blobs)}


def test_what_is_wrong_is_said_in_words(tmp_path):
    path, _ = files(tmp_path)
    with pytest.raises(TVMCException, match="the network has no input 'z'; its inputs are x"):
        load_model(path, shape_dict={"z": [1]})
    (tmp_path / "net.caffemodel").unlink()
    with pytest.raises(TVMCException, match=r"there is no net.caffemodel beside net.prototxt"):
        load_model(path)
