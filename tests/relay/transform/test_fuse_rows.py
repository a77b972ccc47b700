"""Operators that work row by row take along what is done to the rows before and after: one kernel, the same numbers."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import tvm
import tvm.testing
from tests import on_target
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.transform import fuse_ops

SIZES = (1, 2, 5, 15, 16, 17, 31, 32, 33, 64, 97, 128, 197, 256, 384, 1000, 1031)
OPERATORS = ("softmax", "log_softmax", "layer_norm", "l2_normalize")
# How far from NumPy: the difference of two large logarithms is small, and what rounding leaves of the differences in a
# row whose elements are nearly the same is scaled up three hundred times.
APART = {"softmax": 1e-5, "log_softmax": 1e-3, "layer_norm": 1e-2, "l2_normalize": 1e-3}
CASES = int(os.environ.get("TVM_FUZZ_CASES", "60")) // 5


def kernels(library) -> list[str]:
    nodes = json.loads(library.get_graph_json())["nodes"]
    return [n["attrs"]["func_name"] for n in nodes if n["op"] != "null"]


def build(function, target, fused: bool = True):
    with tvm.transform.PassContext(opt_level=3, disabled_pass=[] if fused else ["FuseOps"]):
        return relay.build(tvm.IRModule.from_expr(function), target)


def run(library, values, target):
    module = graph_executor.GraphModule(library["default"](tvm.device(target.kind.name, 0)))
    module.run(**values)
    return module.get_output(0).numpy()


def normal(name: str, x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What an operator makes of rows, in NumPy."""
    if name == "layer_norm":
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
    if name == "l2_normalize":
        return x / np.sqrt(np.maximum((x * x).sum(-1, keepdims=True), 1e-3))
    e = x - x.max(-1, keepdims=True)
    total = np.exp(e).sum(-1, keepdims=True)
    return np.exp(e) / total if name == "softmax" else e - np.log(total)


def row_operator(name: str, x, g, b):
    if name == "layer_norm":
        return relay.nn.layer_norm(x, relay.const(g), relay.const(b))
    return relay.nn.l2_normalize(x, 1e-3, [-1]) if name == "l2_normalize" else getattr(relay.nn, name)(x)


class Drawn:
    """A random group: inputs, the graph, and what NumPy makes of the inputs."""

    def __init__(self, rng: np.random.Generator):
        self.rng, self.values, self.inputs = rng, {}, []
        self.of_row = None
        self.name = OPERATORS[rng.integers(len(OPERATORS))]
        self.lead = [int(d) for d in rng.choice((1, 2, 3, 7), 3)]
        self.size = int(rng.choice(SIZES))
        self.half = bool(rng.random() < 0.5)
        dtype = "float16" if self.half else "float32"
        flat = (self.lead[0] * self.lead[1], self.lead[2], self.size)
        x, wanted = self.input(flat, dtype)
        x, wanted = self.before(x, wanted, dtype)
        g, b = (rng.standard_normal(self.size).astype("float32") for _ in range(2))
        x = row_operator(self.name, x, g, b)
        wanted = normal(self.name, wanted, g, b)
        x, self.wanted = self.after(x, wanted, dtype)
        self.function = relay.Function(self.inputs, x)

    def input(self, shape, dtype="float32", values=None):
        name = f"in{len(self.inputs)}"
        self.values[name] = (self.rng.standard_normal(shape) * 2 if values is None else values).astype(dtype)
        self.inputs.append(relay.var(name, shape=shape, dtype=dtype))
        return self.inputs[-1], self.values[name].astype("float64")

    def before(self, x, wanted, dtype):
        rng, shape = self.rng, (*self.lead, self.size)
        x, wanted = relay.reshape(x, shape), wanted.reshape(shape)
        if rng.random() < 0.5:
            x, wanted = x * relay.const(0.125, dtype), wanted * 0.125
        x = relay.cast(x, "float32") if self.half else x
        if rng.random() < 0.5:
            hidden = rng.random((self.lead[0], 1, self.lead[2], self.size)) < 0.3
            hidden[..., rng.integers(self.size)] = False
            low = -np.inf if "softmax" in self.name else -1.0
            mask, numbers = self.input(hidden.shape, values=np.where(hidden, low, 0.0))
            x, wanted = x + mask, wanted + numbers
        if rng.random() < 0.3:
            other, numbers = self.input(shape)
            x, wanted = x + other, wanted + numbers
        if rng.random() < 0.3:
            self.of_row = self.input((*self.lead, 1))
            x, wanted = x + self.of_row[0], wanted + self.of_row[1]
        return (relay.tanh(x), np.tanh(wanted)) if rng.random() < 0.2 else (x, wanted)

    def after(self, x, wanted, dtype):
        rng = self.rng
        if rng.random() < 0.4:
            scale = rng.standard_normal(self.size).astype("float32")
            x, wanted = x * relay.const(np.abs(scale) + 1), wanted * (np.abs(scale) + 1)
        if self.of_row is not None:
            x, wanted = x - self.of_row[0], wanted - self.of_row[1]
        if rng.random() < 0.4:
            other, numbers = self.input((*self.lead, self.size))
            x, wanted = x + other, wanted + numbers
        if rng.random() < 0.6:
            shape = (self.lead[0], self.lead[1] * self.lead[2], self.size)
            x, wanted = relay.reshape(x, shape), wanted.reshape(shape)
        return (relay.cast(x, dtype), wanted) if self.half else (x, wanted)


@on_target.needs_gpu
@pytest.mark.parametrize("case", range(CASES))
def test_one_kernel_with_the_numbers_of_numpy(case, rng):
    drawn = Drawn(rng)
    target = on_target.gpu()
    fused, alone = build(drawn.function, target), build(drawn.function, target, fused=False)
    assert len(kernels(fused)) == 1, f"{kernels(fused)}\n{drawn.function}"
    apart = APART[drawn.name]
    rtol, atol = (2e-3, max(apart, 1e-3)) if drawn.half else (1e-4, apart)
    for library in (fused, alone):
        got = run(library, drawn.values, target)
        np.testing.assert_allclose(got, drawn.wanted, rtol, atol, err_msg=str(drawn.function))


@on_target.needs_gpu
@pytest.mark.parametrize("size", (5, 32, 197))
def test_rows_that_are_masked_altogether_are_as_they_are_alone(size):
    x, mask = relay.var("x", shape=(3, 4, size)), relay.var("mask", shape=(1, 4, size))
    function = relay.Function([x, mask], relay.reshape(relay.nn.softmax(x + mask), (12, size)))
    hidden = np.zeros((1, 4, size), "float32")
    hidden[0, 1], hidden[0, 2, 1:] = -np.inf, -np.inf
    values = {"x": np.ones((3, 4, size), "float32"), "mask": hidden}
    target = on_target.gpu()
    got = run(build(function, target), values, target)
    np.testing.assert_allclose(got, run(build(function, target, fused=False), values, target), rtol=1e-5, atol=1e-6)
    wanted = np.zeros((3, 4, size))
    wanted[:, [0, 3]], wanted[:, 2, 0] = 1 / size, 1
    others = [0, 2, 3]
    np.testing.assert_allclose(got.reshape(3, 4, size)[:, others], wanted[:, others], rtol=1e-5, atol=1e-6)


def groups(body, *inputs, rows: bool = True) -> list[list[str]]:
    """The operators of each kernel that fusion makes."""
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(list(inputs), body)))
    mod = relay.transform.FuseOps(2, fuse_ops.FusionRules(rowwise=rows))(mod)
    found: list[list[str]] = []

    def visit(node):
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            names: list[str] = []
            relay.analysis.post_order_visit(
                node.op.body,
                lambda n: (
                    names.append(n.op.name) if isinstance(n, relay.Call) and isinstance(n.op, tvm.ir.Op) else None
                ),
            )
            found.append(names)

    relay.analysis.post_order_visit(mod["main"].body, visit)
    return found


def test_what_goes_into_the_kernel_of_rows():
    x, y = relay.var("x", shape=(6, 5, 40)), relay.var("y", shape=(2, 3, 5, 40))
    softmax = relay.nn.softmax
    wide = relay.reshape(x, (2, 3, 5, 40))
    both = groups(relay.cast(relay.reshape(softmax(wide * relay.const(2.0)), (6, 5, 40)), "float16"), x)
    assert both == [["reshape", "multiply", "nn.softmax", "reshape", "cast"]]
    around = softmax(relay.exp(y) + y) * y
    assert groups(around, y) == [["exp", "add", "nn.softmax", "multiply"]]
    assert groups(around, y, rows=False) == [["exp", "add"], ["nn.softmax", "multiply"]]


def test_what_stays_out_of_the_kernel_of_rows():
    x, v = relay.var("x", shape=(6, 5, 40)), relay.var("v", shape=(40,))
    softmax, norm = relay.nn.softmax, relay.nn.layer_norm
    cases = {
        "rows of another length": (relay.reshape(softmax(x), (6, 10, 20)), [x]),
        "rows from elsewhere": (softmax(relay.transpose(x, (1, 0, 2))), [x]),
        "along another dimension": (softmax(relay.exp(x), 1), [x]),
        "the same for all rows": (norm(x, relay.exp(v), v), [x, v]),
        "rows twice": (softmax(softmax(x)), [x]),
        "larger than the rows": (softmax(v) + x, [x, v]),
    }
    for name, (body, inputs) in cases.items():
        assert len(groups(body, *inputs)) == 2, (name, groups(body, *inputs))
    before = relay.exp(x)
    assert len(groups(relay.Tuple([softmax(before), before]), x)) == 2, "two read it"


def test_a_kernel_of_rows_takes_few_steps():
    x = y = relay.var("x", shape=(8, 40))
    for _ in range(20):
        y = y * relay.tanh(y)
    found = groups(relay.nn.softmax(y), x)
    assert "nn.softmax" in found[-1] and len(found[-1]) <= fuse_ops.MAX_ROWWISE_NODES
    assert sum(map(len, found)) == 41


def test_a_product_takes_what_follows_it_first():
    a, b = relay.var("a", shape=(6, 32, 16)), relay.var("b", shape=(6, 32, 16))
    body = relay.nn.softmax(relay.nn.batch_matmul(a, b) * relay.const(0.5))
    assert groups(body, a, b) == [["nn.batch_matmul", "multiply"], ["nn.softmax"]]


def test_what_a_product_stores_stays_narrow():
    a, b = (relay.var(name, shape=(6, 32, 16), dtype="float16") for name in "ab")
    y = relay.nn.relu(relay.nn.batch_matmul(a, b))
    body = relay.nn.softmax(relay.reshape(relay.cast(y, "float32"), (2, 3, 32, 32)))
    product = ["nn.batch_matmul", "nn.relu"]
    assert groups(body, a, b) == [product, ["cast", "reshape", "nn.softmax"]]
    assert groups(body, a, b, rows=False)[0] == [*product, "cast"]
    # What comes before something else, or before rows of another length, is the product's as ever.
    assert groups(relay.cast(y, "float32") + relay.const(1.0), a, b) == [[*product, "cast", "add"]]
    assert groups(relay.nn.softmax(relay.reshape(relay.cast(y, "float32"), (6, 1024))), a, b)[0] == [*product, "cast"]
    assert groups(relay.nn.softmax(relay.cast(y, "float16")), a, b)[0] == [*product, "cast"]


def test_rows_of_unknown_number_stay_alone():
    x = relay.var("x", shape=(relay.Any(), 40))
    assert groups(relay.nn.softmax(relay.exp(x)), x) == [["exp"], ["nn.softmax"]]
