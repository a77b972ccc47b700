"""The programs of Apache's guides for older formats (``gallery/how_to/compile_models``), line by line with local files
in place of what they download: a trained network in the format, and a photo of a cat."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from model_files import model_file
from trained_networks import CIFAR, SOURCES, network, photo, planes

import tvm
from tvm import relay
from tvm.contrib import graph_executor

pytest.importorskip("PIL")
NAME = "cifar_convnet"


@pytest.fixture
def cat() -> np.ndarray:
    """A photo as the network wants it."""
    model_file(SOURCES[NAME].file)
    return planes(photo("chelsea", 32, 32), -1)


def _writer(form: str):
    folder = str(Path(__file__).resolve().parent / form)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return __import__(f"{form}_trained")


def _top1(lib, name: str, x: np.ndarray) -> str:
    """The end that the guides share: an executor, an input, a run, the best label."""
    dev = tvm.cpu(0)
    m = graph_executor.GraphModule(lib["default"](dev))
    m.set_input(name, tvm.nd.array(x.astype("float32")))
    m.run()
    tvm_output = m.get_output(0)
    return CIFAR[int(np.argmax(tvm_output.numpy()[0]))]


def test_from_mxnet(cat, tmp_path):
    """A symbol with its parameters, and a softmax behind the network, which the guide adds."""
    made = _writer("mxnet").MXNet(network(NAME))
    arguments = {n.partition(":")[2]: a for n, a in made.net.params.items() if n.startswith("arg:")}
    auxiliary = {n.partition(":")[2]: a for n, a in made.net.params.items() if n.startswith("aux:")}
    shape_dict = {"data": cat.shape}
    mod, params = relay.frontend.from_mxnet(made.net.symbol(*made.outputs), shape_dict, arg_params=arguments,
                                            aux_params=auxiliary)
    func = mod["main"]
    func = relay.Function(func.params, relay.nn.softmax(func.body), None, func.type_params, func.attrs)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(func, "llvm", params=params)
    assert _top1(lib, "data", cat) == "cat"


@pytest.mark.parametrize("kind", ["write", "write_package"])
def test_from_coreml(cat, tmp_path, kind):
    model = getattr(_writer("coreml"), kind)(network(NAME), tmp_path)
    shape_dict = {"data": cat.shape}
    mod, params = relay.frontend.from_coreml(str(model), shape_dict)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    assert _top1(lib, "data", cat) == "cat"


def test_from_caffe2(cat):
    """Nets as messages, the name of the input out of the first operator."""
    made = _writer("caffe2").Caffe2(network(NAME))
    input_name = made.predict.op[0].input[0]
    shape_dict, dtype_dict = {input_name: cat.shape}, {input_name: cat.dtype}
    mod, params = relay.frontend.from_caffe2(made.init, made.predict, shape_dict, dtype_dict)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    assert _top1(lib, input_name, cat) == "cat"


def test_from_paddle(cat, tmp_path):
    path = _writer("paddle").write(network(NAME), tmp_path)
    shape_dict = {"x": cat.shape}
    mod, params = relay.frontend.from_paddle(path, shape_dict)
    with tvm.transform.PassContext(opt_level=3):
        executor = relay.build_module.create_executor("graph", mod, tvm.cpu(0), "llvm", params).evaluate()
    tvm_output = executor(tvm.nd.array(cat.astype("float32"))).numpy()
    assert CIFAR[int(np.argmax(tvm_output[0]))] == "cat"


def test_from_caffe(cat, tmp_path):
    """As TVM's own tests call it: weights, text, shapes and types."""
    path = _writer("caffe").write(network(NAME), tmp_path)
    shape_dict, dtype_dict = {"data": cat.shape}, {"data": "float32"}
    mod, params = relay.frontend.from_caffe(path.with_suffix(".caffemodel"), path, shape_dict, dtype_dict)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", target_host="llvm", params=params)
    assert _top1(lib, "data", cat) == "cat"
