"""Networks of Caffe on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from caffe_cases import made
from caffe_writer import weights

from tvm.driver.tvmc import farm
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


class OneNode:
    """A cluster whose one node is this process."""

    class exceptions:
        RayError = OSError

    def remote(self, function):
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *args: _Task(function, args)))

    def cluster_resources(self) -> dict:
        return {"CPU": 1}

    def wait(self, tasks, timeout):
        return list(tasks), []

    def get(self, task):
        return task.function(*task.args)


@dataclass(eq=False)
class _Task:
    function: Callable
    args: tuple


def test_two_files_of_one_model_are_compiled_by_a_cluster(tmp_path, monkeypatch):
    path, case = files(tmp_path)
    (tmp_path / "net.caffemodel").rename(tmp_path / "res10.caffemodel")
    other = shutil.copy(path, tmp_path / "other.prototxt")
    shutil.copy(tmp_path / "res10.caffemodel", tmp_path / "other.caffemodel")
    monkeypatch.setattr(farm, "connect", lambda address: OneNode())
    made = tmp_path / "packages"
    # Names decide before the order does.
    given = [str(other), path, str(tmp_path / "res10.caffemodel"), str(tmp_path / "other.caffemodel")]
    assert _main(["compile", "--target", "llvm", "--farm", "ray", "--output", str(made), *given]) == 0
    assert sorted(p.name for p in made.iterdir()) == ["net.tar", "other.tar"]
    np.savez(tmp_path / "in.npz", **case.feeds)
    for package in made.iterdir():
        outputs = str(tmp_path / "out.npz")
        assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, str(package)])
        np.testing.assert_allclose(np.load(outputs)["output_0"], case.expected[0], rtol=1e-5, atol=1e-5)


def test_two_files_of_one_model_are_tuned_and_measured(tmp_path, capsys):
    path, _ = files(tmp_path)
    weights_path = str(tmp_path / "res10.caffemodel")
    (tmp_path / "net.caffemodel").rename(weights_path)
    assert not _main(["tune", "--target", "llvm", "--tasks", "list", weights_path, path])
    assert "Available Tasks" in capsys.readouterr().out
    result = tmp_path / "bench.json"
    assert not _main(["bench", "--rounds", "2", "--number", "1", "--json", str(result), path, weights_path])
    assert json.loads(result.read_text())["name"] == "net.prototxt"


@pytest.mark.parametrize("command", ["tune", "bench"])
def test_several_models_are_rejected_where_one_is_taken(command, tmp_path, capsys):
    path, _ = files(tmp_path)
    assert _main([command, path, str(shutil.copy(path, tmp_path / "other.prototxt"))]) == 4
    assert "net.prototxt and other.prototxt are not a network with its weights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.caffemodel", "only the weights of a caffe model; specify its network .a .prototxt file"),
        ("a.weights", "only the weights of a darknet model; specify its network .a .cfg file"),
        ("a.params", "only the weights of a mxnet model; specify its network .a .json file"),
    ],
)
def test_weights_alone_name_the_file_that_they_need(name, words, tmp_path):
    (tmp_path / name).write_bytes(b"weights")
    with pytest.raises(TVMCException, match=words):
        load_model(str(tmp_path / name))


def test_a_model_of_one_file_takes_no_weights(tmp_path):
    (tmp_path / "a.relay").write_text("x")
    with pytest.raises(TVMCException, match="a relay model has no separate file of weights; got b"):
        load_model(str(tmp_path / "a.relay"), weights="b")


def test_the_weights_travel_with_the_network(tmp_path):
    path, case = files(tmp_path)
    assert CaffeFrontend().companions(path) == {"net.caffemodel": weights(case.blobs)}


def test_what_is_wrong_is_said_in_words(tmp_path):
    path, _ = files(tmp_path)
    with pytest.raises(TVMCException, match="the network has no input 'z'; its inputs are x"):
        load_model(path, shape_dict={"z": [1]})
    (tmp_path / "net.caffemodel").unlink()
    with pytest.raises(TVMCException, match=r"net.caffemodel is missing in the folder of net.prototxt"):
        load_model(path)
