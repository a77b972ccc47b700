"""Lets and calls of graph functions run on the graph executor."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib.graph_executor import GraphModule
from tvm.relay.transform.straight_graph import straighten

X = np.array([1.0, -2.0, 3.0], "float32")


def run(mod, value=X):
    executor = GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    executor.set_input("x", value)
    executor.run()
    return executor.get_output(0).numpy()


def main(body_of):
    x = relay.var("x", shape=(3,))
    return tvm.IRModule.from_expr(relay.Function([x], body_of(x)))


def let_of_a_value(x):
    v = relay.Var("v")
    return relay.Let(v, x + x, v * v)


def let_of_a_function(x):
    f, u, v = relay.Var("f"), relay.Var("u"), relay.Var("v")
    return relay.Let(f, relay.Function([u], u * u + u), relay.Let(v, f(x), f(v)))


def let_of_a_tuple(x):
    t = relay.Var("t")
    return relay.Let(t, relay.Tuple([x, relay.exp(x)]), relay.TupleGetItem(t, 1) - relay.TupleGetItem(t, 0))


def function_as_argument(x):
    g, y, u = relay.Var("g"), relay.Var("y"), relay.Var("u")
    return relay.Call(relay.Function([g, y], g(g(y))), [relay.Function([u], relay.tanh(u)), x])


def let_inside_an_operand(x):
    v = relay.Var("v")
    return relay.add(relay.Let(v, x * x, v + v), x)


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(
    "body, wanted",
    [
        (let_of_a_value, (X + X) ** 2),
        (let_of_a_function, (X * X + X) ** 2 + (X * X + X)),
        (let_of_a_tuple, np.exp(X) - X),
        (function_as_argument, np.tanh(np.tanh(X))),
        (let_inside_an_operand, 2 * X * X + X),
    ],
)
def test_lets_and_function_values_run_on_the_graph_executor(body, wanted, level):
    with tvm.transform.PassContext(opt_level=level):
        np.testing.assert_allclose(run(main(body)), wanted, rtol=1e-5)


def test_functions_of_the_module_run_on_the_graph_executor():
    mod = main(lambda x: x)
    q, x = relay.var("q", shape=(3,)), relay.var("x", shape=(3,))
    square = relay.GlobalVar("square")
    mod[square] = relay.Function([q], q * q)
    mod["main"] = relay.Function([x], square(square(x)) + square(x))
    np.testing.assert_allclose(run(mod), X**4 + X**2, rtol=1e-6)


def test_a_value_with_a_name_is_computed_once():
    mod = main(let_of_a_value)
    product = straighten(mod["main"], mod).body
    assert product.args[0] is product.args[1]


def test_a_graph_without_names_is_left_alone():
    mod = main(lambda x: relay.exp(x) * relay.exp(x))
    assert straighten(mod["main"], mod) is mod["main"]


def test_a_long_chain_of_lets_is_no_deep_recursion():
    def chain(x):
        names = [relay.Var(f"v{i}") for i in range(3000)]
        body = names[-1]
        for i in reversed(range(len(names))):
            body = relay.Let(names[i], relay.add(names[i - 1] if i else x, relay.const(1.0)), body)
        return body

    mod = main(chain)
    assert not isinstance(straighten(mod["main"], mod).body, relay.Let)


def test_both_branches_of_an_if_are_computed_where_they_have_one_size():
    def chosen(x):
        one, other = (relay.Tuple([x * relay.const(k), relay.sum(x)]) for k in (2.0, 3.0))
        inner = relay.If(relay.sum(x) > relay.const(-9.0), one, other)
        outer = relay.If(relay.max(x) > relay.const(2.5), inner, relay.Tuple([x, relay.max(x)]))
        return relay.TupleGetItem(outer, 0) + relay.TupleGetItem(outer, 1)

    np.testing.assert_allclose(run(main(chosen)), X * 2 + X.sum())
    np.testing.assert_allclose(run(main(chosen), X - 1), X - 1 + 2)


def test_branches_of_different_sizes_need_the_virtual_machine():
    with pytest.raises(tvm.TVMError, match="use the virtual machine"):
        run(main(lambda x: relay.If(relay.sum(x) > relay.const(0.0), relay.concatenate([x, x], 0), x)))
