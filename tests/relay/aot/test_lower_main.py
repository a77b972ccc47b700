"""Main functions of small graphs, as in Apache TVM's tests of AOTLowerMain: their calls in order, and the memory
between them."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import pre_order
from tvm.relay.backend.aot import AOTLowerMain, CallType
from tvm.target import Target, make_compilation_config
from tvm.tir.stmt import Allocate, AllocateConst

SHAPE = (5, 7)
A, B = relay.var("a", shape=SHAPE), relay.var("b", shape=SHAPE)


def primitive(*results, parameters=1):
    """A fused function of one or two tensors whose outputs are negated inputs."""
    params = [relay.var(f"p{i}", shape=SHAPE) for i in range(parameters)]
    outputs = [relay.negative(params[i]) if parameters == 1 else relay.add(*params) for i in results or (0,)]
    body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
    return relay.Function(params, body).with_attr("Primitive", 1)


def lowered(body):
    """The names of the arguments of each call of the main function, the allocations and constants, and the function."""
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    target = Target("llvm", host="llvm")
    config = make_compilation_config(tvm.transform.PassContext.current(), target)
    main = AOTLowerMain("test_mod", config, CallType.Unpacked)(mod)["__tvm_main__"]
    nodes = list(pre_order(main.body))
    calls = [n for n in nodes if isinstance(n, tvm.tir.Call) and isinstance(n.op, tvm.ir.GlobalVar)]
    copies = [n for n in nodes if isinstance(n, tvm.tir.Call) and n.args and str(n.args[0]) == '"memcpy"']
    arguments = [[arg.name for arg in call.args] for call in calls]
    spaces = sum(isinstance(n, Allocate) for n in nodes)
    return arguments, spaces, sum(isinstance(n, AllocateConst) for n in nodes), main, copies


def call(*args, **options):
    return relay.Call(primitive(**options) if options else primitive(), list(args))


def test_one_call():
    calls, spaces, constants, main, _ = lowered(call(A))
    assert (calls, spaces, constants) == ([["a", "output"]], 0, 0)
    assert main.attrs["global_symbol"] == "tvmgen_test_mod___tvm_main__" and main.attrs["runner_function"]
    assert [p.name for p in main.attrs["input_vars"]] == ["a"] and main.attrs["devices"] == ()
    assert [p.name for p in main.attrs["output_vars"]] == ["output"] and [p.name for p in main.params] == [
        "a",
        "output",
    ]


def test_a_constant():
    zeros = relay.const(np.zeros(SHAPE, "float32"))
    ((first, constant, last),), spaces, constants, _, _ = lowered(call(A, zeros, parameters=2))
    assert (first, last, spaces, constants) == ("a", "output", 0, 1) and constant not in ("a", "output")


def test_an_input_is_copied_to_the_output():
    calls, _, _, _, copies = lowered(A)
    assert calls == [] and len(copies) == 1


def test_two_calls():
    ((first, between), (again, last)), spaces, _, _, _ = lowered(call(call(A)))
    assert (first, last, spaces) == ("a", "output", 1) and between == again


def test_two_outputs():
    made = relay.Call(primitive(0, 0), [A])
    calls, spaces, _, _, _ = lowered(made)
    assert calls[0][:2] == ["a", "output0"] and spaces == 0


def test_a_tuple_between_two_calls():
    made = relay.Call(
        relay.Function([A], relay.Tuple([relay.negative(A), relay.exp(A)])).with_attr("Primitive", 1), [B]
    )
    both = call(relay.TupleGetItem(made, 0), relay.TupleGetItem(made, 1), parameters=2)
    (first, second), spaces, _, _, _ = lowered(both)
    assert first[0] == "b" and second == [*first[1:], "output"] and spaces == 2


def test_two_inputs():
    assert lowered(call(A, B, parameters=2))[0] == [["a", "b", "output"]]


@pytest.mark.parametrize("branches", [False, True])
def test_lets(branches):
    v0, v1, v2 = (relay.var(f"v{i}") for i in range(3))
    last = call(v1, v2, parameters=2) if branches else v2
    body = relay.Let(v0, call(A), relay.Let(v1, call(v0), relay.Let(v2, call(v1), last)))
    calls, spaces, _, _, _ = lowered(body)
    assert len(calls) == 3 + branches and calls[0][0] == "a" and calls[-1][-1] == "output"
    # A kernel may overwrite an input that no later call reads.
    assert 1 + branches <= spaces <= 3
    if branches:
        assert calls[3][:2] == [calls[1][1], calls[2][1]]
