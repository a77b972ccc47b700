"""Apache's guides with live objects of the frameworks, where an environment has one of these: ``pip install --no-deps
mxnet gluoncv`` (and NumPy 1), ``pip install paddlepaddle==2.6.2``. Weights are drawn, outputs the framework's own."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from model_files import model_file
from test_classic_guides import CIFAR, NAME, _writer
from trained_networks import SOURCES, network, photo, planes

import tvm
from tvm import relay
from tvm.contrib import graph_executor


@pytest.fixture(scope="module")
def mx():
    if not hasattr(np, "bool"):
        # MXNet 1.9 names a type that NumPy has left out for some versions.
        np.bool = np.bool_
    # The folder of the tests of a format has the name of its framework, and no such modules.
    pytest.importorskip("mxnet.gluon")
    return importlib.import_module("mxnet")


def _outputs(mod, params, data: np.ndarray) -> list[np.ndarray]:
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    m.set_input("data", tvm.nd.array(data))
    m.run()
    return [m.get_output(i).numpy() for i in range(m.get_num_outputs())]


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_from_mxnet_with_a_live_block_and_a_checkpoint(mx, tmp_path, monkeypatch):
    from mxnet.gluon.model_zoo.vision import get_model

    mx.random.seed(3)
    block = get_model("resnet18_v1", pretrained=False)
    block.initialize(mx.init.Uniform(0.1))
    data = np.random.default_rng(3).uniform(-2, 2, (1, 3, 64, 64)).astype("float32")
    want = block(mx.nd.array(data)).asnumpy()
    (got,) = _outputs(*relay.frontend.from_mxnet(block, {"data": data.shape}), data)
    np.testing.assert_allclose(got, want, 1e-4, 1e-4 * np.abs(want).max())
    monkeypatch.chdir(tmp_path)
    args = {k: mx.nd.array(v.data().asnumpy()) for k, v in block.collect_params().items()}
    mx.model.save_checkpoint("resnet18_v1", 0, block(mx.sym.Variable("data")), args, {})
    symbol, args, auxs = mx.model.load_checkpoint("resnet18_v1", 0)
    mod, params = relay.frontend.from_mxnet(symbol, {"data": data.shape}, arg_params=args, aux_params=auxs)
    np.testing.assert_allclose(_outputs(mod, params, data)[0], want, 1e-4, 1e-4 * np.abs(want).max())


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_deploy_ssd_gluoncv_with_a_live_block(mx):
    zoo = pytest.importorskip("gluoncv").model_zoo
    mx.random.seed(1)
    block = zoo.get_model("ssd_512_mobilenet1.0_voc", pretrained=False, pretrained_base=False)
    block.initialize(mx.init.Uniform(0.15))
    data = np.random.default_rng(1).uniform(-2, 2, (1, 3, 128, 128)).astype("float32")
    want = [v.asnumpy() for v in block(mx.nd.array(data))]
    for got, wanted in zip(_outputs(*relay.frontend.from_mxnet(block, {"data": data.shape}), data), want):
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)


def test_from_paddle_with_a_loaded_layer(tmp_path):
    pytest.importorskip("paddle.jit")
    paddle = importlib.import_module("paddle")
    if not paddle.__version__.startswith("2."):
        pytest.skip("a layer that PaddlePaddle 3 loaded is refused")
    model_file(SOURCES[NAME].file)
    cat = planes(photo("chelsea", 32, 32), -1)
    path = _writer("paddle").write(network(NAME), tmp_path)
    model = paddle.jit.load(str(path).removesuffix(".pdmodel"))
    mod, params = relay.frontend.from_paddle(model, {"x": cat.shape})
    with tvm.transform.PassContext(opt_level=3):
        executor = relay.build_module.create_executor("graph", mod, tvm.cpu(0), "llvm", params).evaluate()
    got = executor(tvm.nd.array(cat)).numpy()
    np.testing.assert_allclose(got, model(paddle.to_tensor(cat)).numpy(), 1e-4, 1e-4)
    assert CIFAR[int(got[0].argmax())] == "cat"
