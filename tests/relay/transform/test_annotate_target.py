"""AnnotateTarget: which marks it writes, with and without marks on expressions that are not operator calls."""

from __future__ import annotations

import pytest

import tvm
from tests.partitions import assert_same, composite, marks, supports, typed  # noqa: F401
from tvm import relay
from tvm.relay import transform

# Whether tuples, references and calls of variables are marked too.
both = pytest.mark.parametrize("non_calls", [False, True])


def check(before, after, targets, non_calls: bool = True) -> None:
    assert_same(transform.AnnotateTarget(targets, non_calls)(tvm.IRModule.from_expr(before)), after)


@both
def test_each_use_of_a_value_has_its_own_end(supports, non_calls):
    supports("acme", "nn.relu")
    (begin, end), (other, other_end) = marks("acme"), marks("default")
    x = relay.var("x", shape=(10, 10))
    r = relay.nn.relu(x)
    made = relay.nn.relu(begin(x))
    parts = [other_end(relay.abs(other(end(made)))) for _ in range(2)]
    after = other_end(relay.add(*map(other, parts)))
    check(relay.Function([x], relay.add(relay.abs(r), relay.abs(r))), relay.Function([x], after), "acme", non_calls)


def test_convolutions_and_their_sum(supports):
    supports("acme", "nn.conv2d", "add")
    begin, end = marks("acme")
    x, w = relay.var("x", shape=(1, 32, 14, 14)), relay.var("w", shape=(32, 1, 3, 3))

    def conv(data, weight):
        return relay.nn.conv2d(data, weight, kernel_size=(3, 3), padding=(1, 1), groups=32)

    first = conv(x, w)
    before = relay.add(first, conv(first, w))
    first = conv(begin(x), begin(w))
    second = conv(begin(end(first)), begin(w))
    after = end(relay.add(begin(end(first)), begin(end(second))))
    check(relay.Function([x, w], before), relay.Function([x, w], after), "acme")


@both
def test_rules_see_the_types_of_operands(supports, non_calls):
    seen = []
    supports("acme", "nn.relu", rule=lambda call: seen.append(call.args[0].checked_type.dtype) or True)
    x = relay.var("x", shape=(10, 10))
    transform.AnnotateTarget("acme", non_calls)(tvm.IRModule.from_expr(relay.nn.relu(relay.nn.relu(x))))
    assert seen == ["float32", "float32"]


@both
def test_references(supports, non_calls):
    supports("acme", "nn.relu")
    (begin, end), (other, other_end) = marks("acme"), marks("default", non_calls)
    before = relay.RefCreate(relay.const(1.0))
    before = relay.RefWrite(before, relay.nn.relu(relay.RefRead(before)))
    ref = relay.RefCreate(other(relay.const(1.0)))
    read = other_end(relay.RefRead(other(other_end(ref))))
    after = other_end(relay.RefWrite(other(other_end(ref)), other(end(relay.nn.relu(begin(read))))))
    check(before, after, "acme", non_calls)


@both
def test_a_tuple_between_supported_operators(supports, non_calls):
    supports("acme", "nn.relu", "concatenate")
    (begin, end), (tuple_begin, tuple_end) = marks("acme"), marks("acme", non_calls)
    x, y = relay.var("x", shape=(10, 5)), relay.var("y", shape=(10, 5))
    before = relay.concatenate((relay.nn.relu(x), relay.nn.relu(y)), axis=1)
    fields = [tuple_begin(end(relay.nn.relu(begin(v)))) for v in (x, y)]
    after = end(relay.concatenate(begin(tuple_end(relay.Tuple(fields))), 1))
    check(relay.Function([x, y], before), relay.Function([x, y], after), "acme", non_calls)


def test_composite_functions_belong_to_the_target_of_their_name():
    begin, end = marks("acme")
    a, b, p, q = (relay.var(name, shape=(10, 10)) for name in "abpq")
    function = composite("acme.add_relu", [p, q], relay.nn.relu(relay.add(p, q)))
    before = relay.Function([a, b], relay.Call(function, [a, b]))
    check(before, relay.Function([a, b], end(relay.Call(function, [begin(a), begin(b)]))), "acme")


@both
def test_a_second_run_changes_nothing(supports, non_calls):
    supports("double.A", "nn.relu")
    mod = typed(relay.nn.relu(relay.var("x", shape=(10, 5))))
    once = transform.AnnotateTarget("double.A", non_calls)(mod)
    assert_same(transform.AnnotateTarget("double.A", non_calls)(once), once)


@both
@pytest.mark.parametrize("branched", [False, True])
def test_two_runs_equal_one_run_with_two_targets(supports, non_calls, branched):
    supports("runs.A", "nn.relu")
    supports("runs.B", "add")
    x = relay.var("x", shape=(10, 5))
    a = relay.nn.relu(x)
    mod = typed(relay.add(relay.abs(a), relay.nn.relu(a)) if branched else relay.add(a, a))
    twice = transform.AnnotateTarget("runs.B", non_calls)(transform.AnnotateTarget("runs.A", non_calls)(mod))
    assert_same(twice, transform.AnnotateTarget(["runs.A", "runs.B"], non_calls)(mod))


@both
@pytest.mark.parametrize("field", [False, True])
def test_a_graph_that_ends_with_a_tuple(supports, non_calls, field):
    supports("acme", "clip")
    (begin, end), (tuple_begin, tuple_end) = marks("acme"), marks("acme", non_calls)
    a = relay.var("a", shape=(1, 16, 16, 4), dtype="uint8")
    z = relay.clip(a, 0, 255)
    both_clips = relay.Tuple((relay.clip(z, 16, 31), relay.clip(z, 0, 15)))
    before = relay.TupleGetItem(both_clips, 1) if field else both_clips
    z = relay.clip(begin(a), 0, 255)
    clips = [end(relay.clip(begin(end(z)), *limits)) for limits in ((16, 31), (0, 15))]
    after = tuple_end(relay.Tuple([tuple_begin(c) for c in clips]))
    if field:
        after = tuple_end(relay.TupleGetItem(tuple_begin(after), 1))
    check(before, relay.Function([a], after), "acme", non_calls)


@both
def test_branches(supports, non_calls):
    supports("acme", "equal", "tanh", "sigmoid", "erf")
    begin, end = marks("acme")
    x, p, q = relay.var("x", shape=(1, 32)), relay.var("p", shape=()), relay.var("q", shape=())
    before = relay.erf(relay.If(relay.equal(p, q), relay.tanh(x), relay.sigmoid(x)))
    cond = end(relay.equal(begin(p), begin(q)))
    choice = relay.If(cond, end(relay.tanh(begin(x))), end(relay.sigmoid(begin(x))))
    after = end(relay.erf(begin(choice)))
    check(relay.Function([x, p, q], before), relay.Function([x, p, q], after), "acme", non_calls)


@both
def test_a_branch_without_inputs_has_no_marks(supports, non_calls):
    supports("acme", "equal", "sigmoid", "erf")
    begin, end = marks("acme")
    x, p, q = relay.var("x", shape=(1, 32)), relay.var("p", shape=()), relay.var("q", shape=())
    zeros = relay.zeros(shape=(1, 32), dtype="float32")
    before = relay.erf(relay.If(relay.equal(p, q), zeros, relay.sigmoid(x)))
    cond = end(relay.equal(begin(p), begin(q)))
    after = end(relay.erf(begin(relay.If(cond, zeros, end(relay.sigmoid(begin(x)))))))
    check(relay.Function([x, p, q], before), relay.Function([x, p, q], after), "acme", non_calls)


@both
def test_a_loop_in_a_let(supports, non_calls):
    supports("acme", "less", "add", "zeros_like")

    def build(begin, end, other, other_end):
        x = relay.var("x", shape=(2,))
        i, s, loop = relay.var("i", shape=(), dtype="int32"), relay.var("s", shape=(2,)), relay.var("loop")
        cond = end(relay.less(begin(i), begin(relay.const(10, "int32"))))
        step = end(relay.add(begin(i), begin(relay.const(1, "int32"))))
        total = end(relay.add(begin(s), begin(x)))
        again = other_end(loop(other(step), other(total)))
        function = relay.Function([i, s], relay.If(cond, again, s))
        start = [other(relay.const(0, "int32")), other(end(relay.zeros_like(begin(x))))]
        return relay.Function([x], relay.Let(loop, function, other_end(loop(*start))))

    unmarked = marks("", False) * 2
    check(build(*unmarked), build(*marks("acme"), *marks("default", non_calls)), "acme", non_calls)


@pytest.mark.parametrize("body", [lambda: relay.zeros(shape=(0,), dtype="float32"), lambda: relay.Tuple([])])
@both
def test_values_without_inputs_have_no_marks(non_calls, body):
    before = relay.Function([], body())
    check(before, before, "acme", non_calls)
