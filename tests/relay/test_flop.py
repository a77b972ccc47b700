"""Counting the floating-point operations of graphs."""

from __future__ import annotations

import tvm
from tvm import relay
from tvm.relay import flop


def _typed(body, *params):
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(list(params), body)))["main"]


def test_operations_are_those_of_the_direct_computation():
    x = relay.var("x", shape=(2, 8, 10, 12))
    w = relay.var("w", shape=(16, 4, 3, 3))
    grouped = relay.nn.conv2d(x, w, channels=16, kernel_size=(3, 3), padding=(1, 1), groups=2)
    assert flop.of_function(_typed(grouped, x, w)) == 2 * (2 * 16 * 10 * 12) * 4 * 9
    x, w = relay.var("x", shape=(1, 10, 12, 8)), relay.var("w", shape=(3, 3, 8, 16))
    last = relay.nn.conv2d(x, w, channels=16, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO")
    assert flop.of_function(_typed(last, x, w)) == 2 * (8 * 10 * 16) * 8 * 9
    a, b = relay.var("a", shape=(5, 7)), relay.var("b", shape=(3, 7))
    assert flop.of_function(_typed(relay.nn.relu(relay.nn.dense(a, b)), a, b)) == 2 * 5 * 7 * 3
    a, b = relay.var("a", shape=(4, 5, 7)), relay.var("b", shape=(4, 3, 7))
    assert flop.of_function(_typed(relay.nn.batch_matmul(a, b), a, b)) == 2 * 4 * 5 * 7 * 3
