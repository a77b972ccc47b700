"""Networks between dequantize and quantize, in integers: the same results within one quantum."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order

rng = np.random.default_rng(21)


def dequantized(name, shape, scale=0.05, zero=3, dtype="int8"):
    return relay.qnn.op.dequantize(relay.var(name, shape=shape, dtype=dtype), relay.const(scale), relay.const(zero))


def weight(*shape, scale=0.02):
    whole = relay.const(rng.integers(-20, 20, shape).astype("int8"))
    several = isinstance(scale, list)
    scales = relay.const(np.array(scale, "float32")) if several else relay.const(scale)
    zeros = relay.const(np.zeros(len(scale), "int32")) if several else relay.const(0)
    return relay.qnn.op.dequantize(whole, scales, zeros, axis=0)


def image(name="x"):
    return dequantized(name, (1, 4, 6, 6))


def by_channel(name="x", axis=1, zeros=(5, 3, -2, 0)):
    scales = np.array([0.02, 0.05, 0.07, 0.1])
    return relay.qnn.op.dequantize(
        relay.var(name, shape=(1, 4, 6, 4), dtype="int8"), relay.const(scales), relay.const(list(zeros)), axis=axis
    )


CASES = {
    "conv2d": lambda: relay.nn.relu(relay.nn.conv2d(image(), weight(8, 4, 3, 3), padding=1)),
    "conv2d of several scales": lambda: relay.nn.conv2d(image(), weight(2, 4, 1, 1, scale=[0.01, 0.03])),
    "bias": lambda: relay.nn.bias_add(relay.nn.conv2d(image(), weight(8, 4, 3, 3)),
                                      relay.const(rng.standard_normal(8).astype("float32"))),
    "dense": lambda: relay.nn.dense(relay.nn.batch_flatten(image()), weight(5, 144, scale=0.01)),
    "batch_matmul": lambda: relay.nn.batch_matmul(dequantized("x", (2, 3, 4)), dequantized("y", (2, 5, 4))),
    "add": lambda: relay.add(image(), dequantized("y", (1, 4, 6, 6), 0.07, -4)),
    "subtract": lambda: relay.subtract(image(), dequantized("y", (1, 4, 6, 6), 0.07, -4)),
    "add to a sum of products": lambda: relay.add(
        relay.nn.conv2d(image(), weight(4, 4, 3, 3), padding=1), dequantized("y", (1, 4, 6, 6), 0.4, 3)),
    "subtract a number out of range": lambda: relay.subtract(relay.const(16.0), dequantized("x", (4, 40), 0.3)),
    "leaky of a sum of products": lambda: relay.nn.leaky_relu(
        relay.nn.dense(dequantized("x", (4, 20)), weight(6, 20, scale=0.1)), 0.1),
    "a part of a sum of products": lambda: relay.multiply(
        relay.nn.dense(dequantized("x", (4, 20)), weight(6, 20, scale=0.1)), relay.const(0.25)),
    "sigmoid of another kind of integer": lambda: relay.sigmoid(dequantized("x", (4, 40), 0.08, 3, "uint8")),
    "multiply": lambda: relay.multiply(image(), dequantized("y", (1, 4, 6, 6), 0.02, 1)),
    "concatenate": lambda: relay.concatenate([image(), dequantized("y", (1, 3, 6, 6), 0.03, 1)], 1),
    "pools": lambda: relay.nn.avg_pool2d(relay.nn.max_pool2d(image(), (2, 2), (1, 1)), (3, 3)),
    "global pool": lambda: relay.nn.global_avg_pool2d(image()),
    "clip": lambda: relay.clip(relay.transpose(image(), (0, 2, 3, 1)), -1.0, 2.0),
    "pad": lambda: relay.nn.pad(image(), ((0, 0), (0, 0), (1, 1), (2, 0))),
    "adaptive pool": lambda: relay.nn.adaptive_avg_pool1d(relay.reshape(image(), (1, 4, 36)), 3),
    "mean": lambda: relay.mean(relay.multiply(image(), relay.const(2.0)), (2, 3)),
    "sum": lambda: relay.sum(relay.clip(image(), -0.3, 0.3), 1),
    "a part": lambda: relay.split(image(), (1, 3), 1)[1],
    "topk": lambda: relay.topk(image(), 3, axis=2, ret_type="values", is_ascend=True),
    "take": lambda: relay.take(image(), relay.const([3, 1, 1]), axis=1),
    "smaller": lambda: relay.minimum(image(), dequantized("y", (1, 4, 6, 6), 0.07, -4)),
    "larger than a number": lambda: relay.maximum(image(), relay.const(0.4)),
    "leaky": lambda: relay.nn.leaky_relu(image(), 0.2),
    "tanh": lambda: relay.tanh(image()),
    "abs": lambda: relay.abs(relay.nn.conv2d(image(), weight(8, 4, 3, 3))),
    "pad with the lowest number": lambda: relay.nn.pad(image(), ((0, 0), (0, 0), (1, 1), (2, 0)), relay.const(-3e38)),
    "add of several scales": lambda: relay.add(by_channel(), by_channel("y", 3, (1, 2, 3, 4))),
    "multiply of several scales": lambda: relay.multiply(by_channel(), by_channel("y")),
    "larger of several scales": lambda: relay.maximum(by_channel("x", -1), by_channel("y")),
    "reshape": lambda: relay.reshape(relay.strided_slice(image(), [0, 1], [1, 3]), (2, -1)),
}  # fmt: skip


def module(body, scale=0.1, zero=-2):
    made = relay.qnn.op.quantize(body, relay.const(scale), relay.const(zero), out_dtype="int8")
    return relay.transform.InferType()(tvm.IRModule.from_expr(made))


def operators(mod) -> set[str]:
    return {n.op.name for n in post_order(mod["main"]) if isinstance(n, relay.Call)}


def results(mod, arrays):
    return relay.create_executor("debug", mod).evaluate()(*arrays).numpy().astype("int32")


@pytest.mark.parametrize("name", CASES)
def test_integers_mean_the_same(name):
    mod = module(CASES[name]())
    new = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert "qnn.dequantize" not in operators(new)
    shapes = [[int(d) for d in p.type_annotation.shape] for p in mod["main"].params]
    kinds = [p.type_annotation.dtype for p in mod["main"].params]
    arrays = [rng.integers(-60, 60, shape).astype(kind) for shape, kind in zip(shapes, kinds)]
    assert np.abs(results(mod, arrays) - results(new, arrays)).max() <= 1


@pytest.mark.parametrize("scales", [[0.02, 0.3, 0.07], [0.05, 0.06, 0.05]])
@pytest.mark.parametrize("function", [relay.add, relay.subtract])
def test_a_bias_is_added_before_anything_is_rounded(function, scales):
    """Each of the two lies far outside of the result, what they come to does not."""
    x, bias = relay.var("x", shape=(2, 8), dtype="int8"), relay.var("bias", shape=(3,), dtype="int32")
    data = relay.qnn.op.dequantize(x, relay.const(0.1), relay.const(0))
    product = np.float32(0.1) * np.array(scales, "float32")
    shift = relay.qnn.op.dequantize(bias, relay.const(product * np.float32(1 + 1e-7)), relay.const([0] * 3), axis=0)
    mod = module(function(relay.nn.dense(data, weight(3, 8, scale=scales)), shift), scale=0.01)
    new = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    order = [p.name_hint for p in mod["main"].params]
    whole = rng.integers(-60, 60, (2, 8)).astype("int8")
    w = next(n.data.numpy() for n in post_order(mod["main"]) if isinstance(n, relay.Constant) and n.data.ndim == 2)
    near = (whole[0].astype("int32") @ w.T.astype("int32")).astype("int32") * (1 if function is relay.subtract else -1)
    given = [{"x": whole, "bias": near}[name] for name in order]
    assert np.abs(results(mod, given) - results(new, given)).max() <= 1
    assert (results(new, given)[0] == -2).all()


def test_a_product_with_an_operand_wider_than_it_stays_in_float():
    wide = relay.nn.dense(dequantized("x", (2, 8)), weight(4, 8))
    mod = module(relay.multiply(wide, dequantized("y", (2, 4))))
    assert "multiply" in operators(relay.transform.FakeQuantizationToInteger()(mod))


def test_several_layers_are_taken_one_after_the_other():
    x = relay.nn.relu(relay.nn.conv2d(image(), weight(8, 4, 3, 3), padding=1))
    x = relay.qnn.op.quantize(x, relay.const(0.1), relay.const(0))
    x = relay.qnn.op.dequantize(x, relay.const(0.1), relay.const(0))
    mod = module(relay.nn.conv2d(x, weight(3, 8, 1, 1)))
    new = relay.transform.FakeQuantizationToInteger()(mod)
    assert not {"qnn.dequantize", "qnn.quantize", "nn.conv2d"} & operators(new)
    data = rng.integers(-60, 60, (1, 4, 6, 6)).astype("int8")
    assert np.abs(results(mod, [data]) - results(new, [data])).max() <= 1


def test_operators_without_a_rule_stay_or_are_refused():
    mod = module(relay.sin(image()))
    assert "sin" in operators(relay.transform.FakeQuantizationToInteger()(mod))
    with pytest.raises(tvm.TVMError, match="sin has no rule"):
        relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)


@pytest.mark.parametrize("function", [relay.nn.relu, lambda x: relay.clip(x, -1.0, 2.0)])
def test_limits_of_several_scales_are_those_of_each(function):
    scales, zeros = relay.const(np.array([0.02, 0.05, 0.07, 0.1])), relay.const([5, 3, -2, 0])
    made = relay.qnn.op.quantize(function(by_channel()), scales, zeros, axis=1)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(made))
    new = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert "qnn.dequantize" not in operators(new)
    data = rng.integers(-128, 127, (1, 4, 6, 4)).astype("int8")
    np.testing.assert_array_equal(results(mod, [data]), results(new, [data]))


def test_softmax_is_taken_when_asked_for():
    mod = module(relay.nn.softmax(image()), 1 / 128, 0)
    assert "nn.softmax" in operators(relay.transform.FakeQuantizationToInteger()(mod))
    new = relay.transform.FakeQuantizationToInteger(optional_qnn_ops=["nn.softmax", "sigmoid"])(mod)
    assert operators(new) == {"qnn.softmax"}
    with pytest.raises(tvm.TVMError, match="no optional rule for 'sin'"):
        relay.transform.FakeQuantizationToInteger(optional_qnn_ops=["sin"])


def test_what_no_quantize_follows_is_brought_to_integers_when_asked_for():
    body = relay.nn.batch_matmul(relay.reshape(dequantized("x", (3, 2, 4)), (2, 3, 4)), dequantized("y", (2, 5, 4)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.erf(relay.add(body, relay.const(1.0)))))
    assert "nn.batch_matmul" in operators(relay.transform.FakeQuantizationToInteger()(mod))
    new = relay.transform.FakeQuantizationToInteger(use_qat=True)(mod)
    assert operators(new) == {"reshape", "qnn.batch_matmul", "qnn.dequantize", "add", "erf"}
    arrays = [rng.integers(-60, 60, shape).astype("int8") for shape in ((3, 2, 4), (2, 5, 4))]
    was, now = (relay.create_executor("debug", m).evaluate()(*arrays).numpy() for m in (mod, new))
    np.testing.assert_allclose(was, now, rtol=1e-5, atol=1e-5)


def test_one_operand_in_float_keeps_an_operator_in_float():
    body = relay.nn.batch_matmul(dequantized("x", (2, 3, 4)), relay.add(dequantized("y", (2, 5, 4)), relay.const(1.0)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    assert tvm.ir.structural_equal(relay.transform.FakeQuantizationToInteger(use_qat=True)(mod), mod)


@pytest.fixture
def sine_rule():
    yield lambda rule: relay.op.op.register_fake_quantization_to_integer("sin", rule)
    relay.op.op.get("sin").reset_attr("FTVMFakeQuantizationToInteger")


def test_a_rule_of_ones_own_is_used(sine_rule):
    def negated(call, types):
        x = call.args[0]
        assert types[x].dtype == "int8" and types[call].scale.data.numpy() == np.float32(0.1)
        t = types[x]
        return [relay.multiply(x, relay.const(-1, "int8")), tvm.ir.TensorAffineType(t.scale, t.zero_point, t.dtype)]

    sine_rule(negated)
    mod = module(relay.sin(dequantized("x", (4,), 0.1, 0)), 0.1, 0)
    new = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    data = np.array([1, -7, 100, 0], "int8")
    np.testing.assert_array_equal(results(new, [data]), -data)


def test_a_rule_of_ones_own_may_leave_a_call_in_float(sine_rule):
    def refused(call, types):
        raise NotImplementedError

    sine_rule(refused)
    mod = module(relay.sin(image()))
    assert tvm.ir.structural_equal(relay.transform.FakeQuantizationToInteger()(mod), mod)
    with pytest.raises(tvm.TVMError, match="the rule of sin does not support this call"):
        relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)


def test_helpers_of_rules_work_on_integers(sine_rule):
    from tvm.relay.transform import fake_quantization_to_integer as helpers

    data = np.array([1, -7, 100, 0], "int8")
    helpers.register_unary_identity("reverse")
    mod = module(relay.reverse(dequantized("x", (4,), 0.1, 0), 0), 0.1, 0)
    try:
        new = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    finally:
        relay.op.op.get("reverse").reset_attr("FTVMFakeQuantizationToInteger")
    assert operators(new) == {"reverse"}
    np.testing.assert_array_equal(results(new, [data]), data[::-1])
    mod = module(relay.sin(dequantized("x", (4,), 0.1, 0)), 0.1, 0)
    helpers.register_unary_qnn("sin", relay.qnn.op.tanh)
    new = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    np.testing.assert_array_equal(results(new, [data]), np.round(np.tanh(data * 0.1) / 0.1))
    sine_rule(lambda call, types: (_ for _ in ()).throw(NotImplementedError))
    assert "sin" in operators(relay.transform.FakeQuantizationToInteger()(mod))


@pytest.fixture
def power_rule():
    from tvm.relay.transform import fake_quantization_to_integer as helpers

    yield helpers
    relay.op.op.get("power").reset_attr("FTVMFakeQuantizationToInteger")


def test_rules_of_two_operands_take_constants_in_float(power_rule):
    def build(left, right, left_type, right_type, out):
        return relay.qnn.op.mul(left, right, left_type.scale, left_type.zero_point, right_type.scale,
                                right_type.zero_point, out.scale, out.zero_point)  # fmt: skip

    power_rule.register_binary_qnn("power", build)
    data = np.array([10, -7, 60, 0], "int8")
    pair = dequantized("x", (4,), 0.1, 0), relay.const(0.5)
    for operands in (pair, pair[::-1]):
        new = relay.transform.FakeQuantizationToInteger(hard_fail=True)(module(relay.power(*operands), 0.1, 0))
        assert np.abs(results(new, [data]) - data * 0.5).max() <= 0.5
    mod = module(relay.power(dequantized("x", (4,)), relay.var("y", shape=(4,))))
    with pytest.raises(tvm.TVMError, match="Var has no rule"):
        relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)


def test_a_rule_gets_and_gives_tuples():
    seen = []

    def split(call, types):
        x = call.args[0]
        return [call, tvm.ir.TupleAffineType([types[x], types[x]])]

    def concatenated(call, types):
        t = types[call.args[0]]
        seen.append([type(t).__name__, len(t.types)])
        return [call, t.types[0]]

    halves = relay.split(dequantized("x", (4, 2)), 2)
    mod = module(relay.concatenate([halves[1], halves[0]], 0), 0.05, 3)
    from tvm.relay.testing.temp_op_attr import TempOpAttr

    with (
        TempOpAttr("split", "FTVMFakeQuantizationToInteger", split),
        TempOpAttr("concatenate", "FTVMFakeQuantizationToInteger", concatenated),
    ):
        new = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert operators(new) == {"split", "concatenate"} and seen == [["TupleAffineType", 2]]
    data = rng.integers(-60, 60, (4, 2)).astype("int8")
    np.testing.assert_array_equal(results(new, [data]), np.roll(data, 2, 0))


def test_scales_are_compared_as_numbers():
    from tvm.relay.transform import fake_quantization_to_integer as helpers

    half = relay.const(0.5)
    assert helpers.approx_equal(relay.multiply(half, half), relay.const(0.25 + 1e-9))
    assert not helpers.approx_equal(half, relay.const(0.6)) and not helpers.approx_equal(half, relay.const([0.5, 0.5]))
    x = relay.var("s", shape=())
    assert helpers.approx_equal(x, x) and not helpers.approx_equal(x, half)
    zeros = helpers.get_zeros(relay.const([0.5, 2.0])).data.numpy()
    assert zeros.dtype == "int32" and zeros.tolist() == [0, 0]
    assert tuple(helpers.infer_shape(relay.zeros((2, 3), "float32"))) == (2, 3)
