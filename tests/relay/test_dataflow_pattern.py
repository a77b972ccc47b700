"""The pattern language: match, rewrite, partition."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir import structural_equal
from tvm.relay.dataflow_pattern import (
    DFPatternCallback,
    FunctionPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)


def image(name="x"):
    return relay.var(name, shape=(1, 4, 8, 8))


def conv(x, w=None, **kw):
    return relay.nn.conv2d(x, relay.var("w", shape=(4, 4, 3, 3)) if w is None else w, padding=(1, 1), **kw)


def test_operators_names_constants_and_tuples():
    x = image()
    assert is_op("nn.relu")(wildcard()).match(relay.nn.relu(x))
    assert not is_op("nn.relu")(wildcard()).match(relay.tanh(x))
    assert not is_op("nn.relu")(is_constant()).match(relay.nn.relu(x))
    assert is_var("x").match(x) and is_var().match(x) and not is_var("y").match(x)
    assert is_expr(relay.const(1.0)).match(relay.const(1.0)) and not is_expr(relay.const(1.0)).match(relay.const(2.0))
    assert is_tuple([is_var("x"), wildcard()]).match(relay.Tuple([x, relay.nn.relu(x)]))
    assert not is_tuple([wildcard()]).match(relay.Tuple([x, x]))
    parts = relay.split(x, 2, 1)
    assert is_tuple_get_item(is_op("split")(wildcard()), 1).match(parts[1])
    assert not is_tuple_get_item(is_op("split")(wildcard()), 0).match(parts[1])


def test_addition_and_multiplication_match_in_either_order():
    x, y = image(), image("y")
    pattern = is_var("x") + is_op("nn.relu")(is_var("y"))
    assert pattern.match(relay.nn.relu(y) + x) and pattern.match(x + relay.nn.relu(y))
    assert not (is_var("x") - is_var("y")).match(y - x)


def test_one_pattern_object_stands_for_one_expression():
    x, y = image(), image("y")
    w = wildcard()
    assert is_op("subtract")(w, w).match(x - x)
    assert not is_op("subtract")(w, w).match(x - y)


def test_attributes_types_shapes_and_alternatives():
    x = image()
    c = conv(x, strides=(2, 2))
    assert is_op("nn.conv2d")(wildcard(), wildcard()).has_attr({"strides": [2, 2]}).match(c)
    assert not has_attr({"strides": [1, 1]}, is_op("nn.conv2d")(wildcard(), wildcard())).match(c)
    assert has_dtype("float32").match(c) and not has_dtype("int8").match(c)
    assert has_shape((1, 4, 4, 4)).match(c) and not has_shape((1, 4, 8, 8)).match(c)
    assert has_type(relay.TensorType((1, 4, 8, 8))).match(x)
    either = is_op("nn.relu") | is_op("tanh")
    assert either(wildcard()).match(relay.tanh(x)) and not either(wildcard()).match(relay.exp(x))


def test_optional_parts():
    x = image()
    pattern = is_op("nn.conv2d")(wildcard(), wildcard()).optional(lambda e: is_op("nn.relu")(e))
    assert pattern.match(conv(x)) and pattern.match(relay.nn.relu(conv(x))) and not pattern.match(relay.nn.relu(x))


def test_functions_branches_and_lets():
    x, c, v = image(), relay.var("c", shape=(), dtype="bool"), relay.Var("v")
    assert FunctionPattern([wildcard()], is_op("nn.relu")(wildcard())).match(relay.Function([x], relay.nn.relu(x)))
    assert is_if(is_var("c"), is_var("x"), wildcard()).match(relay.If(c, x, relay.nn.relu(x)))
    assert is_let(is_var("v"), wildcard(), is_var("v")).match(relay.Let(v, x, v))


def test_dominators_see_diamonds_and_refuse_leaks():
    x = image()
    path = (is_op("nn.relu") | is_op("tanh") | is_op("add"))(wildcard()) | is_op("add")(wildcard(), wildcard())
    pattern = dominates(is_op("nn.conv2d")(wildcard(), wildcard()), path, is_op("add")(wildcard(), wildcard()))
    c = conv(x)
    diamond = relay.nn.relu(c) + relay.tanh(c)
    assert pattern.match(diamond)
    assert not pattern.match(relay.exp(c) + relay.exp(c))
    # Every way back comes to one parent: not to another one, nor past it to the input.
    assert not pattern.match(relay.nn.relu(c) + relay.nn.relu(conv(relay.nn.relu(x))))
    assert not pattern.match(relay.nn.relu(c) + relay.nn.relu(x))
    assert not pattern.match(c + relay.nn.relu(conv(relay.tanh(x))))
    assert pattern.match(relay.nn.relu(c) + relay.var("bias", shape=(1,)))


class ReluOfAdd(DFPatternCallback):
    def __init__(self):
        super().__init__()
        self.x, self.y = wildcard(), wildcard()
        self.pattern = is_op("nn.relu")(is_op("add")(self.x, self.y))

    def callback(self, pre, post, node_map):
        return relay.maximum(node_map[self.x][0], node_map[self.y][0])


def test_rewriting_is_repeated_and_sees_rewritten_operands():
    x, y, z = image(), image("y"), image("z")
    got = rewrite(ReluOfAdd(), relay.nn.relu(relay.nn.relu(x + y) + z))
    assert structural_equal(got, relay.maximum(relay.maximum(x, y), z))


def test_a_rewrite_without_end_is_refused():
    class Forever(DFPatternCallback):
        def __init__(self):
            super().__init__()
            self.pattern = is_op("nn.relu")(wildcard())

        def callback(self, pre, post, node_map):
            return relay.nn.relu(post)

    with pytest.raises(tvm.TVMError, match="does not terminate"):
        rewrite(Forever(), relay.nn.relu(image()))


class Zero(DFPatternCallback):
    def __init__(self, name, result):
        super().__init__()
        self.x, self.zero, self.result = wildcard(), is_constant(), result
        self.pattern = is_op(name)(self.x, self.zero)

    def callback(self, pre, post, node_map):
        zero = node_map[self.zero][0]
        return post if zero.data.numpy().any() else zero if self.result == "zero" else node_map[self.x][0]


@pytest.mark.parametrize("order", [1, -1])
def test_callbacks_are_applied_in_turn_until_none_changes_anything(order):
    x, y, zero = image(), image("y"), relay.const(0.0)
    rules = [Zero("add", "x"), Zero("multiply", "zero")][::order]
    assert rewrite(rules, x + y * zero) is x


def test_callbacks_that_undo_each_other_are_refused():
    class Swap(DFPatternCallback):
        def __init__(self, name, to):
            super().__init__()
            self.x, self.to = wildcard(), to
            self.pattern = is_op(name)(self.x)

        def callback(self, pre, post, node_map):
            return self.to(node_map[self.x][0])

    with pytest.raises(tvm.TVMError, match="Swap does not terminate"):
        rewrite([Swap("exp", relay.log), Swap("log", relay.sin), Swap("sin", relay.exp)], relay.exp(image()))


def test_partition_makes_functions_that_compute_the_same(rng):
    x = image()
    w = relay.const(rng.random((4, 4, 3, 3), dtype="float32"))
    c = conv(x, w)
    body = relay.nn.relu(c) + relay.nn.relu(conv(relay.nn.relu(conv(x, w)), w))
    pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
    got = pattern.partition(relay.Function([x], body), {"Composite": "conv_relu"})
    made = [n for n in tvm.ir.visit.post_order(got) if isinstance(n, relay.Function) and "Composite" in n.attrs]
    assert len(made) == 3 and made[0].attrs["PartitionedFromPattern"] == "nn.conv2d_nn.relu_"
    value = rng.random((1, 4, 8, 8), dtype="float32")
    run = relay.create_executor().evaluate
    want = run(relay.Function([x], body))(value).numpy()
    np.testing.assert_allclose(run(got)(value).numpy(), want, rtol=1e-5, atol=1e-5)


def test_partition_leaves_values_that_are_used_elsewhere_and_asks_the_check():
    x = image()
    c = conv(x, relay.var("w", shape=(4, 4, 3, 3)))
    pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
    leaking = relay.nn.relu(c) + c
    assert pattern.partition(leaking) is leaking
    plain = relay.nn.relu(c)
    assert pattern.partition(plain, check=lambda e: False) is plain


def test_parameters_of_a_partition_come_in_the_order_of_the_pattern():
    a, b, c = (relay.var(n, shape=(3,)) for n in "abc")
    x, y, z = wildcard(), wildcard(), wildcard()
    pattern = is_op("subtract")(is_op("add")(x, y), z)
    call = pattern.partition(relay.subtract(relay.add(b, a), c))
    assert [v.name_hint for v in call.args] == ["b", "a", "c"]
    body = call.op.body
    assert [body.args[0].args[0], body.args[0].args[1], body.args[1]] == list(call.op.params)


def test_a_value_that_two_wildcards_match_is_one_parameter():
    a = relay.var("a", shape=(3,))
    call = is_op("add")(wildcard(), wildcard()).partition(relay.add(a, a))
    assert len(call.op.params) == 1 and list(call.args) == [a]


def test_a_constant_is_a_parameter_unless_the_pattern_asks_for_a_constant():
    a, one = relay.var("a", shape=(3,)), relay.const(1.0)
    asked = is_op("add")(wildcard(), is_constant()).partition(relay.add(a, one))
    assert list(asked.args) == [a]
    plain = is_op("add")(wildcard(), wildcard()).partition(relay.add(a, one))
    assert list(plain.args) == [a, one]


def test_what_an_earlier_partition_holds_is_not_taken_again():
    a = relay.var("a", shape=(3,))
    first = is_op("exp")(is_op("tanh")(wildcard())).partition(relay.exp(relay.tanh(a)))
    assert is_op("tanh")(wildcard()).partition(first) is first


def test_none_stands_for_any_arguments():
    x, y = image(), image("y")
    assert wildcard()(None).match(relay.nn.relu(x)) and is_op("add")(None).match(x + y)
    assert not is_op("add")(None).match(x - y)
    pair = is_tuple([wildcard(), wildcard()])
    assert is_tuple_get_item(pair, 1).tuple is pair


class Relu(DFPatternCallback):
    """Puts nn.relu on what matches, once."""

    def __init__(self, pattern):
        super().__init__(rewrite_once=True)
        self.pattern = pattern

    def callback(self, pre, post, node_map):
        return relay.nn.relu(post)


def test_a_pattern_that_refers_to_itself_is_rewritten_at_its_largest_match():
    x = image()
    start = wildcard()
    casts = is_op("cast")(start)
    start.redirect_to(casts | is_op("tanh")(wildcard()))
    chain = relay.tanh(x)
    for _ in range(4):
        chain = relay.cast(chain, "float32")
    assert structural_equal(rewrite(Relu(casts), chain), relay.nn.relu(chain))


def test_one_round_rewrites_every_match_that_does_not_overlap():
    x, y = image(), image("y")
    pattern = is_op("tanh")(is_op("sigmoid")(wildcard()))
    out = rewrite(Relu(pattern), relay.tanh(relay.sigmoid(x)) + relay.tanh(relay.sigmoid(y)))
    expected = relay.nn.relu(relay.tanh(relay.sigmoid(x))) + relay.nn.relu(relay.tanh(relay.sigmoid(y)))
    assert structural_equal(out, expected)


def test_partition_takes_a_described_function_whole():
    x, w, b = image(), relay.var("w", shape=(4, 4, 3, 3)), image("b")
    p, q = relay.var("p"), relay.var("q")
    inner = relay.Function([p, q], relay.nn.conv2d(p, q))
    for body in (is_op("nn.conv2d")(None), wildcard()):
        pattern = FunctionPattern([wildcard(), wildcard()], body)(wildcard(), wildcard()) + wildcard()
        got = pattern.partition(inner(x, w) + b + b)
        args = [relay.var(name) for name in "xwb"]
        made = relay.Function(args, inner(args[0], args[1]) + args[2])
        made = made.with_attr("PartitionedFromPattern", "nn.conv2d_FunctionCall_add_")
        assert structural_equal(got, made(x, w, b) + b)


def test_partition_allows_a_side_way_that_comes_back_to_the_root():
    x, w = image(), relay.var("w", shape=(4, 4, 3, 3))
    product = relay.nn.conv2d(x, w)
    pattern = is_op("multiply")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
    got = pattern.partition(product * relay.sigmoid(product))
    args = [relay.var(name) for name in "xws"]
    made = relay.Function(args, relay.nn.conv2d(args[0], args[1]) * args[2])
    made = made.with_attr("PartitionedFromPattern", "nn.conv2d_multiply_")
    assert structural_equal(got, made(x, w, relay.sigmoid(relay.nn.conv2d(x, w))))
    both = relay.Tuple([product * relay.sigmoid(product), relay.sigmoid(product)])
    assert pattern.partition(both) is both


def test_a_constant_is_lifted_without_a_type_where_the_pattern_does_not_ask_for_one():
    x, one = relay.var("x"), relay.const(1)
    got = is_op("add")(wildcard(), wildcard()).partition(x + one)
    assert [p.type_annotation for p in got.op.params] == [None, None] and got.args[1] is one
    kept = is_op("add")(wildcard(), is_constant()).partition(x + one)
    assert len(kept.args) == 1 and kept.op.body.args[1] is one


def test_text():
    x = wildcard()
    y = is_op("nn.relu")(x)
    assert str(x) == "WildcardPattern()"
    assert str(is_op("add")(y, x).has_attr({"a": 1})) == "\n".join([
        "%0 = WildcardPattern()",
        "%1 = CallPattern(ExprPattern(Op(nn.relu)), [%0])",
        "%2 = CallPattern(ExprPattern(Op(add)), [%1, %0])",
        "AttrPattern(%2, {'a': 1})",
    ])  # fmt: skip
    assert is_tuple([x, y]).astext(annotate=lambda p: type(p).__name__[:4]).splitlines()[-1].endswith("/* Tupl */")
    assert str(is_op("add")(None)) == "CallPattern(ExprPattern(Op(add)))"


def test_text_of_a_pattern_inside_itself_and_of_a_deep_one():
    x = wildcard()
    chain = is_op("nn.relu")(x)
    x.redirect_to(chain | is_var("x"))
    lines = str(chain).splitlines()
    assert lines[-1].startswith("%") and len(lines) == 3
    for _ in range(3000):
        chain = is_op("nn.relu")(chain)
    assert len(str(chain).splitlines()) == 3003
