"""Packed weights: the same results for every size, reshapes around a product gone, what follows done in one kernel."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.visit import post_order
from tvm.relay.transform.cpu.pack_dense import PackDense, pack_weight

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype("float32")


def run(mod, data):
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm")
    m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    m.run(x=data)
    return m.get_output(0).numpy(), lib


def layer(shape, units, weight, bias):
    """What an ONNX MatMul with more than two dimensions on the left becomes, and its bias."""
    x = relay.var("x", shape=shape)
    flat = relay.reshape(x, (int(np.prod(shape[:-1])), shape[-1])) if len(shape) > 2 else x
    y = relay.nn.dense(flat, relay.const(weight))
    y = relay.reshape(y, (*shape[:-1], units)) if len(shape) > 2 else y
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.add(y, relay.const(bias)))))


@pytest.mark.parametrize(
    "shape, units",
    [((1, 1), 1), ((1, 64), 1000), ((2, 7), 3), ((3, 5), 7), ((13, 17), 19), ((16, 48), 48), ((37, 101), 16),
     ((197, 33), 47), ((1, 31, 64), 96), ((2, 31, 33), 31), ((5, 1, 64), 100), ((2, 3, 4, 5), 6)],
)  # fmt: skip
def test_packed_products_agree_with_numpy(shape, units):
    weight, bias, data = normal(units, shape[-1]), normal(units), normal(*shape)
    got, _ = run(layer(shape, units, weight, bias), data)
    want = np.maximum(data.astype("float64") @ weight.T.astype("float64") + bias, 0)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def operators(func) -> list[str]:
    return [n.op.name for n in post_order(func.body) if isinstance(n, relay.Call)]


def packed(mod):
    return PackDense(tvm.target.Target("llvm"))(relay.transform.InferType()(mod))["main"]


def test_reshapes_that_cancel_go():
    names = operators(packed(layer((1, 32, 64), 96, normal(96, 64), normal(96))))
    assert names == ["nn.contrib_dense_pack", "add", "nn.relu"]


def test_single_rows_of_a_batch_stay_joined():
    names = operators(packed(layer((9, 1, 64), 96, normal(96, 64), normal(96))))
    assert names.count("reshape") == 2 and names.count("nn.contrib_dense_pack") == 1


def test_weights_that_are_no_constants_stay():
    x, w = relay.var("x", shape=(8, 16)), relay.var("w", shape=(32, 16))
    assert operators(packed(tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w))))) == ["nn.dense"]


@pytest.mark.parametrize("kind", ["matmul", "matmul_transposed", "batch_matmul"])
def test_other_products_with_constants_are_packed(kind):
    x = relay.var("x", shape=(1, 9, 20) if kind == "batch_matmul" else (9, 20))
    weight = normal(20, 33)
    if kind == "batch_matmul":
        y = relay.nn.batch_matmul(x, relay.const(weight[None]), transpose_b=False)
    elif kind == "matmul":
        y = relay.nn.matmul(x, relay.const(weight))
    else:
        y = relay.nn.matmul(x, relay.const(np.ascontiguousarray(weight.T)), transpose_b=True)
    mod = tvm.IRModule.from_expr(relay.Function([x], y))
    assert operators(packed(mod)) == ["nn.contrib_dense_pack"]
    data = normal(*[int(d) for d in x.type_annotation.shape])
    got, _ = run(mod, data)
    np.testing.assert_allclose(got, data.astype("float64") @ weight, rtol=1e-4, atol=1e-4)


def test_a_transposed_weight_is_packed_where_it_lies():
    x, weight = relay.var("x", shape=(8, 64)), normal(64, 40)
    product = relay.nn.dense(x, relay.transpose(relay.const(weight)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], product)))
    mod = relay.transform.FoldConstant()(mod)
    transposed = mod["main"].body.args[1]
    panels = PackDense(tvm.target.Target("llvm"))(mod)["main"].body.args[1].data.numpy()
    assert transposed._view is not None
    np.testing.assert_array_equal(panels.transpose(1, 0, 2).reshape(64, -1)[:, :40], weight)


def test_panels_hold_the_columns_side_by_side():
    weight = normal(10, 3)
    panels = pack_weight(weight, 4).numpy()
    assert panels.shape == (3, 3, 4)
    np.testing.assert_array_equal(panels.transpose(0, 2, 1).reshape(12, 3)[:10], weight)
    assert not panels[2, :, 2:].any()


def test_units_beyond_the_blocks_are_refused():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(2, 3, 8))
    call = relay.nn.contrib_dense_pack(x, w, units=17)
    with pytest.raises(Exception, match="units is 17"):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], call)))


def test_products_of_the_same_data_become_one():
    x = relay.var("x", shape=(1, 9, 20))
    flat = relay.reshape(x, (9, 20))
    weights = [normal(n, 20) for n in (16, 7, 33)]
    parts = [relay.reshape(relay.nn.dense(flat, relay.const(w)), (1, 9, len(w))) for w in weights]
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.concatenate([relay.tanh(p) for p in parts], 2)))
    names = operators(packed(mod))
    assert names.count("nn.contrib_dense_pack") == 1 and names.count("strided_slice") == 3
    data = normal(1, 9, 20)
    got, _ = run(mod, data)
    want = np.tanh(np.concatenate([data[0].astype("float64") @ w.T for w in weights], 1))[None]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_joined_layers_one_above_the_other_are_not_copied():
    x = relay.var("x", shape=(4, 8))
    y = x
    for _ in range(6):
        y = relay.nn.dense(y, relay.const(normal(8, 8))) + (
            relay.nn.dense(y, relay.const(normal(8, 8))) * relay.nn.dense(y, relay.const(normal(8, 8)))
        )
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))
    joined = relay.transform.CombineParallelDense(3, to_batch=False)(mod)
    assert operators(joined["main"]).count("nn.dense") == 6
    data = normal(4, 8) * 0.1
    np.testing.assert_allclose(run(joined, data)[0], run(mod, data)[0], rtol=1e-3, atol=1e-4)
