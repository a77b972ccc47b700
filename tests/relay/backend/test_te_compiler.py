"""Fused functions lowered one by one, as scripts do that look at schedules."""

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.backend import te_compiler


def added(n=8):
    x, y = relay.var("x", shape=(n,)), relay.var("y", shape=(n,))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, y], relay.add(x, y))))["main"]


def test_a_function_is_lowered_once_for_each_target():
    compiler = te_compiler.TECompiler()
    made = compiler.lower(added(), "llvm")
    assert compiler.lower(added(), "llvm").same_as(made) and not compiler.lower(added(), "c").same_as(made)
    assert not compiler.lower(added(9), "llvm").same_as(made) and len(compiler.items()) == 3
    assert [t.shape[0].value for t in (*made.inputs, *made.outputs)] == [8, 8, 8]
    assert made.prim_fn_var in made.funcs.functions and te_compiler.get() is te_compiler.get()
    compiler.clear()
    assert not compiler.items() and not compiler.lower(added(), "llvm").same_as(made)


def test_what_was_lowered_runs():
    x, y = np.arange(8, dtype="float32"), np.full(8, 3, "float32")
    out = tvm.nd.empty((8,))
    te_compiler.get().jit(added(), "llvm")(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), x + y)
    made = te_compiler.get().lower(added(), "llvm")
    tvm.build(made.schedule, [*made.inputs, *made.outputs], "llvm")(tvm.nd.array(y), tvm.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), y + y)


def test_a_target_is_asked_for():
    with pytest.raises(ValueError, match="there is no target; pass one"):
        te_compiler.TECompiler().lower(added())
    with tvm.target.Target("llvm"):
        assert te_compiler.TECompiler().lower(added()).target.kind.name == "llvm"
