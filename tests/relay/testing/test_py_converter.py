"""Graphs as Python programs compute what the interpreter computes."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.interpreter import ConstructorValue, RefValue
from tvm.relay.prelude import Prelude
from tvm.relay.testing import run_as_python, to_python
from tvm.runtime.container import ADT


def plain(value):
    """A value of either as lists and numbers."""
    if isinstance(value, tvm.nd.NDArray):
        return value.numpy().tolist()
    if isinstance(value, ConstructorValue):
        return [value.tag, *[plain(f) for f in value.fields]]
    if isinstance(value, RefValue):
        return {"reference": plain(value.value)}
    return [plain(v) for v in value]


def seq(*exprs):
    """The last of several expressions, after the others."""
    result = exprs[-1]
    for e in reversed(exprs[:-1]):
        result = relay.Let(relay.Var("_"), e, result)
    return result


def scalar(n):
    return relay.const(n)


LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"
PROGRAMS = {
    "tuples": "def @main() -> (int32, (int32, ())) { (1, (2, ())) }",
    "a part": "def @main() -> int32 { let %t = (1, (2, 3)); let %u = %t.1; %u.0 }",
    "operators": "def @main() -> float32 { let %x = 2f; let %y = %x * %x; %y + tanh(%y) }",
    "parts of an operator": "def @main() -> Tensor[(1), int32] {"
    " let %x = arange(0, 3, 1, dtype=\"int32\"); split(%x, indices_or_sections=3).1 }",
    "local functions": "def @main() -> int32 { let %f = fn (%x: int32) -> int32 { %x + 1 }; %f(%f(3)) }",
    "closures": "def @main() -> int32 {"
    " let %make = fn (%n: int32) -> fn (int32) -> int32 { fn (%x: int32) -> int32 { %x - %n } }; %make(3)(10) }",
    "local recursion": "def @main() -> int32 {"
    " let %f = fn (%n: int32) -> int32 { if (%n == 0) { 0 } else { %n + %f(%n - 1) } }; %f(5) }",
    "global recursion": "def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }"
    " def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }"
    " def @main() -> bool { @even(7) }",
    "polymorphic functions": "def @id[A](%x: A) -> A { %x }"
    " def @main() -> (int32, (int32, int32)) { (@id(1), @id((2, 3))) }",
    "lists": LIST + "def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {"
    " match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil, } }"
    " def @main() -> List[int32] { @map(fn (%x: int32) -> int32 { %x * 3 }, Cons(1, Cons(2, Nil))) }",
    "nested patterns": LIST + "def @main() -> int32 { match ((Cons(4, Cons(5, Nil)), 6)) {"
    " (Nil, _) => 0, (Cons(_, Nil), %k) => %k, (Cons(%x, Cons(%y, _)), %k) => %x * 100 + %y * 10 + %k, } }",
    "order of clauses": LIST + "def @main() -> int32 { match (Cons(4, Nil)) { _ => 1, Cons(%x, _) => %x, } }",
    "names of Python": "def @main() -> int32 { let %if = 3; let %lambda = %if + 1; %lambda * %if }",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_the_interpreter_computes(name):
    mod = relay.fromtext('#[version = "0.0.5"]\n' + PROGRAMS[name])
    main = mod["main"]
    assert plain(run_as_python(main.body, mod)) == plain(relay.create_executor("debug", mod).evaluate()())


def test_values_have_the_classes_of_the_runtime():
    mod = tvm.IRModule()
    box, a = relay.GlobalTypeVar("box"), relay.TypeVar("a")
    made = relay.Constructor("box", [a], box)
    mod[box] = relay.TypeData(box, [a], [made])
    nested = run_as_python(relay.Tuple([scalar(1), relay.Tuple([])]))
    assert isinstance(nested, ADT) and isinstance(nested[1], ADT) and isinstance(nested[0], tvm.nd.NDArray)
    value = run_as_python(made(relay.Tuple([scalar(7)])), mod)
    assert isinstance(value, ConstructorValue) and value.tag == made.tag and plain(value.fields[0]) == [7]
    reference = run_as_python(relay.RefCreate(relay.Tuple([])))
    assert isinstance(reference, RefValue) and plain(reference.value) == []


def test_references_are_read_and_written_in_order():
    x, y, f, r = (relay.Var(n) for n in "xyfr")
    write = lambda n: seq(relay.RefWrite(r, scalar(n)), relay.RefRead(r))
    call = relay.Call(f, [write(4), write(5)])
    body = relay.Tuple([relay.RefRead(r), write(2), write(3), call, relay.RefRead(r)])
    made = relay.Let(f, relay.Function([x, y], x), relay.Let(r, relay.RefCreate(scalar(1)), body))
    assert plain(run_as_python(made)) == [1, 2, 3, 4, 5]
    assert plain(run_as_python(relay.Let(r, relay.RefCreate(scalar(1)), relay.RefWrite(r, scalar(2))))) == []


@pytest.mark.parametrize("cond", [True, False])
def test_one_branch_is_run(cond):
    r = relay.Var("r")
    add = lambda n: relay.RefWrite(r, relay.RefRead(r) + scalar(n))
    body = seq(relay.If(relay.const(cond), add(1), add(10)), relay.RefRead(r))
    assert plain(run_as_python(relay.Let(r, relay.RefCreate(scalar(0)), body))) == (1 if cond else 10)


def test_what_is_matched_is_computed_once():
    prelude = Prelude()
    _, cons, nil = prelude.mod.get_type("List")
    r = relay.Var("r")
    data = seq(relay.RefWrite(r, cons(scalar(1), relay.RefRead(r))), relay.RefRead(r))
    one = relay.PatternConstructor(cons, [relay.PatternWildcard(), relay.PatternConstructor(nil, [])])
    clauses = [relay.Clause(relay.PatternConstructor(nil, []), scalar(0)), relay.Clause(one, scalar(1)),
               relay.Clause(relay.PatternWildcard(), scalar(2))]  # fmt: skip
    made = relay.Let(r, relay.RefCreate(nil()), relay.Match(data, clauses))
    assert plain(run_as_python(made, prelude.mod)) == 1


def test_a_function_is_a_function_of_python():
    x = relay.var("x", shape=(2,))
    run = run_as_python(relay.Function([x], relay.nn.relu(x)))
    np.testing.assert_array_equal(run(tvm.nd.array(np.float32([-3, 2]))).numpy(), [0, 2])


def test_the_program_is_an_abstract_syntax_tree():
    x = relay.const([1.0, 2.0])
    program = to_python(x * x)
    assert isinstance(program, ast.Module)
    names: dict = {}
    exec(compile(program, "program", "exec"), names)
    np.testing.assert_array_equal(names["__relay_result__"].numpy(), [1, 4])


def test_a_match_without_a_clause_that_fits_raises():
    prelude = Prelude()
    _, cons, nil = prelude.mod.get_type("List")
    clause = relay.Clause(relay.PatternConstructor(cons, [relay.PatternWildcard()] * 2), scalar(0))
    made = relay.Match(nil(), [clause], complete=False)
    with pytest.raises(RuntimeError, match="no clause of the match fits"):
        run_as_python(seq(cons(scalar(1), nil()), made), prelude.mod)
