"""``AotModule``: inputs and outputs of a model that was compiled ahead of time."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.backend import Executor
from tvm.runtime.executor import AotModule, aot_executor


@pytest.fixture
def runner() -> AotModule:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3), dtype="int32")
    body = relay.add(x * relay.const(np.full((2, 3), 2, "float32")), relay.cast(y, "float32"))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple([body, relay.exp(x)])))
    # Without constant folding the weight stays a parameter.
    with tvm.transform.PassContext(opt_level=0):
        return AotModule(relay.build(mod, "llvm", executor=Executor("aot"))["default"](tvm.cpu()))


X, Y = np.arange(6, dtype="float32").reshape(2, 3), np.ones((2, 3), "int32")


def test_inputs_by_name_and_by_index_are_converted(runner):
    runner.set_input("x", X.astype("float64"))
    runner.set_input(1, tvm.nd.array(Y))
    runner.run()
    np.testing.assert_array_equal(runner.get_output(0).numpy(), 2 * X + 1)
    runner.run(x=X + 1, y=Y)
    np.testing.assert_array_equal(runner.get_output(0).numpy(), 2 * X + 3)
    out = tvm.nd.empty((2, 3))
    assert runner.get_output(1, out) is out
    np.testing.assert_allclose(out.numpy(), np.exp(X + 1), rtol=1e-6)


def test_what_a_model_has(runner):
    assert (runner.get_num_inputs(), runner.get_num_outputs()) == (2, 2)
    assert runner.get_input_name(1) == "y" and runner.get_input_index("y") == 1 and runner.get_input_index("z") == -1
    shapes, dtypes = runner.get_input_info()
    assert tuple(shapes["x"]) == (2, 3) and dtypes["y"] == "int32"
    runner.set_input("y", Y)
    copy = tvm.nd.empty((2, 3), "int32")
    np.testing.assert_array_equal(runner.get_input("y").numpy(), Y)
    np.testing.assert_array_equal(runner.get_input(1, copy).numpy(), Y)
    assert aot_executor.AotModule is AotModule


def test_inputs_that_do_not_fit_are_rejected(runner):
    with pytest.raises(RuntimeError, match="the model has no input 'z'; its inputs are x, y"):
        runner.set_input("z", X)
    with pytest.raises(RuntimeError, match="the model has no input 2"):
        runner.get_input(2)
    with pytest.raises(ValueError, match=r"input 'x' has shape \(2, 3\), got \(3, 2\)"):
        runner.run(x=X.reshape(3, 2))
