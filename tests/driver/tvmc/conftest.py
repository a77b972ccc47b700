"""A small network, its package, and how refusals are checked."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from tvm.driver.tvmc import roofline
from tvm.driver.tvmc.main import _main


@pytest.fixture(scope="session", autouse=True)
def peaks_measured_once():
    """What the tuner compares with is measured by the first test that tunes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofline, "measure", functools.cache(roofline.measure))
        yield


@pytest.fixture(scope="session")
def tuning_environment(peaks_measured_once, sharing_compiled_models) -> dict[str, str]:
    """The variables of programs that tune: the peaks of this machine are in their cache, as after several runs. Each of
    them would measure the peaks otherwise, which takes all cores for a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVM_CACHE_DIR", sharing_compiled_models["TVM_CACHE_DIR"])
        patch.delenv("TVM_NO_CACHE", raising=False)
        for _ in range(roofline._MEASUREMENTS):
            roofline.machine(new=True)
    return sharing_compiled_models


@pytest.fixture(scope="session")
def model_path(tmp_path_factory) -> str:
    """A small network with an open batch."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    w = numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3)).astype("float32"), "w")
    b = numpy_helper.from_array(rng.standard_normal(4).astype("float32"), "b")
    nodes = [
        helper.make_node("Conv", ["data", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["out"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", 3, 9, 7])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["N", 4])],
        [w, b],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    onnx.save(model, path)
    return str(path)


@pytest.fixture(scope="session")
def package(model_path, tmp_path_factory) -> str:
    """The network for the graph executor, with a batch of 1."""
    path = str(tmp_path_factory.mktemp("package") / "net.tar")
    assert _main(["compile", "--target", "llvm", "--output", path, "--input-shapes", "data:[1,3,9,7]", model_path]) == 0
    return path


@pytest.fixture(scope="session")
def open_package(model_path, tmp_path_factory) -> str:
    """The network for the virtual machine, with its batch open."""
    path = str(tmp_path_factory.mktemp("package") / "open.tar")
    assert _main(["compile", "--target", "llvm", "--output", path, model_path]) == 0
    return path


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch) -> None:
    """Commands write into the current folder where no other is named; the checkout may be read-only."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def refused(capsys) -> Callable[..., str]:
    """``refused(code, words, *arguments)``: the command ends with this code and says these words in one line."""

    def check(code: int, words: str, *argv: str) -> str:
        capsys.readouterr()
        try:
            got = _main(list(argv))
        except SystemExit as stop:
            got = stop.code
        said = capsys.readouterr().err
        assert got == code, said
        assert words in said
        if code == 4:
            assert said.startswith("Error: ") and said.count("\n") == 1
        return said

    return check


@pytest.fixture(scope="session")
def model_file(tmp_path_factory) -> str:
    """A convolution and a product as a file of Relay text with its parameters inside."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(1)
    weights = {"w": rng.uniform(-1, 1, (16, 8, 5, 5)), "v": rng.uniform(-1, 1, (1024, 10))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, (1, 8, 8, 8))],
        [helper.make_tensor_value_info("y", 1, (1, 10))],
        [numpy_helper.from_array(v.astype("float32"), k) for k, v in weights.items()],
    )
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return str(path)
