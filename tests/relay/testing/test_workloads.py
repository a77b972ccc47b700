"""The models of relay.testing: their sizes are those published, and small ones compile and run."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import testing


def count(params: dict) -> int:
    """Trained numbers: running means and variances are not."""
    return sum(int(np.prod(v.shape)) for k, v in params.items() if "moving" not in k)


# Published counts. Residual networks of the second kind have fewer normalizations after, and one before everything.
SIZES = {
    "resnet": (lambda: testing.resnet.get_workload(num_layers=18), 11.69e6, (1, 1000)),
    "resnet50": (lambda: testing.resnet.get_workload(num_layers=50), 25.56e6, (1, 1000)),
    "mobilenet": (lambda: testing.mobilenet.get_workload(), 4.24e6, (1, 1000)),
    "squeezenet 1.0": (lambda: testing.squeezenet.get_workload(), 1.248e6, (1, 1000)),
    "squeezenet 1.1": (lambda: testing.squeezenet.get_workload(version="1.1"), 1.235e6, (1, 1000)),
    "inception_v3": (lambda: testing.inception_v3.get_workload(), 23.83e6, (1, 1000)),
    "densenet": (lambda: testing.densenet.get_workload(batch_size=2), 7.98e6, (2, 1000)),
    "resnet_3d": (lambda: testing.resnet_3d.get_workload(num_classes=400), 33.4e6, (1, 400)),
    "dqn": (lambda: testing.dqn.get_workload(1), 1.693e6, (1, 18)),
}


@pytest.mark.parametrize("name", SIZES)
def test_size_is_the_published_one(name):
    make, published, shape = SIZES[name]
    mod, params = make()
    assert tuple(int(d) for d in mod["main"].body.checked_type.shape) == shape
    assert count(params) == pytest.approx(published, rel=0.005)


def run(mod, params, value, **inputs) -> np.ndarray:
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    executor.run(data=value, **inputs)
    return executor.get_output(0).numpy()


SMALL = {
    "resnet": (
        lambda: testing.resnet.get_workload(num_layers=8, image_shape=(3, 16, 16), num_classes=10),
        (1, 3, 16, 16),
    ),
    "resnet NHWC": (
        lambda: testing.resnet.get_workload(num_layers=8, image_shape=(16, 16, 3), num_classes=10, layout="NHWC"),
        (1, 16, 16, 3),
    ),
    "vgg": (lambda: testing.create_workload(vgg_features()), (1, 3, 32, 32)),
    "mobilenet": (
        lambda: testing.create_workload(
            testing.mobilenet.mobile_net(10, (1, 3, 32, 32), alpha=0.25, is_shallow=True),
            # Smaller weights make depthwise convolutions fade out.
            testing.init.Xavier(magnitude=60),
        ),
        (1, 3, 32, 32),
    ),
    "squeezenet": (
        lambda: testing.squeezenet.get_workload(image_shape=(3, 32, 32), num_classes=10, version="1.1"),
        (1, 3, 32, 32),
    ),
    "densenet": (
        lambda: testing.create_workload(testing.densenet.densenet(8, 4, (2, 2), (1, 3, 32, 32), "float32", 10)),
        (1, 3, 32, 32),
    ),
    "dcgan": (lambda: testing.dcgan.get_workload(1, oshape=(3, 32, 32), ngf=4, random_len=10), (1, 10)),
    "dqn": (lambda: testing.dqn.get_workload(1, image_shape=(4, 44, 44)), (1, 4, 44, 44)),
    "resnet_3d unit": (lambda: testing.create_workload(video_unit()), (1, 4, 4, 6, 6)),
    "inception block": (lambda: testing.create_workload(inception_block()), (1, 8, 9, 9)),
    "synthetic": (lambda: testing.synthetic.get_workload(), (1, 3, 24, 12)),
}


def vgg_features() -> relay.Function:
    data = relay.var("data", shape=(1, 3, 32, 32))
    body = testing.vgg.get_feature(data, (1, 1, 1), (4, 8, 8), batch_norm=True)
    return relay.Function(relay.free_vars(body), body)


def video_unit() -> relay.Function:
    data = relay.var("data", shape=(1, 4, 4, 6, 6))
    body = testing.resnet_3d.residual_unit(data, 8, (2, 2, 2), False, "unit", bottle_neck=False)
    return relay.Function(relay.free_vars(body), body)


def inception_block() -> relay.Function:
    data = relay.var("data", shape=(1, 8, 9, 9))
    body = testing.inception_v3._inception_c(data, "avg", "mixed")
    return relay.Function(relay.free_vars(body), body)


@pytest.mark.parametrize("name", SMALL)
def test_small_model_runs_and_depends_on_its_input(name):
    make, shape = SMALL[name]
    mod, params = make()
    rng = np.random.default_rng(0)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    results = []
    for _ in range(2):
        executor.run(data=rng.standard_normal(shape).astype("float32"))
        results.append(executor.get_output(0).numpy())
    assert results[0].shape == tuple(int(d) for d in mod["main"].body.checked_type.shape)
    assert all(np.isfinite(r).all() for r in results) and not np.array_equal(*results)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_mlp_is_what_numpy_gives():
    mod, params = testing.mlp.get_workload(2, num_classes=7, image_shape=(1, 4, 4))
    value = np.random.default_rng(1).standard_normal((2, 1, 4, 4)).astype("float32")
    p = {k: v.numpy() for k, v in params.items()}
    x = value.reshape(2, 16)
    for name in ("fc1", "fc2"):
        x = np.maximum(x @ p[name + "_weight"].T + p[name + "_bias"], 0)
    expected = softmax(x @ p["fc3_weight"].T + p["fc3_bias"])
    np.testing.assert_allclose(run(mod, params, value), expected, rtol=1e-4, atol=1e-6)


def test_lstm_is_what_numpy_gives():
    mod, params = testing.lstm.get_workload(2, 5, batch_size=3)
    values = np.random.default_rng(2).standard_normal((2, 3, 5)).astype("float32")
    p = {k: v.numpy() for k, v in params.items()}
    hidden = cell = np.zeros((3, 5), "float32")
    for step in range(2):
        gates = values[step] @ p[f"i2h_{step}_weight"].T + hidden @ p[f"h2h_{step}_weight"].T
        i, f, g, o = np.split(gates, 4, axis=1)
        sigmoid = [1 / (1 + np.exp(-v)) for v in (i, f, o)]
        cell = sigmoid[1] * cell + sigmoid[0] * np.tanh(g)
        hidden = sigmoid[2] * np.tanh(cell)
    got = relay.create_executor("graph", mod).evaluate()(data=values[0], data1=values[1], **params)
    np.testing.assert_allclose(got.numpy(), hidden, rtol=1e-4, atol=1e-6)


def test_an_lstm_cell_is_a_function_of_its_weights():
    cell = relay.transform.InferType()(tvm.IRModule.from_expr(testing.lstm.lstm_cell(5, batch_size=3)))["main"]
    state = relay.TensorType((3, 5))
    weights = [relay.TensorType((20, 5)), relay.TensorType((20,))] * 2
    states = relay.TupleType([state, state])
    assert cell.checked_type == relay.FuncType([state, states, *weights], relay.TupleType([state, states]))


def test_initial_values():
    _, params = testing.mlp.get_workload(1)
    _, again = testing.mlp.get_workload(1)
    weight = params["fc1_weight"].numpy()
    np.testing.assert_array_equal(weight, again["fc1_weight"].numpy())
    assert not params["fc1_bias"].numpy().any()
    limit = (3 / ((784 + 128) / 2)) ** 0.5
    assert limit * 0.95 < np.abs(weight).max() <= limit
    x = relay.var("data", shape=(1, 3))
    net = relay.nn.dense(x, relay.var("w_weight"), units=2)
    _, constant = testing.create_workload(relay.Function(relay.free_vars(net), net), testing.init.Constant(0.5))
    np.testing.assert_array_equal(constant["w_weight"].numpy(), np.full((2, 3), 0.5, "float32"))
    strange = relay.add(x, relay.var("strange", shape=(1, 3)))
    with pytest.raises(ValueError, match="cannot initialize 'strange'"):
        testing.create_workload(relay.Function(relay.free_vars(strange), strange))


def test_a_workload_seeds_what_a_script_draws_after_it():
    x = relay.var("data", shape=(1, 3))
    net = relay.nn.dense(x, relay.var("w_weight"), units=2)
    func = relay.Function(relay.free_vars(net), net)
    before = np.random.get_state()
    try:
        drawn = []
        for seed in (0, 0, 1):
            testing.create_workload(func, seed=seed)
            drawn.append(np.random.uniform(size=3))
    finally:
        np.random.set_state(before)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


def test_unknown_depths_are_refused():
    for make in (
        lambda: testing.resnet.get_workload(num_layers=19),
        lambda: testing.vgg.get_workload(1, num_layers=12),
        lambda: testing.densenet.get_workload(100),
        lambda: testing.squeezenet.get_workload(version="2"),
    ):
        with pytest.raises(ValueError, match="no network with|unknown version"):
            make()


def test_short_cuts():
    x = relay.var("x", shape=(2, 3))
    typed = testing.run_infer_type(relay.exp(x))
    assert tuple(int(d) for d in typed.checked_type.shape) == (2, 3)
    folded = testing.run_opt_pass(relay.add(relay.const(1.0), relay.const(2.0)), relay.transform.FoldConstant())
    assert folded.data.numpy() == 3.0
    assert ("llvm", tvm.cpu(0)) in testing.ctx_list()
    op = relay.op.get("nn.relu")
    with testing.TempOpAttr("nn.relu", "mine", 3):
        assert op.get_attr("mine") == 3
    assert not op.has_attr("mine")
