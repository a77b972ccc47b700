"""Optimized graphs compute what the interpreter does: compiled at levels 0 and 3, and after each pass alone."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

import tvm
from tests.relay import random_exact_graphs, random_graphs
from tests.tile_emulator import emulated
from tvm import relay

CASES = int(os.environ.get("TVM_FUZZ_CASES", "40"))
PASSES = {
    "SimplifyInference": relay.transform.SimplifyInference,
    "EliminateCommonSubexpr": relay.transform.EliminateCommonSubexpr,
    "FoldConstant": relay.transform.FoldConstant,
    "FoldScaleAxis": relay.transform.FoldScaleAxis,
    "ForwardFoldScaleAxis": relay.transform.ForwardFoldScaleAxis,
    "SimplifyExpr": relay.transform.SimplifyExpr,
    "CanonicalizeOps": relay.transform.CanonicalizeOps,
    "CanonicalizeCast": relay.transform.CanonicalizeCast,
    "CombineParallelDense": lambda: relay.transform.CombineParallelDense(2),
    "CombineParallelDense, one layer": lambda: relay.transform.CombineParallelDense(2, to_batch=False),
    "CombineParallelConv2D": lambda: relay.transform.CombineParallelConv2D(2),
    "DeadCodeElimination": relay.transform.DeadCodeElimination,
}


@pytest.mark.parametrize("case", range(CASES))
def test_levels_0_and_3_agree_with_the_interpreter(case, seed):
    number = seed * 1000 + case
    mod, values = random_graphs.graph(number)
    want = random_graphs.interpret(mod, values)
    for level in (0, 3):
        problem = random_graphs.close(random_graphs.compile_and_run(mod, values, level), want)
        assert not problem, f"level {level}: {problem}; find the pass with `python -m tools bisect {number}`\n{mod}"


# This machine with its instructions for products of bytes and without them.
HERE = ("llvm", "llvm -mattr=-avx512vnni,-avxvnni") if tvm.target.Target("llvm").features.has_vnni else ("llvm",)


@pytest.mark.parametrize("case", range(max(CASES // 20, 1)))
@pytest.mark.parametrize("dtype", ["uint8", "int8", "bfloat16"])
def test_quantized_graphs_and_those_of_bfloat16_are_exact(dtype, case, seed):
    number = seed * 1000 + case
    mod, inputs, want = random_exact_graphs.graph(number, dtype)
    for target in HERE if dtype != "bfloat16" else HERE[:1]:
        got = random_exact_graphs.computed(mod, inputs, target, 3)
        np.testing.assert_array_equal(got, want, f"seed {number}, {dtype}, {target}\n{mod}")


@pytest.mark.parametrize("case", range(max(CASES // 20, 1)))
@pytest.mark.parametrize("dtype", ["uint8", "int8", "bfloat16"])
def test_quantized_graphs_and_those_of_bfloat16_are_exact_in_tiles(dtype, case, seed):
    number = seed * 1000 + case
    mod, inputs, want = random_exact_graphs.graph(number, dtype)
    with emulated() as target:
        got = random_exact_graphs.computed(mod, inputs, target, 3)
    np.testing.assert_array_equal(got, want, f"seed {number}, {dtype}\n{mod}")


@cache
def exact_case(number, dtype):
    """A graph, its inputs and its result, which the graph has without passes."""
    mod, inputs, want = random_exact_graphs.graph(number, dtype)
    np.testing.assert_array_equal(random_exact_graphs.computed(mod, inputs, "llvm", 0), want, f"{number}\n{mod}")
    return mod, inputs, want


@cache
def float_case(number):
    """A graph, its inputs and the results of the interpreter."""
    mod, values = random_graphs.graph(number)
    return mod, values, random_graphs.interpret(mod, values)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bfloat16"])
@pytest.mark.parametrize("name", sorted(PASSES))
def test_each_pass_alone_keeps_exact_results(name, dtype, seed):
    number = seed * 1000 + 700
    mod, inputs, want = exact_case(number, dtype)
    with tvm.transform.PassContext(opt_level=4):
        new = tvm.transform.Sequential([PASSES[name]()])(mod)
    if tvm.ir.structural_equal(new, mod):
        return
    got = random_exact_graphs.computed(new, inputs, "llvm", 0)
    np.testing.assert_array_equal(got, want, f"{name} on the graph of seed {number}\nbefore:\n{mod}\nafter:\n{new}")


@pytest.mark.parametrize("name", sorted(PASSES))
def test_each_pass_alone_keeps_results(name, seed):
    for case in range(12):
        number = seed * 1000 + 500 + case
        mod, values, want = float_case(number)
        with tvm.transform.PassContext(opt_level=4):
            new = tvm.transform.Sequential([PASSES[name]()])(mod)
        if tvm.ir.structural_equal(new, mod):
            continue
        problem = random_graphs.close(random_graphs.interpret(new, values), want)
        assert not problem, f"{name} on the graph of seed {number}: {problem}\nbefore:\n{mod}\nafter:\n{new}"


@pytest.mark.parametrize("value, decides", [(0.5, False), (2.99999, True), (3.00001, True), (299.99, True)])
def test_a_graph_whose_floor_depends_on_rounding_is_drawn_anew(value, decides):
    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.floor(x * relay.const(1.0)))))
    assert random_graphs.rounding_decides(mod, [np.array([0.37, value], "float32")]) == decides
