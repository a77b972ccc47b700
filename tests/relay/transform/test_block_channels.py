"""Blocked channels: the same results, and data rearranged only where it enters and leaves."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.visit import post_order
from tvm.relay.transform.block_channels import Blocking

rng = np.random.default_rng(0)


def weights(*shape):
    return relay.const(rng.standard_normal(shape).astype("float32") * 0.2)


def network(channels=(3, 32, 48, 17)):
    """Convolution, depthwise convolution, residual sum, pooling, join and a layer whose channels fit no block."""
    c0, c1, c2, c3 = channels
    x = relay.var("x", shape=(1, c0, 13, 11))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weights(c1, c0, 3, 3), padding=1), weights(c1)))
    z = relay.nn.conv2d(y, weights(c1, 1, 3, 3), groups=c1, padding=1)
    z = relay.clip(relay.add(z, y), 0.0, 6.0)
    z = relay.nn.max_pool2d(z, (3, 3), (2, 2), padding=(1, 1))
    a = relay.nn.conv2d(z, weights(c2, c1, 1, 1))
    z = relay.concatenate([a, z], 1)
    z = relay.multiply(z, relay.sigmoid(relay.nn.global_avg_pool2d(z)))
    z = relay.nn.conv2d(z, weights(c3, c1 + c2, 1, 1), strides=2)
    z = relay.nn.batch_flatten(relay.nn.avg_pool2d(z, (2, 2), (2, 2)))
    return tvm.IRModule.from_expr(relay.Function([x], z))


def run(mod, level: int, data):
    with tvm.transform.PassContext(opt_level=level):
        lib = relay.build(mod, "llvm")
    m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    m.run(x=data)
    return m.get_output(0).numpy()


@pytest.mark.parametrize("channels", [(3, 32, 48, 17), (16, 16, 16, 16), (5, 24, 8, 32), (1, 7, 9, 11)])
def test_blocked_graphs_give_the_plain_result(channels):
    mod = network(channels)
    data = rng.standard_normal((1, channels[0], 13, 11)).astype("float32")
    np.testing.assert_allclose(run(mod, 3, data), run(mod, 0, data), rtol=1e-4, atol=1e-5)


def operators(func) -> list[str]:
    return [n.op.name for n in post_order(func.body) if isinstance(n, relay.Call)]


def test_data_is_rearranged_at_the_edges_only():
    mod = relay.transform.InferType()(network((3, 32, 48, 17)))
    names = operators(Blocking(16).run(mod["main"]))
    assert names.count("nn.contrib_conv2d_NCHWc") == 2 and names.count("nn.contrib_depthwise_conv2d_NCHWc") == 1
    # Three weights (folded when compiling), the data on its way in, and out before the layer of 17 channels.
    assert names.count("layout_transform") == 5
    assert "nn.bias_add" not in names


def test_graphs_of_other_layouts_and_types_stay_as_they_are():
    x = relay.var("x", shape=(1, 8, 8, 16))
    y = relay.nn.conv2d(x, weights(3, 3, 16, 16), data_layout="NHWC", kernel_layout="HWIO")
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))
    assert operators(Blocking(16).run(mod["main"])) == ["nn.conv2d"]
