"""Products of the same data joined on GPUs: one product with one tail, the same numbers for random graphs, and what is
left alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.visit import post_order
from tvm.relay.pipeline import optimize
from tvm.relay.transform.gpu import CombineMatmuls

GPU = tvm.target.Target("cuda -arch=sm_80")


def joined(*outs):
    body = outs[0] if len(outs) == 1 else relay.Tuple(list(outs))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))
    after = CombineMatmuls()(mod)
    found = [str(m["main"].body.checked_type) for m in (mod, after, relay.transform.InferType()(after))]
    assert found[0] == found[1] == found[2]
    return after


def operators(mod) -> list[str]:
    body = mod["main"]
    body = body.body if isinstance(body, relay.Function) else body
    return [n.op.name for n in post_order(body) if isinstance(n, relay.Call)]


def weight(rows: int, columns: int, seed: int = 0, dtype: str = "float32"):
    return relay.const(np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype))


def bias(*shape: int, seed: int = 0):
    return relay.const(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def run(mod, values) -> list[np.ndarray]:
    # Nothing but what is in the module: the CPU's own passes would join once more.
    with tvm.transform.PassContext(opt_level=0):
        lib = relay.build(mod, "llvm")
    m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    m.run(x=values)
    return [m.get_output(i).numpy() for i in range(m.get_num_outputs())]


X = relay.var("x", shape=(5, 7))


def test_three_products_with_their_biases_become_one():
    parts = [relay.nn.relu(relay.add(relay.nn.matmul(X, weight(7, n, n)), bias(n, seed=n))) for n in (4, 3, 9)]
    after = joined(*parts)
    assert sorted(operators(after)) == ["add", "nn.matmul", "nn.relu", *["strided_slice"] * 3]
    product = next(n for n in post_order(after["main"].body) if isinstance(n, relay.Call) and n.op.name == "nn.matmul")
    assert tuple(product.checked_type.shape) == (5, 16)


@pytest.mark.parametrize("tails, wanted", [
    # What differs stays with each of them.
    ([lambda v, n: relay.nn.relu(v), lambda v, n: relay.tanh(v)], ["nn.relu", "tanh"]),
    ([lambda v, n: relay.multiply(v, relay.const(0.5)), lambda v, n: relay.multiply(v, relay.const(0.25))],
     ["multiply", "multiply"]),
    ([lambda v, n: relay.multiply(v, relay.const(0.5))] * 2, ["multiply"]),
    # Numbers for rows, and for every element, are not those of columns.
    ([lambda v, n: relay.add(v, bias(5, 1))] * 2, ["add", "add"]),
    ([lambda v, n: relay.add(v, bias(5, n))] * 2, ["add", "add"]),
    ([lambda v, n: relay.add(v, bias(1, n))] * 2, ["add"]),
    ([lambda v, n: relay.subtract(v, bias(n)), lambda v, n: relay.subtract(bias(n), v)], ["subtract", "subtract"]),
    ([lambda v, n: relay.subtract(bias(n), v)] * 2, ["subtract"]),
    # A vector that turns the result into more dimensions.
    ([lambda v, n: relay.add(v, bias(1, 1, n))] * 2, ["add", "add"]),
    ([lambda v, n: relay.add(v, v)] * 2, ["add", "add"]),
    ([lambda v, n: relay.nn.softmax(v)] * 2, ["nn.softmax", "nn.softmax"]),
])  # fmt: skip
def test_what_follows_is_joined_where_it_is_the_same_for_columns(tails, wanted):
    parts = [tail(relay.nn.matmul(X, weight(7, n, n)), n) for tail, n in zip(tails, (6, 8))]
    after = joined(*parts)
    rest = [name for name in operators(after) if name not in ("nn.matmul", "strided_slice")]
    assert operators(after).count("nn.matmul") == 1 and sorted(rest) == wanted
    values = np.random.default_rng(1).standard_normal((5, 7)).astype("float32")
    before = tvm.IRModule.from_expr(relay.Function([X], relay.Tuple(parts)))
    for got, want in zip(run(after, values), run(before, values)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_an_end_that_is_used_inside_stops_the_tail():
    a, b = (relay.nn.matmul(X, weight(7, 6, seed)) for seed in (1, 2))
    after = joined(relay.nn.relu(a), relay.nn.relu(b), a)
    assert operators(after).count("nn.matmul") == 1 and operators(after).count("nn.relu") == 2


@pytest.mark.parametrize("parts", [
    lambda: [relay.nn.matmul(X, weight(7, 6)), X],
    lambda: [relay.nn.matmul(X, weight(7, 6)), relay.nn.matmul(relay.nn.relu(X), weight(7, 6, 1))],
    lambda: [relay.nn.matmul(X, weight(7, 6)), relay.nn.matmul(X, relay.var("w", shape=(7, 6)))],
    lambda: [relay.nn.matmul(X, weight(7, 6)), relay.nn.matmul(X, weight(7, 6, 1), out_dtype="float64")],
    lambda: [relay.nn.matmul(X, weight(6, 7), transpose_b=True), relay.nn.matmul(X, weight(6, 7, 1), transpose_b=True)],
])  # fmt: skip
def test_other_products_are_left_alone(parts):
    made = parts()
    assert operators(joined(*made)) == operators({"main": relay.Tuple(made)})


def test_a_cpu_joins_by_its_own_means():
    names = [[p.info.name for p in optimize(tvm.target.Target(kind))] for kind in ("llvm", "cuda")]
    assert "CombineMatmuls" not in names[0] and "CombineMatmuls" in names[1]


def random_graph(rng: np.random.Generator):
    """A few groups of products, one after the other, with tails that are the same or not."""
    rows, terms = (int(v) for v in rng.integers(1, 9, 2))
    x = relay.var("x", shape=(rows, terms))
    level: list = [x]
    outs = []
    for _ in range(int(rng.integers(1, 4))):
        data = level[int(rng.integers(len(level)))]
        terms = int(relay.transform.InferTypeLocal(data).shape[-1])
        kinds = rng.integers(0, 5, int(rng.integers(0, 4)))
        level = []
        for _ in range(int(rng.integers(1, 5))):
            units = int(rng.integers(1, 12))
            value = relay.nn.matmul(data, weight(terms, units, int(rng.integers(1 << 30))))
            for kind in kinds if rng.random() < 0.8 else kinds[::-1]:
                value = [relay.nn.relu, relay.negative, lambda v: relay.multiply(v, relay.const(0.5)),
                         lambda v, n=units: relay.add(v, bias(n, seed=int(rng.integers(1 << 30)))),
                         lambda v: relay.maximum(v, relay.const(-0.25))][kind](value)  # fmt: skip
            level.append(value)
        outs += [v for v in level if rng.random() < 0.7]
    return x, outs or level


@pytest.mark.parametrize("case", range(12))
def test_random_graphs_give_the_same_numbers(case: int, rng: np.random.Generator):
    x, outs = random_graph(rng)
    before = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(outs)))
    after = joined(relay.Tuple(outs))
    assert operators(after).count("nn.matmul") <= operators(before).count("nn.matmul")
    values = rng.standard_normal([int(d) for d in x.type_annotation.shape]).astype("float32")
    for got, want in zip(run(after, values), run(before, values)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_layers_of_a_built_model_share_a_product():
    layers = [relay.add(relay.nn.dense(X, relay.const(np.full((n, 7), 0.25, "float32"))), bias(n)) for n in (8, 8, 16)]
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([X], relay.Tuple(layers))), GPU)
    names = [node["attrs"]["func_name"] for node in json.loads(lib.get_graph_json())["nodes"] if node["op"] == "tvm_op"]
    assert sum("matmul" in name for name in names) == 1


def test_biases_after_a_reshape_are_joined_too():
    """As an ONNX MatMul of three dimensions and its Add come."""
    x = relay.var("x", shape=(1, 5, 7))
    layers = []
    for n in (8, 16, 8):
        product = relay.nn.dense(relay.reshape(x, (5, 7)), relay.const(np.full((n, 7), 0.25, "float32")))
        layers.append(relay.nn.softmax(relay.add(relay.reshape(product, (1, 5, n)), bias(n, seed=n))))
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(layers))), GPU)
    names = [node["attrs"]["func_name"] for node in json.loads(lib.get_graph_json())["nodes"] if node["op"] == "tvm_op"]
    assert [name for name in names if "matmul" in name or "add" in name] == ["tvmgen_default_fused_nn_matmul_add"]
