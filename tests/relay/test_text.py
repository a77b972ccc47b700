"""Text of graphs: what is printed, and that it reads back as the same graph."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.error import DiagnosticError
from tvm.ir import assert_structural_equal


def module(*params, body) -> tvm.IRModule:
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(list(params), body)))


def check_round_trip(mod: tvm.IRModule) -> None:
    # Reading infers types, which annotates results.
    assert_structural_equal(relay.transform.InferType()(mod), relay.parse(mod.astext()))
    assert_structural_equal(mod, tvm.ir.load_json(tvm.ir.save_json(mod)))


def small_network() -> tvm.IRModule:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    y = relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3))
    y = relay.nn.bias_add(y, relay.const(np.arange(4, dtype="float32")))
    return module(x, w, body=relay.nn.relu(y) + y * relay.const(1.5))


GOLDEN = """\
def @main(%x: Tensor[(1, 3, 8, 8), float32] /* ty=Tensor[(1, 3, 8, 8), float32] */, \
%w: Tensor[(4, 3, 3, 3), float32] /* ty=Tensor[(4, 3, 3, 3), float32] */) -> Tensor[(1, 4, 8, 8), float32] {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  %1 = nn.bias_add(%0, meta[relay.Constant][0] /* ty=Tensor[(4), float32] */) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  %2 = nn.relu(%1) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  %3 = multiply(%1, 1.5f /* ty=float32 */) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  add(%2, %3) /* ty=Tensor[(1, 4, 8, 8), float32] */
}
"""


def test_a_network_prints_as_tvm_prints_it():
    assert str(small_network()) == GOLDEN


def test_a_network_reads_back_with_its_constants():
    mod = small_network()
    assert mod.astext().startswith('#[version = "0.0.5"]\n')
    check_round_trip(mod)


def test_shared_expressions_stay_shared():
    x = relay.var("x", shape=(2,))
    y = relay.exp(x)
    back = relay.parse(module(x, body=y * y).astext())["main"].body
    assert back.args[0] is back.args[1]


def test_control_flow_puts_lines_into_the_innermost_common_block():
    a, c, held = relay.var("a", shape=()), relay.var("c", shape=(), dtype="bool"), relay.Var("l")
    shared = a + a
    body = relay.If(c, relay.Let(held, shared * shared, held + shared), shared - a)
    mod = module(a, c, body=relay.nn.relu(body))
    text = relay.astext(mod, show_meta_data=False)
    assert text.index("%0 = add(%a, %a)") < text.index("if (%c)")
    check_round_trip(mod)


def test_let_inside_an_operand_is_a_block():
    x, v = relay.var("x", shape=(3,)), relay.Var("v")
    let = relay.Let(v, x + x, v * v)
    check_round_trip(module(x, body=relay.Tuple([let, let, x])))


def test_functions_tuples_attributes_and_references_read_back():
    x, p = relay.var("x", shape=(4, 6)), relay.var("p", shape=(4, 6))
    f = relay.Function([p], relay.clip(p, -1, 6), attrs={"Primitive": 1, "Composite": "a.b"})
    parts = relay.split(relay.Call(f, [x]), (1, 3), axis=1)
    padded = relay.nn.pad(parts[1], ((0, 0), (1, 2)), -0.5)
    cell = relay.RefCreate(relay.mean(padded, axis=(0, 1), keepdims=True))
    check_round_trip(module(x, body=relay.Tuple([relay.RefRead(cell), relay.concatenate([parts[0], parts[2]], 1)])))


@pytest.mark.parametrize(
    "value, dtype, text",
    [
        (3, "int32", "3"),
        (-7, "int64", "-7i64"),
        (0.1, "float32", "0.1f"),
        (0.1, "float64", "0.1f64"),
        (2, "float16", "2f16"),
        (1e-30, "float32", "1e-30f"),
        (True, "bool", "True"),
        (float("inf"), "float32", "inff"),
        (float("nan"), "float32", "nanf"),
        (float("-inf"), "float64", "-inff64"),
        (5, "uint8", "5u8"),
    ],
)
def test_scalars_are_literals_that_read_back_exactly(value, dtype, text):
    mod = module(body=relay.const(value, dtype))
    assert text in str(mod)
    got = relay.parse(mod.astext())["main"].body.data
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.numpy(), np.array(value).astype(dtype))


def test_unknown_and_symbolic_sizes_read_back():
    x = relay.Var("x", relay.TensorType((relay.Any(), 3), "float32"))
    mod = module(x, body=relay.nn.relu(x))
    assert "Tensor[(?, 3), float32]" in str(mod)
    assert str(relay.parse(mod.astext())) == str(mod)


def test_names_that_are_no_identifiers_print_as_identifiers():
    x, y = relay.var("in.put:0", shape=(1,)), relay.var("in_put_0", shape=(1,))
    z = relay.var("0", shape=(1,))
    mod = module(x, y, z, body=x + y + z)
    assert "%in_put_0:" in str(mod) and "%in_put_0_1:" in str(mod) and "%v0:" in str(mod)
    check_round_trip(mod)


def test_operators_between_expressions_have_the_usual_strength():
    got = relay.parse_expr("free_var %x: float32; %x + %x * 2f")
    assert got.op.name == "add" and got.args[1].op.name == "multiply"


def test_several_functions_call_each_other():
    text = """
    def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { nn.relu(%x) }
    def @main(%x: Tensor[(2), float32]) { @f(@f(%x)) }
    """
    mod = relay.parse(text)
    assert [v.name_hint for v in mod.get_global_vars()] == ["f", "main"]
    assert str(mod["main"].checked_type.ret_type) == "Tensor[(2), float32]"
    check_round_trip(mod)


@pytest.mark.parametrize(
    "text, where, what",
    [
        ("def @main(%x: Tensor[(3), float32]) {\n  nn.relo(%x)\n}", ":2:3:", "nn.relu"),
        ("def @main(%x: Tensor[(3), float32]) {\n  nn.relu(%y)\n}", ":2:11:", "%y is not defined"),
        ("def @main(%x: Tensr[(3), float32]) { %x }", ":1:15:", "Tensor"),
        ("def @main(%x: float32) { add(%x, meta[relay.Constant][2]) }", ":1:34:", "metadata"),
        ("def @main(%x: float32) { add(%x %x) }", ":1:33:", "expected ')'"),
        ("def @main(%x: float32) { @g(%x) }", "", "@g is used but not defined"),
    ],
)
def test_errors_name_the_place_and_the_mistake(text, where, what):
    with pytest.raises(DiagnosticError) as caught:
        relay.parse(text)
    assert where in str(caught.value) and what in str(caught.value)


@pytest.mark.slow("prints and parses 5,000 nested expressions")
def test_deep_graphs_and_long_lets_print_and_parse():
    x = relay.var("x", shape=(1,))
    y = x
    for i in range(5000):
        y = relay.nn.relu(y) if i % 2 else y + y
    check_round_trip(tvm.IRModule.from_expr(relay.Function([x], y)))
    names = [relay.Var(f"v{i}") for i in range(5000)]
    body = names[-1]
    for i in reversed(range(5000)):
        body = relay.Let(names[i], relay.nn.relu(names[i - 1] if i else x), body)
    check_round_trip(tvm.IRModule.from_expr(relay.Function([x], body)))


@pytest.mark.parametrize("text, dtype", [
    ("2147483647", "int32"), ("2147483648", "int64"), ("-2147483648", "int32"), ("-2147483649", "int64"),
    ("9223372036854775807", "int64"), ("5i64", "int64"), ("255u8", "uint8"),
])  # fmt: skip
def test_integers_have_the_type_that_holds_them(text, dtype):
    got = relay.parse_expr(text).data
    assert got.dtype == dtype and int(got.numpy()) == int(text.split("i")[0].split("u")[0])


@pytest.mark.parametrize("text", ["9223372036854775808", "300i8", "256u8", "2147483648i32"])
def test_integers_beyond_their_type_are_refused(text):
    with pytest.raises(tvm.error.DiagnosticError, match="is out of range for"):
        relay.parse_expr(text)


def test_comments_may_hold_comments():
    assert isinstance(relay.parse_expr("/* a /* b */ c */ ()"), relay.Tuple)
    assert isinstance(relay.parse_expr("() // a /* that is no beginning"), relay.Tuple)
    with pytest.raises(DiagnosticError, match="1:4: this comment is not closed"):
        relay.parse_expr("() /* a /* b */")


@pytest.mark.parametrize("text, value", [("-10", -10), ("--10", 10), ("---10", -10), ("--1.5", 1.5)])
def test_signs_of_numbers_add_up(text, value):
    assert relay.parse_expr(text).data.numpy() == value


def test_a_sign_before_anything_else_is_the_negative():
    body = relay.parse_expr("let %x = 1; -%x").body
    assert body.op.name == "negative" and isinstance(body.args[0], relay.Var)
    assert relay.parse_expr("2 - -3").args[1].data.numpy() == -3


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_whole_numbers_of_all_types_are_written_as_numbers(dtype):
    value = relay.const(np.array(np.iinfo(dtype).min, dtype))
    text = relay.astext(value, show_meta_data=False)
    assert "meta" not in text
    assert_structural_equal(relay.parse_expr(text), value)


def test_names_with_slashes_are_kept():
    x = relay.var("base/x_1", shape=(2,))
    mod = module(x, body=relay.exp(x) / x)
    assert "%base/x_1" in str(mod)
    check_round_trip(mod)
    assert relay.parse(mod.astext())["main"].params[0].name_hint == "base/x_1"
    quotient = relay.parse_expr("fn (%a: int32, %b: int32) { %a/%b }").body
    assert quotient.op.name == "divide"


def test_the_text_of_the_name_of_a_function():
    assert relay.GlobalVar("foo").astext() == "@foo"
    assert relay.parse_expr("@foo").name_hint == "foo"


def test_windows_of_pools_and_orders_of_axes_are_always_written():
    x = relay.var("x", shape=(1, 2, 4, 4))
    for made, words in ((relay.nn.max_pool2d(x), "pool_size=[1, 1]"), (relay.transpose(x), "axes=None")):
        mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], made)))
        assert words in mod.astext()
        assert tvm.ir.structural_equal(relay.parse(mod.astext()), mod)


def test_a_literal_says_its_type_and_must_be_within_it():
    assert relay.parse_expr("-42i").data.dtype == "int32"
    assert relay.parse_expr("3.4028235e+38f").data.numpy() == np.finfo("float32").max
    assert np.isinf(relay.parse_expr("inff").data.numpy())
    for text in ("3.40283e+38f32", "65520f16", "2147483648i"):
        with pytest.raises(DiagnosticError, match="is out of range for"):
            relay.parse_expr(text)


def test_a_type_is_defined_once():
    with pytest.raises(DiagnosticError, match="type Box is defined twice"):
        relay.parse("type Box[A] { Full(A), }\ntype Box[A] { Full(A), }\ndef @main() { () }")


def test_constants_of_an_untyped_expression_are_bare():
    assert relay.const(42, "int16").astext(show_meta_data=False) == "42i16"
    call = relay.Function([], relay.const(0.0))()
    assert "0f;" not in call.astext() and "/* ty" not in call.astext()
    assert module(body=relay.const(1) + relay.const(2)).astext().count("/* ty=int32 */") == 3


def test_operators_and_lone_variables_read_back():
    assert relay.parse_expr(relay.Expr.astext(tvm.ir.Op.get("nn.relu"))) is tvm.ir.Op.get("nn.relu")
    lone = relay.var("1", shape=(2,))
    assert str(lone) == "%v1"
    assert_structural_equal(relay.parse_expr(lone.astext()), lone, map_free_vars=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [("fn (%x: Tensor[(3), float33]) { %x }", r"1:21: unknown data type 'float33'; float has 16, 32 or 64 bits"),
     ("fn (%x: Tensor[(3), int65]) { %x }", "unknown data type 'int65'; int has 1 to 64 bits"),
     ("fn (%x: Tensor[(3), bogus]) { %x }", "unknown data type 'bogus'"),
     ("fn (%x: float1000) { %x }", "'float1000' is not a type"),
     ("1" * 5000, "1:1: a number has 5000 characters; the maximum is 2000"),
     ("%x." + "1" * 5000, "a number has 500")],
)  # fmt: skip
def test_types_and_numbers_that_do_not_exist_are_refused_at_their_place(text, words):
    with pytest.raises(DiagnosticError, match=words):
        relay.parse_expr(text)


def test_an_operator_of_loaded_json_that_lacks_an_attribute_is_refused_with_its_name():
    x = relay.var("x", shape=(1, 2, 8, 8))
    call = relay.nn.conv2d(x, relay.var("w", shape=(2, 2, 3, 3)))
    text = tvm.ir.save_json(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(call), call)))
    module = tvm.ir.load_json(text.replace("data_layout", "data_layou"))
    with pytest.raises(DiagnosticError, match="operator nn.conv2d: no attribute 'data_layout'"):
        relay.transform.InferType()(module)


def test_the_place_a_call_comes_from_is_written_behind_its_type():
    x = relay.var("x", shape=(2,))
    call = relay.exp(x)
    span = relay.Span(relay.SourceName("net/exp"), 3, 3, 7, 9)
    call = relay.Call(call.op, call.args, call.attrs, call.type_args, span)
    mod = module(x, body=call)
    assert "exp(%x) /* ty=Tensor[(2), float32] span=net/exp:3:7 */" in mod.astext()
    check_round_trip(mod)
