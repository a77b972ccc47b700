"""Simplifications around products: what only moves data is said so, and numbers follow the product."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.test_transform import check_same_result, module, operators
from tvm import relay
from tvm.relay import transform
from tvm.relay.transform.gpu import mixed_precision

X = relay.var("x", shape=(3, 1, 5, 4))


def simplified(body, rules=None) -> tuple[tvm.IRModule, tvm.IRModule]:
    before = module(body)
    after = transform.SimplifyExpr(kernels=True, rules=rules)(before)
    # The types that the pass leaves are those that inference finds.
    types = [str(m["main"].body.checked_type) for m in (before, after, transform.InferType()(after))]
    assert types[0] == types[1] == types[2]
    return before, after


@pytest.mark.parametrize("axes, wanted", [
    ((1, 0, 2, 3), {"reshape": 1}), ((0, 2, 1, 3), {"reshape": 1}), ((0, 2, 3, 1), {"reshape": 1}),
    ((0, 1, 2, 3), {}), ((2, 1, 0, 3), {"transpose": 1}), ((3, 1, 2, 0), {"transpose": 1})])  # fmt: skip
def test_moving_dimensions_of_one_element_is_a_reshape(axes, wanted, rng):
    before, after = simplified(relay.transpose(X, axes))
    assert operators(after) == wanted
    check_same_result(before, after, rng)


@pytest.mark.parametrize("axis, index, mode", [(0, 0, "clip"), (0, 2, "wrap"), (2, 4, "fast"), (-1, 3, "clip")])
def test_one_known_place_is_a_slice(axis, index, mode, rng):
    before, after = simplified(relay.take(X, relay.const(index, "int64"), axis, mode=mode))
    assert operators(after) == {"strided_slice": 1, "reshape": 1}
    check_same_result(before, after, rng, 0)


@pytest.mark.parametrize("indices, axis, mode", [
    (np.int64(-1), 0, "wrap"), (np.int64(7), 0, "clip"), (np.array([1], "int32"), 0, "clip"),
    (np.int64(1), None, "clip")])  # fmt: skip
def test_other_places_are_taken_as_before(indices, axis, mode, rng):
    before, after = simplified(relay.take(X, relay.const(indices), axis, mode=mode))
    assert operators(after) == {"take": 1}
    check_same_result(before, after, rng, 0)


def operand(name: str, dtype: str = "float32"):
    return relay.transpose(relay.var(name, shape=(6, 4), dtype=dtype))


def test_numbers_of_both_operands_follow_the_product(rng):
    a = relay.transpose(relay.reshape(relay.multiply(operand("a"), relay.const(0.5)), (2, 4, 3)), (0, 2, 1))
    b = relay.reshape(relay.multiply(relay.const(np.array([3], "float32")), operand("b")), (2, 3, 4))
    before, after = simplified(relay.nn.batch_matmul(a, b, transpose_a=True, transpose_b=False))
    assert operators(before)["multiply"] == 2
    body = after["main"].body
    assert body.op.name == "multiply" and body.args[1].data.numpy() == 1.5 and operators(after)["multiply"] == 1
    check_same_result(before, after, rng)


@pytest.mark.parametrize("size", [7, relay.Any()], ids=["known", "unknown"])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_product_transposes_matrices_itself(size, transpose_b, rng):
    k, n = (size, 5) if transpose_b else (5, size)
    a, b = relay.var("a", shape=(6, 3, k)), relay.var("b", shape=(2, 3, k, n) if transpose_b else (2, 3, n, k))
    rhs = relay.reshape(relay.transpose(b, (0, 1, 3, 2)), (-3, 0, 0))
    before, after = simplified(relay.nn.batch_matmul(a, rhs, transpose_b=transpose_b))
    assert operators(after) == {"reshape": 1, "nn.batch_matmul": 1}
    assert after["main"].body.attrs.transpose_b is not transpose_b
    shapes = ([6, 3, 7], [2, 3, 7, 5]) if transpose_b else ([6, 3, 5], [2, 3, 7, 5])
    args = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    got, want = (relay.create_executor("vm", mod=mod).evaluate()(*args).numpy() for mod in (after, before))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes, shape", [
    # Other dimensions become one, or are swapped.
    ((0, 1, 3, 2), (2, 18, 4)), ((0, 1, 3, 2), (3, 12, 4)), ((1, 0, 3, 2), (6, 6, 4)),
    ((0, 3, 1, 2), (12, 3, 4))])  # fmt: skip
def test_other_movements_stay_before_the_product(axes, shape, rng):
    b = relay.var("b", shape=(2, 3, 4, 6))
    a = relay.var("a", shape=(shape[0], 3, shape[1]))
    rhs = relay.reshape(relay.transpose(b, axes), shape)
    before, after = simplified(relay.nn.batch_matmul(a, rhs, transpose_b=False))
    assert operators(after)["transpose"] == 1
    check_same_result(before, after, rng)


@pytest.mark.parametrize("make", [relay.nn.dense, lambda a, b: relay.nn.matmul(a, relay.transpose(b))])
def test_a_number_follows_other_products(make, rng):
    before, after = simplified(make(relay.multiply(operand("a"), relay.const(0.25)), operand("b")))
    assert after["main"].body.op.name == "multiply"
    check_same_result(before, after, rng)


@pytest.mark.parametrize("body", [
    # Each row has a number of its own.
    lambda: relay.nn.dense(relay.multiply(operand("a"), relay.const(np.ones((4, 1), "float32") * 2)), operand("b")),
    # Sums of half precision might not hold what the number keeps small.
    lambda: relay.nn.dense(
        relay.multiply(operand("a", "float16"), relay.const(0.25, "float16")), operand("b", "float16")),
    # Without this number sums might overflow, or with zero not be numbers.
    lambda: relay.nn.dense(relay.multiply(operand("a"), relay.const(1e-30)), operand("b")),
    lambda: relay.nn.dense(relay.multiply(operand("a"), relay.const(0.0)), operand("b")),
    lambda: relay.nn.dense(relay.multiply(operand("a"), relay.const(float("nan"))), operand("b")),
    # What is not moved only, after the number and before it.
    lambda: relay.nn.dense(relay.nn.relu(relay.multiply(operand("a"), relay.const(0.25))), operand("b")),
    lambda: relay.nn.dense(relay.multiply(relay.nn.relu(operand("a")), relay.const(0.25)), operand("b")),
])  # fmt: skip
def test_other_factors_stay(body):
    assert simplified(body())[1]["main"].body.op.name == "nn.dense"


def test_a_factor_that_others_read_stays():
    scaled = relay.multiply(operand("a"), relay.const(0.25))
    _, after = simplified(relay.Tuple([relay.nn.dense(scaled, operand("b")), scaled]))
    assert operators(after) == {"multiply": 1, "nn.dense": 1, "transpose": 2}


@pytest.mark.parametrize("rules, wanted", [(None, "nn.dense"), (mixed_precision.RULES, "multiply")], ids=["cpu", "gpu"])
def test_half_precision_operands_are_rounded_as_written_but_on_gpus(rules, wanted, rng):
    scaled = relay.multiply(operand("a", "float16"), relay.const(0.3, "float16"))
    before, after = simplified(relay.nn.dense(scaled, operand("b", "float16"), out_dtype="float32"), rules)
    assert after["main"].body.op.name == wanted and after["main"].body.checked_type.dtype == "float32"
    check_same_result(before, after, rng, 1e-2)


def widely_scaled(name, narrow="float16"):
    """An operand of half precision that is scaled in single precision."""
    scaled = relay.multiply(relay.cast(operand(name, narrow), "float32"), relay.const(0.3))
    return relay.cast(relay.reshape(scaled, (4, 6)), "float16")


@pytest.mark.parametrize("rules, wanted", [(None, "nn.dense"), (mixed_precision.RULES, "multiply")], ids=["cpu", "gpu"])
def test_operands_that_are_scaled_in_single_precision_are_scaled_after_matmuls_of_gpus(rules, wanted, rng):
    both = relay.nn.dense(widely_scaled("a"), widely_scaled("b"), out_dtype="float32")
    before, after = simplified(both, rules)
    assert after["main"].body.op.name == wanted
    assert operators(after).get("multiply", 0) == (1 if rules else 2)
    check_same_result(before, after, rng, 1e-2)


def test_operands_that_are_rounded_to_half_precision_keep_their_scale():
    product = relay.nn.dense(widely_scaled("a", "float32"), operand("b", "float16"), out_dtype="float32")
    assert simplified(product, mixed_precision.RULES)[1]["main"].body.op.name == "nn.dense"
