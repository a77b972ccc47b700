"""Concatenations of more inputs than a kernel takes arguments."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order


def joined(count, rows=1, late=False):
    first = relay.Any() if late else rows
    inputs = [relay.var(f"x{i}", shape=(first, i % 3 + 1)) for i in range(count)]
    return tvm.IRModule.from_expr(relay.Function(inputs, relay.concatenate(inputs, 1)))


def sizes(mod) -> list[int]:
    """How many inputs each concatenation has."""
    found = [n for n in post_order(mod["main"]) if isinstance(n, relay.Call) and n.op.name == "concatenate"]
    return [len(c.args[0].checked_type.fields) for c in found]


@pytest.mark.parametrize(
    "count, limits, parts",
    [
        (7, (8,), [7]), (8, (8,), [7, 2]), (20, (8,), [7, 7, 7, 2]), (5, (3,), [2] * 4), (6, (0, 4), [3, 3, 2]),
        (9, (0,), [9]),
    ],
)  # fmt: skip
def test_each_concatenation_and_its_result_are_within_the_limit(count, limits, parts):
    mod = relay.transform.SplitArgs(*limits)(relay.transform.InferType()(joined(count)))
    assert sizes(mod) == parts


def test_sizes_known_late_are_arguments_too():
    """A tensor of two axes, one known late: itself, one size and two strides."""
    mod = relay.transform.InferType()(joined(6, late=True))
    assert sizes(relay.transform.SplitArgs(27)(mod)) == [6]
    assert sizes(relay.transform.SplitArgs(26)(mod)) == [5, 2]


def test_concatenations_stay_apart_and_give_the_same():
    mod = joined(20, rows=2)
    arrays = [np.random.default_rng(i).random((2, i % 3 + 1), "float32") for i in range(20)]
    new = relay.transform.SplitArgs(8)(relay.transform.InferType()(mod))
    fused = relay.transform.FuseOps(2)(new)
    kernels = [n for n in post_order(fused["main"].body) if isinstance(n, relay.Function)]
    assert len(kernels) == 4
    got = relay.create_executor("graph", new, target="llvm").evaluate()(*arrays)
    np.testing.assert_array_equal(got.numpy(), np.concatenate(arrays, 1))


def test_concatenations_within_concatenations_are_split():
    inputs = [relay.var(f"x{i}", shape=(1, 2)) for i in range(8)]
    inner = relay.concatenate(inputs, 1)
    mod = tvm.IRModule.from_expr(relay.concatenate([inner, *inputs[:4], inner], 1))
    assert sizes(relay.transform.SplitArgs(5)(relay.transform.InferType()(mod))) == [4, 4, 2, 4, 3]
