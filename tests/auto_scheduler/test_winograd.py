"""Convolutions that a search computes by Winograd's algorithm: which, what they compute, which records they take."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.test_relay_integration import a_state, names, pairs
from tvm import auto_scheduler, relay, te, topi
from tvm.auto_scheduler import ApplyHistoryBest, MeasureInput, MeasureResult
from tvm.contrib import graph_executor
from tvm.topi.nn.winograd import transform_filters_in_planes

# The number of threads is part of the estimate by which the algorithm is chosen.
TARGET = "llvm -num-cores=2"
WINOGRAD = "fused_nn_contrib_conv2d_winograd_tiles_add_nn_relu"


def direct(data, kernel, padding):
    """3x3 in NumPy: data NHWC, kernel HWIO, padding top, left, bottom, right."""
    top, left, bottom, right = padding
    x = np.pad(data.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    height, width = x.shape[1] - 2, x.shape[2] - 2
    return sum(x[:, i : i + height, j : j + width] @ kernel[i, j].astype("float64") for i in range(3) for j in range(3))


def convolution(layout="NHWC", kernel=None, size=28, channels=64, **attrs):
    shape = (1, size, size, channels) if layout == "NHWC" else (1, channels, size, size)
    x = relay.var("data", shape=shape)
    order = (0, 1, 2, 3) if layout == "NHWC" else (3, 2, 0, 1)
    weight = relay.const(np.ascontiguousarray(kernel.transpose(order)))
    bias = np.linspace(-1, 1, channels, dtype="float32").reshape((channels,) if layout == "NHWC" else (channels, 1, 1))
    options = {
        "padding": (1, 1),
        "channels": channels,
        "kernel_size": (3, 3),
        "data_layout": layout,
        "kernel_layout": "HWIO" if layout == "NHWC" else "OIHW",
        **attrs,
    }
    y = relay.nn.relu(relay.nn.conv2d(x, weight, **options) + relay.const(bias))
    return tvm.IRModule.from_expr(relay.Function([x], y)), bias.reshape(-1)


def random_kernel(seed=0, channels=64):
    return np.random.default_rng(seed).standard_normal((3, 3, channels, channels)).astype("float32") * 0.1


def descriptions(mod):
    return [task.desc for task in auto_scheduler.extract_tasks(mod, {}, TARGET)[0]]


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_tiles_in_stages_compute_the_convolution(tile, layout):
    chance = np.random.default_rng(tile)
    data, kernel = chance.standard_normal((2, 6, 9, 5)).astype("float32"), random_kernel(1, 7)[:, :, :5]
    padding = (1, 0, 2, 1)
    at = (0, 1, 2, 3) if layout == "NHWC" else (0, 3, 1, 2)
    a = te.placeholder([data.shape[axis] for axis in at], name="a")
    b = te.placeholder((tile + 2, tile + 2, 5, 7), name="b")
    out = topi.nn.conv2d_winograd_tiles(a, b, padding, layout)
    function = tvm.build(te.create_schedule(out.op), [a, b, out], "llvm")
    weights = transform_filters_in_planes(kernel.transpose(3, 2, 0, 1), tile)
    got = tvm.nd.empty([int(d) for d in out.shape])
    function(tvm.nd.array(np.ascontiguousarray(data.transpose(at))), tvm.nd.array(weights), got)
    np.testing.assert_allclose(got.numpy(), direct(data, kernel, padding).transpose(at), rtol=1e-4, atol=1e-4)


def test_a_wide_convolution_is_searched_by_winograd_in_both_layouts_and_others_are_not():
    kernel = random_kernel()
    assert descriptions(convolution("NHWC", kernel)[0]) == [WINOGRAD]
    assert descriptions(convolution("NCHW", kernel)[0]) == [WINOGRAD]
    plain = ["fused_nn_conv2d_add_nn_relu"]
    assert descriptions(convolution("NHWC", np.rint(kernel * 40))[0]) == plain
    assert descriptions(convolution("NHWC", kernel, strides=(2, 2))[0]) == plain
    assert descriptions(convolution("NHWC", kernel, dilation=(2, 2), padding=(2, 2))[0]) == plain
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["WinogradConv2D"]):
        assert descriptions(convolution("NHWC", kernel)[0]) == plain


def outputs(mod, context, data):
    with context, tvm.transform.PassContext(opt_level=3, config={"relay.backend.use_auto_scheduler": True}):
        library = relay.build(mod, target=TARGET)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("data", data)
    module.run()
    return module.get_output(0).numpy(), names(library)


def test_a_record_of_tiles_and_one_of_the_direct_computation_both_compile_to_the_convolution():
    kernel = random_kernel()
    mod, bias = convolution("NHWC", kernel)
    data = np.random.default_rng(3).standard_normal((1, 28, 28, 64)).astype("float32")
    wanted = np.maximum(direct(data, kernel, (1, 1, 1, 1)) + bias, 0)
    (task,), _ = auto_scheduler.extract_tasks(mod, {}, TARGET)
    # Filters are stored in the order in which the products read them.
    assert [t.op.name for t in task.compute_dag.layout_free_placeholders] == ["p2"]
    got, kernels = outputs(mod, ApplyHistoryBest(pairs([task])), data)
    assert kernels == [WINOGRAD.removeprefix("fused_")]
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["WinogradConv2D"]):
        (plain,), _ = auto_scheduler.extract_tasks(mod, {}, TARGET)
    record = [(MeasureInput(plain, a_state(plain)), MeasureResult([1e-3], 0, "", 0.1, 1))]
    got, kernels = outputs(mod, ApplyHistoryBest(record), data)
    assert kernels == ["nn_conv2d_add_nn_relu"]
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


def test_a_kernel_without_a_record_goes_the_way_of_templates():
    kernel = random_kernel()
    mod, bias = convolution("NCHW", kernel)
    data = np.random.default_rng(4).standard_normal((1, 28, 28, 64)).astype("float32")
    got, kernels = outputs(mod, ApplyHistoryBest([]), np.ascontiguousarray(data.transpose(0, 3, 1, 2)))
    assert not any("tiles" in kernel for kernel in kernels)
    wanted = np.maximum(direct(data, kernel, (1, 1, 1, 1)) + bias, 0).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)
