"""MergeComposite: subgraphs that match a pattern become composite functions."""

from __future__ import annotations

import itertools

import pytest

from tests.partitions import assert_same, composite, typed
from tvm import relay
from tvm.relay import transform
from tvm.relay.dataflow_pattern import TupleGetItemPattern, is_op, wildcard
from tvm.relay.testing import run_opt_pass

SHAPE = (10, 10)


def variables(names: str, shape=SHAPE):
    return [relay.var(name, shape=shape) for name in names.split()]


def merge(function, *table):
    result = run_opt_pass(function, transform.MergeComposite(list(table)))
    assert not relay.analysis.free_vars(result)
    return result


def check(before, after, *table) -> None:
    assert_same(typed(merge(before, *table)), typed(after))


def add_relu():
    return is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))


def add_sub_mul():
    x, y = wildcard(), wildcard()
    return is_op("multiply")(is_op("add")(x, y), is_op("subtract")(x, y))


def conv_bias_relu():
    return is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard()))


def called_add_relu(a, b):
    x, y = variables("x y")
    return relay.Call(composite("add_relu", [x, y], relay.nn.relu(relay.add(x, y)), "add_nn.relu_"), [a, b])


def called_add_sub_mul(a, b):
    x, y = variables("x y")
    return relay.Call(composite("add_sub_mul", [x, y], unit(x, y), "add_subtract_multiply_"), [a, b])


def unit(a, b):
    return relay.multiply(relay.add(a, b), relay.subtract(a, b))


def test_a_chain():
    a, b = variables("a b")
    before = relay.Function([a, b], relay.nn.relu(relay.add(a, b)))
    check(before, relay.Function([a, b], called_add_relu(a, b)), ("add_relu", add_relu()))


def test_branches_that_meet_again():
    a, b, c = variables("a b c")
    before = relay.Function([a, b, c], relay.nn.relu(unit(c, unit(a, b))))
    after = relay.nn.relu(called_add_sub_mul(c, called_add_sub_mul(a, b)))
    check(before, relay.Function([a, b, c], after), ("add_sub_mul", add_sub_mul()))


def test_a_call_with_two_users_inside_the_pattern():
    x, y = wildcard(), wildcard()
    inner = is_op("add")(x, y)
    pattern = is_op("add")(is_op("add")(x, inner), inner)

    def body(p, q):
        once = relay.add(p, q)
        return relay.add(relay.add(p, once), once)

    a, b, p, q = variables("a b p q")
    difference = relay.subtract(a, b)
    after = relay.Call(composite("add_add_add", [p, q], body(p, q), "add_add_add_"), [relay.subtract(a, b), b])
    check(relay.Function([a, b], body(difference, b)), relay.Function([a, b], after), ("add_add_add", pattern))


def test_several_patterns():
    data, kernel = relay.var("data", shape=(1, 16, 8, 8)), relay.var("kernel", shape=(8, 16, 1, 1))
    bias, (a, b) = relay.var("bias", shape=(8,)), variables("a b", (1, 8, 8, 8))

    def layer(x, w, y):
        return relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, kernel_size=(1, 1)), y))

    params = [data, kernel, bias, a, b]
    before = relay.multiply(relay.nn.relu(relay.add(layer(data, kernel, bias), a)), b)
    inner = [relay.var(f"p{i}", shape=v.type_annotation.shape) for i, v in enumerate((data, kernel, bias, a, a))]
    pattern = "nn.conv2d_nn.bias_add_nn.relu_"
    conv = relay.Call(composite("conv2d_bias_relu", inner[:3], layer(*inner[:3]), pattern), [data, kernel, bias])
    p, q = inner[3:]
    added = relay.Call(composite("add_relu", [p, q], relay.nn.relu(relay.add(p, q)), "add_nn.relu_"), [conv, a])
    check(
        relay.Function(params, before), relay.Function(params, relay.multiply(added, b)),
        ("conv2d_bias_relu", conv_bias_relu()), ("add_relu", add_relu()),
    )  # fmt: skip


@pytest.mark.parametrize("with_relu", [False, True])
def test_an_optional_operator(with_relu):
    x, w, b = relay.var("x", shape=(1, 4, 6, 6)), relay.var("w", shape=(4, 4, 1, 1)), relay.var("b", shape=(4,))
    pattern = is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
    pattern = pattern.optional(lambda inner: is_op("nn.relu")(inner))
    body = relay.nn.bias_add(relay.nn.conv2d(x, w, kernel_size=(1, 1)), b)
    body = relay.nn.relu(body) if with_relu else body
    result = merge(relay.Function([x, w, b], body), ("layer", pattern))
    found = relay.analysis.list_op_freqs(typed(result.body.op.without_attr("Composite")))
    assert found == {"nn.conv2d": 1, "nn.bias_add": 1, **({"nn.relu": 1} if with_relu else {})}


CHAIN = {
    "add_abs_relu": lambda: is_op("nn.relu")(is_op("abs")(is_op("add")(wildcard(), wildcard()))),
    "add_abs": lambda: is_op("abs")(is_op("add")(wildcard(), wildcard())),
    "abs_relu": lambda: is_op("nn.relu")(is_op("abs")(wildcard())),
}


@pytest.mark.parametrize("order", itertools.permutations(CHAIN))
def test_earlier_patterns_have_priority(order):
    a, b = variables("a b")
    before = relay.Function([a, b], relay.nn.relu(relay.abs(relay.add(a, b))))
    result = merge(before, *((name, CHAIN[name]()) for name in order))
    assert _names(result) == [order[0]]


def _names(function) -> list[str]:
    names: list[str] = []

    def visit(e) -> None:
        if isinstance(e, relay.Function) and "Composite" in e.attrs:
            names.append(e.attrs["Composite"])

    relay.analysis.post_order_visit(function, visit)
    return names


def test_parallel_subgraphs_over_the_same_inputs():
    a, b = variables("a b")
    before = relay.Function([a, b], relay.multiply(unit(a, b), unit(a, b)))
    after = relay.multiply(called_add_sub_mul(a, b), called_add_sub_mul(a, b))
    check(before, relay.Function([a, b], after), ("add_sub_mul", add_sub_mul()))


@pytest.mark.parametrize("shared", [False, True])
def test_a_wildcard_that_occurs_twice_is_one_value(shared):
    inputs = variables(" ".join(f"i{n}" for n in range(4 if shared else 8)))
    pairs = list(zip(inputs[::2], inputs[1::2]))

    def body(leaf, join):
        leaves = [leaf(*pair) for pair in pairs]
        return join(*leaves) if shared else relay.multiply(relay.add(*leaves[:2]), relay.subtract(*leaves[2:]))

    before = body(lambda p, q: relay.nn.relu(relay.add(p, q)), unit)
    after = body(called_add_relu, called_add_sub_mul)
    table = ("add_sub_mul", add_sub_mul()), ("add_relu", add_relu())
    check(relay.Function(inputs, before), relay.Function(inputs, after), *table)


def test_a_field_of_a_tuple():
    shapes = [(1, 8)] + [(8,)] * 4

    def body(params):
        return relay.nn.relu(relay.nn.batch_norm(*params)[0])

    outer, inner = ([relay.var(f"{n}{i}", shape=s) for i, s in enumerate(shapes)] for n in "xp")
    norm = is_op("nn.batch_norm")(*(wildcard() for _ in shapes))
    pattern = is_op("nn.relu")(TupleGetItemPattern(norm, 0))
    after = relay.Call(composite("bn_relu", inner, body(inner), "nn.batch_norm_TupleGetItem0_nn.relu_"), outer)
    check(relay.Function(outer, body(outer)), relay.Function(outer, after), ("bn_relu", pattern))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_check_accepts_or_rejects_a_match(layout):
    x, w, b = relay.var("x", shape=(1, 10, 10, 10)), relay.var("w", shape=(10, 10, 3, 3)), relay.var("b", shape=(8,))
    conv = relay.nn.conv2d(x, w, kernel_size=(3, 3), kernel_layout="OIHW", data_layout="NHWC")
    before = relay.Function([x, w, b], relay.nn.relu(relay.nn.bias_add(conv, b)))
    row = ("layer", conv_bias_relu(), lambda call: call.args[0].args[0].attrs.data_layout == layout)
    assert _names(merge(before, row)) == (["layer"] if layout == "NHWC" else [])


def test_a_diamond_with_another_operator_is_no_match():
    """The pattern multiplies a convolution by its own clip; the graph multiplies the ReLU of the convolution by it."""
    x, w = relay.var("x", shape=(1, 8, 6, 6)), relay.var("w", shape=(4, 8, 1, 1))
    conv = relay.nn.conv2d(x, w, kernel_size=(1, 1))
    before = relay.Function([x, w], relay.multiply(relay.nn.relu(conv), relay.clip(conv, 0, 6)))
    matched = is_op("nn.conv2d")(wildcard(), wildcard())
    pattern = is_op("multiply")(matched, is_op("clip")(matched))
    assert _names(merge(before, ("diamond", pattern))) == []


def test_a_check_sees_types():
    x, w, b = relay.var("x", shape=(1, 10, 10, 10)), relay.var("w", shape=(10, 10, 3, 3)), relay.var("b", shape=(10,))
    conv = relay.nn.conv2d(x, w, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="OIHW")
    before = relay.Function([x, w, b], relay.nn.relu(relay.nn.bias_add(conv, b, axis=3)))
    seen = []

    def check_types(call):
        conv = call.args[0].args[0]
        seen.append((str(conv.args[0].checked_type.dtype), [int(d) for d in conv.checked_type.shape]))
        return True

    assert _names(merge(before, ("layer", conv_bias_relu(), check_types))) == ["layer"]
    assert seen == [("float32", [1, 8, 8, 10])]


def test_a_shared_operand_outside_the_pattern():
    """Two reshapes of one matmul: only the one that matches is merged, the matmul stays outside for the other."""
    x, w = relay.var("x", shape=(4, 6)), relay.var("w", shape=(6, 6))
    product = relay.einsum((x, w), "ij,kj->ik")
    before = relay.Function([x, w], relay.Tuple([relay.reshape(product, (2, 12)), relay.nn.relu(product)]))
    pattern = is_op("reshape")(is_op("einsum")(wildcard()))
    names = _names(merge(before, ("einsum_reshape", pattern)))
    assert names == []
    alone = relay.Function([x, w], relay.reshape(product, (2, 12)))
    assert _names(merge(alone, ("einsum_reshape", pattern))) == ["einsum_reshape"]
