"""Half-precision convolutions with channels last on GPUs with tensor cores, and filters that are filled up."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.transform.gpu.weights import channel_padding


def model(rng) -> tvm.IRModule:
    def weight(*shape):
        return relay.const((rng.standard_normal(shape) * 0.2).astype("float32"))

    x = relay.var("x", shape=(1, 3, 20, 20))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weight(16, 3, 7, 7), (2, 2), (3, 3)), weight(16)))
    y = relay.nn.max_pool2d(y, (3, 3), (2, 2), padding=(1, 1))
    z = relay.nn.relu(relay.nn.conv2d(y, weight(16, 16, 3, 3), padding=(1, 1)))
    y = relay.nn.relu(y + relay.nn.conv2d(z, weight(16, 16, 1, 1)))
    y = relay.nn.conv2d(y, weight(16, 1, 3, 3), padding=(1, 1), groups=16)
    y = relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y)), weight(10, 16))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))


def output(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    built = relay.build(mod, "llvm")
    module = graph_executor.GraphModule(built["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    return module.get_output(0).numpy().astype("float64")


def optimized(mod: tvm.IRModule, target: str) -> tvm.IRModule:
    with tvm.transform.PassContext(opt_level=3):
        return relay.optimize(mod, tvm.target.Target(target, host="llvm"))[0]


def test_a_half_precision_graph_is_turned_once(rng):
    mod = model(rng)
    half = optimized(relay.transform.ToMixedPrecision("float16")(mod), "cuda -arch=sm_80")
    text = half["main"].astext(show_meta_data=False)
    assert text.count("layout_transform(") == 1
    assert text.count('data_layout="NHWC"') == 4 and 'kernel_layout="HWOI"' in text
    # Three channels become four.
    assert "Tensor[(7, 7, 4, 16), float16]" in text
    x = rng.standard_normal((1, 3, 20, 20)).astype("float32")
    wanted = output(mod, x)
    np.testing.assert_allclose(output(half, x), wanted, rtol=2e-2, atol=2e-2 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("target, dtype", [("cuda -arch=sm_70", "float16"), ("cuda -arch=sm_75", "bfloat16"),
                                           ("opencl", "float16")])  # fmt: skip
def test_without_tensor_cores_for_it_a_graph_stays(target, dtype, rng):
    half = optimized(relay.transform.ToMixedPrecision(dtype)(model(rng)), target)
    assert "NHWC" not in half["main"].astext(show_meta_data=False)


def test_single_precision_stays(rng):
    assert "NHWC" not in optimized(model(rng), "cuda -arch=sm_90")["main"].astext(show_meta_data=False)


@pytest.mark.parametrize("channels, missing", [(1, 3), (3, 1), (4, 0), (5, 3), (6, 0), (8, 0), (9, 7), (58, 0)])
def test_channels_that_are_missing_for_whole_copies(channels, missing):
    assert channel_padding(channels) == missing


def test_groups_of_one_filter_over_several_channels_are_no_depthwise_convolution():
    x = relay.var("x", shape=(8, 192, 7, 5), dtype="float16")
    w = relay.const(np.ones((2, 96, 3, 3), "float16"))
    e = relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=2, padding=(1, 1), groups=2, out_dtype="float32")
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], e)))
    made = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod)
    assert 'kernel_layout="HWIO"' in str(made) and "HWOI" not in str(made)
