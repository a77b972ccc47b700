"""Handing parts of a graph to other compilers: the regions found, and that results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay import analysis, transform
from tvm.relay.dataflow_pattern import is_op, wildcard


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
    return [g.numpy() for g in got] if isinstance(got, list) else [got.numpy()]


def partition(mod, toy, merge=True):
    passes = [transform.AnnotateTarget([toy]), *([transform.MergeCompilerRegions()] if merge else []),
              transform.PartitionGraph()]
    return tvm.transform.Sequential(passes)(mod)


def external(mod) -> dict[str, dict[str, int]]:
    return {v.name_hint: analysis.list_op_freqs(tvm.IRModule.from_expr(f.without_attr("global_symbol")))
            for v, f in mod.functions.items() if "Compiler" in f.attrs}


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
