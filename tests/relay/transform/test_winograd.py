"""Winograd in graphs: which convolutions are rewritten, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.visit import post_order
from tvm.relay.op.nn.winograd import contrib_conv2d_winograd_nchwc
from tvm.relay.transform import cpu, gpu
from tvm.topi.cpu import winograd
from tvm.topi.gpu import winograd as gpu_winograd

# The choice asks for the machine; these tests are about one.
TARGET = tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=2")
NAME = "nn.contrib_conv2d_winograd_NCHWc"


def convolution(rng, channels=32, filters=32, size=29, kernel=3, constant=True, **options):
    block = 16
    x = relay.var("x", shape=(1, channels // block, size, size, block))
    shape = (filters // block, channels // block, kernel, kernel, block, block)
    values = (rng.standard_normal(shape) / np.sqrt(kernel * kernel * channels)).astype("float32")
    weight = relay.const(values) if constant else relay.var("w", shape=shape)
    y = relay.nn.contrib_conv2d_nchwc(x, weight, data_layout="NCHW16c", kernel_layout="OIHW16i16o",
                                      out_layout="NCHW16c", **options)  # fmt: skip
    bias = relay.const(rng.standard_normal((filters // block, 1, 1, block)).astype("float32"))
    y = relay.nn.relu(relay.add(y, bias))
    return tvm.IRModule.from_expr(relay.Function([x] if constant else [x, weight], y))


def rewritten(mod):
    mod = relay.transform.InferType()(mod)
    return relay.transform.InferType()(cpu.WinogradConv2D(TARGET)(mod))


def operators(mod) -> list[str]:
    return [n.op.name for n in post_order(mod["main"].body) if isinstance(n, relay.Call)]


def test_a_window_of_three_by_three_with_constant_weights_is_rewritten(rng):
    mod = convolution(rng, padding=(1, 1, 1, 1))
    got = rewritten(mod)
    assert NAME in operators(got)
    assert got["main"].body.checked_type == relay.transform.InferType()(mod)["main"].body.checked_type


@pytest.mark.parametrize("options", [
    {"kernel": 1}, {"kernel": 5, "padding": (2, 2, 2, 2)}, {"strides": (2, 2)}, {"constant": False},
    # Most of such windows meets padding, which direct convolution skips.
    {"dilation": (12, 12), "padding": (12, 12, 12, 12)}, {"strides": (2, 2), "dilation": (2, 2)},
    {"channels": 16, "filters": 16, "size": 5},
], ids=str)  # fmt: skip
def test_other_convolutions_stay(options, rng):
    assert NAME not in operators(rewritten(convolution(rng, **options)))


@pytest.mark.parametrize("dilation", [(2, 2), (4, 4), (2, 3), (1, 2)], ids=str)
def test_a_dilated_window_is_done_on_every_so_many_pixels(dilation, rng):
    mod = convolution(rng, 128, 128, 32, padding=(*dilation, *dilation), dilation=dilation)
    got = rewritten(mod)
    call = next(n for n in post_order(got["main"].body) if isinstance(n, relay.Call) and n.op.name == NAME)
    images = dilation[0] * dilation[1]
    assert [int(d) for d in call.args[0].checked_type.shape] == [images, 8, *(-(-32 // d) for d in dilation), 16]
    assert list(call.attrs.padding) == [1, 1, 1, 1]
    assert got["main"].body.checked_type == relay.transform.InferType()(mod)["main"].body.checked_type


def test_padding_that_direct_convolution_does_not_skip_does_not_count_for_it(rng, monkeypatch):
    seen = []
    monkeypatch.setattr(winograd, "direct_cycles", lambda *sizes: seen.append(sizes[7]) or 1)
    for dilation, size in ((1, 7), (2, 32), (12, 32)):
        rewritten(convolution(rng, size=size, padding=(dilation,) * 4, dilation=(dilation, dilation)))
    # Rows of taps are left out as often as they are dilated beyond the image, columns where whole tiles are.
    assert seen == [1, 1, pytest.approx((32 + 2 * 20) / 96 * (32 + 2 * 24) / 96)]


@pytest.mark.parametrize("padding, dilation", [
    ((1, 1, 1, 1), (1, 1)), ((0, 0, 0, 0), (1, 1)), ((0, 1, 2, 1), (1, 1)), ((2, 2, 2, 2), (2, 2)),
    ((0, 0, 0, 0), (2, 2)), ((3, 3, 3, 3), (3, 2)), ((1, 4, 5, 0), (4, 3)), ((7, 1, 0, 9), (1, 5)),
    ((16, 16, 16, 16), (16, 16)), ((2, 0, 9, 31), (14, 13)),
], ids=str)  # fmt: skip
def test_results_stay(padding, dilation, rng, monkeypatch):
    monkeypatch.setattr(winograd, "plan", lambda *problem: (4, 2))
    mod = convolution(rng, padding=padding, dilation=dilation)
    data = rng.standard_normal((1, 2, 29, 29, 16)).astype("float32")
    results = []
    for disabled in ([], ["WinogradConv2D"]):
        with tvm.transform.PassContext(opt_level=3, disabled_pass=disabled):
            lib = relay.build(mod, "llvm")
        assert ("winograd" in lib.get_graph_json()) is not bool(disabled)
        module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
        module.run(x=data)
        results.append(module.get_output(0).numpy())
    scale = np.abs(results[1]).max() + 1
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=5e-5 * scale)


def test_a_shared_kernel_is_transformed_once(rng):
    x = relay.var("x", shape=(1, 2, 28, 28, 16))
    weight = relay.const((rng.standard_normal((2, 2, 3, 3, 16, 16)) / 17).astype("float32"))
    y = x
    for _ in range(2):
        y = relay.nn.contrib_conv2d_nchwc(y, weight, padding=(1, 1, 1, 1), data_layout="NCHW16c",
                                          kernel_layout="OIHW16i16o", out_layout="NCHW16c")  # fmt: skip
    got = rewritten(tvm.IRModule.from_expr(relay.Function([x], y)))
    assert operators(got) == [NAME, NAME]
    assert len({id(n.args[1]) for n in post_order(got["main"].body) if isinstance(n, relay.Call)}) == 1


@pytest.mark.parametrize(("data", "kernel", "words"), [
    ((1, 2, 8, 8, 16), (1, 2, 3, 3, 16, 16), "kernel of rank 7"),
    ((1, 2, 8, 8, 16), (1, 5, 5, 2, 16, 2, 16), "4 x 4 or 6 x 6"),
    ((1, 3, 8, 8, 16), (1, 6, 6, 2, 16, 2, 16), "3 blocks"),
])  # fmt: skip
def test_kernels_that_do_not_fit_are_refused(data, kernel, words):
    x, k = relay.var("x", shape=data), relay.var("k", shape=kernel)
    made = relay.Function([x, k], contrib_conv2d_winograd_nchwc(x, k, 1))
    with pytest.raises(Exception, match=words):
        relay.transform.InferType()(tvm.IRModule.from_expr(made))


def planes(rng, channels=8, filters=12, size=13, kernel=3, **options):
    x = relay.var("x", shape=(1, channels, size, size))
    values = rng.standard_normal((filters, channels, kernel, kernel)) / np.sqrt(kernel * kernel * channels)
    y = relay.nn.conv2d(x, relay.const(values.astype("float32")), **options)
    y = relay.nn.relu(relay.nn.bias_add(y, relay.const(rng.standard_normal(filters).astype("float32"))))
    return tvm.IRModule.from_expr(relay.Function([x], y))


@pytest.mark.slow("compiles a convolution for a GPU in two ways")
@tvm.testing.requires_opencl
@pytest.mark.parametrize("tile", gpu_winograd.TILES)
@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (0, 1, 2, 1)])
def test_results_stay_on_a_gpu(tile, padding, rng, monkeypatch):
    monkeypatch.setattr(gpu_winograd, "plan", lambda *problem: tile)
    mod = planes(rng, padding=padding)
    data = rng.standard_normal((1, 8, 13, 13)).astype("float32")
    results = []
    for disabled in ([], ["WinogradConv2D"]):
        with tvm.transform.PassContext(opt_level=3, disabled_pass=disabled):
            lib = relay.build(mod, tvm.target.Target("opencl", host="llvm"))
        assert ("winograd" in lib.get_graph_json()) is not bool(disabled)
        module = graph_executor.GraphModule(lib["default"](tvm.cl(0)))
        module.run(x=data)
        results.append(module.get_output(0).numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=5e-5 * (np.abs(results[1]).max() + 1))


@pytest.mark.parametrize("options, wanted", [
    ({"channels": 256, "filters": 256, "size": 56, "padding": (1, 1)}, True),
    ({"channels": 256, "filters": 256, "size": 56, "padding": (1, 1), "strides": (2, 2)}, False),
    ({"channels": 256, "filters": 256, "size": 56, "kernel": 1}, False),
    ({"channels": 32, "filters": 32, "size": 14, "padding": (1, 1)}, False),
], ids=str)  # fmt: skip
def test_which_convolutions_of_a_gpu_are_rewritten(options, wanted, rng):
    mod = relay.transform.InferType()(planes(rng, **options))
    mod = relay.transform.InferType()(gpu.GPUWeights()(mod))
    got = relay.transform.InferType()(gpu.WinogradConv2D(tvm.target.Target("cuda -arch=sm_90"))(mod))
    assert ("nn.contrib_conv2d_winograd_planes" in operators(got)) is wanted
    assert got["main"].body.checked_type == mod["main"].body.checked_type
