"""Factors per channel go into weights that are not known, and the graph computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay import transform
from tvm.relay.testing import run_infer_type, run_opt_pass

rng = np.random.default_rng(11)


def positive(*shape):
    return relay.const(rng.uniform(0.5, 1, shape).astype("float32"))


def same_result(before, after):
    values = [rng.uniform(-1, 1, [int(d) for d in p.checked_type.shape]).astype("float32") for p in before.params]
    run = relay.create_executor("graph", target="llvm").evaluate
    np.testing.assert_allclose(run(after)(*values).numpy(), run(before)(*values).numpy(), rtol=1e-4, atol=1e-4)


def folded(func, step):
    before = run_infer_type(func)
    after = run_opt_pass(before, step)
    assert not relay.analysis.free_vars(after)
    same_result(before, after)
    return before, after


def test_factors_before_a_convolution_go_into_its_weight():
    x, w, b, s = (
        relay.var("x", shape=(2, 4, 10, 10)),
        relay.var("w", shape=(2, 4, 3, 3)),
        relay.var("b", shape=(4, 1, 1)),
        positive(4, 1, 1),
    )
    y = relay.nn.conv2d(relay.nn.relu(x * s) + b, w, padding=1)
    _, after = folded(relay.Function([x, w, b], y), transform.ForwardFoldScaleAxis())
    vector = relay.squeeze(s, [1, 2])
    shifted = relay.nn.relu(x) + relay.divide(b, relay.expand_dims(vector, 1, 2))
    wanted = relay.nn.conv2d(shifted, relay.multiply(w, relay.expand_dims(vector, 1, 2)), padding=1)
    tvm.ir.assert_structural_equal(after, run_infer_type(relay.Function([x, w, b], wanted)))


def test_factors_before_channels_in_blocks():
    x, w, s = relay.var("x", shape=(2, 2, 7, 7, 2)), relay.var("w", shape=(2, 2, 3, 3, 2, 4)), positive(1, 2, 1, 1, 2)
    attrs = {"data_layout": "NCHW2c", "kernel_layout": "OIHW2i4o", "out_layout": "NCHW4c"}
    _, after = folded(relay.Function([x, w], relay.nn.conv2d(x * s, w, **attrs)), transform.ForwardFoldScaleAxis())
    moved = relay.multiply(w, relay.reshape(relay.squeeze(s, [0, 2, 3]), (1, 2, 1, 1, 2, 1)))
    wanted = relay.Function([x, w], relay.nn.conv2d(x, moved, **attrs))
    tvm.ir.assert_structural_equal(after, run_infer_type(wanted))


def test_factors_that_two_depthwise_layers_read():
    x, w, b, s = (
        relay.var("x", shape=(2, 4, 10, 3)),
        relay.var("w", shape=(3, 3, 1, 3)),
        relay.var("b", shape=(3,)),
        positive(3),
    )
    attrs = {"data_layout": "NHWC", "kernel_layout": "HWIO", "groups": 3, "channels": 3, "kernel_size": (3, 3)}
    y = relay.subtract(relay.nn.relu(s * x), b)
    before = relay.Function([x, w, b], relay.nn.conv2d(y, w, **attrs) + relay.nn.conv2d(y, w, **attrs))
    _, after = folded(before, transform.ForwardFoldScaleAxis())
    z = relay.subtract(relay.nn.relu(x), relay.divide(b, s))
    one, other = (relay.nn.conv2d(z, relay.multiply(w, s), **attrs) for _ in range(2))
    tvm.ir.assert_structural_equal(after, run_infer_type(relay.Function([x, w, b], one + other)))


def test_factors_behind_a_convolution_go_into_its_weight():
    x, w, b, s = (
        relay.var("x", shape=(2, 4, 10, 10)),
        relay.var("w", shape=(6, 4, 3, 3)),
        relay.var("b", shape=(6, 1, 1)),
        positive(6, 1, 1),
    )
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=1) + b) * s
    _, after = folded(relay.Function([x, w, b], y), transform.BackwardFoldScaleAxis())
    vector = relay.squeeze(s, [1, 2])
    layer = relay.nn.conv2d(x, relay.multiply(w, relay.expand_dims(vector, 1, 3)), padding=1)
    wanted = relay.nn.relu(layer + relay.multiply(b, relay.expand_dims(vector, 1, 2)))
    tvm.ir.assert_structural_equal(after, run_infer_type(relay.Function([x, w, b], wanted)))


def layer(x, w, **attrs):
    return relay.nn.conv2d(x, w, padding=1, **attrs)


def sum_of_two(x, w, s):
    return relay.nn.relu(layer(x, w) + relay.nn.relu(layer(x, w))) * s


def with_bias(x, w, s):
    return relay.nn.bias_add(layer(x, w), relay.var("c", shape=(4,))) * s


def grouped(x, w, s):
    return layer(x, relay.var("g", shape=(4, 2, 3, 3)), groups=2) * s


@pytest.mark.parametrize("build", [sum_of_two, with_bias, grouped])
def test_factors_go_back_through_sums_and_groups(build):
    x, w = relay.var("x", shape=(1, 4, 6, 6)), relay.var("w", shape=(4, 4, 3, 3))
    body = build(x, w, positive(4, 1, 1))
    func = relay.Function(relay.analysis.free_vars(body), body)
    _, after = folded(func, transform.BackwardFoldScaleAxis())
    assert after.body.op.name != "multiply"


@pytest.mark.parametrize("direction, build", [
    # A negative factor does not pass a relu.
    ("Forward", lambda x, w, s: layer(relay.nn.relu(x * relay.const(-s.data.numpy())), w)),
    ("Backward", lambda x, w, s: relay.nn.relu(layer(x, w)) * relay.const(-s.data.numpy())),
    # Somebody else reads the value.
    ("Forward", lambda x, w, s: (lambda y: relay.add(layer(relay.nn.relu(y), w), y))(x * s)),
    ("Backward", lambda x, w, s: (lambda c: relay.add(c, c * s))(layer(x, w))),
    # Along another axis, or a factor that may be zero below a division.
    ("Forward", lambda x, w, s: layer(x * positive(6), w)),
    ("Forward", lambda x, w, s: layer(x * relay.var("v", shape=(4, 1, 1)) + s, w)),
    ("Forward", lambda x, w, s: layer(x * relay.const(np.zeros((4, 1, 1), "float32")) + s, w)),
])  # fmt: skip
def test_factors_stay_where_moving_them_would_be_wrong(direction, build):
    x, w = relay.var("x", shape=(1, 4, 6, 6)), relay.var("w", shape=(4, 4, 3, 3))
    body = build(x, w, positive(4, 1, 1))
    func = relay.Function(relay.analysis.free_vars(body), body)
    before, after = folded(func, getattr(transform, f"{direction}FoldScaleAxis")())
    tvm.ir.assert_structural_equal(before, after)


def test_dense_layers_take_factors_on_both_sides():
    x, w, s, t = relay.var("x", shape=(3, 8)), relay.var("w", shape=(5, 8)), positive(8), positive(5)
    func = relay.Function([x, w], relay.nn.dense(x * s, w) * t)
    with tvm.transform.PassContext(opt_level=3):
        _, after = folded(func, transform.FoldScaleAxis())
    assert after.body.op.name == "nn.dense" and after.body.args[0] is after.params[0]


def test_a_program_is_not_made_to_scale_weights_each_time_it_runs():
    x, w = relay.var("x", shape=(1, 4, 6, 6)), relay.var("w", shape=(4, 4, 3, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], layer(x, w) * positive(4, 1, 1)))
    with tvm.transform.PassContext(opt_level=3):
        best, _ = relay.optimize(mod, "llvm")
    names = [n.op.name for n in tvm.ir.visit.post_order(best["main"]) if isinstance(n, relay.Call)]
    weights = [
        n
        for n in tvm.ir.visit.post_order(best["main"])
        if isinstance(n, relay.Call) and n.op.name == "multiply" and tuple(n.checked_type.shape) == (4, 4, 3, 3)
    ]
    assert "multiply" in names and not weights
