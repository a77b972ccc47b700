"""What compiling costs grows with the graph and no faster: chains that use their values several times, stencils,
recurrent networks. Costs are calls of functions, of which visits of nodes are most, so they are the same on every
machine."""

from __future__ import annotations

import gc
import json
import os
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm
from tvm import relay
from tvm.contrib import graph_executor

# A repetition among many may cost so much more than one among few.
SLACK = 1.25
# Steps of the longest LSTM; a thousand (``python -m tools test compile-cost``) take more than a minute.
STEPS = int(os.environ.get("TVM_COMPILE_COST_STEPS", "60"))


class TooMany(Exception):
    """Counting was stopped, since a cost that is a power would not end."""


def cost(work, most: float = float("inf")) -> int:
    """How many functions ``work`` calls."""
    count = 0

    def called(frame, event, argument):
        nonlocal count
        if event == "call":
            count += 1
            if count > most:
                raise TooMany

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def build(mod, params=None, target="llvm", level=3):
    with tvm.transform.PassContext(opt_level=level):
        return relay.build(mod, target=target, params=params)


def swish(n):
    x = y = relay.var("x", shape=(8,))
    for _ in range(n):
        y = y * relay.sigmoid(y)
    return relay.Function([x], y)


def fibonacci(n):
    terms = [relay.var("a", shape=(8,)), relay.var("b", shape=(8,))]
    for _ in range(n):
        terms.append(terms[-1] + terms[-2])
    return relay.Function(terms[:2], terms[-1])


def xorshift(n):
    x = y = relay.var("x", shape=(8,), dtype="int32")
    for _ in range(n):
        y = relay.bitwise_xor(y, relay.left_shift(y, relay.const(3)))
        y = relay.bitwise_xor(y, relay.right_shift(y, relay.const(5)))
    return relay.Function([x], y)


def residual(n):
    x, w = relay.var("x", shape=(8,)), relay.var("w", shape=(8,))
    y = x
    for _ in range(n):
        y = y + relay.tanh(y * w)
    return relay.Function([x, w], y)


def chosen(n):
    x = y = relay.var("x", shape=(8,))
    for _ in range(n):
        y = relay.where(y > relay.const(0.0), y * relay.const(0.75), relay.exp(y) - relay.const(0.5))
    return relay.Function([x], y)


def neighbours(n):
    """Each value is read at two places, and each of these at two: the places double with every step."""
    x = y = relay.var("x", shape=(3 * n + 5,))
    for k in range(n):
        size = 3 * (n - k) + 5
        first, second = relay.strided_slice(y, [1], [size - 2]), relay.strided_slice(y, [3], [size])
        y = (first - second) * relay.const(0.5)
    return relay.Function([x], y)


def joined(n):
    """The result is joined of parts that both read the value before."""
    x = y = relay.var("x", shape=(6,))
    for _ in range(n):
        y = relay.strided_slice(relay.concatenate([y, relay.abs(y)], 0), [4], [10])
    return relay.Function([x], y)


CHAINS = {f.__name__: f for f in (swish, fibonacci, xorshift, residual, chosen, neighbours, joined)}


def recurrent(kind: str, steps: int, hidden: int = 8, width: int = 4):
    """One recurrent layer, written out step by step by the importer."""
    gates = {"LSTM": 4, "GRU": 3}[kind]
    rng = np.random.default_rng(steps)
    shapes = {"W": (1, gates * hidden, width), "R": (1, gates * hidden, hidden), "B": (1, 2 * gates * hidden)}
    weights = {name: rng.normal(scale=0.3, size=shape).astype("float32") for name, shape in shapes.items()}
    node = helper.make_node(kind, ["X", *weights], ["Y"], hidden_size=hidden)
    graph = helper.make_graph(
        [node],
        "recurrent",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, (steps, 1, width))],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, (steps, 1, 1, hidden))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def assert_linear(work, sizes: tuple[int, int, int]) -> None:
    """``work(n)`` for the last of the sizes costs no more per repetition than for those before."""
    first, second, third = sizes
    work(first)
    small = cost(lambda: work(first))
    middle = cost(lambda: work(second), 2 * small * second / first)
    slope = (middle - small) / (second - first)
    large = cost(lambda: work(third), middle + SLACK * slope * (third - second))
    assert (large - middle) / (third - second) <= SLACK * slope


@pytest.mark.parametrize("sizes", [(10, 30, 100), (10, 60, 300)])
@pytest.mark.parametrize("name", ["swish", "fibonacci"])
def test_many_repetitions_cost_no_more_each_than_a_few(name, sizes):
    make = CHAINS[name]
    assert_linear(lambda n: build(tvm.IRModule.from_expr(make(n))), sizes)


ON_TARGETS = [(name, target) for target in ("llvm", "c") for name in CHAINS]
ON_TARGETS += [("swish", "opencl"), ("joined", "opencl")]


@pytest.mark.slow("counts every call of functions while long chains are compiled")
@pytest.mark.parametrize(("name", "target"), ON_TARGETS)
def test_each_repetition_in_one_kernel_costs_the_same(name, target):
    make = CHAINS[name]
    assert_linear(lambda n: build(tvm.IRModule.from_expr(make(n)), target=target), (6, 12, 24))


def compile_recurrent(kind: str, steps: int):
    mod, params = relay.frontend.from_onnx(recurrent(kind, steps))
    return build(mod, params)


@pytest.mark.slow("counts every call of functions while long chains are compiled")
def test_each_step_of_a_gru_costs_the_same():
    assert_linear(lambda n: compile_recurrent("GRU", n), (4, 8, 16))


@pytest.mark.slow("counts every call of functions while long chains are compiled")
def test_many_steps_of_an_lstm_cost_no_more_each_than_a_few():
    assert_linear(lambda n: compile_recurrent("LSTM", n), (STEPS // 20, STEPS // 5, STEPS))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_steps_of_a_recurrent_network_take_what_they_read(kind):
    graph = json.loads(compile_recurrent(kind, 40).get_graph_json())
    wide = [node["name"] for node in graph["nodes"] if len(node["inputs"]) > 8]
    # The stack of all results at the end.
    assert len(wide) == 1


def run(function: relay.Function, arrays, level: int):
    lib = build(tvm.IRModule.from_expr(function), level=level)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    for param, array in zip(function.params, arrays):
        module.set_input(param.name_hint, array)
    module.run()
    return module.get_output(0).numpy()


@pytest.mark.parametrize("name", CHAINS)
def test_a_value_computed_once_has_the_bits_of_one_computed_for_each_use(name, rng):
    function = CHAINS[name](12)
    arrays = []
    for param in function.params:
        shape = [int(d) for d in param.type_annotation.shape]
        if param.type_annotation.dtype == "int32":
            arrays.append(rng.integers(-(2**31), 2**31, shape).astype("int32"))
        else:
            arrays.append(rng.normal(size=shape).astype("float32"))
    np.testing.assert_array_equal(run(function, arrays, 3), run(function, arrays, 0))
    np.testing.assert_allclose(run(function, arrays, 3), expected(name, arrays, 12), 1e-4, 1e-5)


def expected(name: str, arrays, n: int):
    x, y = arrays[0], arrays[-1]
    for _ in range(n):
        if name == "swish":
            x = x / (1 + np.exp(-x))
        elif name == "fibonacci":
            x, y = y, x + y
        elif name == "xorshift":
            x = x ^ (x << 3)
            x = x ^ (x >> 5)
        elif name == "residual":
            x = x + np.tanh(x * y)
        elif name == "chosen":
            x = np.where(x > 0, x * np.float32(0.75), np.exp(x) - np.float32(0.5))
        elif name == "neighbours":
            x = (x[1:-2] - x[3:]) * np.float32(0.5)
        else:
            x = np.concatenate([x, np.abs(x)])[4:10]
    return y if name == "fibonacci" else x


def test_a_process_that_builds_many_models_keeps_none_of_them():
    def build(number: int) -> None:
        x = relay.var("x", shape=(4,))
        e = x * relay.const(float(number)) + relay.const(1.5)
        relay.build(tvm.IRModule.from_expr(relay.Function([x], e)), "llvm")

    def objects_after(numbers) -> int:
        for number in numbers:
            build(number)
        gc.collect()
        return len(gc.get_objects())

    first = objects_after(range(5))
    # A build has thousands of them.
    assert objects_after(range(5, 25)) - first < 200
