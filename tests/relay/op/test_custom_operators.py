"""Operators described from Python: type relation, computation, schedule, fusion and intrinsic lowering."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay, te, topi
from tvm.ir.op import OPS
from tvm.relay import op as _op


@pytest.fixture
def new_op():
    """Makes operators that are gone after the test."""
    names = []

    def make(name, inputs=1, relation="Identity", function=None):
        made = _op.register(name, "For this test.")
        names.append(name)
        made.set_num_inputs(inputs)
        for i in range(inputs):
            made.add_argument(f"data_{i}", "Tensor", "An input.")
        made.add_type_rel(relation, function)
        made.set_support_level(1)
        return made

    yield make
    for name in names:
        OPS.remove(name)


def run(expr, *arrays, kind="graph"):
    function = relay.Function(relay.analysis.free_vars(expr), expr)
    return relay.create_executor(kind, target="llvm").evaluate(function)(*arrays).numpy()


def test_what_is_said_of_an_operator_can_be_read(new_op):
    made = new_op("test.said", 2, "Broadcast")
    assert made is relay.op.get("test.said") and made.num_inputs == 2 and made.support_level == 1
    assert [a.name for a in made.arguments] == ["data_0", "data_1"]
    made.set_attrs_type_key("DictAttrs")
    made.set_attr("mine", 3)
    assert made.get_attr("mine") == 3
    made.reset_attr("mine")
    assert not made.has_attr("mine")
    with pytest.raises(tvm.TVMError, match="already has a type relation"):
        made.add_type_rel("Identity")


def test_an_unknown_relation_is_refused_with_the_known_ones(new_op):
    with pytest.raises(tvm.TVMError, match="'Guess'; registered relations: Broadcast, BroadcastComp, Identity"):
        new_op("test.unknown_relation", 1, "Guess")


def test_the_type_comes_from_a_relation_in_python(new_op):
    def twice_as_wide(types, attrs):
        assert len(types) == 1, "one input"
        shape = [int(d) for d in types[0].shape]
        return relay.TensorType([*shape[:-1], shape[-1] * 2], types[0].dtype)

    made = new_op("test.wide", 1, "Wide", twice_as_wide)
    x = relay.var("x", shape=(3, 5))
    typed = relay.testing.run_infer_type(relay.Call(made, [x]))
    assert typed.checked_type == relay.TensorType((3, 10))
    made.set_num_inputs(2)
    with pytest.raises(AssertionError, match="one input"):
        relay.testing.run_infer_type(relay.Call(made, [x, x]))
    with pytest.raises(tvm.TVMError, match="operator test.wide requires 2 inputs, got 1"):
        relay.testing.run_infer_type(relay.Call(made, [x]))


@pytest.mark.parametrize("kind", ["graph", "debug"])
@pytest.mark.parametrize("pattern", [_op.OpPattern.ELEMWISE, _op.OpPattern.OPAQUE])
def test_a_computed_operator_runs_fused_and_alone(new_op, rng, pattern, kind):
    made = new_op("test.cube")
    _op.register_pattern("test.cube", pattern)

    @_op.register_compute("test.cube")
    def cube(attrs, inputs, out_type):
        (a,) = inputs
        return [te.compute(a.shape, lambda *i: a(*i) * a(*i) * a(*i), name="cube", tag="elemwise")]

    x = relay.var("x", shape=(7, 13))
    data = rng.uniform(-2, 2, (7, 13)).astype("float32")
    got = run(relay.exp(relay.Call(made, [x + relay.const(1.0)])), data, kind=kind)
    np.testing.assert_allclose(got, np.exp((data + 1) ** 3), rtol=1e-5)


def test_constants_are_folded_with_the_computation_in_force(new_op):
    made = new_op("test.changes")
    expr = relay.Call(made, [relay.const(np.arange(4, dtype="float32"))])
    for factor in (2.0, 3.0):
        _op.register_compute("test.changes", lambda a, ins, o, f=factor: [topi.multiply(ins[0], f)], level=10)
        np.testing.assert_array_equal(run(expr), np.arange(4, dtype="float32") * factor)


def test_attributes_reach_the_computation(new_op, rng):
    made = new_op("test.scaled")
    made.set_attrs_type_key("DictAttrs")
    scaled = lambda attrs, ins, out: [topi.multiply(ins[0], float(attrs["by"]))]
    tvm.ir.register_op_attr("test.scaled", "FTVMCompute", scaled)
    x = relay.var("x", shape=(5,))
    data = rng.uniform(size=5).astype("float32")
    attrs = tvm.ir.make_node("DictAttrs", by=4.0)
    np.testing.assert_allclose(run(relay.Call(made, [x], attrs), data), data * 4, rtol=1e-6)


def test_the_schedule_of_the_leading_operator_is_used(new_op, rng):
    made, called = new_op("test.scheduled"), []

    def schedule(attrs, outs, target):
        called.append(target.kind.name)
        return te.create_schedule([t.op for t in outs])

    _op.register_compute("test.scheduled", lambda attrs, ins, out: [topi.nn.relu(ins[0])])
    _op.register_schedule("test.scheduled", schedule)
    _op.register_pattern("test.scheduled", _op.OpPattern.OUT_ELEMWISE_FUSABLE)
    x = relay.var("x", shape=(6, 3))
    data = rng.uniform(-1, 1, (6, 3)).astype("float32")
    np.testing.assert_array_equal(run(relay.negative(relay.Call(made, [x])), data), -np.maximum(data, 0))
    assert called == ["llvm"]
    _op.register_injective_schedule("test.scheduled")
    run(relay.Call(made, [x]), data)
    assert called == ["llvm"]


def test_a_strategy_offers_implementations_and_the_highest_level_is_taken(new_op, rng):
    made = new_op("test.strategic")

    @_op.register_strategy("test.strategic")
    def strategy(attrs, inputs, out_type, target):
        offers = _op.OpStrategy()
        schedule = _op.strategy.wrap_topi_schedule(topi.generic.schedule_injective)
        offers.add_implementation(_op.strategy.wrap_topi_compute(topi.exp), schedule, name="low", plevel=5)
        if target.kind.name == "llvm":
            offers.add_implementation(_op.strategy.wrap_topi_compute(topi.tanh), schedule, name="high", plevel=15)
        return offers

    x = relay.var("x", shape=(9,))
    data = rng.uniform(-1, 1, 9).astype("float32")
    np.testing.assert_allclose(run(relay.Call(made, [x]), data), np.tanh(data), rtol=1e-5)


def test_an_operator_without_computation_is_refused_by_name(new_op):
    made = new_op("test.empty")
    with pytest.raises(tvm.TVMError, match="operator test.empty has no computation for target llvm"):
        run(relay.Call(made, [relay.var("x", shape=(3,))]), np.zeros(3, "float32"))


def test_an_intrinsic_of_ones_own_is_lowered(new_op, rng):
    name = "tir.test_doubled"
    OPS.remove(name)
    tvm.ir.register_op_attr(name, "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    tvm.ir.register_intrin_lowering(name, "default", f=lambda call: call.args[0] * 2.0, level=12)
    try:
        a = te.placeholder((11,), name="a")
        b = te.compute((11,), lambda i: tvm.tir.call_intrin("float32", name, a[i]), name="b")
        function = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
        data = rng.uniform(size=11).astype("float32")
        out = tvm.nd.empty((11,))
        function(tvm.nd.array(data), out)
        np.testing.assert_allclose(out.numpy(), data * 2)
    finally:
        OPS.remove(name)
