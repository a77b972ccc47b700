"""Handing parts of a graph to other compilers: the regions found, and that results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay import analysis, transform
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.runtime.container import ADT


@pytest.fixture
def toy():
    """A compiler that takes relu, add and tanh."""
    names = ("nn.relu", "add", "tanh")
    for name in names:
        relay.op.get(name).attrs["target.toy"] = lambda e: True
    yield "toy"
    for name in names:
        relay.op.get(name).reset_attr("target.toy")


def module(body) -> tvm.IRModule:
    return transform.InferType()(tvm.IRModule.from_expr(relay.Function(analysis.free_vars(body), body)))


def run(mod, *values):
    got = relay.create_executor("debug", mod).evaluate()(*values)
    return [g.numpy() for g in got] if isinstance(got, (list, ADT)) else [got.numpy()]


def partition(mod, toy, merge=True):
    passes = [
        transform.AnnotateTarget([toy]),
        *([transform.MergeCompilerRegions()] if merge else []),
        transform.PartitionGraph(),
    ]
    return tvm.transform.Sequential(passes)(mod)


def external(mod) -> dict[str, dict[str, int]]:
    return {
        v.name_hint: analysis.list_op_freqs(tvm.IRModule.from_expr(f.without_attr("global_symbol")))
        for v, f in mod.functions.items()
        if "Compiler" in f.attrs
    }


def check_same(mod, new, rng):
    values = [rng.uniform(-1, 1, [int(d) for d in p.checked_type.shape]).astype("float32") for p in mod["main"].params]
    for a, b in zip(run(mod, *values), run(new, *values)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_neighbours_become_one_function(toy, rng):
    x = relay.var("x", shape=(3, 4))
    mod = module(relay.exp(relay.tanh(relay.nn.relu(x) + x)))
    new = partition(mod, toy)
    assert external(new) == {"tvmgen_default_toy_main_0": {"nn.relu": 1, "add": 1, "tanh": 1}}
    assert analysis.list_op_freqs(tvm.IRModule.from_expr(new["main"])) == {"exp": 1}
    attrs = new["tvmgen_default_toy_main_0"].attrs
    assert attrs["Compiler"] == "toy" and attrs["Primitive"] == 1
    check_same(mod, new, rng)


def test_without_merging_every_call_is_its_own(toy, rng):
    x = relay.var("x", shape=(3, 4))
    mod = module(relay.tanh(relay.nn.relu(x)))
    new = partition(mod, toy, merge=False)
    assert len(external(new)) == 2
    check_same(mod, new, rng)


def test_regions_are_not_joined_around_what_stays_outside(toy, rng):
    x = relay.var("x", shape=(3, 4))
    first = relay.nn.relu(x)
    mod = module(relay.add(first, relay.exp(first)))
    new = partition(mod, toy)
    assert len(external(new)) == 2
    check_same(mod, new, rng)


def test_a_region_with_two_results(toy, rng):
    x = relay.var("x", shape=(3, 4))
    first = relay.nn.relu(x)
    mod = module(relay.Tuple([relay.exp(relay.tanh(first)), relay.exp(first)]))
    new = partition(mod, toy)
    check_same(mod, new, rng)


def test_composite_functions_are_taken_as_a_whole(rng):
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.const(rng.random((4, 4, 3, 3), dtype="float32"))
    mod = module(relay.exp(relay.nn.relu(relay.nn.conv2d(x, w))))
    table = [("toy.conv_relu", is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard())))]
    new = transform.MergeComposite(table)(mod)
    made = [n for n in tvm.ir.visit.post_order(new["main"]) if isinstance(n, relay.Function) and "Composite" in n.attrs]
    assert [f.attrs["Composite"] for f in made] == ["toy.conv_relu"]
    check_same(mod, new, rng)
    whole = partition(new, "toy")
    assert list(external(whole).values()) == [{"nn.conv2d": 1, "nn.relu": 1}]
    check_same(mod, whole, rng)


def test_regions_and_their_parameters_are_numbered_by_their_inputs():
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    begin, end = relay.annotation.compiler_begin, relay.annotation.compiler_end
    first = end(relay.add(begin(x, "acme"), begin(y, "acme")), "acme")
    second = end(relay.exp(begin(relay.tanh(first), "acme")), "acme")
    mod = relay.transform.PartitionGraph()(tvm.IRModule.from_expr(relay.Function([x, y], second)))
    names = sorted(v.name_hint for v in mod.get_global_vars())
    assert names == ["main", "tvmgen_default_acme_main_0", "tvmgen_default_acme_main_2"]
    assert [p.name_hint for p in mod["tvmgen_default_acme_main_0"].params] == ["acme_0_i0", "acme_0_i1"]
    assert [p.name_hint for p in mod["tvmgen_default_acme_main_2"].params] == ["acme_2_i0"]


def marked(compiler, *values):
    return [relay.annotation.compiler_begin(v, compiler) for v in values]


def test_names_of_regions_are_identifiers():
    x = relay.var("x", shape=(3,))
    body = relay.annotation.compiler_end(relay.abs(*marked("odd-name++", x)), "odd-name++")
    mod = transform.PartitionGraph()(tvm.IRModule.from_expr(relay.Function([x], body)))
    assert "tvmgen_default_odd_name___main_0" in [v.name_hint for v in mod.functions]


def test_tuples_of_constants_go_with_their_region():
    x = relay.var("x", shape=(3,))
    pair = relay.Tuple([relay.const(np.ones(3, "float32")), relay.const(np.zeros(3, "float32"))])
    joined = relay.concatenate(marked("toy", pair)[0], 0)
    body = relay.annotation.compiler_end(relay.concatenate([joined, *marked("toy", x)], 0), "toy")
    mod = transform.PartitionGraph()(tvm.IRModule.from_expr(relay.Function([x], body)))
    assert len(mod["tvmgen_default_toy_main_0"].params) == 1


def test_a_region_with_several_results_gives_one_flat_tuple():
    x = relay.var("x", shape=(4, 3))
    parts = relay.split(*marked("toy", x), 2).astuple()
    first = relay.abs(relay.TupleGetItem(parts, 0))
    whole, one = (relay.annotation.compiler_end(e, "toy") for e in (parts, first))
    both = relay.Tuple([relay.TupleGetItem(whole, 1), relay.nn.relu(one)])
    mod = transform.PartitionGraph()(tvm.IRModule.from_expr(relay.Function([x], both)))
    result = mod["tvmgen_default_toy_main_0"].ret_type
    assert [type(f).__name__ for f in result.fields] == ["TensorType"] * 3
    value = np.arange(-6, 6, dtype="float32").reshape(4, 3)
    inlined = transform.Inline()(mod)
    got = relay.create_executor("debug", mod=inlined).evaluate()(value)
    np.testing.assert_array_equal(got[0].numpy(), value[2:])
    np.testing.assert_array_equal(got[1].numpy(), np.abs(value[:2]))


def test_a_compiler_may_optimize_its_regions():
    tvm.register_func("relay.ext.folding.optimize", transform.FoldConstant(), override=True)
    x, one = relay.var("x", shape=(2,)), relay.const(np.ones(2, "float32"))
    body = relay.annotation.compiler_end(relay.add(*marked("folding", one, one)), "folding") * x
    mod = transform.PartitionGraph()(tvm.IRModule.from_expr(relay.Function([x], body)))
    found = mod["tvmgen_default_folding_main_0"]
    assert isinstance(found.body, relay.Constant) and found.attrs["Compiler"] == "folding"


def test_inlining_keeps_kernels_whole():
    x = relay.var("x", shape=(2,))
    body = relay.annotation.compiler_end(relay.abs(*marked("toy", x)), "toy")
    mod = transform.Inline()(transform.PartitionGraph()(tvm.IRModule.from_expr(relay.Function([x], body))))
    assert [v.name_hint for v in mod.functions] == ["main"]
    assert mod["main"].body.op.attrs["Compiler"] == "toy"


def marks(mod) -> list[tuple[str, str]]:
    """(mark, compiler) in the order of the graph."""
    return [
        (n.op.name.rsplit("_", 1)[-1], n.attrs.compiler)
        for n in tvm.ir.visit.post_order(mod["main"].body)
        if isinstance(n, relay.Call) and hasattr(n.op, "name") and n.op.name.startswith("annotation.compiler")
    ]


def test_what_no_compiler_takes_is_marked_default_and_every_use_has_its_own_end(toy):
    x = relay.var("x", shape=(3,))
    r = relay.nn.relu(x)
    mod = transform.AnnotateTarget(toy)(module(relay.exp(r) * relay.abs(r)))
    found = marks(mod)
    assert found.count(("end", toy)) == 2 and found.count(("begin", toy)) == 1
    assert found.count(("end", "default")) == 3
    assert [v.name_hint for v in transform.PartitionGraph()(mod).functions] == ["main", "tvmgen_default_toy_main_0"]


def test_marks_of_an_earlier_run_stay(toy):
    relay.op.get("exp").attrs["target.other"] = lambda e: True
    try:
        x = relay.var("x", shape=(3,))
        mod = module(relay.exp(relay.nn.relu(x)) + x)
        once = transform.AnnotateTarget(toy)(mod)
        assert tvm.ir.structural_equal(transform.AnnotateTarget(toy)(once), once)
        both = transform.AnnotateTarget([toy, "other"])(mod)
        assert tvm.ir.structural_equal(transform.AnnotateTarget("other")(once), both)
    finally:
        relay.op.get("exp").reset_attr("target.other")


def test_rules_see_types_and_inner_functions_are_marked():
    relay.op.get("tanh").attrs["target.typed"] = lambda e: e.args[0].checked_type.dtype == "float32"
    try:
        x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
        inner = relay.Function([y], relay.tanh(relay.tanh(y)))
        f = relay.var("f")
        mod = transform.AnnotateTarget("typed", False)(module(relay.Let(f, inner, f(x))))
        assert marks(mod).count(("begin", "typed")) == 2 and ("begin", "default") not in marks(mod)
    finally:
        relay.op.get("tanh").reset_attr("target.typed")


def test_a_value_that_leaves_a_region_twice_is_one_result(toy, rng):
    x = relay.var("x", shape=(3,))
    r = relay.nn.relu(x)
    mod = module(relay.Tuple([relay.exp(r), relay.abs(r)]))
    new = partition(mod, toy)
    assert isinstance(new["tvmgen_default_toy_main_0"].ret_type, relay.TensorType)
    check_same(mod, new, rng)
