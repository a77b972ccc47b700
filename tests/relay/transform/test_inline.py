"""Functions of a module put where they are called or used, and inner functions moved into the module."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay import transform


def run(mod, *values):
    return relay.create_executor("debug", mod).evaluate()(*values).numpy()


def numbers(value: int) -> relay.Function:
    return relay.Function([], relay.const(value)).with_attr("Inline", 1)


def test_a_function_that_is_a_value_stands_there_itself():
    mod = tvm.IRModule({})
    one, two = relay.GlobalVar("one"), relay.GlobalVar("two")
    mod[one], mod[two] = numbers(1), numbers(2)
    p = relay.var("p", shape=(), dtype="bool")
    mod["main"] = relay.Function([p], relay.Call(relay.If(p, one, two), []))
    new = transform.Inline()(mod)
    assert [v.name_hint for v in new.functions] == ["main"]
    assert [int(run(new, np.array(v))) for v in (True, False)] == [1, 2]


@pytest.mark.parametrize("compiler", [None, "other"])
def test_bodies_are_inlined_but_not_those_of_other_compilers(compiler):
    x = relay.var("x", shape=(2,))
    inner = relay.Function([x], x + relay.const(1.0)).with_attr("Inline", 1)
    mod = tvm.IRModule({})
    g = relay.GlobalVar("g")
    mod[g] = inner if compiler is None else inner.with_attr("Compiler", compiler)
    y = relay.var("y", shape=(2,))
    mod["main"] = relay.Function([y], g(g(y)))
    body = transform.Inline()(mod)["main"].body
    functions = [n for n in post_order(body) if isinstance(n, relay.Function)]
    assert len(functions) == (0 if compiler is None else 2)


def lifted(body, *params):
    mod = tvm.IRModule.from_expr(relay.Function(list(params), body))
    return mod, transform.LambdaLift()(transform.InferType()(mod))


def test_a_function_without_free_variables_becomes_one_of_the_module():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    square = relay.Function([x], x * x)
    mod, new = lifted(square(y) + square(square(y)), y)
    assert len(new.functions) == 2
    value = np.array([2, -3], "float32")
    np.testing.assert_array_equal(run(new, value), run(mod, value))


def test_a_function_takes_the_variables_it_needs_from_around_it():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    outer = relay.Function([y], relay.Function([x], x + y))
    mod, new = lifted(relay.Call(outer(relay.ones((2,), "float32")), [relay.zeros((2,), "float32")]))
    assert len(new.functions) == 3
    np.testing.assert_array_equal(run(new), np.ones(2, "float32"))


def test_a_local_function_that_calls_itself_calls_the_one_of_the_module():
    x, s = relay.var("x", shape=(2,)), relay.var("s", shape=(2,))
    i, loop = relay.var("i", shape=(), dtype="int32"), relay.var("loop")
    body = relay.If(relay.less(i, relay.const(10)), loop(i + relay.const(1), s + x), s)
    start = loop(relay.const(0), relay.zeros((2,), "float32"))
    mod, new = lifted(relay.Let(loop, relay.Function([i, s], body), start), x)
    assert len(new.functions) == 2
    np.testing.assert_array_equal(run(new, np.array([1, 2], "float32")), np.array([10, 20], "float32"))


def test_a_module_function_as_a_value_becomes_a_function_that_calls_it():
    mod = relay.parse("""
    def @aux(%x: int32) -> int32 { %x }
    def @main() -> fn (int32) -> int32 { @aux }
    """)
    new = transform.EtaExpand(expand_global_var=True)(mod)
    body = new["main"].body
    assert isinstance(body, relay.Function) and body.body.op.name_hint == "aux" and len(body.params) == 1


@pytest.mark.parametrize("text, lets", [
    ("let %f = fn (%n: int32) -> int32 { if (%n == 0) { %n } else { %f(%n - 1) } }; 5", 0),
    ("let %f = fn (%n: int32) -> int32 { %n + 1 }; let %a = %f(3); 5", 0),
    ("let %f = fn (%n: int32) -> int32 { if (%n == 0) { %n } else { %f(%n - 1) } }; let %a = %f(3); 5", 2),
    ("let %r = ref(0); let %f = fn (%n: int32) -> () { ref_write(%r, %n) }; let %a = %f(3); ref_read(%r)", 3),
])  # fmt: skip
def test_local_functions_and_their_calls_go_where_nobody_uses_them(text, lets):
    mod = transform.DeadCodeElimination()(relay.parse(f"def @main() {{ {text} }}"))
    assert sum(isinstance(n, relay.Let) for n in post_order(mod["main"].body)) == lets


def test_a_value_is_not_moved_into_a_function_whose_calls_would_compute_it_again():
    text = "let %x = exp(1f); let %f = fn (%y: float32) -> float32 { %x + %y }; (%f(2f), %f(3f))"
    mod = relay.parse(f"def @main() {{ {text} }}")
    body = transform.DeadCodeElimination(inline_once=True)(mod)["main"].body
    assert isinstance(body, relay.Let) and body.value.op.name == "exp"


def test_inlining_leaves_a_module_without_types_without_types():
    text = """
    def @twice(%x: Tensor[(2), float32], Inline=1) { add(%x, %x) }
    def @main(%y: Tensor[(2), float32]) { @twice(exp(%y)) }"""
    typed = relay.parse(text)
    y = relay.var("y", shape=(2,))
    twice = relay.GlobalVar("twice")
    x = relay.var("x", shape=(2,))
    plain = tvm.IRModule({twice: relay.Function([x], x + x).with_attr("Inline", 1)})
    plain["main"] = relay.Function([y], twice(relay.exp(y)))
    assert transform.Inline()(plain)["main"].ret_type is None
    assert transform.Inline()(typed)["main"].body.checked_type == relay.TensorType((2,))


def test_a_constructor_used_as_a_value_becomes_a_polymorphic_function():
    mod = relay.parse("""
    type Pair[A, B] { Both(A, B) }
    def @main[A, B]() -> fn (A, B) -> Pair[A, B] { Both }""")
    made = transform.EtaExpand(expand_constructor=True)(mod)["main"].body
    assert [v.name_hint for v in made.type_params] == ["A", "B"] and made.body.op.name_hint == "Both"
    assert [p.checked_type for p in made.params] == list(made.type_params)


def test_an_inline_function_without_calls_is_an_entry_and_stays():
    mod = tvm.IRModule({"alone": numbers(1)})
    assert [v.name_hint for v in transform.Inline()(mod).functions] == ["alone"]
    mod = tvm.IRModule({"one": numbers(1), "entry": numbers(2)})
    mod["main"] = relay.Function([], relay.Call(mod.get_global_var("one"), []))
    assert sorted(v.name_hint for v in transform.Inline()(mod).functions) == ["entry", "main"]
