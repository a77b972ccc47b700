"""Dense layers of the same data as one: when, with what follows them, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.transform.test_gpu_operands import CUDA, heads, kernels, module
from tvm import relay
from tvm.contrib import graph_executor
from tvm.testing import requires_opencl


def weight(rng, *shape, dtype="float32"):
    return relay.const((rng.standard_normal(shape) * 0.3).astype("float32"), dtype)


def joined(e: relay.Expr, target: tvm.target.Target = CUDA) -> tvm.IRModule:
    with tvm.transform.PassContext(opt_level=3):
        return relay.optimize(module(e), target)[0]


def products(e: relay.Expr, target: tvm.target.Target = CUDA) -> int:
    text = joined(e, target)["main"].astext(show_meta_data=False)
    return text.count("nn.matmul(") + text.count("nn.dense(")


def result(mod: tvm.IRModule, x: np.ndarray, target: str = "llvm") -> np.ndarray:
    with tvm.transform.PassContext(opt_level=2 if target == "llvm" else 3):
        executor = graph_executor.GraphModule(relay.build(mod, target)["default"](tvm.device(target)))
    executor.set_input("x", x)
    executor.run()
    return executor.get_output(0).numpy()


def attention(rng) -> relay.Expr:
    x = relay.var("x", shape=(1, 24, 32))
    flat = relay.reshape(x, (24, 32))
    q, k, v = (relay.nn.dense(flat, weight(rng, 32, 32)) for _ in range(3))
    q, k, v = (relay.reshape(y, (1, 24, 32)) + weight(rng, 32) for y in (q, k, v))
    q, k, v = (heads(relay.reshape(y, (24, 32)), 24, 2, 16) for y in (q * relay.const(0.25), k, v))
    return relay.nn.batch_matmul(relay.nn.softmax(relay.nn.batch_matmul(q, k)), v, transpose_b=False)


def test_queries_keys_and_values_are_one_product(rng):
    e = attention(rng)
    assert products(e) == 1
    values = rng.standard_normal((1, 24, 32)).astype("float32")
    np.testing.assert_allclose(result(joined(e), values), result(module(e), values), 1e-3, 1e-3)


@requires_opencl
def test_attention_on_opencl(rng):
    e, values = attention(rng), rng.standard_normal((1, 24, 32)).astype("float32")
    np.testing.assert_allclose(result(module(e), values, "opencl"), result(module(e), values), 1e-3, 1e-3)


def test_what_follows_all_is_done_once(rng):
    x = relay.var("x", shape=(6, 16), dtype="float16")
    made = [relay.cast(relay.nn.dense(x, weight(rng, n, 16, dtype="float16"), out_dtype="float32"), "float16")
            for n in (8, 24)]  # fmt: skip
    made = [relay.nn.relu(y + weight(rng, n, dtype="float16")) for y, n in zip(made, (8, 24))]
    e = relay.concatenate([relay.tanh(made[0]), relay.sigmoid(made[1])], 1)
    assert kernels(e)[0] == ["nn.matmul", "cast", "add", "nn.relu"] and len(kernels(e)) == 2
    values = rng.standard_normal((6, 16)).astype("float16")
    np.testing.assert_allclose(result(joined(e), values), result(module(e), values), 1e-2, 1e-2)


def test_bfloat16(rng):
    x = relay.var("x", shape=(8, 16), dtype="bfloat16")
    q, k = (relay.reshape(relay.nn.dense(x, weight(rng, 16, 16, dtype="bfloat16")), (1, 8, 16)) for _ in range(2))
    assert products(relay.nn.batch_matmul(q, k)) == 1


@pytest.mark.parametrize("why", ["another target", "a result", "no slice is read", "other data"])
def test_layers_that_stay_alone(why, rng):
    x, y = relay.var("x", shape=(8, 16)), relay.var("y", shape=(8, 16))
    a = relay.nn.dense(x, weight(rng, 16, 16))
    b = relay.nn.dense(y if why == "other data" else x, weight(rng, 16, 16))
    e = a * b
    if why == "a result":
        e = relay.Tuple([a, e])
    if why == "no slice is read":
        e = relay.nn.softmax(a) * b
    target = tvm.target.Target("llvm -mcpu=skylake") if why == "another target" else CUDA
    text = joined(e, target)["main"].astext(show_meta_data=False)
    assert "strided_slice" not in text


def test_layers_that_follow_each_other_differently(rng):
    x = relay.var("x", shape=(8, 16))
    a, b = (relay.nn.dense(x, weight(rng, 16, 16)) for _ in range(2))
    e = relay.tanh(a) + relay.nn.relu(b) * relay.cast(relay.cast(a, "float16"), "float32")
    assert products(e) == 1
    values = rng.standard_normal((8, 16)).astype("float32")
    np.testing.assert_allclose(result(joined(e), values), result(module(e), values), 1e-2, 5e-2)
