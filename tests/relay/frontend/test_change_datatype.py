"""A model of one type of numbers becomes the same model of another."""

from __future__ import annotations

import numpy as np

import tvm
from tvm import relay
from tvm.relay.frontend.change_datatype import ChangeDatatype
from tvm.relay.testing import mlp


def run(mod, params, **data):
    executor = tvm.contrib.graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    executor.run(**data)
    return executor.get_output(0).numpy()


def test_a_network_of_doubles_computes_what_numpy_does(rng):
    """Sums of numbers that floats cannot tell apart say in which type the model computes."""
    x, w = relay.var("x", shape=(3, 5)), relay.var("w", shape=(4, 5))
    t, n = relay.var("t"), relay.var("n", shape=(3,), dtype="int32")
    dense = relay.nn.dense(x, w, out_dtype="float32")
    scaled = relay.Let(t, dense * relay.const(2.0) + relay.zeros((3, 4), "float32"), relay.tanh(t) + t)
    body = scaled + relay.expand_dims(relay.cast(n, "float32"), 1)
    mod = ChangeDatatype("float32", "float64")(tvm.IRModule.from_expr(relay.Function([x, w, n], body)))
    main = mod["main"]
    assert [p.type_annotation.dtype for p in main.params] == ["float64", "float64", "int32"]
    assert main.ret_type.dtype == main.body.checked_type.dtype == "float64"
    a, b = 1 + rng.uniform(-1, 1, (3, 5)) * 1e-9, 1 + rng.uniform(-1, 1, (4, 5)) * 1e-9
    k = np.array([1, -2, 3], "int32")
    y = a @ b.T * 2
    np.testing.assert_allclose(run(mod, {"w": b}, x=a, n=k), np.tanh(y) + y + k[:, None], rtol=1e-14)


def test_a_workload_changes_with_its_parameters(rng):
    mod, params = mlp.get_workload(2)
    data = rng.uniform(0, 1, (2, 1, 28, 28)).astype("float32")
    wanted = run(mod, params, data=data)
    other = {name: tvm.nd.array(value.numpy().astype("float64")) for name, value in params.items()}
    got = run(ChangeDatatype("float32", "float64")(mod), other, data=data.astype("float64"))
    assert got.dtype == "float64" and wanted.dtype == "float32"
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)
    same = ChangeDatatype("int8", "int16")(mod)
    assert tvm.ir.structural_equal(same, relay.transform.InferType()(mod))
