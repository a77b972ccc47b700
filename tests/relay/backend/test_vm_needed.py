"""relay.vm.needs_vm: the reason in words where the graph executor cannot run a module, None where it can."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.prelude import Prelude


def test_straight_models_of_known_sizes_need_the_graph_executor_alone():
    x = relay.var("x", shape=(2, 3))
    f = relay.GlobalVar("f")
    y = relay.var("y", shape=(2, 3))
    mod = tvm.IRModule({f: relay.Function([y], relay.nn.relu(y))})
    z = relay.var("z")
    mod["main"] = relay.Function([x], relay.Let(z, f(x), relay.Tuple([z, relay.sum(z)])))
    assert relay.vm.needs_vm(mod) is None
    relay.build(mod, "llvm")


def test_a_function_for_another_compiler_is_called_by_the_graph_executor():
    y = relay.var("y", shape=(3,))
    inner = relay.Function([y], relay.nn.relu(y)).with_attr("Primitive", 1).with_attr("Compiler", "other")
    inner = inner.with_attr("global_symbol", "other_0")
    mod = tvm.IRModule({relay.GlobalVar("other_0"): inner})
    x = relay.var("x", shape=(3,))
    mod["main"] = relay.Function([x], mod.get_global_var("other_0")(x))
    assert relay.vm.needs_vm(mod) is None


def test_open_sizes_of_inputs_are_named():
    x = relay.var("x", shape=(relay.Any(), 3))
    assert relay.vm.needs_vm(relay.Function([x], relay.nn.relu(x))) == "input 'x' has the shape (?, 3)"
    pair = relay.var("pair", relay.TupleType([relay.TensorType((1,)), relay.TensorType((2,))]))
    assert relay.vm.needs_vm(relay.Function([pair], relay.TupleGetItem(pair, 0))) == "input 'pair' is not a tensor"


@pytest.mark.parametrize("known", [False, True])
def test_weights_may_decide_sizes_and_branches(known):
    x, s = relay.var("x", shape=(6,)), relay.var("s", shape=(2,), dtype="int64")
    mod = tvm.IRModule.from_expr(relay.Function([x, s], relay.reshape(x, s)))
    found = relay.vm.needs_vm(mod, {"s": np.array([2, 3])} if known else None)
    assert found is None if known else "dyn.reshape has a dynamic shape" in found
    c = relay.var("c", shape=(), dtype="bool")
    mod = tvm.IRModule.from_expr(relay.Function([x, c], relay.If(c, x, x + x)))
    found = relay.vm.needs_vm(mod, {"c": np.array(True)} if known else None)
    assert found is None if known else found == "it contains a branch that depends on run-time values"


def test_recursion_data_and_closures_need_the_machine():
    x, n = relay.var("x", shape=(2,)), relay.var("n", shape=(), dtype="int32")
    f = relay.GlobalVar("f")
    again = relay.If(relay.equal(n, relay.const(0)), x, f(x + x, n - relay.const(1)))
    mod = tvm.IRModule({f: relay.Function([x, n], again, relay.TensorType((2,)))})
    y, m = relay.var("y", shape=(2,)), relay.var("m", shape=(), dtype="int32")
    mod["main"] = relay.Function([y, m], f(y, m))
    assert relay.vm.needs_vm(mod) == "function 'f' is recursive"
    prelude = Prelude(tvm.IRModule())
    _, cons, nil = prelude.get_type("List")
    prelude.mod["main"] = relay.Function([y], cons(y, nil()))
    assert relay.vm.needs_vm(prelude.mod) == "it constructs algebraic data types"
    z = relay.var("z", shape=(2,))
    assert "uses a function as a value" in relay.vm.needs_vm(relay.Function([y], relay.Function([z], y + z)))
