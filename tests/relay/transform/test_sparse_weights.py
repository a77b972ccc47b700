"""Weights that are mostly zeros become sparse, and transposed ones are transposed once; results stay."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.analysis import sparse_dense as analysis
from tvm.relay.data_dep_optimization import bsr_dense, simplify_fc_transpose


def run(func, params, **data):
    mod = tvm.IRModule.from_expr(func)
    executor = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    executor.run(**data)
    return executor.get_output(0).numpy()


def operators(func) -> list[str]:
    names = []
    relay.analysis.post_order_visit(func, lambda n: names.append(n.op.name) if isinstance(n, relay.Call) else None)
    return names


def zeros_mostly(rng, rows: int, columns: int, block=(1, 1), share=0.2):
    mask = np.kron(rng.random((rows // block[0], columns // block[1])) < share, np.ones(block))
    return (rng.uniform(-1, 1, (rows, columns)) * mask).astype("float32")


def network(rng):
    """Three layers, of which the second multiplies by transposed weights, and the third by few zeros."""
    variables = [
        relay.var(*v)
        for v in (
            ("x", relay.TensorType((3, 24))),
            ("first", relay.TensorType((36, 24))),
            ("second", relay.TensorType((36, 16))),
            ("third", relay.TensorType((5, 16))),
        )
    ]
    x, first, second, third = variables
    y = relay.nn.relu(relay.nn.dense(x, first))
    y = relay.nn.relu(relay.nn.dense(y, relay.transpose(second, [1, 0])))
    func = relay.Function(variables, relay.nn.dense(y, third))
    arrays = {
        "first": zeros_mostly(rng, 36, 24, (4, 2)),
        "second": zeros_mostly(rng, 36, 16, (2, 4)),
        "third": rng.uniform(-1, 1, (5, 16)).astype("float32"),
    }
    data = rng.uniform(-1, 1, (3, 24)).astype("float32")
    hidden = np.maximum(np.maximum(data @ arrays["first"].T, 0) @ arrays["second"], 0)
    return func, {name: tvm.nd.array(a) for name, a in arrays.items()}, data, hidden @ arrays["third"].T


@pytest.mark.parametrize("block", [(1, 1), (4, 1), (2, 2)])
def test_layers_with_weights_of_mostly_zeros_become_sparse(block, rng):
    func, params, data, wanted = network(rng)
    assert analysis._search_dense_op_weight(func) == ["first", "third"]
    func, params = simplify_fc_transpose.convert(func, params)
    assert "transpose" not in operators(func) and "second" not in params and params["second.T"].shape == (16, 36)
    np.testing.assert_allclose(run(func, params, x=data), wanted, rtol=1e-4, atol=1e-5)
    assert analysis._search_dense_op_weight(func) == ["first", "second.T", "third"]
    func, params = bsr_dense.convert(func, params, block, 0.5)
    assert [n for n in operators(func) if "dense" in n] == ["nn.sparse_dense", "nn.sparse_dense", "nn.dense"]
    parts = [f"{w}.{part}" for w in ("first", "second.T") for part in ("data", "indices", "indptr")]
    assert [p.name_hint for p in func.params] == ["x", *parts, "third"] and set(params) == {*parts, "third"}
    np.testing.assert_allclose(run(func, params, x=data), wanted, rtol=1e-4, atol=1e-5)


def test_blocks_are_those_of_scipy(rng):
    sparse = pytest.importorskip("scipy.sparse")
    array = zeros_mostly(rng, 12, 8)
    array[4:8] = 0
    product = relay.nn.dense(relay.var("x", shape=(1, 8)), relay.var("w", shape=(12, 8)))
    params = {"w": tvm.nd.array(array)}
    found = analysis.process_params(product, params, (4, 2), 0.1)
    wanted = sparse.bsr_matrix(array, blocksize=(4, 2))
    wanted.sort_indices()
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(params[f"w.{name}"].numpy(), getattr(wanted, name))
    assert found == (["w"], [[*wanted.data.shape, len(wanted.indices), 4]])
    with pytest.raises(tvm.TVMError, match="weights w of shape 12 x 8 are not divisible into blocks of 5 x 2"):
        analysis.process_params(product, {"w": tvm.nd.array(array)}, (5, 2), 0)


def test_weights_that_are_read_elsewhere_stay(rng):
    x, w = relay.var("x", shape=(3, 8)), relay.var("w", shape=(8, 8))
    array = zeros_mostly(rng, 8, 8)
    data = rng.uniform(-1, 1, (3, 8)).astype("float32")
    cases = (
        (lambda: relay.nn.dense(x, w) + relay.sum(w), data @ array.T + array.sum(), bsr_dense.convert, ((2, 2), 0.3)),
        (
            lambda: relay.nn.dense(x, relay.transpose(w)) + relay.sum(w),
            data @ array + array.sum(),
            simplify_fc_transpose.convert,
            (),
        ),
    )
    for build, wanted, convert, options in cases:
        func, params = convert(relay.Function([x, w], build()), {"w": tvm.nd.array(array)}, *options)
        assert {p.name_hint for p in func.params} == {"x", *params} and "w" in params and len(params) > 1
        np.testing.assert_allclose(run(func, params, x=data), wanted, rtol=1e-4, atol=1e-5)


def test_what_is_no_product_of_two_matrices_stays(rng):
    x, w = relay.var("x", shape=(2, 3, 8)), relay.var("w", shape=(4, 8))
    array, data = np.zeros((4, 8), "float32"), rng.uniform(-1, 1, (2, 3, 8)).astype("float32")
    func = relay.Function([x, w], relay.nn.dense(x, w))
    func, params = bsr_dense.convert(func, {"w": tvm.nd.array(array)}, (1, 1), 0.5)
    assert operators(func) == ["nn.dense"] and list(params) == ["w"]
    np.testing.assert_array_equal(run(func, params, x=data), np.zeros((2, 3, 4), "float32"))


def test_weights_of_zeros_only(rng):
    x, w = relay.var("x", shape=(3, 8)), relay.var("w", shape=(4, 8))
    params = {"w": tvm.nd.array(np.zeros((4, 8), "float32"))}
    func, params = bsr_dense.convert(relay.Function([x, w], relay.nn.dense(x, w)), params, (2, 1), 0.5)
    assert operators(func) == ["nn.sparse_dense"]
    data = rng.uniform(-1, 1, (3, 8)).astype("float32")
    np.testing.assert_array_equal(run(func, params, x=data), np.zeros((3, 4), "float32"))
