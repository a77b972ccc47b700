"""PartialEvaluate: what does not depend on the inputs is computed while compiling, and programs mean the same."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay import transform

SIMPLER = tvm.transform.Sequential(
    [transform.PartialEvaluate(), transform.DeadCodeElimination(inline_once=True, ignore_impurity=True)]
)


def parsed(text):
    return relay.fromtext('#[version = "0.0.5"]\n' + text)


def check_body(text, wanted):
    """Main becomes the function of the same parameters that is written as wanted."""
    signature = text.partition("def @main")[2].partition("{")[0]
    mod = parsed(f"{text}\ndef @wanted{signature}{{ {wanted} }}")
    tvm.ir.assert_structural_equal(SIMPLER(mod)["main"], mod["wanted"])


def check_results(mod, *inputs):
    new = transform.PartialEvaluate()(mod)
    for arrays in inputs:
        was, now = (relay.create_executor("debug", m).evaluate()(*arrays) for m in (mod, new))
        np.testing.assert_array_equal(was.numpy(), now.numpy())
    return new


NAT = """
type nat { Z, S(nat), }
def @double(%n: nat) -> nat { match (%n) { Z => Z, S(%m) => S(S(@double(%m))), } }
def @difference(%x: nat, %y: nat) -> nat {
  match (%x) { Z => %y, S(%a) => { match (%y) { Z => %x, S(%b) => @difference(%b, %a), } }, }
}
def @swap(%x: nat, %y: nat) -> nat { @swap(%y, %x) }
"""
LIST = """
type List[A] { Cons(A, List[A]), Nil, }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil, }
}
def @sum(%xs: List[int32]) -> int32 { match (%xs) { Cons(%x, %rest) => %x + @sum(%rest), Nil => 0, } }
"""
REWRITTEN = {
    "a part of a tuple": ("def @main(%x: int32) -> int32 { (4.0, %x).1 }", "%x"),
    "operators on constants": (
        "def @main() -> float32 { let %twice = fn (%d: float32) { %d + %d }; %twice(4f) }", "8f"),
    "a branch that is known": ("def @main(%x: int32) -> int32 { if (1 < 2) { %x + 1 } else { %x } }", "%x + 1"),
    "a recursive function": (NAT + "def @main() -> nat { @double(S(S(Z))) }", "S(S(S(S(Z))))"),
    "two arguments in turn": (NAT + "def @main() -> nat { @difference(S(S(S(Z))), S(Z)) }", "S(S(Z))"),
    "an endless loop": (NAT + "def @main() -> nat { @swap(S(Z), S(S(Z))) }", "@swap(S(Z), S(S(Z)))"),
    "a list of inputs": (LIST + "def @main(%x: int32) -> List[int32] {"
                         " @map(fn (%a: int32) -> int32 { %a * 2 }, Cons(%x, Cons(3, Nil))) }",
                         "Cons(%x * 2, Cons(6, Nil))"),
    "a sum of constants": (LIST + "def @main() -> int32 { @sum(Cons(3, Cons(4, Nil))) }", "7"),
    "a counted loop": ("def @power(%x: float32, %n: int32) -> float32 {"
                       " if (%n == 0) { 1f } else { %x * @power(%x, %n - 1) } }"
                       "def @main(%x: float32) -> float32 { @power(%x, 3) }", "%x * (%x * (%x * 1f))"),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITTEN)
def test_what_is_known_is_evaluated(name):
    check_body(*REWRITTEN[name])


def test_a_reference_is_followed():
    t = relay.TensorType((), "float32")
    d, r = relay.Var("d", t), relay.Var("r", relay.RefType(t))
    square = relay.RefWrite(r, relay.RefRead(r) * relay.RefRead(r))
    body = relay.Let(r, relay.RefCreate(d), relay.Let(relay.Var("x"), square, relay.RefRead(r)))
    got = SIMPLER(tvm.IRModule.from_expr(relay.Function([d], body)))["main"]
    wanted = transform.InferType()(tvm.IRModule.from_expr(relay.Function([d], d * d)))["main"]
    tvm.ir.assert_structural_equal(got, wanted)


def with_reference(build):
    """A function of a condition and a number, which ``build`` makes of them and of a reference to 2."""
    cond, x, r = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(), dtype="int32"), relay.Var("r")
    body = relay.Let(r, relay.RefCreate(relay.const(2)), build(cond, x, r))
    return transform.InferType()(tvm.IRModule.from_expr(relay.Function([cond, x], body)))


def then(first, rest):
    return relay.Let(relay.Var("first"), first, rest)


def add_to(r, value):
    return relay.RefWrite(r, relay.RefRead(r) + value)


EFFECTS = {
    "written in a branch": lambda c, x, r: then(
        relay.If(c, add_to(r, x), relay.Tuple([])), relay.RefRead(r) * relay.const(3)),
    "written in both branches": lambda c, x, r: then(
        relay.If(c, add_to(r, x), add_to(r, relay.const(1))), relay.RefRead(r)),
    "read in a branch": lambda c, x, r: relay.If(c, relay.RefRead(r) + x, relay.RefRead(r)),
    "written after a function that reads is made": lambda c, x, r: relay.Let(
        f := relay.Var("f"), relay.Function([], relay.RefRead(r)), then(add_to(r, x), relay.Call(f, []))),
    "written by a function that is chosen when running": lambda c, x, r: relay.Let(
        f := relay.Var("f"), relay.Function([], add_to(r, x)),
        relay.Let(g := relay.Var("g"), relay.Function([], add_to(r, relay.const(5))),
                  then(relay.Call(relay.If(c, f, g), []), relay.RefRead(r)))),
    "two references": lambda c, x, r: relay.Let(
        s := relay.Var("s"), relay.RefCreate(x), then(relay.RefWrite(relay.If(c, r, s), relay.const(9)),
                                                      relay.RefRead(r) - relay.RefRead(s))),
}  # fmt: skip


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_happen_once_and_in_order(name):
    mod = with_reference(EFFECTS[name])
    check_results(mod, *[(np.bool_(c), np.int32(x)) for c in (True, False) for x in (0, 7)])


def test_functions_with_unknown_arguments_end():
    mod = parsed(
        LIST
        + """
def @length[A](%xs: List[A]) -> int32 { match (%xs) { Cons(_, %rest) => 1 + @length(%rest), Nil => 0, } }
def @range(%n: int32) -> List[int32] { if (%n == 0) { Nil } else { Cons(%n, @range(%n - 1)) } }
def @up(%i: int32, %n: int32) -> int32 { if (%i == %n) { 0 } else { %i + @up(%i + 1, %n) } }
def @main(%n: int32) -> int32 {
  let %f = fn (%k: int32) -> int32 { if (%k == 0) { 0 } else { 1 + @length(@range(%k)) } };
  %f(%n) + @sum(@range(%n)) + @up(0, %n) + @up(0, 1000)
}"""
    )
    check_results(mod, (np.int32(5),), (np.int32(0),))


def test_a_local_function_calls_itself():
    mod = parsed("""def @main(%n: int32) -> int32 {
  let %down = fn (%k: int32) -> int32 { if (%k == 0) { 0 } else { %k + %down(%k - 1) } };
  %down(%n) + %down(4)
}""")
    new = check_results(mod, (np.int32(6),))
    constants = [int(n.data.numpy()) for n in post_order(new["main"]) if isinstance(n, relay.Constant)]
    assert 10 in constants


def test_a_match_of_unknown_data_keeps_the_clauses_that_may_fit():
    mod = parsed(
        LIST
        + """
def @main(%xs: List[int32]) -> int32 {
  match ((3, %xs)) { (_, Nil) => 0, (%k, Cons(%x, _)) => %k + %x, }
}"""
    )
    new = transform.PartialEvaluate()(mod)
    xs = relay.create_executor("debug", parsed(LIST + "def @main() -> List[int32] { Cons(4, Nil) }")).evaluate()()
    assert relay.create_executor("debug", new).evaluate()(xs).numpy() == 7


def test_what_is_shared_is_computed_once():
    x = relay.var("x", shape=(2,))
    y = relay.exp(x)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.add(relay.tanh(y), relay.multiply(y, y))))
    new = transform.PartialEvaluate()(mod)
    names = [n.op.name for n in post_order(new["main"]) if isinstance(n, relay.Call)]
    assert sorted(names) == ["add", "exp", "multiply", "tanh"]


def test_functions_that_are_kernels_stay():
    x = relay.var("x", shape=(2,))
    inner = relay.Function([p := relay.var("p", shape=(2,))], relay.exp(p)).with_attr("Primitive", 1)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Call(inner, [x])))
    functions = [n for n in post_order(SIMPLER(mod)["main"].body) if isinstance(n, relay.Function)]
    assert [bool(f.attrs.get("Primitive")) for f in functions] == [True]


def test_long_programs_do_not_recurse():
    x = relay.var("x", shape=())
    body = x
    for _ in range(3000):
        body = relay.negative(body)
    new = transform.PartialEvaluate()(tvm.IRModule.from_expr(relay.Function([x], body)))
    assert sum(isinstance(n, relay.Let) for n in post_order(new["main"])) == 3000
