"""Data types: definitions, matches, polymorphic functions, the prelude."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.error import DiagnosticError
from tvm.relay.prelude import Prelude

TYPES = "type Shape { Circle(float32), Box(float32, float32), Point, }\n"


KINDS = pytest.mark.parametrize("kind", ["debug", "vm"])


def run(kind: str, text: str, *args):
    return relay.create_executor(kind, relay.parse(text)).evaluate()(*args)


@KINDS
def test_a_match_takes_the_first_clause_that_fits(kind):
    text = (
        TYPES
        + """
    def @area(%s: Shape) -> float32 {
      match (%s) { Circle(%r) => %r * %r * 3f, Box(%a, %b) => %a * %b, Point => 0f, }
    }
    def @main(%x: float32) { (@area(Circle(%x)), @area(Box(%x, 2f)), @area(Point)) }
    """
    )
    assert [r.numpy().item() for r in run(kind, text, np.float32(4))] == [48, 8, 0]


def test_definitions_print_and_read_back():
    text = TYPES + "def @main(%s: Shape) -> float32 { match (%s) { Circle(%r) => %r, Box(_, %b) => %b, Point => 1f, } }"
    mod = relay.parse(text)
    assert "match (%s) {" in str(mod) and "Box(_, %b" in str(mod)
    tvm.ir.assert_structural_equal(mod["main"].body.data, mod["main"].params[0])
    assert str(relay.parse(mod.astext())) == str(mod)


def lists(values: str) -> str:
    return "".join(f"Cons({v}, " for v in values.split()) + "Nil" + ")" * len(values.split())


COUNT_DOWN = "fn (%n: int32) { if (%n == 0) { None } else { Some((%n - 1, %n)) } }"


def prelude_run(body: str, kind: str = "debug"):
    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    mod = relay.parse(f"def @main() {{ {body} }}", init_module=mod)
    return relay.create_executor(kind, mod).evaluate()()


@KINDS
@pytest.mark.parametrize(
    "body, want",
    [
        (f"@sum({lists('1 2 3')})", 6),
        (f"@length({lists('1f 2f')})", 2),
        (f"@nth({lists('5 6 7')}, 2)", 7),
        (f"@hd(@rev({lists('5 6 7')}))", 7),
        (f"@sum(@map(fn (%x: int32) -> int32 {{ %x * 10 }}, {lists('1 2')}))", 30),
        (f"@foldl(fn (%a: int32, %x: int32) -> int32 {{ %a * 10 + %x }}, 0, {lists('1 2 3')})", 123),
        (f"@foldr(fn (%x: int32, %a: int32) -> int32 {{ %a * 10 + %x }}, 0, {lists('1 2 3')})", 321),
        (f"@sum(@filter(fn (%x: int32) -> bool {{ %x > 1 }}, {lists('1 2 3')}))", 5),
        (f"@sum(@concat({lists('1 2')}, {lists('3')}))", 6),
        ("@size(Rose(1, Cons(Rose(2, Nil), Cons(Rose(3, Nil), Nil))))", 3),
        ("match (Some(4)) { Some(%x) => %x, None => 0, }", 4),
        (f"@nth(@update({lists('5 6 7')}, 1, 9), 1)", 9),
        (f"@foldr1(fn (%x: int32, %a: int32) -> int32 {{ %a * 10 + %x }}, {lists('1 2 3')})", 321),
        (f"@map_accumr(fn (%a: int32, %x: int32) {{ (%a * 10 + %x, %x) }}, 0, {lists('1 2 3')}).0", 321),
        (f"@hd(@map_accuml(fn (%a: int32, %x: int32) {{ (%a + %x, %x) }}, 0, {lists('1 2 3')}).1)", 3),
        ("@compose(fn (%x: int32) -> int32 { %x + 1 }, fn (%x: int32) -> int32 { %x * 5 })(2)", 11),
        ("@iterate(fn (%x: int32) -> int32 { %x * 2 }, 3)(1)", 8),
        (f"@hd(@unfoldr({COUNT_DOWN}, 3))", 3),
        (f"@hd(@unfoldl({COUNT_DOWN}, 3))", 1),
    ],
)
def test_functions_of_the_prelude(body, want, kind):
    assert prelude_run(body, kind).numpy() == want


@KINDS
def test_constructors_are_called_from_python(kind):
    p = Prelude()
    _, cons, nil = p.get_type("List")
    two = cons(relay.const(1), cons(relay.const(2), nil()))
    got = relay.create_executor(kind, p.mod).evaluate(p.sum(two))
    assert got.numpy() == 3
    assert p.get_ctor("Option", "Some").name_hint == "Some"


@pytest.mark.parametrize(
    "body, what",
    [
        ("@sum(Cons(1f, Nil))", "argument 0 of @?sum|expected"),
        ("match (1f) { Some(%x) => %x, }", "cannot match a value of type float32"),
        ("match (Some(1)) { Some(%x, %y) => %x, }", "Some has 1 fields, but the pattern has 2"),
        ("match (Some(1)) { Some(%x) => %x, None => 1f, }", "different types: int32 and float32"),
    ],
)
def test_wrong_types_are_refused_in_words(body, what):
    with pytest.raises(DiagnosticError, match=what):
        prelude_run(body)


@KINDS
def test_a_value_no_clause_fits_is_an_error(kind):
    with pytest.raises(tvm.TVMError, match="no clause"):
        prelude_run("@hd(Nil)", kind)


def test_constructors_are_numbered_when_their_type_enters_a_module():
    box, a = relay.GlobalTypeVar("Box"), relay.TypeVar("A")
    full, empty = relay.Constructor("Full", [a], box), relay.Constructor("Empty", [], box)
    mod = tvm.IRModule()
    mod[box] = relay.TypeData(box, [a], [full, empty])
    assert (full.number, empty.number) == (0, 1) and empty.tag == full.tag + 1
    assert tvm.ir.structural_equal(mod, relay.parse("type Box[A] { Full(A), Empty, }"))
    with pytest.raises(ValueError, match="already has a function 'f'"):
        mod._add("f", relay.Function([], relay.const(1)), False)
        mod._add("f", relay.Function([], relay.const(2)), False)


def test_a_data_type_without_parameters_is_its_name_with_none():
    mod = tvm.IRModule()
    mod.import_from_std("nat.rly")
    nat, zero, successor = mod.get_type("nat")
    assert mod["nat_add"].checked_type == relay.FuncType([nat(), nat()], nat())
    n = relay.Var("n", nat)
    mod["main"] = relay.Function([n], relay.Tuple([successor(n), zero()]))
    assert relay.transform.InferType()(mod)["main"].ret_type == relay.TupleType([nat(), nat()])


def test_names_of_type_variables_do_not_count():
    a, b, c = (relay.TypeVar(name) for name in "abc")
    one, other = relay.FuncType([a, b], b, [a, b]), relay.FuncType([c, a], a, [c, a])
    assert one == other and hash(one) == hash(other) and tvm.ir.structural_equal(one, other)
    assert one != relay.FuncType([c, a], c, [c, a]) and one != relay.FuncType([a, b], b)


def test_variables_of_patterns_are_annotated_by_inference():
    text = (
        "type List[A] {{ Cons(A, List[A]), Nil, }}\ndef @length[A](%xs: List[A]) -> int32 {{\n"
        "  match (%xs) {{ Cons(_, %rest{}) => 1 + @length(%rest), Nil => 0, }}\n}}"
    )
    assert tvm.ir.structural_equal(relay.parse(text.format("")), relay.parse(text.format(": List[A]")), True)
