"""lift_called: local functions that are only called become functions of the module."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.random_programs import plain, shapes
from tvm import relay
from tvm.relay.backend.vm.compiler import prepared
from tvm.relay.transform.lift_called import lift_called


def lifted(body, *cases, head="%n: int32, %x: Tensor[(?), int32]"):
    """The names of the functions afterwards; the machine computes what the interpreter does before."""
    mod = relay.parse(f'#[version = "0.0.5"]\ndef @main({head}) {{ {body} }}')
    debug = relay.create_executor("debug", mod).evaluate()
    new = lift_called(mod)
    for run in (relay.create_executor("vm", mod).evaluate(), relay.create_executor("debug", new).evaluate()):
        for case in cases:
            got, want = run(*case), debug(*case)
            assert shapes(got) == shapes(want) and plain(got) == plain(want)
    return sorted(v.name_hint for v in new.functions)


CASES = [(n, np.arange(size, dtype="int32") - 1) for n in (0, 1, 4) for size in (1, 5)]
VECTOR = "Tensor[(?), int32]"
LOOP = f"""let %loop = fn (%i: int32, %s: {VECTOR}) -> {VECTOR} {{
  if (less(%i, %n)) {{ %loop(add(%i, 1), add(multiply(%s, %x), %i)) }} else {{ %s }}
}};"""


def test_a_loop_has_what_it_uses_as_parameters():
    assert lifted(LOOP + "add(%loop(0, %x), %loop(1, %x))", *CASES) == ["loop", "main"]


def test_what_gives_the_function_may_be_called():
    i, x = relay.var("i", shape=(), dtype="int32"), relay.var("x", shape=(relay.Any(),), dtype="int32")
    loop = relay.loops.while_loop(
        lambda i, x: relay.less(i, relay.const(3)), [i, x], lambda i, x: (i + relay.const(1), x * x + i))  # fmt: skip
    start = relay.var("start", shape=(relay.Any(),), dtype="int32")
    mod = tvm.IRModule.from_expr(relay.Function([start], relay.TupleGetItem(loop(relay.const(0), start), 1)))
    functions = lift_called(relay.transform.InferType()(mod)).functions
    assert sorted(v.name_hint for v in functions) == ["main", "while_loop"]
    value = np.array([1, -2], "int32")
    want = value
    for step in range(3):
        want = want * want + step
    np.testing.assert_array_equal(relay.create_executor("vm", mod).evaluate()(value).numpy(), want)


def test_loops_nest():
    inner = f"""let %inner = fn (%j: int32, %t: {VECTOR}) -> {VECTOR} {{
      if (less(%j, %i)) {{ %inner(add(%j, 1), subtract(%t, multiply(%s, %j))) }} else {{ %t }}
    }};"""
    text = LOOP.replace("if (less(%i", inner + "if (less(%i").replace("add(multiply(%s, %x), %i)", "%inner(0, %s)")
    assert lifted(text + "%loop(0, %x)", *CASES) == ["inner", "loop", "main"]


def test_functions_that_call_one_around_them_are_lifted_after_it():
    """The inner one calls the outer one, so it has what that has around it."""
    text = f"""let %outer = fn (%i: int32, %s: {VECTOR}) -> {VECTOR} {{
      let %down = fn (%t: {VECTOR}) -> {VECTOR} {{ %outer(subtract(%i, 1), add(%t, %x)) }};
      if (greater(%i, 0)) {{ %down(multiply(%s, %i)) }} else {{ %s }}
    }};"""
    assert lifted(text + "%outer(%n, %x)", *CASES) == ["down", "main", "outer"]


def test_names_that_meet_are_told_apart():
    first = f"let %f = fn (%s: {VECTOR}) -> {VECTOR} {{ add(%s, %x) }}; %f(%x)"
    second = f"let %f = fn (%s: {VECTOR}) -> {VECTOR} {{ multiply(%s, %n) }}; %f(%x)"
    body = f"if (less(%n, 2)) {{ {first} }} else {{ {second} }}"
    assert lifted(body, *CASES) == ["f", "f_", "main"]


@pytest.mark.parametrize("use", [
    "let %g = %loop; %g(0, %x)",
    "let %both = (%loop, %x); let %g = %both.0; %g(0, %x)",
    f"let %call = fn (%f: fn (int32, {VECTOR}) -> {VECTOR}) -> {VECTOR} {{ %f(0, %x) }}; %call(%loop)",
])  # fmt: skip
def test_functions_that_are_values_stay(use):
    assert "loop" not in lifted(LOOP + use, *CASES)


def test_a_lifted_loop_is_hoisted():
    """The product of the weight with itself is the same in all steps."""
    mod = relay.parse("""#[version = "0.0.5"]
    def @main(%n: int32, %x: Tensor[(?, 3), float32], %w: Tensor[(3, 3), float32]) {
      let %loop = fn (%i: int32, %s: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {
        if (less(%i, %n)) { %loop(add(%i, 1), nn.dense(%s, nn.dense(%w, %w))) } else { %s }
      };
      %loop(0, %x)
    }""")
    found = {v.name_hint: str(f).count("nn.dense") for v, f in prepared(mod).functions.items()}
    assert found == {"main": 0, "loop": 1, "loop_steps": 1}
