"""Templates of packed operators compute what NumPy computes, also in graphs, and hide the latency of memory."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
import vta
import vta.top
from tests.contrib.vta import schedules
from tvm import relay, te, topi
from tvm.contrib import graph_executor
from tvm.contrib.vta import device
from vta.testing import simulator
from vta.top.op import clip
from vta.top.tiles import Product, choose


def epilogue(res, *more):
    """Add further operands, shift, clip and cast."""
    for operand in more:
        res = topi.add(res, operand)
    return topi.cast(clip(topi.right_shift(res, 8), -100, 100), "int8")


def wanted(res, *more):
    return np.clip((res + sum(m.astype("int64") for m in more)) >> 8, -100, 100).astype("int8")


def convolved(data, weight, pad, stride):
    wide = np.pad(data.astype("int64"), [(0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0), (0, 0)])
    out, taps = (wide.shape[2] - weight.shape[2]) // stride + 1, range(weight.shape[2])
    last = (out - 1) * stride + 1
    parts = ((y, x, wide[:, :, y : y + last : stride, x : x + last : stride]) for y in taps for x in taps)
    return sum(np.einsum("nkhwbi,mkji->nmhwbj", p, weight[:, :, y, x].astype("int64")) for y, x, p in parts)


def run(s, args, inputs):
    with device.observe() as findings:
        out = schedules.run(s, args, inputs)
    assert not findings, findings[0].text
    return out


@pytest.mark.parametrize(
    "ic,oc,size,kernel,pad,stride", [(2, 4, 8, 3, 1, 1), (1, 2, 9, 3, 1, 2), (3, 2, 7, 1, 0, 2), (2, 3, 10, 5, 2, 1)]
)
def test_packed_convolution_with_bias_and_residual(ic, oc, size, kernel, pad, stride, rng):
    env = vta.get_env()
    data = te.placeholder((1, ic, size, size, 1, 16), "int8", "data")
    weight = te.placeholder((oc, ic, kernel, kernel, 16, 16), "int8", "weight")
    bias = te.placeholder((oc, 1, 1, 1, 16), "int32", "bias")
    with env.target:
        res = vta.top.conv2d_packed(data, weight, (stride, stride), (pad, pad), (1, 1), "NCHW1n16c", "int32")
        other = te.placeholder(res.shape, "int32", "other")
        out = epilogue(res, bias, other)
        s = vta.top.schedule_conv2d_packed([out])
    values = [rng.integers(-128, 128, [int(d) for d in t.shape]).astype("int8") for t in (data, weight)]
    more = [rng.integers(-9000, 9000, [int(d) for d in t.shape]).astype("int32") for t in (bias, other)]
    got = run(s, [data, weight, bias, other, out], [*values, *more])
    np.testing.assert_array_equal(got, wanted(convolved(*values, pad, stride), *more))


def test_packed_matrix_product_of_random_sizes(rng):
    for _ in range(3):
        o, n, m = (int(rng.integers(1, 9)) for _ in range(3))
        data, weight = te.placeholder((o, n, 1, 16), "int8", "data"), te.placeholder((m, n, 16, 16), "int8", "weight")
        with vta.get_env().target:
            out = epilogue(vta.top.dense_packed(data, weight, None, "int32"))
            s = vta.top.schedule_dense_packed([out])
        a, b = (rng.integers(-128, 128, [int(d) for d in t.shape]).astype("int8") for t in (data, weight))
        res = np.einsum("onbi,mnji->ombj", a.astype("int64"), b.astype("int64"))
        np.testing.assert_array_equal(run(s, [data, weight, out], [a, b]), wanted(res))


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_elementwise_operators_are_tiled(name, rng):
    shape = (1, 5, 12, 14, 1, 16)
    a, b = (te.placeholder(shape, "int32", x) for x in "ab")
    compute, schedule = (getattr(vta.top, f"{prefix}{name}_packed") for prefix in ("", "schedule_"))
    with vta.get_env().target:
        out = topi.cast(compute(a, b), "int8")
        s = schedule([out])
    values = [rng.integers(-20, 20, shape).astype("int32") for _ in range(2)]
    np.testing.assert_array_equal(run(s, [a, b, out], values), getattr(np, name)(*values).astype("int8"))


def network(rng):
    x = relay.var("x", shape=(1, 2, 8, 8, 1, 16), dtype="int8")
    value, constants = x, []
    for ic, oc in ((2, 3), (3, 2)):
        weight = rng.integers(-128, 128, (oc, ic, 3, 3, 16, 16)).astype("int8")
        bias = rng.integers(-5000, 5000, (oc, 1, 1, 1, 16)).astype("int32")
        constants.append((weight, bias))
        layouts = {"data_layout": "NCHW1n16c", "kernel_layout": "OIHW16o16i", "out_dtype": "int32"}
        sizes = {"channels": 16 * oc, "kernel_size": (3, 3), "padding": (1, 1)}
        value = relay.nn.conv2d(value, relay.const(weight), **sizes, **layouts)
        value = relay.right_shift(relay.add(value, relay.const(bias)), relay.const(8, "int32"))
        value = relay.annotation.stop_fusion(relay.cast(relay.clip(value, -100, 100), "int8"))
    return tvm.IRModule.from_expr(relay.Function([x], value)), constants


def test_graphs_of_packed_convolutions_run_on_the_accelerator(rng):
    mod, constants = network(rng)
    with vta.build_config(opt_level=3):
        lib = relay.build(mod, target=vta.get_env().target)
    module = graph_executor.GraphModule(lib["default"](tvm.ext_dev(0)))
    x = rng.integers(-128, 128, (1, 2, 8, 8, 1, 16)).astype("int8")
    simulator.clear_stats()
    module.set_input("x", x)
    module.run()
    assert simulator.stats()["gemm_counter"] == 2 * 64 * 9 * 6
    for weight, bias in constants:
        x = wanted(convolved(x, weight, 1, 1), bias)
    np.testing.assert_array_equal(module.get_output(0).numpy(), x)


def test_the_default_tile_of_a_resnet_layer_hides_latency():
    env, layer = vta.get_env(), Product(1, 16, 14, 14, 16, (3, 3))
    one, two = choose(env, layer, 1), choose(env, layer)
    assert one.oc_threads * one.h_threads == 1 and two.oc_threads * two.h_threads == 2
    with pytest.raises(ValueError, match="no tile of .* fits the memories"):
        choose(env, Product(1, 1, 1, 1, 1, (200, 200)))


@pytest.mark.parametrize(
    "change,words",
    [
        (lambda x: topi.cast(x, "int32"), "stores values of type int8, got int32"),
        (lambda x: topi.cast(topi.sum(x, axis=1), "int8"), "elementwise operations can be fused"),
    ],
)
def test_kernels_that_the_accelerator_cannot_compute_name_the_reason(change, words):
    data, weight = te.placeholder((1, 1, 1, 16), "int8"), te.placeholder((1, 1, 16, 16), "int8")
    with vta.get_env().target:
        out = change(vta.top.dense_packed(data, weight, None, "int32"))
        with pytest.raises(tvm.TVMError, match=words):
            vta.top.schedule_dense_packed([out])


def quantized_block(rng):
    """A residual block in integers between a pool and a mean, as quantization makes it."""

    def conv(value, ic, oc, kernel, stride):
        weight = relay.const(rng.integers(-64, 64, (oc, ic, kernel, kernel)).astype("int8"))
        sizes = {
            "channels": oc,
            "kernel_size": (kernel, kernel),
            "padding": (kernel // 2,) * 2,
            "strides": (stride,) * 2,
        }
        value = relay.nn.conv2d(value, weight, out_dtype="int32", **sizes)
        return relay.add(value, relay.const(rng.integers(-4000, 4000, (oc, 1, 1)).astype("int32")))

    def narrow(value, bits):
        value = relay.right_shift(value, relay.const(bits, "int32"))
        return relay.annotation.stop_fusion(relay.cast(relay.clip(value, -127, 127), "int8"))

    x = relay.var("x", shape=(1, 16, 16, 16), dtype="int8")
    start = relay.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2))
    short = narrow(conv(start, 16, 32, 1, 2), 5)
    main = narrow(relay.nn.relu(conv(start, 16, 32, 3, 2)), 8)
    total = relay.add(conv(main, 32, 32, 3, 1), relay.cast(short, "int32"))
    out = narrow(relay.nn.relu(total), 7)
    mean = relay.nn.global_avg_pool2d(relay.cast(out, "int32"))
    return relay.Function([x], relay.nn.batch_flatten(mean))


def outputs(func, target, place, x):
    with vta.build_config(opt_level=3) if place.device_type != 1 else tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(func), target=target)
    module = graph_executor.GraphModule(lib["default"](place))
    module.set_input("x", x)
    module.run()
    return module.get_output(0).numpy()


@pytest.mark.slow("compiles a network for the CPU and for the accelerator")
def test_a_packed_residual_network_gives_the_bits_of_the_cpu(rng):
    env, func = vta.get_env(), quantized_block(rng)
    x = rng.integers(-128, 128, (1, 16, 16, 16)).astype("int8")
    packed = vta.top.graph_pack(func, env.BATCH, env.BLOCK_OUT, env.WGT_WIDTH)
    simulator.clear_stats()
    got = outputs(packed, env.target, tvm.ext_dev(0), x)
    assert simulator.stats()["gemm_counter"] == 16 * (1 * 2 + 9 * 2 + 9 * 4)
    np.testing.assert_array_equal(got, outputs(func, "llvm", tvm.cpu(), x))


def test_graph_pack_names_what_it_misses(rng):
    func = quantized_block(rng)
    for words, options in {
        "no operator nn.conv3d": {"start_name": "nn.conv3d"},
        "no operator nn.max_pool2d at index 7": {"start_name_idx": 7},
        "weights have 8 bits": {"weight_bits": 4},
        "do not divide": {"cfactor": 32},
    }.items():
        given = {"bfactor": 1, "cfactor": 16, "weight_bits": 8, **options}
        with pytest.raises(tvm.TVMError, match=words):
            vta.top.graph_pack(func, **given)
