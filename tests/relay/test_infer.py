"""Type inference: what it finds out, and what it writes down."""

from __future__ import annotations

import pytest

import tvm
from tvm import relay, te
from tvm.error import DiagnosticError
from tvm.relay.testing import run_infer_type

F3 = relay.TensorType((3,), "float32")


def test_inference_annotates_results_of_functions_inside_and_outside():
    a, u = relay.var("a", F3), relay.var("u", F3)
    got = run_infer_type(relay.Function([a], relay.Call(relay.Function([u], relay.exp(u)), [a])))
    assert got.ret_type == F3
    assert got.body.op.ret_type == F3
    assert got.body.checked_type == F3


@pytest.mark.parametrize("named", [False, True])
def test_parameters_of_an_inner_function_have_the_types_of_its_arguments(named):
    a, b, u, v, f = relay.var("a", F3), relay.var("b", F3), relay.var("u"), relay.var("v"), relay.var("f")
    inner = relay.Function([u, v], u + v)
    body = relay.Let(f, inner, f(a, b)) if named else relay.Call(inner, [a, b])
    got = run_infer_type(relay.Function([a, b], body))
    assert got.checked_type == relay.FuncType([F3, F3], F3)
    inner = got.body.value if named else got.body.op
    assert [p.type_annotation for p in inner.params] == [F3, F3]


def test_the_type_of_a_function_parameter_comes_from_its_call():
    t = relay.TensorType((), "int32")
    x, f = relay.var("x", t), relay.var("f")
    got = run_infer_type(relay.Function([x, f], f(x), t))
    assert got.checked_type == relay.FuncType([t, relay.FuncType([t], t)], t)


def test_a_function_given_as_an_argument_has_its_types_from_where_it_is_called():
    a, g, y, u = relay.var("a", F3), relay.var("g"), relay.var("y"), relay.var("u")
    outer = relay.Function([g, y], g(g(y)))
    got = run_infer_type(relay.Function([a], relay.Call(outer, [relay.Function([u], relay.tanh(u)), a])))
    assert got.body.op.params[0].type_annotation == relay.FuncType([F3], F3)


def test_a_function_that_calls_itself_needs_no_annotated_result():
    t = relay.TensorType((), "float32")
    mod, f = tvm.IRModule(), relay.GlobalVar("f")
    n, d = relay.var("n", shape=(), dtype="int32"), relay.var("d", t)
    again = f(n - relay.const(1), relay.log(d))
    mod[f] = relay.Function([n, d], relay.If(relay.equal(n, relay.const(0)), d, again))
    assert relay.transform.InferType()(mod)[f].checked_type.ret_type == t


def test_a_sum_of_two_unknown_values_is_refused_in_words():
    x, y = relay.var("x"), relay.var("y")
    with pytest.raises(DiagnosticError, match="types of both inputs are unknown"):
        run_infer_type(relay.Function([x, y], x + y))


def test_calls_of_operators_say_the_types_of_their_arguments():
    z = relay.add(relay.exp(relay.var("x", shape=(10, 10))), relay.var("y", shape=(1, 10)))
    assert not z.type_args
    typed = run_infer_type(z)
    assert [tuple(int(d) for d in t.shape) for t in typed.type_args] == [(10, 10), (1, 10)]
    # They are no part of what is compared: graphs with and without types are equal.
    other = relay.add(relay.exp(relay.var("x", shape=(10, 10))), relay.var("y", shape=(1, 10)))
    assert tvm.ir.structural_equal(typed, other, map_free_vars=True)


def test_calls_of_polymorphic_functions_say_what_their_type_parameters_stand_for():
    t, u = relay.TypeVar("t"), relay.TypeVar("u")
    a, b = relay.var("a", t), relay.var("b", u)
    swap = relay.Function([a, b], relay.Tuple([b, a]), relay.TupleType([u, t]), [t, u])
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(2, 2), dtype="int8")
    call = relay.Call(swap, [x, y])
    assert not call.type_args
    typed = run_infer_type(relay.Function([x, y], call)).body
    assert list(typed.type_args) == [F3, relay.TensorType((2, 2), "int8")]
    # A function without type parameters has none in its calls.
    plain = run_infer_type(relay.Function([x], relay.Call(relay.Function([relay.var("p", F3)], x), [x]))).body
    assert not plain.type_args


def test_inference_of_one_graph_gives_the_same_each_time():
    x, u, v = relay.var("x", F3), relay.var("u"), relay.var("v")
    func = relay.Function([x], relay.Let(v, relay.Call(relay.Function([u], relay.exp(u)), [x]), v + v))
    first, second = run_infer_type(func), run_infer_type(func)
    tvm.ir.assert_structural_equal(first, second)
    assert second.ret_type == F3 and second.body.value.op.ret_type == F3 and second.body.var.type_annotation == F3


@pytest.mark.parametrize("layout, kernel_layout, data, offset, weight", [
    ("NCHW", "OIHW", (2, 4, 9, 8), (2, 36, 5, 4), (6, 4, 3, 3)),
    ("NHWC", "HWIO", (2, 9, 8, 4), (2, 5, 4, 36), (3, 3, 4, 6)),
])  # fmt: skip
def test_offsets_and_weights_of_a_deformable_convolution_are_known_from_its_attributes(
    layout, kernel_layout, data, offset, weight
):
    x, o, w = relay.var("x", shape=data), relay.var("o"), relay.var("w")
    body = relay.nn.deformable_conv2d(
        x,
        o,
        w,
        strides=2,
        padding=1,
        kernel_size=(3, 3),
        channels=6,
        deformable_groups=2,
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    got = run_infer_type(relay.Function([x, o, w], body))
    assert [tuple(int(d) for d in p.type_annotation.shape) for p in got.params] == [data, offset, weight]


def test_the_second_matrix_of_a_product_has_the_units_it_is_given():
    n = te.size_var("n")
    x = relay.var("x", shape=(n, 3, 4))
    for transpose_a, transpose_b, wanted in (
        (False, False, (4, 5)), (False, True, (5, 4)), (True, False, (3, 5)), (True, True, (5, 3))
    ):  # fmt: skip
        product = relay.nn.matmul(x, relay.var("w"), units=5, transpose_a=transpose_a, transpose_b=transpose_b)
        inferred = run_infer_type(product)
        assert inferred.args[1].checked_type == relay.TensorType(wanted)
        assert inferred.checked_type == relay.TensorType((n, 4 if transpose_a else 3, 5))
    with pytest.raises(tvm.TVMError, match="give units, or annotate it"):
        run_infer_type(relay.nn.matmul(x, relay.var("w")))


def test_sizes_of_joined_tensors_are_their_sum_in_its_simplest_form():
    n, m = te.size_var("n"), te.size_var("m")
    x, y = relay.var("x", shape=(n, 2)), relay.var("y", shape=(m, 2))
    assert run_infer_type(relay.concatenate([x, y, x], 0)).checked_type == relay.TensorType((n * 2 + m, 2))
    assert run_infer_type(relay.concatenate([x, x], 1)).checked_type == relay.TensorType((n, 4))


def test_a_polymorphic_function_stands_where_a_plain_one_is_wanted():
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    x = relay.Var("x", a)
    same = relay.Function([x], x, a, [a])
    f, y = relay.Var("f", relay.FuncType([b], b)), relay.Var("y", b)
    apply = relay.Function([f, y], f(y), b, [b])
    number, unit = relay.scalar_type("int32"), relay.TupleType([])

    def inferred(e):
        return relay.transform.InferTypeLocal(e)

    assert inferred(apply(same, relay.const(0))) == number
    returned = relay.Function([], same, relay.FuncType([b], b), [b])
    assert inferred(returned) == relay.FuncType([], relay.FuncType([b], b), [b])
    name = relay.Var("id")
    both = relay.Let(name, same, relay.Tuple([name(relay.const(1)), name(relay.Tuple([]))]))
    assert inferred(both) == relay.TupleType([number, unit])
    wrong = relay.Function([], same, relay.FuncType([b, b], b), [b])
    with pytest.raises(tvm.error.DiagnosticError, match="annotated to return"):
        inferred(wrong)


POLYMORPHIC = """
#[version = "0.0.5"]
def @id[A](%x: A) -> A { %x }
def @swap[A, D](%x: A, %y: D) -> (D, A) { (%y, %x) }
def @of_one[B](%f: fn(float32) -> B) -> B { %f(1f) }
def @of_two[C](%f: fn(float32, int32) -> C) -> C { %f(1f, 2) }
def @composed[A, B, C](%f: fn(B) -> C, %g: fn(A) -> B, %x: A) -> C { %f(%g(%x)) }
def @pair[A](%x: A) -> (A, A) { (%x, %x) }
def @main() { CALL }
"""


@pytest.mark.parametrize("call, result", [
    ("@of_one(@id)", "float32"),
    ("@of_one(@pair)", "(float32, float32)"),
    ("@of_two(@swap)", "(int32, float32)"),
    ("@composed(@id, @id, 3f)", "float32"),
    ("@composed(@pair, @id, 3)", "(int32, int32)"),
    ("@composed(@of_one, @pair, 3f)", None),
])  # fmt: skip
def test_a_polymorphic_function_as_an_argument_solves_type_variables_of_the_callee(call, result):
    text = POLYMORPHIC.replace("CALL", call)
    if result is None:
        with pytest.raises(tvm.error.DiagnosticError, match="argument 0 of composed: expected"):
            relay.fromtext(text)
        return
    assert str(relay.fromtext(text)["main"].ret_type) == result


def test_an_open_annotation_is_as_none():
    x, y = relay.var("x", shape=(2,)), relay.Var("y", relay.IncompleteType())
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.Let(y, x + x, y))))["main"]
    assert typed.body.var.type_annotation == relay.TensorType((2,), "float32")


def test_sizes_that_branches_do_not_share_are_unknown():
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(2, 3))
    function = relay.Function([c, x], relay.If(c, relay.concatenate([x, x], 0), x))
    assert str(run_infer_type(function).ret_type) == "Tensor[(?, 3), float32]"


def test_the_condition_of_a_branch_is_a_bool():
    c, x = relay.var("c"), relay.var("x", F3)
    got = run_infer_type(relay.Function([c, x], relay.If(c, x, relay.exp(x))))
    assert got.params[0].checked_type == relay.scalar_type("bool")


def test_a_function_given_to_a_polymorphic_one_has_the_types_the_others_say():
    """The list says what its elements are, the start and the body what is put together."""
    mod = tvm.IRModule()
    prelude = relay.prelude.Prelude(mod)
    _, cons, nil = mod.get_type("List")
    items = cons(relay.const(1), cons(relay.const(2), nil()))
    held, item = relay.var("held"), relay.var("item")
    mod["main"] = relay.Function([], prelude.foldl(relay.Function([held, item], cons(item, held)), nil(), items))
    typed = relay.transform.InferType()(mod)
    function = typed["main"].body.args[0]
    list_of_int = mod.get_global_type_var("List")(relay.scalar_type("int32"))
    assert [p.checked_type for p in function.params] == [list_of_int, relay.scalar_type("int32")]
    got = relay.create_executor("vm", mod, target="llvm").evaluate()()
    assert [got[0].numpy().item(), got[1][0].numpy().item()] == [2, 1]


def test_too_few_arguments_of_a_polymorphic_function_are_refused():
    a = relay.TypeVar("a")
    x = relay.Var("x", a)
    same = relay.Function([x], x, a, [a])
    with pytest.raises(DiagnosticError, match="requires 1 arguments, got 0"):
        run_infer_type(relay.Function([], relay.Call(same, [])))


def test_types_that_a_global_function_is_called_with_are_found():
    mod = tvm.relay.fromtext(
        '#[version = "0.0.5"]\ndef @same[A](%x: A) -> A { %x }\n'
        "def @main(%f: Tensor[(3), float32]) { (@same(%f), @same(1)) }"
    )
    first, second = relay.transform.InferType()(mod)["main"].body.fields
    assert first.type_args == (relay.TensorType((3,)),) and second.type_args == (relay.TensorType((), "int32"),)
