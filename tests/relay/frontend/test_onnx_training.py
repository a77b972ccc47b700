"""Operators of training that are plain mathematics, beside the reference of the onnx package."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from small_models import graph_model

from tvm.contrib import onnx_backend
from tvm.error import TVMError
from tvm.relay.frontend import from_onnx

F, DOMAIN = TensorProto.FLOAT, "ai.onnx.preview.training"
# The optimizers: how many tensors they keep of the past, and attributes unlike the defaults.
OPTIMIZERS = {
    "Adagrad": (1, {"norm_coefficient": 0.01, "epsilon": 1e-3, "decay_factor": 0.2}),
    "Adam": (2, {"norm_coefficient": 0.01, "alpha": 0.8, "beta": 0.7, "epsilon": 1e-3, "norm_coefficient_post": 0.1}),
    "Momentum": (1, {"norm_coefficient": 0.01, "alpha": 0.8, "beta": 0.7, "mode": "nesterov"}),
}


def info(name, shape=None, kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


def optimizer_model(name, shapes, attributes):
    kept = OPTIMIZERS[name][0]
    names = [f"{kind}{i}" for kind in ("x", "g", "v", "h")[: 2 + kept] for i in range(len(shapes))]
    outputs = [f"new_{n}" for n in names if n[0] != "g"]
    node = helper.make_node(name, ["r", "t", *names], outputs, domain=DOMAIN, **attributes)
    inputs = [info("r", []), info("t", [], TensorProto.INT64), *(info(n, shapes[int(n[1])]) for n in names)]
    return graph_model([node], inputs, [info(o) for o in outputs], domains=[DOMAIN])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_an_optimizer_moves_every_tensor_as_onnx_says(name, rng):
    shapes = [(3,), (2, 5)]
    model = optimizer_model(name, shapes, OPTIMIZERS[name][1])
    compiled, reference = onnx_backend.prepare(model), ReferenceEvaluator(model)
    for done in (0, 7):
        feed = {v.name: rng.random([d.dim_value for d in v.type.tensor_type.shape.dim]).astype("float32")
                for v in model.graph.input}  # fmt: skip
        feed["t"] = np.array(done)
        for got, want in zip(compiled.run(feed), reference.run(None, feed), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_an_optimizer_with_inputs_left_out_is_refused_with_its_name():
    model = optimizer_model("Momentum", [(3,)], OPTIMIZERS["Momentum"][1])
    del model.graph.node[0].input[-1]
    with pytest.raises(TVMError, match="Momentum node 'new_x0': the number of inputs after R and T must be div"):
        from_onnx(model)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (1, 1, 2, 7)])
def test_batch_normalization_in_training_averages_the_batch(shape, rng):
    vectors = ["scale", "bias", "mean", "var"]
    node = helper.make_node(
        "BatchNormalization", ["x", *vectors], ["y", "m", "v"], training_mode=1, momentum=0.7, epsilon=1e-2
    )
    inputs = [info("x", shape), *(info(n, (shape[1],)) for n in vectors)]
    model = graph_model([node], inputs, [info(n) for n in "ymv"])
    feed = {"x": rng.standard_normal(shape).astype("float32"), **{n: rng.random(shape[1], "float32") for n in vectors}}
    wanted = ReferenceEvaluator(model).run(None, feed)
    for got, want in zip(onnx_backend.run_model(model, feed), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_dropout_drops_in_training_alone_and_keeps_the_scale(rng):
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "kept"], seed=3)
    inputs = [info("x", (40, 50)), info("ratio", []), info("training", [], TensorProto.BOOL)]
    compiled = onnx_backend.prepare(graph_model([node], inputs, [info("y"), info("kept", None, TensorProto.BOOL)]))
    x = (rng.random((40, 50)) + 1).astype("float32")
    for ratio, training in ((0.0, True), (0.25, False)):
        y, kept = compiled.run([x, np.array(ratio, "float32"), np.array(training)])
        np.testing.assert_array_equal(y, x)
        assert kept.all() and kept.dtype == bool
    y, kept = compiled.run([x, np.array(0.25, "float32"), np.array(True)])
    np.testing.assert_allclose(y, np.where(kept, x / np.float32(0.75), 0), rtol=1e-6)
    assert 1200 < kept.sum() < 1800
