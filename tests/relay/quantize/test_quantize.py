"""Float models as models of integers: what is quantized, and how near the results are."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.error import TVMError
from tvm.relay.quantize import Quantization, prerequisite_optimize, qconfig, quantize


@pytest.fixture
def rng():
    """The same numbers in every run: how much a network loses depends on them."""
    return np.random.default_rng(3)


DATA = {"calibrate_mode": "max", "weight_scale": "channel", "skip_conv_layers": None, "skip_dense_layer": False}


def operators(mod) -> list[str]:
    found = []
    relay.analysis.post_order_visit(
        mod["main"], lambda e: found.append(e.op.name) if isinstance(e, relay.Call) and hasattr(e.op, "name") else None
    )
    return found


def run(mod, *inputs):
    out = relay.create_executor("graph", mod, target="llvm").evaluate()(*inputs)
    return out.numpy() if hasattr(out, "numpy") else [o.numpy() for o in out]


def together(first, *others) -> tvm.IRModule:
    """A module with the outputs of several that have the same inputs."""
    main = first["main"]
    bodies = [relay.bind(m["main"].body, dict(zip(m["main"].params, main.params))) for m in others]
    return tvm.IRModule.from_expr(relay.Function(main.params, relay.Tuple([main.body, *bodies])))


def decibels(want, got) -> float:
    return float(10 * np.log10(np.square(want).sum() / max(np.square(want - got).sum(), 1e-30)))


class Network:
    """Weights of a network by the order they are asked for, so that a test says the network alone."""

    def __init__(self, rng):
        self.rng = rng

    def weight(self, *shape):
        return relay.const(self.rng.normal(size=shape).astype("float32") / np.sqrt(np.prod(shape[1:])))

    def conv(self, x, inputs, filters, kernel=3, groups=1, bias=True, **attrs):
        shape = (filters, inputs // groups, kernel, kernel)
        out = relay.nn.conv2d(x, self.weight(*shape), padding=(kernel // 2,) * 2, channels=filters, groups=groups,
                              kernel_size=(kernel, kernel), **attrs)  # fmt: skip
        return relay.nn.bias_add(out, self.weight(filters)) if bias else out


def residual(rng):
    """A block with a skip, a pooling and a dense layer, as of a small ResNet."""
    net = Network(rng)
    x = relay.var("x", shape=(1, 3, 11, 9))
    y = relay.nn.relu(net.conv(x, 3, 8))
    z = relay.nn.relu(net.conv(y, 8, 8, groups=8))
    z = relay.nn.relu(relay.add(net.conv(z, 8, 8, 1), y))
    z = relay.concatenate([relay.nn.max_pool2d(z, (2, 2), (2, 2)), relay.nn.avg_pool2d(z, (2, 2), (2, 2))], 1)
    z = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.clip(net.conv(z, 16, 12), 0.0, 6.0)))
    z = relay.add(relay.nn.dense(z, net.weight(5, 12)), net.weight(5))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(z)))


def samples(rng, count=6, shape=(1, 3, 11, 9)):
    return [{"x": rng.normal(size=shape).astype("float32")} for _ in range(count)]


@pytest.mark.slow("calibrates and compiles whole networks")
@pytest.mark.parametrize("mode", ["max", "percentile", "kl_divergence"])
def test_a_network_of_integers_is_near_the_float_one(mode, rng):
    mod, data = residual(rng), samples(rng)
    with qconfig(**{**DATA, "calibrate_mode": mode}):
        made = Quantization(mod, None, data)
        integers = made.realized()
    names = operators(integers)
    assert names.count("qnn.conv2d") == 4 and names.count("qnn.dense") == 1
    # Floats are left before the first layer and after the last alone.
    assert not {"nn.conv2d", "nn.dense", "nn.relu", "add", "concatenate"} & set(names)
    assert names.count("qnn.dequantize") == 1
    # One compilation of the three networks, which share kernels.
    want, simulated, got = run(together(mod, made.simulated, integers), data[0]["x"])
    assert decibels(want, simulated) > 15
    np.testing.assert_allclose(got, simulated, atol=0.03)


def test_layers_end_in_products_with_float_scales_that_any_layout_takes(rng):
    with qconfig(**DATA):
        mod = Quantization(residual(rng), None, samples(rng, 2)).realized()
    assert "qnn.requantize" in operators(mod)
    assert "fixed_point_multiply_per_axis" not in operators(relay.qnn.transform.CanonicalizeOps()(mod))


def test_integers_follow_the_simulation_within_a_step(rng):
    net = Network(rng)
    x = relay.var("x", shape=(2, 5, 7, 6))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(net.conv(relay.nn.relu(net.conv(x, 5, 9)), 9, 4))))
    data = samples(rng, 3, (2, 5, 7, 6))
    with qconfig(**DATA):
        made = Quantization(mod, None, data)
    step = float(made.integers[id(made.plan.points[-1])].scale)
    got, want = run(made.realized(), data[0]["x"]), run(made.simulated, data[0]["x"])
    # A step of the value between the layers, over the weights of the second one.
    assert np.abs(got - want).max() <= step * 9 * 9


def test_the_classic_defaults_need_no_data_and_leave_the_first_convolution_and_dense_layers(rng):
    integers = quantize(residual(rng))
    names = operators(integers)
    assert names.count("nn.conv2d") == 1 and names.count("qnn.conv2d") == 3 and names.count("nn.dense") == 1
    with qconfig(skip_conv_layers=[1, 2], skip_dense_layer=False):
        names = operators(quantize(residual(rng)))
    assert names.count("qnn.conv2d") == 2 and names.count("qnn.dense") == 1


def test_parameters_are_bound_and_batch_normalization_is_folded(rng):
    x, w = relay.var("x", shape=(1, 4, 6, 6)), relay.var("w", shape=(8, 4, 3, 3))
    y = relay.nn.conv2d(x, w, padding=(1, 1), channels=8, kernel_size=(3, 3))
    statistics = {n: (rng.random(8) + 0.5).astype("float32") for n in ("gamma", "beta", "mean", "var")}
    y = relay.nn.relu(relay.nn.batch_norm(y, *[relay.var(n, shape=(8,)) for n in statistics])[0])
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))
    params = {"w": rng.normal(size=(8, 4, 3, 3)).astype("float32"), **statistics}
    plain = prerequisite_optimize(mod, params)
    assert sorted(operators(plain)) == ["nn.bias_add", "nn.conv2d", "nn.relu"]
    data = samples(rng, 4, (1, 4, 6, 6))
    with qconfig(**DATA):
        integers = quantize(mod, params, data)
    assert decibels(run(plain, data[0]["x"]), run(integers, data[0]["x"])) > 25


def test_constants_added_to_a_layer_become_one_bias(rng):
    net = Network(rng)
    x = relay.var("x", shape=(1, 3, 5, 5))
    y = relay.add(relay.add(net.conv(x, 3, 4), net.weight(4, 1, 1)), net.weight(1, 4, 1, 1))
    mod = tvm.IRModule.from_expr(relay.Function([x], y))
    plain = prerequisite_optimize(mod)
    assert operators(plain) == ["nn.conv2d", "nn.bias_add"]
    value = samples(rng, 1, (1, 3, 5, 5))[0]["x"]
    np.testing.assert_allclose(run(plain, value), run(mod, value), rtol=1e-5, atol=1e-6)
    # Another shape is no bias: it stays an addition.
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.add(net.conv(x, 3, 4, bias=False), net.weight(4, 5, 1))))
    assert operators(prerequisite_optimize(mod)) == ["nn.conv2d", "add"]


def test_attention_and_transposed_convolution_become_integers(rng):
    net = Network(rng)
    x = relay.var("x", shape=(2, 6, 8))
    keys = relay.reshape(relay.nn.dense(relay.reshape(x, (12, 8)), net.weight(8, 8)), (2, 6, 8))
    weights = relay.nn.softmax(relay.nn.batch_matmul(keys, keys))
    y = relay.nn.batch_matmul(weights, relay.transpose(keys, (0, 2, 1)))
    z = relay.nn.conv2d_transpose(relay.reshape(y, (2, 1, 6, 8)), net.weight(1, 3, 2, 2), strides=(2, 2), channels=3,
                                  kernel_size=(2, 2))  # fmt: skip
    mod, data = tvm.IRModule.from_expr(relay.Function([x], z)), samples(rng, 4, (2, 6, 8))
    with qconfig(**DATA):
        integers = quantize(mod, None, data)
    names = operators(integers)
    assert names.count("qnn.batch_matmul") == 2 and names.count("qnn.conv2d_transpose") == 1
    assert decibels(run(mod, data[0]["x"]), run(integers, data[0]["x"])) > 20


@pytest.mark.slow("calibrates and compiles whole networks")
def test_losses_name_the_layers_and_grow_with_fewer_bits(rng):
    mod, data = residual(rng), samples(rng)
    found = []
    for bits in (8, 4):
        with qconfig(**DATA, nbit_input=bits, nbit_weight=bits):
            found.append(Quantization(mod, None, data).losses(data[:2]))
    assert [loss.operator for loss in found[0]] == ["nn.conv2d"] * 4 + ["nn.dense"]
    assert all(eight.noise > four.noise + 6 for eight, four in zip(*found))


def test_simulation_computes_in_float_what_integers_would(rng):
    with qconfig(**DATA, do_simulation=True):
        simulated = quantize(residual(rng), None, samples(rng))
    assert {"nn.conv2d", "qnn.quantize"} <= set(operators(simulated))
    assert "qnn.conv2d" not in operators(simulated)


def test_a_tensor_that_floats_and_integers_read_is_right_for_both(rng):
    net = Network(rng)
    x = relay.var("x", shape=(1, 3, 6, 6))
    y = net.conv(x, 3, 4)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(y), net.conv(relay.nn.relu(y), 4, 2)])))
    data = samples(rng, 4, (1, 3, 6, 6))
    with qconfig(**DATA):
        integers = quantize(mod, None, data)
    for want, got in zip(run(mod, data[0]["x"]), run(integers, data[0]["x"])):
        assert decibels(want, got) > 20


def test_a_model_without_layers_stays_as_it_is(rng):
    x = relay.var("x", shape=(3,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    with qconfig(**DATA):
        assert operators(quantize(mod, None, samples(rng, 1, (3,)))) == ["exp"]


def test_data_sets_that_do_not_fit_are_refused(rng):
    mod = residual(rng)
    with qconfig(**DATA):
        with pytest.raises(TVMError, match="needs a data set"):
            quantize(mod)
        with pytest.raises(TVMError, match="quantize: the data set is empty"):
            quantize(mod, None, [])
        with pytest.raises(TVMError, match=r"has the inputs \['y'\], but the model has \['x'\]"):
            quantize(mod, None, [{"y": np.zeros((1, 3, 11, 9), "float32")}])
        with pytest.raises(TVMError, match="not finite on sample 1"):
            quantize(mod, None, [{"x": np.full((1, 3, 11, 9), np.nan, "float32")}])


def test_configurations_nest_and_refuse_what_they_do_not_know():
    with qconfig(global_scale=4.0, nbit_input=6):
        with qconfig(nbit_input=7) as inner:
            assert (inner.global_scale, inner.nbit_input) == (4.0, 7)
            assert relay.quantize.current_qconfig() is inner
        assert relay.quantize.current_qconfig().nbit_input == 6
    assert relay.quantize.current_qconfig().nbit_input == 8
    refused = {"nbit_input": 9, "dtype_weight": "int16", "calibrate_mode": "mean", "weight_scale": "min",
               "rounding": "DOWN", "global_scale": 0.0, "percentile": 30.0, "calibrate_chunk_by": 0,
               "partition_conversions": "enabled", "dtype_activation": "int16"}  # fmt: skip
    for field, value in refused.items():
        with pytest.raises(ValueError, match=f"qconfig: {field} must be"):
            qconfig(**{field: value})
    with pytest.raises(ValueError, match="unknown field 'nbit_inputs'.*nbit_input"):
        qconfig(nbit_inputs=8)


def test_points_looked_at_in_chunks_have_the_same_integers(rng):
    mod, data = residual(rng), samples(rng)
    made = []
    for chunk in (-1, 3):
        with qconfig(**DATA, calibrate_chunk_by=chunk):
            found = Quantization(mod, None, iter(data))
        made.append([found.integers[id(p)] for p in found.plan.points])
    assert made[0] == made[1]
