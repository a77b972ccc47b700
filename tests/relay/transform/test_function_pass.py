"""Passes over functions: what they take and what they give."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay import transform
from tvm.relay.testing import run_opt_pass


def graph() -> relay.Function:
    x = relay.var("x", shape=(1, 10, 20))
    return relay.Function([x], relay.squeeze(relay.exp(x + relay.const(1.0)), axis=[0]))


@pytest.mark.parametrize(
    "name",
    [
        "FuseOps",
        "SimplifyExpr",
        "FoldConstant",
        "EliminateCommonSubexpr",
        "ToANormalForm",
        "ToGraphNormalForm",
        "ForwardFoldScaleAxis",
        "SimplifyInference",
        "DefuseOps",
    ],
)
def test_a_pass_takes_untyped_functions_and_gives_typed_ones(name):
    got = run_opt_pass(graph(), getattr(transform, name)())
    assert got.checked_type.ret_type == relay.TensorType((10, 20), "float32")
    assert got.body.checked_type == got.ret_type


def test_fusion_equals_what_is_written_by_hand():
    p = relay.var("p", shape=(1, 10, 20))
    kernel = relay.Function([p], relay.squeeze(relay.exp(p + relay.const(1.0)), axis=[0])).with_attr("Primitive", 1)
    x = relay.var("x", shape=(1, 10, 20))
    wanted = run_opt_pass(relay.Function([x], relay.Call(kernel, [x])), transform.InferType())
    tvm.ir.assert_structural_equal(run_opt_pass(graph(), transform.FuseOps()), wanted)


def test_a_pass_of_a_user_that_changes_nothing_gives_the_module_back():
    @transform.function_pass(opt_level=0)
    def nothing(func, mod, ctx):
        return func

    mod = transform.InferType()(tvm.IRModule.from_expr(graph()))
    assert nothing(mod) is mod


def test_nodes_that_have_types_are_not_looked_at_again(monkeypatch):
    x = relay.var("x", shape=(4,))
    body = x
    for _ in range(50):
        body = relay.exp(body)
    mod = transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    looked = []
    rule = relay.op.get("exp").attrs["type_rule"]
    monkeypatch.setitem(relay.op.get("exp").attrs, "type_rule", lambda a, t: looked.append(1) or rule(a, t))

    @transform.function_pass(opt_level=0)
    def one_more(func, mod, ctx):
        return relay.Function(func.params, relay.exp(func.body))

    got = one_more(mod)
    assert len(looked) == 1
    value = np.zeros(4, "float32")
    assert got["main"].checked_type.ret_type == relay.TensorType(value.shape, "float32")
