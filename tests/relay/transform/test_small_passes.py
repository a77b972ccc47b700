"""Dilated convolutions, casts around chosen operators, places of origin and execution, functions of expressions."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order

rng = np.random.default_rng(8)


def weight(*shape):
    return relay.const(rng.standard_normal(shape).astype("float32"))


def names(e) -> list[str]:
    return [n.op.name for n in post_order(e) if isinstance(n, relay.Call)]


def atrous(layout, crops=(0, 0)):
    shape = (1, 10, 8, 3) if layout == "NHWC" else (1, 3, 10, 8)
    x = relay.var("x", shape=shape)
    lead = [] if layout == "NHWC" else [1]
    block, pads, cut = [*lead, 2, 2], [*([[0, 0]] * len(lead)), [2, 2], [2, 2]], [*([[0, 0]] * len(lead)), crops, crops]
    kernel = weight(3, 3, 3, 4) if layout == "NHWC" else weight(4, 3, 3, 3)
    y = relay.nn.conv2d(relay.nn.space_to_batch_nd(x, block, pads), kernel, data_layout=layout,
                        kernel_layout="HWIO" if layout == "NHWC" else "OIHW")  # fmt: skip
    mod = tvm.IRModule.from_expr(relay.nn.batch_to_space_nd(y, block, cut))
    return relay.transform.InferType()(mod), shape


@pytest.mark.parametrize("layout, crops", [("NHWC", (0, 0)), ("NCHW", (0, 0)), ("NHWC", (1, 2))])
def test_a_convolution_over_batches_of_points_is_dilated(layout, crops):
    mod, shape = atrous(layout, crops)
    with tvm.transform.PassContext(opt_level=3):
        new = relay.transform.FlattenAtrousConv()(mod)
    assert names(new["main"]) == ["nn.conv2d"] and tuple(new["main"].body.attrs.dilation) == (2, 2)
    data = rng.standard_normal(shape).astype("float32")
    want, got = (relay.create_executor("debug", m).evaluate()(data).numpy() for m in (mod, new))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_chosen_operators_get_other_types():
    x = relay.var("x", shape=(1, 3, 6, 6))
    y = relay.nn.conv2d(relay.nn.relu(relay.nn.conv2d(x, weight(4, 3, 3, 3))), weight(2, 4, 1, 1))
    f = relay.Function([x], y)
    made = relay.transform.recast(f, "int8", "int32")
    convs = [n for n in post_order(made) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d"]
    assert [c.checked_type.dtype for c in convs] == ["int32", "int32"]
    assert {a.checked_type.dtype for c in convs for a in c.args} == {"int8"}
    assert made.body.checked_type.dtype == "float32"
    first = relay.transform.recast(f, "float16", "float16", skip_layers=[-1])
    convs = [n for n in post_order(first) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d"]
    assert [c.checked_type.dtype for c in convs] == ["float16", "float32"]


def test_calls_get_a_place_of_origin():
    x = relay.var("x", shape=(2,))
    mod = relay.transform.AnnotateSpans()(tvm.IRModule.from_expr(relay.exp(relay.tanh(x))))
    lines = [n.span.line for n in post_order(mod["main"]) if isinstance(n, relay.Call)]
    assert lines == [1, 2]


def test_expressions_get_their_numbers_and_those_of_their_dominators():
    x, y, u, c = (relay.var(n, shape=(2,)) for n in "xyuc")
    one = relay.const(np.ones(2, "float32"))
    inner = relay.Function([u], relay.exp(u))
    shared = relay.tanh(x)
    body = relay.Let(c, relay.Call(inner, [shared]), relay.Tuple([relay.add(c, one), relay.add(shared, y)]))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, y], body)))
    made = relay.transform.CapturePostDfsIndexInSpans()(mod)
    assert tvm.ir.structural_equal(made, mod)
    found = {}
    for node in post_order(made["main"]):
        if getattr(node, "span", None) is not None:
            name = getattr(node, "name_hint", None) or getattr(getattr(node, "op", None), "name", type(node).__name__)
            assert node.span.source_name.name == "index"
            found.setdefault(name, []).append((node.span.line, node.span.column))
    # The variable c is number 2; the operators exp, tanh and add are 4, 7 and 10.
    assert found == {
        "x": [(0, 8)], "y": [(1, 13)], "u": [(3, 5)], "exp": [(5, 6)], "Function": [(6, 9), (16, -1)],
        "tanh": [(8, 15)], "Call": [(9, 15)], "Constant": [(11, 12)], "add": [(12, 14), (13, 14)], "Tuple": [(14, 15)],
        "Let": [(15, 16)],
    }  # fmt: skip
    again = relay.transform.CapturePostDfsIndexInSpans()(made)
    assert tvm.ir.structural_equal(again, mod)


def test_variables_of_patterns_keep_their_place():
    text = """type Tree[A] { Node(A, Tree[A]), Leaf, }
              def @main(%t: Tree[float32], %x: float32) -> float32 { match? (%t) { Node(%z, _) => add(%z, %x) } }"""
    mod = relay.parse(text)
    made = relay.transform.CapturePostDfsIndexInSpans()(mod)
    assert tvm.ir.structural_equal(made, mod)


def test_a_module_of_an_expression_has_its_function():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.add(x, y))
    assert isinstance(mod["main"], relay.Function) and list(mod["main"].params) == [x, y]
