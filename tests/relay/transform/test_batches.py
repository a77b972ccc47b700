"""Other sizes of a dimension: ChangeBatch gives a model another one, FlexibleShapeDispatch several at run time."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.transform import ChangeBatch, DivToMul, FlexibleShapeDispatch

rng = np.random.default_rng(4)
W = rng.standard_normal((5, 6)).astype("float32")


def model():
    """relu(x) @ W.T + y, of inputs with a batch of one."""
    x, w, y = relay.var("x", shape=(1, 6)), relay.var("w", shape=(5, 6)), relay.var("y", shape=(1, 5))
    return tvm.IRModule.from_expr(relay.Function([x, w, y], relay.nn.dense(relay.nn.relu(x), w) + y))


def data(n):
    return rng.standard_normal((n, 6)).astype("float32"), rng.standard_normal((n, 5)).astype("float32")


def wanted(x, y):
    return np.maximum(x, 0) @ W.T + y


def test_a_model_is_compiled_for_another_batch():
    mod = model()
    params = mod["main"].params
    changed = ChangeBatch({params[0]: 0, params[2]: 0}, batch_size=3)(mod)
    assert changed["main"].checked_type.ret_type == relay.TensorType((3, 5))
    x, y = data(3)
    got = relay.create_executor("graph", changed, target="llvm").evaluate()(x, W, y).numpy()
    np.testing.assert_allclose(got, wanted(x, y), rtol=1e-5, atol=1e-5)
    assert ChangeBatch({})(mod)["main"].params[0].checked_type.shape[0] == 1


@pytest.mark.parametrize("auto_pad", [False, True])
def test_sizes_have_functions_of_their_own(auto_pad):
    mod = FlexibleShapeDispatch(buckets=[1, 4], auto_pad=auto_pad, input_indices=[0, 2])(model())
    names = {v.name_hint for v in mod.get_global_vars()}
    assert names == {"main", "main_1", "main_4", "main_dynamic"}
    assert mod["main_4"].checked_type.ret_type == relay.TensorType((4, 5))
    run = relay.create_executor("vm", mod, target="llvm").evaluate()
    for n in (1, 2, 3, 4, 6):
        x, y = data(n)
        np.testing.assert_allclose(run(x, W, y).numpy(), wanted(x, y), rtol=1e-5, atol=1e-5)


def test_padding_is_seen_where_outputs_do_not_have_the_dimension():
    x = relay.var("x", shape=(2, 1))
    mod = tvm.IRModule.from_expr(relay.sum(x, axis=1))
    options = {"dim": 1, "buckets": [3], "auto_pad": True, "pad_value": 10, "affects_output": False}
    run = relay.create_executor("vm", FlexibleShapeDispatch(**options)(mod), target="llvm").evaluate()
    for n, padding in ((2, 10), (3, 0), (5, 0)):
        value = rng.standard_normal((2, n)).astype("float32")
        np.testing.assert_allclose(run(value).numpy(), value.sum(1) + padding, rtol=1e-5)


def test_tuples_of_outputs_are_cut():
    x = relay.var("x", shape=(1, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.abs(x), relay.sum(x, 1)])))
    run = relay.create_executor("vm", FlexibleShapeDispatch(buckets=[4], auto_pad=True)(mod), target="llvm").evaluate()
    value = rng.standard_normal((3, 3)).astype("float32")
    for got, want in zip(run(value), (np.abs(value), value.sum(1))):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("options, words", [
    ({"buckets": [4, 1]}, r"buckets must be positive sizes in ascending order, got \[4, 1\]"),
    ({"buckets": []}, "buckets must be positive sizes"),
    ({"dim": 2}, "input 'x' has 2 dimensions; there is no dimension 2"),
    ({"input_indices": [3]}, "main has 3 inputs; there is no input 3"),
])  # fmt: skip
def test_options_that_do_not_fit_are_rejected(options, words):
    with pytest.raises(ValueError, match=words):
        FlexibleShapeDispatch(**options)(model())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("divisor", [1.5, [2, 2, 2, 4, 5]])
def test_division_by_a_constant_becomes_a_multiplication(dtype, divisor):
    values = np.asarray(divisor, dtype)
    x = relay.var("x", shape=(3, 5), dtype=dtype)
    body = DivToMul()(tvm.IRModule.from_expr(x / relay.const(values, dtype)))["main"].body
    assert body.op.name == "multiply" and body.args[1].data.dtype == dtype
    np.testing.assert_array_equal(body.args[1].data.numpy(), (1 / values).astype(dtype))


def test_other_divisions_stay():
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    integers = relay.var("i", shape=(4,), dtype="int32") / relay.const(np.int32(3))
    for body in (x / y, relay.const(1.0) / x, integers):
        assert DivToMul()(tvm.IRModule.from_expr(body))["main"].body.op.name == "divide"
