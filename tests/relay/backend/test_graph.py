"""The graph that the executor runs."""

from __future__ import annotations

import numpy as np

import tvm
from tvm import relay
from tvm.contrib import graph_executor


def test_inputs_may_have_the_names_that_constants_get(rng):
    x, y = relay.var("p0", shape=(2, 3)), relay.var("p2", shape=(2, 3))
    weights = [rng.standard_normal((4, 3)).astype("float32") for _ in range(3)]
    total = sum((relay.nn.dense(v, relay.const(w)) for v, w in zip((y, x, x), weights)), start=relay.const(1.0))
    with tvm.transform.PassContext(opt_level=1):
        library = relay.build(tvm.IRModule.from_expr(relay.Function([x, y], total)), "llvm")
    assert not set(library.get_params()) & {"p0", "p2"} and len(library.get_params()) >= 3
    module = graph_executor.GraphModule(library["default"](tvm.cpu(0)))
    a, b = (rng.standard_normal((2, 3)).astype("float32") for _ in range(2))
    module.run(p0=a, p2=b)
    wanted = b @ weights[0].T + a @ (weights[1] + weights[2]).T + 1
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-5, atol=1e-5)
