"""MergeCompilerRegions: neighbouring regions of one compiler become one, unless a path leaves and enters it again."""

from __future__ import annotations

import pytest

import tvm
from tests.partitions import assert_same, marks, supports, typed  # noqa: F401
from tvm import relay
from tvm.relay import transform

BEGIN, END = marks("acme")
OTHER, OTHER_END = marks("default")


def merged(body) -> tvm.IRModule:
    return transform.MergeCompilerRegions()(typed(body))


def test_a_diamond_with_an_unsupported_side():
    def build(joint):
        x = relay.var("x", shape=(10, 10))
        first = relay.abs(BEGIN(x))
        side = OTHER_END(relay.tanh(OTHER(END(first))))
        straight = relay.nn.relu(first if joint else BEGIN(END(first)))
        return relay.Function([x], END(relay.add(BEGIN(END(straight)), BEGIN(side))))

    assert_same(merged(build(joint=False)), build(joint=True))


def test_two_branches_of_one_target_around_the_other():
    """Ten inputs; the external regions and the default regions are each merged as far as no circle appears."""

    def build(joint):
        def inner(e, begin, end):
            return e if joint else begin(end(e))

        i = [relay.var(f"i{n}", shape=(10, 10)) for n in range(10)]
        a = relay.add(
            inner(relay.add(BEGIN(i[0]), BEGIN(i[1])), BEGIN, END),
            inner(relay.add(BEGIN(i[2]), BEGIN(i[3])), BEGIN, END),
        )
        d = relay.subtract(OTHER(i[4]), OTHER(i[5]))
        d = OTHER_END(relay.subtract(OTHER(i[6]), inner(d, OTHER, OTHER_END)))
        both = relay.add(inner(a, BEGIN, END), BEGIN(d))
        side = OTHER_END(relay.subtract(OTHER(i[7]), OTHER(END(both))))
        straight = relay.add(BEGIN(i[8]), inner(both, BEGIN, END))
        joined = relay.add(BEGIN(side), BEGIN(END(straight)))
        return relay.Function(i, END(relay.add(BEGIN(i[9]), inner(joined, BEGIN, END))))

    assert_same(merged(build(joint=False)), build(joint=True))


@pytest.mark.parametrize("non_calls", [False, True])
def test_branches_are_partitioned(supports, non_calls):
    supports("acme", "sigmoid", "erf", "add")
    x = relay.var("x", shape=(1, 32))
    total = relay.add(x, x)
    rest = relay.subtract(total, x)
    cond = relay.equal(relay.sum(total), relay.sum(rest))
    body = relay.add(total, relay.erf(relay.If(cond, relay.sigmoid(total), relay.sigmoid(rest))))
    mod = transform.AnnotateTarget("acme", non_calls)(tvm.IRModule.from_expr(relay.Function([x], body)))
    made = transform.PartitionGraph()(transform.MergeCompilerRegions()(mod))
    found = [f for f in made.functions.values() if f.attrs.get("Compiler") == "acme"]
    operators = [relay.analysis.list_op_freqs(tvm.IRModule.from_expr(f.without_attr("global_symbol"))) for f in found]
    total = {name: sum(each.get(name, 0) for each in operators) for name in ("add", "sigmoid", "erf")}
    assert total == {"add": 2, "sigmoid": 2, "erf": 1}


def test_a_merge_that_becomes_possible_later():
    """The sum needs the first region directly and through the second one: it joins the second, then both the first."""
    x = relay.var("x", shape=(3, 3))
    first = relay.abs(BEGIN(x))
    second = relay.nn.relu(BEGIN(END(first)))
    third = relay.add(BEGIN(END(first)), BEGIN(END(second)))
    made = merged(relay.Function([x], END(third)))
    one = relay.abs(BEGIN(x))
    assert_same(made, relay.Function([x], END(relay.add(one, relay.nn.relu(one)))))


def test_random_graphs_can_be_partitioned(supports, rng):
    """Partitions of random graphs compute what the graphs compute: no region depends on itself."""
    supports("acme", "nn.relu", "add")
    for _ in range(40):
        x = relay.var("x", shape=(2, 3))
        values = [relay.nn.relu(x), x]
        for kind in rng.integers(0, 4, int(rng.integers(5, 15))):
            a, b = (values[int(i)] for i in rng.integers(max(0, len(values) - 6), len(values), 2))
            values.append([lambda: a + b, lambda: relay.nn.relu(a), lambda: relay.tanh(a), lambda: a * b][kind]())
        mod = typed(relay.Tuple([values[-1], values[int(rng.integers(0, len(values)))]]))
        made = transform.MergeCompilerRegions()(transform.AnnotateTarget("acme")(mod))
        inlined = transform.Inline()(transform.PartitionGraph()(made))
        value = rng.uniform(-1, 1, (2, 3)).astype("float32")
        got, wanted = (relay.create_executor("debug", m).evaluate()(value) for m in (inlined, mod))
        assert [g.numpy().tolist() for g in got] == [w.numpy().tolist() for w in wanted]
