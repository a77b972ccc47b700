"""Blocked channels: the same results, and data rearranged only where it enters and leaves."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.visit import post_order
from tvm.relay.op.nn.cpu_layout import block_of, group_choice

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


@pytest.mark.parametrize(("channels", "filters"), [(0, 16), (16, 0)])
def test_a_convolution_without_channels_is_not_blocked(channels, filters):
    x = relay.var("x", shape=(1, channels, 5, 4))
    mod = tvm.IRModule.from_expr(relay.nn.conv2d(x, weights(filters, channels, 3, 3), padding=1))
    with tvm.transform.PassContext(opt_level=3):
        run = relay.create_executor("graph", mod, target="llvm").evaluate()
    got = run(np.zeros((1, channels, 5, 4), "float32")).numpy()
    np.testing.assert_array_equal(got, np.zeros((1, filters, 5, 4), "float32"))


CHANNELS = [(3, 32, 48, 17), (16, 16, 16, 16), (5, 24, 8, 32), (1, 7, 9, 11), (24, 40, 58, 116)]


@pytest.mark.parametrize("channels", CHANNELS)
def test_blocked_graphs_give_the_plain_result(channels):
    mod = network(channels)
    data = rng.standard_normal((1, channels[0], 13, 11)).astype("float32")
    np.testing.assert_allclose(run(mod, 3, data), run(mod, 0, data), rtol=1e-4, atol=1e-5)


def operators(func) -> list[str]:
    return [n.op.name for n in post_order(func.body) if isinstance(n, relay.Call)]


def altered(mod, lanes: str = "skylake-avx512"):
    mod = relay.transform.InferType()(mod)
    with tvm.target.Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={lanes}"), tvm.transform.PassContext(opt_level=3):
        return operators(relay.transform.AlterOpLayout(fold=True)(mod)["main"])


def test_data_is_rearranged_at_the_edges_only():
    names = altered(network((3, 32, 48, 17)))
    assert names.count("nn.contrib_conv2d_NCHWc") == 3 and names.count("nn.contrib_depthwise_conv2d_NCHWc") == 1
    # Read as it lies on its way in; rearranged on its way out, without what fills up the blocks of 17 channels.
    assert names.count("layout_transform") == 1 and names.count("strided_slice") == 1
    assert altered(network((8, 32, 48, 17))).count("layout_transform") == 2
    assert "nn.bias_add" not in names


def image_network(channels: int, strides: int = 2, filters: int = 32):
    """A convolution of an image whose channels are last, and one of what it gives."""
    x = relay.var("x", shape=(1, 13, 11, channels))
    last = {"data_layout": "NHWC", "kernel_layout": "HWIO", "channels": filters, "kernel_size": (3, 3)}
    y = relay.nn.conv2d(x, weights(3, 3, channels, filters), strides=strides, padding=(0, 0, 1, 1), **last)
    y = relay.nn.conv2d(relay.nn.relu(y), weights(3, 3, filters, filters), padding=(1, 1, 1, 1), **last)
    return tvm.IRModule.from_expr(relay.Function([x], relay.mean(y, axis=[1, 2])))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_image_with_its_channels_last_is_read_as_it_lies(channels):
    names = altered(image_network(channels))
    assert names.count("nn.contrib_conv2d_NCHWc") == 2 and "layout_transform" not in names


IMAGES = [(1, 2, 32), (2, 1, 24), (3, 2, 32), (3, 1, 17), (4, 2, 16), (5, 2, 8)]


@pytest.mark.parametrize("channels, strides, filters", IMAGES)
def test_images_with_their_channels_last_give_the_plain_result(channels, strides, filters):
    mod = image_network(channels, strides, filters)
    data = rng.standard_normal((1, 13, 11, channels)).astype("float32")
    np.testing.assert_allclose(run(mod, 3, data), run(mod, 0, data), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups, channels, filters", [(8, 32, 32), (2, 32, 64), (4, 64, 32), (3, 12, 12), (5, 20, 5)])
def test_grouped_convolutions_in_blocks(groups, channels, filters):
    x = relay.var("x", shape=(2, channels, 7, 9))
    y = relay.nn.conv2d(x, weights(filters, channels // groups, 3, 3), groups=groups, padding=1)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(y)))
    data = rng.standard_normal((2, channels, 7, 9)).astype("float32")
    np.testing.assert_allclose(run(mod, 3, data), run(mod, 0, data), rtol=1e-4, atol=1e-4)


def test_networks_with_channels_last_come_into_the_same_blocks():
    x = relay.var("x", shape=(1, 8, 8, 32))
    y = relay.nn.conv2d(x, weights(3, 3, 32, 24), data_layout="NHWC", kernel_layout="HWIO", padding=1)
    y = relay.nn.relu(relay.nn.bias_add(y, weights(24), axis=3))
    y = relay.nn.conv2d(y, weights(3, 3, 24, 1), data_layout="NHWC", kernel_layout="HWOI", groups=24, padding=1)
    y = relay.transpose(relay.nn.max_pool2d(y, 2, 2, layout="NHWC"), (0, 3, 1, 2))
    y = relay.transpose(relay.nn.conv2d(y, weights(32, 24, 1, 1)), (0, 2, 3, 1))
    mod = tvm.IRModule.from_expr(relay.Function([x], y))
    names = altered(mod)
    assert names.count("layout_transform") == 2 and "transpose" not in names and "nn.conv2d" not in names
    data = rng.standard_normal((1, 8, 8, 32)).astype("float32")
    np.testing.assert_allclose(run(mod, 3, data), run(mod, 0, data), rtol=1e-4, atol=1e-4)


def test_blocks_need_the_fewest_vectors():
    assert [block_of(c, 16) for c in (3, 8, 16, 24, 40, 58, 116, 1280)] == [3, 8, 16, 16, 16, 16, 16, 16]
    assert [block_of(c, 8) for c in (3, 8, 24, 58)] == [3, 8, 8, 8]


def test_small_groups_are_joined_to_fill_a_vector():
    assert group_choice(4, 4, 32, 16) == (16, 4)
    assert group_choice(16, 16, 32, 16) == (16, 1)
    assert group_choice(32, 32, 32, 8) == (8, 1)
    assert group_choice(5, 5, 3, 16) is None


def test_other_types_and_weights_that_are_not_known_stay_as_they_are():
    x, w = relay.var("x", shape=(1, 16, 8, 8)), relay.var("w", shape=(16, 16, 3, 3))
    assert altered(tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.conv2d(x, w)))) == ["nn.conv2d"]
    half = relay.var("x", shape=(1, 16, 8, 8), dtype="float16")
    y = relay.nn.conv2d(half, relay.const(np.zeros((16, 16, 3, 3), "float16")))
    assert altered(tvm.IRModule.from_expr(relay.Function([half], y))) == ["nn.conv2d"]


@pytest.mark.parametrize("bias", [(1,), (1, 1, 1), (1, 1, 1, 1)])
def test_a_single_element_between_convolutions(bias):
    x = relay.var("x", shape=(1, 1, 1, 1))
    y = relay.add(relay.nn.conv2d(x, weights(1, 1, 1, 1)), relay.const(np.full(bias, 0.5, "float32")))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.conv2d(relay.nn.relu(y), weights(8, 1, 1, 1))))
    data = np.full((1, 1, 1, 1), 1.5, "float32")
    np.testing.assert_allclose(run(mod, 3, data), run(mod, 0, data), rtol=1e-5, atol=1e-6)
