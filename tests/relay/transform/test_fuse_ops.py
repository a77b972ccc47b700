"""Fusion: what functions of groups take, and how large groups get."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order


def functions(body, *params) -> list[relay.Function]:
    mod = tvm.IRModule.from_expr(relay.Function(params, body))
    mod = relay.transform.FuseOps(2)(relay.transform.InferType()(mod))
    calls = [n for n in post_order(mod["main"].body) if isinstance(n, relay.Call)]
    return [n.op for n in calls if isinstance(n.op, relay.Function)]


def operators(function: relay.Function) -> list[str]:
    return [n.op.name for n in post_order(function.body) if isinstance(n, relay.Call)]


def test_a_field_of_a_tuple_made_elsewhere_is_a_parameter_by_itself():
    x, w = relay.var("x", shape=(6, 8)), relay.var("w", shape=(8, 8))
    parts = relay.split(x, 3, 0)
    steps = [relay.nn.relu(relay.nn.dense(relay.exp(parts[k]), w)) for k in range(3)]
    found = functions(relay.Tuple(steps), x, w)
    single = [f for f in found if "split" not in operators(f)]
    assert len(found) > len(single) > 0
    assert all(isinstance(p.checked_type, relay.TensorType) for f in single for p in f.params)


def test_a_field_of_a_tuple_made_in_the_group_stays_in_it():
    x = relay.var("x", shape=(6, 8))
    parts = relay.split(relay.exp(x), 3, 0)
    (found,) = functions(parts[0] + relay.tanh(parts[2]), x)
    assert operators(found) == ["exp", "split", "tanh", "add"]
    assert len(found.params) == 1


def test_a_convolution_is_not_fused_with_a_sum_whose_size_another_operand_may_decide():
    x, w = relay.var("x", shape=(1, 4, 5, relay.Any())), relay.var("w", shape=(4, 4, 1, 1))
    other, bias = relay.var("other", shape=(1, 4, 5, relay.Any())), relay.var("bias", shape=(4, 1, 1))
    made = relay.nn.relu(relay.nn.conv2d(x, w) + bias + other)
    assert [operators(f) for f in functions(made, x, w, bias, other)] == [["nn.conv2d", "add"], ["add", "nn.relu"]]


def test_steps_of_a_recurrence_over_fields_are_one_kernel():
    x, w = relay.var("x", shape=(24, 8)), relay.var("w", shape=(8, 8))
    state = relay.zeros((1, 8), "float32")
    parts = relay.split(x, 24, 0)
    for k in range(24):
        state = relay.tanh(parts[k] + relay.nn.dense(state, w))
    found = functions(state, x, w)
    assert len({tvm.ir.structural_hash(f) for f in found}) <= 4


def test_groups_end_where_too_many_nodes_lead_to_one():
    terms = [relay.var("a", shape=(8,)), relay.var("b", shape=(8,))]
    for _ in range(600):
        terms.append(terms[-1] + terms[-2])
    sizes = [len(operators(f)) for f in functions(terms[-1], *terms[:2])]
    assert sum(sizes) == 600 and max(sizes) <= 256


@pytest.mark.parametrize("operator", ["softmax", "log_softmax"])
def test_row_wise_operators_take_what_follows_element_by_element(operator):
    x, y = relay.var("x", shape=(16, 24)), relay.var("y", shape=(16, 24))
    rows = getattr(relay.nn, operator)
    (found,) = functions(relay.cast(rows(x) + y, "float16"), x, y)
    assert operators(found) == [f"nn.{operator}", "add", "cast"]
    # Not what comes before, nor where the axis is another, nor what moves elements.
    assert [operators(f) for f in functions(rows(relay.exp(x)), x)] == [["exp"], [f"nn.{operator}"]]
    assert [operators(f) for f in functions(relay.exp(rows(x, axis=0)), x)] == [[f"nn.{operator}"], ["exp"]]
    assert [operators(f) for f in functions(relay.transpose(rows(x)), x)] == [[f"nn.{operator}"], ["transpose"]]


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 16), (2, 3, 33), (40, 129), (1, 40000)])
def test_row_wise_operators_with_what_follows_have_the_numbers_of_numpy(shape, rng):
    values = rng.standard_normal(shape).astype("float32") * 3
    x, y = relay.var("x", shape=shape), relay.var("y", shape=shape)
    function = relay.Function([x, y], relay.cast(relay.nn.softmax(x) * relay.const(2.0) + y, "float64"))
    executor = relay.create_executor("graph", tvm.IRModule.from_expr(function), tvm.cpu(), "llvm")
    got = executor.evaluate()(values, values).numpy()
    powers = np.exp(values - values.max(-1, keepdims=True))
    np.testing.assert_allclose(got, powers / powers.sum(-1, keepdims=True) * 2 + values, rtol=1e-5, atol=1e-6)
