"""Parameters of tuple type as inputs of the graph executor."""

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.error import TVMError
from tvm.relay.transform.flat_params import with_flat_params

TENSOR = relay.TensorType((2, 3), "float32")


def nested_model() -> tvm.IRModule:
    """p.0 * q - p.1.1 of a parameter ``p`` of a tensor and a tuple of two."""
    p = relay.var("p", relay.TupleType([TENSOR, relay.TupleType([TENSOR, TENSOR])]))
    q = relay.var("q", TENSOR)
    inner = relay.TupleGetItem(p, 1)
    return tvm.IRModule.from_expr(relay.Function([p, q], relay.TupleGetItem(p, 0) * q - relay.TupleGetItem(inner, 1)))


def arrays(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random((2, 3), "float32") for _ in range(count)]


def test_each_field_of_a_tuple_is_a_parameter():
    flat = with_flat_params(nested_model())["main"]
    assert [p.name_hint for p in flat.params] == ["p_0", "p_1_0", "p_1_1", "q"]


def test_a_module_without_tuples_is_itself():
    x = relay.var("x", TENSOR)
    mod = tvm.IRModule.from_expr(relay.Function([x], x + x))
    assert with_flat_params(mod) is mod


def test_a_field_with_the_name_of_another_parameter_is_rejected():
    p, other = relay.var("p", relay.TupleType([TENSOR])), relay.var("p_0", TENSOR)
    mod = tvm.IRModule.from_expr(relay.Function([p, other], relay.TupleGetItem(p, 0) + other))
    with pytest.raises(TVMError, match="gets the name of the parameter 'p_0'"):
        relay.build(mod, "llvm")


def test_the_graph_executor_takes_a_tuple_or_its_fields():
    a, b, c, q = arrays(4)
    runner = graph_executor.GraphModule(relay.build(nested_model(), "llvm")["default"](tvm.cpu()))
    runner.run(p=(a, (b, c)), q=q)
    np.testing.assert_allclose(runner.get_output(0).numpy(), a * q - c, rtol=1e-6)
    runner.set_input("p", (b, (a, a)))
    runner.run(p_1_1=b)
    np.testing.assert_allclose(runner.get_output(0).numpy(), b * q - b, rtol=1e-6)


def test_a_tuple_of_another_number_of_fields_is_rejected():
    a, b, c, _ = arrays(4)
    runner = graph_executor.GraphModule(relay.build(nested_model(), "llvm")["default"](tvm.cpu()))
    with pytest.raises(ValueError, match="input 'p' is a tuple of 2 fields, got 3"):
        runner.set_input("p", (a, b, c))
    with pytest.raises(ValueError, match="input 'p_1' is a tuple of 2 fields, got 1"):
        runner.set_input("p", (a, (b,)))


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_executors_take_a_tuple_as_one_argument(kind):
    a, b, c, q = arrays(4)
    run = relay.create_executor(kind, nested_model(), tvm.cpu(), "llvm").evaluate()
    np.testing.assert_allclose(run((a, (b, c)), q).numpy(), a * q - c, rtol=1e-6)
