"""Reshapes put off until after what a product's kernel can do: which operators move, nothing is computed twice, and the
same numbers as NumPy's for random graphs and on GPUs."""

from __future__ import annotations

import collections
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import tvm
import tvm.testing
from tests import on_target
from tests.cuda_emulator.marks import needs_emulator
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.visit import post_order
from tvm.relay.infer import dims, infer_type
from tvm.relay.pipeline import fusion
from tvm.relay.transform.sink_reshape import SinkReshape, groups_of, moved_shape


def sunk(*outs, before=lambda mod: mod):
    body = outs[0] if len(outs) == 1 else relay.Tuple(list(outs))
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    mod = before(relay.transform.InferType()(mod))
    after = SinkReshape()(mod)
    # The types that the pass leaves are those that inference finds.
    found = [str(m["main"].body.checked_type) for m in (mod, after, relay.transform.InferType()(after))]
    assert found[0] == found[1] == found[2]
    return after["main"]


def operators(func) -> list[str]:
    return [n.op.name for n in post_order(func.body) if isinstance(n, relay.Call)]


def product(rows=6, columns=8, terms=4, name="x"):
    return relay.nn.matmul(relay.var(name, shape=(rows, terms)), relay.var(f"{name}w", shape=(terms, columns)))


def shapes(func) -> list[tuple[int, ...]]:
    return [tuple(dims(n.checked_type)) for n in post_order(func.body) if isinstance(n, relay.Call)]


# Shapes


@pytest.mark.parametrize("shape, other, wanted", [
    ((1, 6, 8), (6, 8), [((1,), ()), ((6,), (6,)), ((8,), (8,))]),
    ((6, 8), (1, 6, 8), [((6,), (1, 6)), ((8,), (8,))]),
    ((2, 3, 4), (6, 4), [((2, 3), (6,)), ((4,), (4,))]),
    ((4, 6), (8, 3), [((4, 6), (8, 3))]),
    ((5, 1, 1), (5,), [((5, 1, 1), (5,))]),
    ((), (1, 1), [((), (1, 1))]),
    ((), (), []),
])  # fmt: skip
def test_groups_of_dimensions(shape, other, wanted):
    assert groups_of(shape, other) == wanted


def test_a_part_of_a_group_cannot_be_repeated():
    assert moved_shape((2, 1, 4), (2, 3, 4), (6, 4)) is None
    assert moved_shape((3, 4), (2, 3, 4), (6, 4)) is None
    assert moved_shape((1, 2, 3, 4), (2, 3, 4), (6, 4)) is None


def divided(rng, total: int) -> tuple[int, ...]:
    """A shape with so many elements, ones among its dimensions."""
    sizes = [1] * int(rng.integers(0, 3))
    while total > 1:
        d = int(rng.choice([d for d in range(2, total + 1) if total % d == 0]))
        sizes.insert(int(rng.integers(0, len(sizes) + 1)), d)
        total //= d
    return tuple(sizes) or (1,)


def test_operands_of_random_shapes_take_part_as_before(rng):
    moved = 0
    for _ in range(300):
        total = int(rng.choice([1, 4, 6, 12, 24, 36]))
        out, flat = divided(rng, total), divided(rng, total)
        assert [math.prod(a) for a, _ in groups_of(out, flat)] == [math.prod(b) for _, b in groups_of(out, flat)]
        assert sum([list(a) for a, _ in groups_of(out, flat)], []) == list(out)
        shape = tuple(d if rng.random() < 0.6 else 1 for d in out)[int(rng.integers(0, len(out) + 1)) :]
        new = moved_shape(shape, out, flat)
        if new is not None:
            moved += 1
            y = np.arange(math.prod(shape)).reshape(shape)
            wanted = np.broadcast_to(y, out).reshape(flat)
            np.testing.assert_array_equal(np.broadcast_to(y.reshape(new), flat), wanted)
    print(moved)
    assert moved > 20


# What moves


def test_a_residual_is_added_before_the_reshape():
    func = sunk(relay.reshape(product(), (1, 6, 8)) + relay.var("r", shape=(1, 6, 8)))
    assert operators(func) == ["nn.matmul", "reshape", "add", "reshape"]
    assert shapes(func) == [(6, 8), (6, 8), (6, 8), (1, 6, 8)]


def test_a_chain_there_and_back_loses_its_reshapes():
    y = relay.reshape(product(), (1, 6, 8))
    y = y * (relay.erf(y / relay.const(1.5)) + relay.const(1.0))
    func = sunk(relay.cast(relay.reshape(y, (6, 8)), "float16"))
    assert operators(func) == ["nn.matmul", "divide", "erf", "add", "multiply", "cast"]


@pytest.mark.parametrize("shape, wanted", [((8,), (8,)), ((1, 1, 8), (8,)), ((1, 6, 1), (6, 1)), ((), ()),
                                           ((1, 1), (1, 1)), ((1, 1, 1), ())])  # fmt: skip
def test_operands_that_are_repeated(shape, wanted):
    func = sunk(relay.reshape(product(), (1, 6, 8)) + relay.var("b", shape=shape))
    assert func.body.op.name == "reshape" and func.body.args[0].op.name == "add"
    assert tuple(dims(func.body.args[0].args[1].checked_type)) == wanted


def test_a_number_is_applied_before_the_reshape():
    a, b = relay.var("a", shape=(6, 4, 3)), relay.var("b", shape=(6, 5, 3))
    y = relay.divide(relay.reshape(relay.nn.batch_matmul(a, b), (2, 3, 4, 5)), relay.const(8.0))
    assert operators(sunk(y)) == ["nn.batch_matmul", "divide", "reshape"]


def test_a_mask_of_attention():
    a, b = relay.var("a", shape=(12, 5, 4)), relay.var("b", shape=(12, 7, 4))
    y = relay.reshape(relay.nn.batch_matmul(a, b), (1, 12, 5, 7)) * relay.const(0.5)
    func = sunk(relay.nn.softmax(y + relay.var("m", shape=(1, 1, 5, 7))))
    assert operators(func) == ["nn.batch_matmul", "multiply", "reshape", "add", "reshape", "nn.softmax"]


def test_what_repeats_a_part_of_a_joined_dimension_stays():
    a, b = relay.var("a", shape=(12, 5, 4)), relay.var("b", shape=(12, 7, 4))
    y = relay.reshape(relay.nn.batch_matmul(a, b), (3, 4, 5, 7)) * relay.const(0.5)
    func = sunk(y + relay.var("m", shape=(3, 1, 5, 7)))
    assert operators(func) == ["nn.batch_matmul", "multiply", "reshape", "add"]


def test_a_product_that_is_repeated_stays():
    func = sunk(relay.reshape(product(1), (1, 1, 8)) + relay.var("r", shape=(2, 6, 8)))
    assert operators(func) == ["nn.matmul", "reshape", "add"]


def test_an_operator_of_dimensions_stays():
    func = sunk(relay.nn.bias_add(relay.reshape(product(), (2, 3, 8)), relay.var("b", shape=(3,)), axis=1))
    assert operators(func) == ["nn.matmul", "reshape", "nn.bias_add"]


def test_reshapes_of_other_values_stay():
    func = sunk(relay.nn.relu(relay.reshape(relay.var("x", shape=(6, 8)), (1, 6, 8))))
    assert operators(func) == ["reshape", "nn.relu"]


def test_an_operator_of_another_product_stays_with_it():
    y = relay.reshape(product(), (2, 3, 8))
    other = relay.nn.batch_matmul(relay.var("a", shape=(2, 3, 4)), relay.var("b", shape=(2, 8, 4)))
    func = sunk(y + other)
    assert operators(func) == ["nn.matmul", "reshape", "nn.batch_matmul", "add"]


def test_what_is_computed_for_the_operand_alone_moves_along():
    """Otherwise its kernel would end at a reshape."""
    r = relay.var("r", shape=(1, 6, 8), dtype="float16")
    func = sunk(relay.reshape(product(), (1, 6, 8)) + relay.nn.relu(relay.cast(r, "float32")))
    assert operators(func) == ["nn.matmul", "reshape", "cast", "nn.relu", "add", "reshape"]
    assert shapes(func)[2:5] == [(6, 8)] * 3


def test_values_with_several_users_are_computed_once():
    y = relay.tanh(relay.reshape(product(), (1, 6, 8)))
    z = relay.exp(relay.var("r", shape=(1, 6, 8)))
    s = y + z
    func = sunk(relay.nn.softmax(s), relay.transpose(y, (0, 2, 1)), s * z, z)
    names = collections.Counter(operators(func))
    assert (names["nn.matmul"], names["tanh"], names["exp"], names["add"], names["multiply"]) == (1, 1, 1, 1, 1)


def test_a_stream_of_residuals_keeps_one_shape():
    r = relay.var("r", shape=(1, 6, 8))
    outs = []
    for i in range(3):
        r = relay.reshape(product(name=f"x{i}"), (1, 6, 8)) + r
        outs.append(relay.nn.softmax(r))
    func = sunk(*outs)
    # One of the first residual, and one of each sum.
    assert collections.Counter(operators(func))["reshape"] == 4


def test_sizes_that_are_not_known_stay():
    x = relay.var("x", shape=(relay.Any(), 4))
    y = relay.reshape(relay.nn.matmul(x, relay.var("w", shape=(4, 8))), (1, -1, 8))
    assert operators(sunk(relay.nn.relu(y))) == ["nn.matmul", "reshape", "nn.relu"]


# Numbers


class Maker:
    """A random graph of products, reshapes and what works element by element; NumPy's values of it, and a bound of the
    numbers that were added up to each, which rounding errors are measured by."""

    def __init__(self, rng):
        self.rng = rng
        self.params: dict[str, np.ndarray] = {}
        self.pool: list[tuple[relay.Expr, np.ndarray, float]] = []

    def one(self, options):
        return options[int(self.rng.integers(len(options)))]

    def input(self, shape):
        value = self.rng.uniform(-1, 1, shape).astype("float32")
        if self.rng.random() < 0.4:
            return relay.const(value), value, 1.0
        name = f"v{len(self.params)}"
        self.params[name] = value
        return relay.var(name, shape=shape), value, 1.0

    def product(self):
        batch, m, n, k = (int(self.one((1, 2, 3, 4, 6))) for _ in range(4))
        if self.rng.random() < 0.5:
            (a, x, _), (b, y, _) = self.input((m, k)), self.input((k, n))
            return relay.nn.matmul(a, b), x @ y, k
        (a, x, _), (b, y, _) = self.input((batch, m, k)), self.input((batch, n, k))
        return relay.nn.batch_matmul(a, b), x @ y.transpose(0, 2, 1), k

    def reshaped(self):
        e, x, size = self.one(self.pool)
        shape = self.one([divided(self.rng, x.size), (1, *x.shape), (x.size,), (*x.shape, 1), x.shape])
        return relay.reshape(e, shape), x.reshape(shape), size

    def unary(self):
        e, x, size = self.one(self.pool)
        made = self.one([
            (relay.nn.relu(e), np.maximum(x, 0)), (relay.tanh(e), np.tanh(x)),
            (relay.cast(relay.cast(e, "float64"), "float32"), x), (relay.clip(e, -0.5, 0.75), np.clip(x, -0.5, 0.75)),
        ])  # fmt: skip
        return *made, size

    def binary(self):
        e, x, size = self.one(self.pool)
        if self.rng.random() < 0.5:
            f, y, other = self.one([v for v in self.pool if v[1].shape == x.shape])
        else:
            shape = tuple(d if self.rng.random() < 0.7 else 1 for d in x.shape)
            f, y, other = self.input(shape[int(self.rng.integers(0, len(shape) + 1)) :])
        if self.rng.random() < 0.5:
            e, x, f, y = f, y, e, x
        made = self.one([
            (e + f, x + y), (e - f, x - y), (relay.maximum(e, f), np.maximum(x, y)),
            (relay.tanh(e) * relay.tanh(f), np.tanh(x) * np.tanh(y)),
        ])  # fmt: skip
        return *made, size + other

    def turned(self):
        e, x, size = self.one(self.pool)
        order = [int(i) for i in self.rng.permutation(x.ndim)]
        return relay.transpose(e, order), x.transpose(order), size

    def make(self, steps: int):
        e, x, size = self.product()
        self.pool.append((infer_type(e), x, size))
        kinds = [self.product, *[self.reshaped] * 2, self.unary, *[self.binary] * 3, self.turned]
        for _ in range(steps):
            e, x, size = self.one(kinds)()
            if x.ndim <= 6:
                self.pool.append((infer_type(e), x, size))
        return [self.pool[-1], self.one(self.pool), self.one(self.pool)]


def test_random_graphs_agree_with_numpy(rng):
    for _ in range(6):
        maker = Maker(rng)
        outs = maker.make(14)
        body = relay.Tuple([e for e, _, _ in outs])
        mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
        print(mod)
        mod = relay.transform.InferType()(mod)
        after = SinkReshape()(mod)
        before, now = (collections.Counter(n for n in operators(m["main"]) if n != "reshape") for m in (mod, after))
        assert before == now
        got = results(mod, maker.params, "llvm", tvm.cpu(0))
        for g, (_, x, size) in zip(got, outs):
            np.testing.assert_allclose(g, x, rtol=1e-5, atol=1e-5 * size)


def results(mod, values, target, device):
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target)
    module = graph_executor.GraphModule(lib["default"](device))
    module.set_input(**{k: v for k, v in values.items() if k in {p.name_hint for p in mod["main"].params}})
    module.run()
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


# Whole blocks


ROWS, WIDTH, HEADS = 13, 24, 2
PRODUCTS = {"nn.matmul", "nn.batch_matmul", "nn.contrib_dense_pack"}


def block(rng) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """A layer of a transformer as importers spell it out: matrices between reshapes."""

    def weight(*shape):
        return relay.const((rng.standard_normal(shape) / np.sqrt(shape[0])).astype("float32"))

    def layer(e, wide, out):
        y = relay.nn.matmul(relay.reshape(e, (ROWS, wide)), weight(wide, out))
        return relay.reshape(y, (1, ROWS, out)) + weight(out)

    def head(e, turn):
        e = relay.transpose(relay.reshape(e, (1, ROWS, HEADS, WIDTH // HEADS)), turn)
        return relay.reshape(e, (HEADS, *dims(infer_type(e).checked_type)[2:]))

    x, mask = relay.var("x", shape=(1, ROWS, WIDTH)), relay.var("mask", shape=(1, 1, ROWS, ROWS))
    n = relay.nn.layer_norm(x, weight(WIDTH), weight(WIDTH))
    q, k, v = (head(layer(n, WIDTH, WIDTH), (0, 2, 1, 3)) for _ in range(3))
    s = relay.reshape(relay.nn.batch_matmul(q, k), (1, HEADS, ROWS, ROWS)) * relay.const(0.3) + mask
    s = relay.reshape(relay.nn.softmax(s), (HEADS, ROWS, ROWS))
    a = relay.reshape(relay.nn.batch_matmul(s, v, transpose_b=False), (1, HEADS, ROWS, WIDTH // HEADS))
    a = relay.reshape(relay.transpose(a, (0, 2, 1, 3)), (1, ROWS, WIDTH))
    x1 = x + layer(a, WIDTH, WIDTH)
    y = layer(relay.nn.layer_norm(x1, weight(WIDTH), weight(WIDTH)), WIDTH, 2 * WIDTH)
    y = y * (relay.erf(y / relay.const(2.0**0.5)) + relay.const(1.0)) * relay.const(0.5)
    y = layer(y, 2 * WIDTH, WIDTH) + x1
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, mask], y)))
    values = {"x": rng.standard_normal((1, ROWS, WIDTH)).astype("float32"),
              "mask": np.where(rng.random((1, 1, ROWS, ROWS)) < 0.2, -1e4, 0.0).astype("float32")}  # fmt: skip
    return mod, values


def kernels(mod: tvm.IRModule, target: tvm.target.Target) -> list[list[str]]:
    """The operators of each kernel."""
    with target, tvm.transform.PassContext(opt_level=3):
        mod = tvm.transform.Sequential(fusion(target))(relay.optimize(mod, target)[0])
    found = [n.op for n in post_order(mod["main"].body) if isinstance(n, relay.Call)]
    return [operators(f) for f in found if isinstance(f, relay.Function)]


@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "opencl", "llvm"])
@pytest.mark.parametrize("half", [False, True])
def test_products_of_a_block_take_along_what_follows_them(target, half, rng):
    mod, _ = block(rng)
    mod = relay.transform.ToMixedPrecision("float16")(mod) if half else mod
    found = kernels(mod, tvm.target.Target(target, host="llvm"))
    products = [names for names in found if not PRODUCTS.isdisjoint(names)]
    # Biases, the mask, what makes a GELU, and both residuals.
    assert sum(names.count("erf") for names in products) == 1
    others = [names for names in found if names not in products]
    assert not [names for names in others if "add" in names and "strided_slice" not in names]


def test_the_block_under_test_agrees_with_operators_one_by_one(rng):
    mod, values = block(rng)
    wanted = alone(mod, values)
    if not on_target.only_compiles():
        (got,) = results(mod, values, on_target.target(), on_target.device())
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * float(np.abs(wanted).max()))


def test_the_half_block_under_test_agrees_with_operators_one_by_one(rng):
    mod, values = block(rng)
    wanted = alone(mod, values)
    half = relay.transform.ToMixedPrecision("float16")(mod)
    if not on_target.only_compiles():
        (got,) = results(half, values, on_target.target(), on_target.device())
        np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2 * float(np.abs(wanted).max()))


def alone(mod, values) -> np.ndarray:
    """The result of operators that are not fused, on the CPU, in single precision."""
    with tvm.transform.PassContext(opt_level=0):
        lib = relay.build(mod, "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    module.run(**values)
    return module.get_output(0).numpy()


def on(root, target: str, runner: str = "") -> None:
    """The tests of blocks on another target."""
    if os.environ.get("TVM_TEST_ON"):
        return
    environment = {**os.environ, "TVM_TEST_ON": target}
    command = [sys.executable, "-m", *filter(None, [runner]), "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "tests/relay/transform/test_sink_reshape.py", "-k", "block_under_test"], cwd=root,
                          env=environment, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.slow("runs many tests on another target")
@tvm.testing.requires_opencl
def test_blocks_on_opencl(root):
    on(root, "opencl")


@pytest.mark.slow("runs many tests on another target")
@needs_emulator
def test_blocks_on_the_emulator_of_a_gpu(root):
    on(root, "cuda -arch=sm_90", "tests.cuda_emulator")
