"""Layers of the same data become one layer, with what follows them."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay import transform


def typed(*outs) -> tvm.IRModule:
    out = relay.Tuple(list(outs))
    return transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(out), out)))


def operators(mod) -> list[str]:
    calls = [n for n in post_order(mod["main"]) if isinstance(n, relay.Call)]
    return [c.op.name for c in calls if isinstance(c.op, tvm.ir.Op)]


def check(mod, new, rng) -> None:
    values = [rng.standard_normal([int(d) for d in p.checked_type.shape]).astype("float32") for p in mod["main"].params]
    run = [relay.create_executor("debug", m).evaluate()(*values) for m in (mod, new)]
    for want, got in zip(*run):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)


def var(name, *shape):
    return relay.var(name, shape=shape)


def test_what_follows_convolutions_alike_follows_them_once(rng):
    x = var("x", 1, 3, 5, 5)
    outs = []
    for i, channels in enumerate((2, 4)):
        y = relay.nn.conv2d(x, var(f"w{i}", channels, 3, 1, 1))
        outs.append(relay.nn.relu(y * var(f"s{i}", channels, 1, 1)))
    mod = typed(outs[0], outs[1] + var("b", 4, 1, 1))
    new = transform.CombineParallelConv2D(2)(mod)
    names = operators(new)
    assert [names.count(n) for n in ("nn.conv2d", "multiply", "nn.relu", "add", "strided_slice")] == [1, 1, 1, 1, 2]
    check(mod, new, rng)


@pytest.mark.parametrize("shapes", [((1,), (1,)), ((2, 1, 1), (1, 1, 1))])
def test_operands_without_a_number_for_each_channel_stay_behind_the_slices(shapes, rng):
    x = var("x", 1, 3, 5, 5)
    outs = [relay.nn.conv2d(x, var(f"w{i}", 2, 3, 1, 1)) * var(f"s{i}", *shapes[i]) for i in range(2)]
    mod = typed(*outs)
    new = transform.CombineParallelConv2D(2)(mod)
    assert operators(new).count("nn.conv2d") == 1 and operators(new).count("multiply") == 2
    check(mod, new, rng)


def test_equal_dense_layers_become_a_batched_matmul(rng):
    x = var("x", 3, 4)
    outs = [relay.nn.dense(x, var(f"w{i}", 5, 4)) + var(f"b{i}", 5) for i in range(2)]
    mod = typed(*outs, relay.nn.dense(x, var("v", 6, 4)))
    new = transform.CombineParallelDense(2)(mod)
    names = operators(new)
    assert [names.count(n) for n in ("nn.batch_matmul", "nn.dense", "add", "squeeze")] == [1, 1, 1, 2]
    check(mod, new, rng)


@pytest.mark.parametrize("shapes", [((), ()), ((1,), (10,)), ((3, 1), (3, 10)), ((2, 3, 5), (2, 3, 1))])
def test_biases_of_any_rank_follow_one_dense_layer(shapes, rng):
    x = var("x", 3, 4)
    outs = [relay.nn.dense(x, var(f"w{i}", width, 4)) + var(f"b{i}", *shapes[i]) for i, width in enumerate((5, 10))]
    mod = typed(*outs)
    new = transform.CombineParallelDense(2, to_batch=False)(mod)
    assert operators(new).count("nn.dense") == 1 and operators(new).count("add") == 1
    check(mod, new, rng)


def test_new_axes_behind_the_columns_are_followed(rng):
    x = var("x", 2, 4)
    outs = [
        relay.expand_dims(relay.nn.dense(x, var(f"w{i}", width, 4)), axis)
        for i, width in enumerate((3, 5))
        for axis in (2,)
    ]
    mod = typed(*outs)
    new = transform.CombineParallelDense(2, to_batch=False)(mod)
    assert operators(new).count("expand_dims") == 1
    check(mod, new, rng)


def test_a_bias_along_the_rows_is_not_taken_for_one_along_the_columns(rng):
    x = var("x", 5, 4)
    outs = [relay.nn.bias_add(relay.nn.dense(x, var(f"w{i}", 5, 4)), var(f"b{i}", 5), axis=0) for i in range(2)]
    mod = typed(*outs)
    new = transform.CombineParallelDense(2, to_batch=False)(mod)
    assert operators(new).count("nn.bias_add") == 2
    check(mod, new, rng)


def test_a_bias_is_one_vector_and_stays_behind_a_batched_matmul(rng):
    x = var("x", 3, 4)
    outs = [relay.nn.bias_add(relay.nn.dense(x, var(f"w{i}", 5, 4)), var(f"b{i}", 5)) for i in range(2)]
    mod = typed(*outs)
    new = transform.CombineParallelDense(2)(mod)
    assert operators(new).count("nn.bias_add") == 2 and operators(new).count("nn.batch_matmul") == 1
    check(mod, new, rng)


def test_groups_that_add_to_each_other_do_not_wait_for_each_other(rng):
    x, z = var("x", 1, 3, 4, 4), var("z", 1, 3, 4, 4)
    convs = [[relay.nn.conv2d(data, var(f"{n}{i}", 2, 3, 1, 1)) for i in range(2)] for n, data in (("v", x), ("w", z))]
    mod = typed(*[a + b for a, b in zip(*convs)])
    new = transform.CombineParallelConv2D(2)(mod)
    assert operators(new).count("nn.conv2d") == 2 and operators(new).count("add") == 2
    check(mod, new, rng)
