"""Defunctionalization: programs without functions as values compute the same."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay.transform.defunctionalize import has_function

LIST = """
type List[A] { Cons(A, List[A]), Nil, }
def @id[A](%x: A) -> A { %x }
def @map[A, B](%f: fn(A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil, }
}
def @sum(%xs: List[int32]) -> int32 { match (%xs) { Cons(%x, %rest) => %x + @sum(%rest), Nil => 0, } }
def @range(%n: int32) -> List[int32] { if (%n == 0) { Nil } else { Cons(%n, @range(%n - 1)) } }
"""
PROGRAMS = {
    "a local function as an argument": "def @call[A, B](%f: fn(A) -> B, %x: A) -> B { %f(%x) }"
    "def @main(%n: int32) -> int32 { @call(fn (%x: int32) -> int32 { %x + 1 }, %n) }",
    "a polymorphic function as an argument": LIST + "def @main(%n: int32) -> int32 { @sum(@map(@id, @range(%n))) }",
    "closures in a list": LIST + "def @main(%n: int32) -> int32 {"
    " let %fs = @map(fn (%k: int32) -> fn (int32) -> int32 { fn (%x: int32) -> int32 { %x * %k } }, @range(%n));"
    " @sum(@map(fn (%f: fn (int32) -> int32) -> int32 { %f(%n) }, %fs)) }",
    "a function that is chosen": "def @twice(%x: int32) -> int32 { %x * 2 } def @main(%n: int32) -> int32 {"
    " let %f = if (%n < 3) { @twice } else { fn (%x: int32) -> int32 { %x - %n } }; %f(%n) + %f(10) }",
    "a local function that calls itself": "def @main(%n: int32) -> int32 { let %k = %n + 1;"
    " let %f = fn (%x: int32) -> int32 { if (%x == 0) { %k } else { %x + %f(%x - 1) } }; %f(%n) }",
    "continuations": LIST + "def @fold(%xs: List[int32], %k: fn (int32) -> int32) -> int32 {"
    " match (%xs) { Cons(%x, %rest) => @fold(%rest, fn (%y: int32) -> int32 { %k(%x + %y) }), Nil => %k(0), } }"
    " def @main(%n: int32) -> int32 { @fold(@range(%n), fn (%x: int32) -> int32 { %x * 100 }) }",
    "functions in tuples": "def @main(%n: int32) -> int32 {"
    " let %t = (fn (%x: int32) -> int32 { %x + %n }, fn (%x: int32, %y: int32) -> int32 { %x * %y });"
    " let %f = %t.0; let %g = %t.1; %g(%f(%n), 3) }",
    "no functions": LIST + "def @main(%n: int32) -> int32 { @sum(@range(%n)) }",
}


def defunctionalized(text):
    mod = relay.fromtext('#[version = "0.0.5"]\n' + text)
    new = mod.clone()
    new["main"] = relay.transform.Defunctionalization(new["main"], new)
    return mod, relay.transform.RemoveUnusedFunctions()(relay.transform.InferType()(new))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_without_functions_as_values_compute_the_same(name):
    mod, new = defunctionalized(PROGRAMS[name])
    for function in new.functions.values():
        for node in post_order(function):
            if isinstance(node, relay.Call):
                assert not has_function(node.checked_type) and not any(has_function(a.checked_type) for a in node.args)
                assert isinstance(node.op, (tvm.ir.Op, relay.GlobalVar, relay.Constructor))
    if name == "no functions":
        assert {v.name_hint for v in new.functions} == {"main", "sum", "range"}
    for n in (0, 2, 5):
        was, now = (relay.create_executor("debug", m).evaluate()(np.int32(n)).numpy() for m in (mod, new))
        np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("text, message", [
    ("def @main[A](%x: A) -> A { %x }", "must not be polymorphic"),
    ("def @main(%f: fn (int32) -> int32) -> int32 { %f(1) }", "a parameter of the entry function must not"),
    ("def @main(%n: int32) -> fn () -> int32 { fn () -> int32 { %n } }", "result of the entry function must not"),
])  # fmt: skip
def test_programs_whose_ends_are_functions_are_rejected(text, message):
    mod = relay.fromtext('#[version = "0.0.5"]\n' + text)
    with pytest.raises(tvm.TVMError, match=message):
        relay.transform.Defunctionalization(mod["main"], mod)
