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


def test_the_two_files_of_a_model_may_have_different_names(tmp_path):
    path, case = files(tmp_path)
    weights_path = tmp_path / "res10.caffemodel"
    (tmp_path / "net.caffemodel").rename(weights_path)
    package = str(tmp_path / "model.tar")
    for given in ([path, str(weights_path)], [str(weights_path), path]):
        assert _main(["compile", "--target", "llvm", "--output", package, *given]) == 0
    np.savez(tmp_path / "in.npz", **case.feeds)
    outputs = str(tmp_path / "out.npz")
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_allclose(np.load(outputs)["output_0"], case.expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.caffemodel", "the weights of a caffe model alone; name its network .a .prototxt file"),
        ("a.weights", "the weights of a darknet model alone; name its network .a .cfg file"),
        ("a.params", "the weights of a mxnet model alone; name its network .a .json file"),
    ],
)
def test_weights_alone_name_the_file_that_they_need(name, words, tmp_path):
    (tmp_path / name).write_bytes(b"weights")
    with pytest.raises(TVMCException, match=words):
        load_model(str(tmp_path / name))


def test_a_model_of_one_file_takes_no_weights(tmp_path):
    (tmp_path / "a.relay").write_text("x")
    with pytest.raises(TVMCException, match="a relay model has no second file of weights; got b"):
        load_model(str(tmp_path / "a.relay"), weights="b")


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
