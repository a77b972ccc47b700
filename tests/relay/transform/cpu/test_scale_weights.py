"""Gates of channels moved to the weights: the same results, and only where that is less work."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.visit import post_order
from tvm.relay.build_module import optimize

rng = np.random.default_rng(3)


def weights(*shape):
    return relay.const(rng.standard_normal(shape).astype("float32") * 0.2)


def network(batch=1, size=9, shared=False):
    """Squeeze and excitation between two convolutions."""
    x = relay.var("x", shape=(batch, 24, size, size))
    y = relay.nn.relu(relay.nn.conv2d(x, weights(40, 24, 1, 1)))
    gate = relay.sigmoid(relay.nn.conv2d(relay.nn.global_avg_pool2d(y), weights(40, 40, 1, 1)))
    scaled = relay.multiply(gate, y)
    z = relay.nn.conv2d(scaled, weights(8, 40, 1, 1))
    out = relay.Tuple([z, scaled]) if shared else z
    return tvm.IRModule.from_expr(relay.Function([x], out)), (batch, 24, size, size)


def scaled_kernels(mod) -> int:
    """Convolutions whose weights are computed."""
    with tvm.transform.PassContext(opt_level=3):
        new, _ = optimize(mod, "llvm")
    calls = [n for n in post_order(new["main"]) if isinstance(n, relay.Call)]
    return sum(n.op.name == "nn.contrib_conv2d_NCHWc" and isinstance(n.args[1], relay.Call) for n in calls)


def run(mod, level, data):
    with tvm.transform.PassContext(opt_level=level):
        m = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu(0)))
    m.run(x=data)
    return m.get_output(0).numpy()


def test_a_gate_is_put_into_fewer_weights():
    mod, shape = network()
    assert scaled_kernels(mod) == 1
    data = rng.standard_normal(shape).astype("float32")
    np.testing.assert_allclose(run(mod, 3, data), run(mod, 0, data), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", [{"batch": 2}, {"size": 2}, {"shared": True}])
def test_gates_of_batches_small_images_and_shared_data_stay(case):
    assert scaled_kernels(network(**case)[0]) == 0
