"""AnnotateUsedMemory: bytes that are live at calls of primitive functions, beside sums worked out from the shapes."""

from __future__ import annotations

import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order


def primitive(make, shape, dtype="int8"):
    x = relay.var("p", shape=shape, dtype=dtype)
    return relay.Function([x], make(x)).with_attr("Primitive", 1)


def annotated(expr):
    mod = relay.transform.ToANormalForm()(tvm.IRModule.from_expr(expr))
    mod = relay.transform.AnnotateUsedMemory()(relay.transform.InferType()(mod))
    assert relay.transform._ffi_api.AnnotateUsedMemory is relay.transform.AnnotateUsedMemory
    return mod["main"]


def used(main) -> list:
    """The annotations in the order of the bindings."""
    found, body = [], main.body
    while isinstance(body, relay.Let):
        if isinstance(body.value, relay.Function):
            found.append(body.value.attrs["used_memory"])
        body = body.body
    return found


def test_a_chain_of_functions_holds_two_values_at_a_time():
    y = x = relay.var("x", shape=(1, 8, 8, 2), dtype="int8")
    for side in (8, 7, 6):
        y = primitive(lambda p: relay.nn.max_pool2d(p, pool_size=(2, 2), layout="NHWC"), (1, side, side, 2))(y)
    main = annotated(relay.Function([x], y))
    assert used(main) == [[8 * 8 * 2 + 7 * 7 * 2], [7 * 7 * 2 + 6 * 6 * 2], [6 * 6 * 2 + 5 * 5 * 2]]
    assert main.attrs["io_used_memory"] == 8 * 8 * 2 + 5 * 5 * 2


def test_element_types_and_tuples_count():
    x = relay.var("x", shape=(3, 4), dtype="int16")
    f = primitive(lambda p: relay.split(relay.cast(p, "float32"), 2, axis=1).astuple(), (3, 4), "int16")
    main = annotated(relay.Function([x], f(x)))
    assert used(main) == [[12 * 2 + 12 * 4]] and main.attrs["io_used_memory"] == 12 * 2 + 12 * 4


def test_values_that_are_read_later_are_live():
    x = relay.var("x", shape=(1, 4, 5, 6), dtype="int8")
    a, b = (primitive(lambda p: relay.reshape(p, (1, 4, 30)), (1, 4, 5, 6))(x) for _ in range(2))
    assert used(annotated(relay.Function([x], relay.concatenate([a, b], 0)))) == [[120 + 120], [120 + 120 + 120]]


def test_a_function_called_twice_has_a_number_for_each_call():
    x = relay.var("x", shape=(1, 10), dtype="int8")
    f = primitive(relay.exp, (1, 10), "float32")
    y = relay.cast(x, "float32")
    first = f(y)
    assert used(annotated(relay.Function([x], f(first) + first))) == [[80, 80]]


def test_branches_are_annotated():
    x, flag = relay.var("x", shape=(10,), dtype="int8"), relay.var("flag", shape=(), dtype="bool")
    f, g = (primitive(op, (10,)) for op in (relay.abs, relay.negative))
    main = annotated(relay.Function([x, flag], relay.If(flag, f(x), g(x) + x)))
    found = [
        n.attrs["used_memory"]
        for n in post_order(main.body)
        if isinstance(n, relay.Function) and n.attrs.get("Primitive")
    ]
    assert found == [[20], [20]]


def test_dynamic_dimensions_and_other_functions_are_rejected():
    x = relay.var("x", shape=(relay.Any(), 4))
    with pytest.raises(ValueError, match="AnnotateUsedMemory: a value of type .* has dynamic dimensions"):
        annotated(relay.Function([x], relay.exp(x)))
    y, p = relay.var("y", shape=(3,)), relay.var("p", shape=(3,))
    with pytest.raises(ValueError, match="is not primitive; the pass takes graphs"):
        annotated(relay.Function([y], relay.Function([p], relay.exp(p))(y)))


def test_a_composite_function_inside_a_primitive_function():
    x, y, given = (relay.var(name, shape=(1, 2, 2, 4), dtype="int8") for name in ("x", "y", "input"))
    inner = relay.Function([x], relay.nn.max_pool2d(x, pool_size=(2, 2), layout="NHWC"))
    outer = relay.Function([y], relay.Call(inner.with_attr("Composite", "my_composite_func"), [y]))
    main = annotated(relay.Function([given], outer.with_attr("Primitive", 1)(given)))
    assert used(main) == [[1 * 2 * 2 * 4 + 1 * 1 * 1 * 4]]
