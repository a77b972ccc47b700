"""Products of GPUs that read their operands through what moves them: which do, how many kernels are left, numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tvm
from tests import cuda_emulator as emulator
from tests.cuda_emulator.marks import needs_compiler, needs_emulator
from tests.topi.gpu import test_gemm, test_tensor_cores
from tvm import autotvm, relay
from tvm.autotvm.task.relay_integration import calls_of, workloads_of
from tvm.contrib import graph_executor
from tvm.relay.backend.te_compiler import KernelCompiler
from tvm.relay.infer import infer_module
from tvm.relay.transform.fuse_ops import FusionRules, fuse_function
from tvm.relay.transform.gpu.operands import operand_rule
from tvm.testing import requires_opencl
from tvm.topi.gpu import gemm, tensor_cores

CUDA = tvm.target.Target("cuda -arch=sm_90", host="llvm")


def module(e: relay.Expr) -> tvm.IRModule:
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(e), e)))


def kernels(e: relay.Expr, target: tvm.target.Target = CUDA) -> list[list[str]]:
    """The operators of each kernel."""
    with tvm.transform.PassContext(opt_level=3):
        found = calls_of(module(e), None, target)
    return [list(KernelCompiler(target).lower(f).operators) for f in found]


def heads(x: relay.Expr, rows: int, count: int, size: int, order=(0, 2, 1, 3)) -> relay.Expr:
    """(rows, count * size) as one matrix for each head."""
    y = relay.transpose(relay.reshape(x, (1, rows, count, size)), order)
    return relay.reshape(y, (count, rows, size) if order[-1] == 3 else (count, size, rows))


def attention(rows: int, count: int, size: int, dtype: str) -> relay.Expr:
    q, k, v = (relay.var(n, shape=(rows, count * size), dtype=dtype) for n in "qkv")
    w = relay.var("w", shape=(count * size, count * size), dtype=dtype)
    p = relay.nn.batch_matmul(heads(q, rows, count, size), heads(k, rows, count, size, (0, 2, 3, 1)),
                              transpose_b=False)  # fmt: skip
    p = relay.nn.softmax(p * relay.const(size**-0.5, dtype))
    o = relay.nn.batch_matmul(p, heads(v, rows, count, size), transpose_b=False)
    o = relay.transpose(relay.reshape(o, (1, count, rows, size)), (0, 2, 1, 3))
    return relay.nn.matmul(relay.reshape(o, (rows, count * size)), w)


def attended(q, k, v, w, count: int) -> np.ndarray:
    rows, size = q.shape[0], q.shape[1] // count
    q, k, v = (x.astype("float64").reshape(rows, count, size).transpose(1, 0, 2) for x in (q, k, v))
    p = np.exp(q @ k.transpose(0, 2, 1) * size**-0.5)
    o = p / p.sum(-1, keepdims=True) @ v
    return o.transpose(1, 0, 2).reshape(rows, -1) @ w.astype("float64")


@pytest.mark.parametrize("target, dtype", [("cuda -arch=sm_90", "float16"), ("cuda -arch=sm_90", "float32"),
                                           ("cuda -arch=sm_90a", "bfloat16"), ("opencl", "float32")])  # fmt: skip
def test_attention_moves_nothing_by_itself(target, dtype):
    found = kernels(attention(197, 3, 64, dtype), tvm.target.Target(target, host="llvm"))
    assert all({"nn.softmax", "nn.batch_matmul", "nn.matmul"} & set(names) for names in found)
    assert sum("transpose" in names for names in found) == 3


def test_targets_without_strips_move_data_by_themselves():
    for target in ("llvm", "opencl -device=mali"):
        found = kernels(attention(16, 2, 16, "float32"), tvm.target.Target(target, host="llvm"))
        assert not any("transpose" in names and "nn.batch_matmul" in names for names in found)


def alone(operand: relay.Expr, columns: int = 32) -> bool:
    """Whether a product does not read its left operand through what moves it."""
    shape = [int(d) for d in relay.transform.InferTypeLocal(operand).shape]
    w = relay.var("w", shape=(shape[0], shape[2], columns), dtype=relay.transform.InferTypeLocal(operand).dtype)
    return len(kernels(relay.nn.batch_matmul(operand, w, transpose_b=False))) > 1


def test_only_whole_vectors_are_read_through():
    def half(size):
        return heads(relay.var("x", shape=(24, 2 * size), dtype="float16"), 24, 2, size)

    assert not alone(half(64)) and not alone(half(8))
    assert alone(half(12)) and alone(half(7))
    single = relay.var("x", shape=(24, 24))
    assert not alone(heads(single, 24, 2, 12)) and alone(heads(single, 24, 4, 6))
    # A slice that begins within a vector, and one that does not.
    wide = relay.var("x", shape=(24, 200), dtype="float16")
    assert alone(heads(relay.strided_slice(wide, [4], [132], axes=[1]), 24, 2, 64))
    assert not alone(heads(relay.strided_slice(wide, [8], [136], axes=[1]), 24, 2, 64))
    # Every second element.
    assert alone(relay.reshape(relay.strided_slice(wide, [0], [200], [2], axes=[1]), (1, 24, 100)))


def test_products_without_a_template_take_operands_as_they_are():
    x = relay.var("x", shape=(24, 128), dtype="float16")
    assert not alone(heads(x, 24, 2, 64), columns=gemm.MIN_N)
    assert alone(heads(x, 24, 2, 64), columns=gemm.MIN_N - 1)


def test_what_is_computed_is_not_computed_again():
    x = relay.var("x", shape=(24, 128), dtype="float32")
    w = relay.var("w", shape=(2, 64, 32), dtype="float16")
    found = kernels(relay.nn.batch_matmul(heads(relay.cast(x, "float16"), 24, 2, 64), w, transpose_b=False))
    assert found == [["cast"], ["reshape", "transpose", "reshape", "nn.batch_matmul", "cast"]]


def test_reshapes_alone_are_views():
    x, w = relay.var("x", shape=(2, 8, 64)), relay.var("w", shape=(64, 32))
    assert kernels(relay.nn.matmul(relay.reshape(x, (16, 64)), w)) == [["reshape"], ["nn.matmul"]]


def test_parts_of_a_split_and_shared_operators_are_read_through():
    x = relay.var("x", shape=(24, 3 * 128), dtype="float16")
    q, k, v = relay.split(x, 3, axis=1)
    p = relay.nn.batch_matmul(heads(q, 24, 2, 64), heads(k, 24, 2, 64), transpose_b=True)
    together = relay.nn.batch_matmul(p, heads(v, 24, 2, 64), transpose_b=False)
    assert [names[-2:] for names in kernels(together)] == [["nn.batch_matmul", "cast"]] * 2
    turned = relay.transpose(relay.reshape(x, (24, 3, 2, 64)), (1, 2, 0, 3))
    q, k = (relay.squeeze(relay.strided_slice(turned, [i], [i + 1], axes=[0]), [0]) for i in range(2))
    assert [names[-2:] for names in kernels(relay.nn.batch_matmul(q, k))] == [["nn.batch_matmul", "cast"]]


def test_numbers_are_multiplied_after_the_product(rng):
    """As attention of PyTorch has it: both sides by the square root of the scale."""
    x = relay.var("x", shape=(24, 64))
    both = relay.transpose(relay.reshape(x, (24, 2, 32)), (1, 0, 2))
    parts = [relay.take(both, relay.const(i), axis=0) for i in (0, 1)]
    q, k = (relay.multiply(heads(y, 24, 2, 16), relay.const(np.float32([c]))) for y, c in zip(parts, (0.5, 0.25)))
    made = relay.nn.batch_matmul(q, relay.transpose(k, (0, 2, 1)), transpose_b=False)
    assert [names[-2:] for names in kernels(made)] == [["nn.batch_matmul", "multiply"]]
    value = rng.standard_normal((24, 64)).astype("float32")
    a, b = (value[:, 32 * i : 32 * i + 32].reshape(24, 2, 16).transpose(1, 0, 2).astype("float64") for i in (0, 1))
    wanted = a @ b.transpose(0, 2, 1) * 0.125
    for mod in (module(made), optimized(made)):
        executor = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
        executor.set_input("x", value)
        executor.run()
        close(executor.get_output(0).numpy(), wanted, "float32")


def optimized(e: relay.Expr) -> tvm.IRModule:
    with tvm.transform.PassContext(opt_level=3):
        return relay.optimize(module(e), CUDA)[0]


def test_numbers_are_multiplied_after_products_of_halves_too():
    x, w = relay.var("x", shape=(24, 128), dtype="float16"), relay.var("w", shape=(2, 32, 64), dtype="float16")
    q = heads(x, 24, 2, 64) * relay.const(0.125, "float16")
    assert [names[-3:] for names in kernels(relay.nn.batch_matmul(q, w))] == [["nn.batch_matmul", "multiply", "cast"]]
    found = kernels(relay.nn.batch_matmul(q, w, out_dtype="float32"))
    assert [names[-2:] for names in found] == [["nn.batch_matmul", "multiply"]]


def test_one_operand_twice():
    x = relay.var("x", shape=(24, 128), dtype="float16")
    found = kernels(relay.nn.batch_matmul(heads(x, 24, 2, 64), heads(x, 24, 2, 64)))
    assert [names[-2:] for names in found] == [["nn.batch_matmul", "cast"]]


def test_a_turned_operand_is_read_along_its_neighbours():
    q, k = relay.var("q", shape=(4, 5, 7)), relay.var("k", shape=(2, 2, 9, 7))
    turned = relay.reshape(relay.transpose(k, (1, 0, 3, 2)), (4, 7, 9))
    made = module(relay.nn.batch_matmul(q, turned, transpose_b=False))
    with CUDA, tvm.transform.PassContext(opt_level=3):
        text = relay.optimize(made, CUDA)[0]["main"].astext()
    # Transposed is what a right operand is unless it is said.
    assert "transpose_b" not in text and "axes=[1, 0, 2, 3]" in text


def test_tuning_calls_the_product_what_it_is():
    plain = [relay.var(n, shape=(2, 24, 64), dtype="float16") for n in "ab"]
    x = relay.var("x", shape=(24, 128), dtype="float16")
    with tvm.transform.PassContext(opt_level=3):
        names = [workloads_of(module(relay.nn.batch_matmul(a, plain[1])), None, CUDA)
                 for a in (plain[0], heads(x, 24, 2, 64))]  # fmt: skip
    assert names[0] == names[1] and len(names[0]) == 1


def test_records_of_the_product_are_used(rng):
    """Those of a task made of the product without movers; asking how it reads leaves no trace."""
    x, b = relay.var("x", shape=(24, 128)), relay.var("b", shape=(2, 24, 64))
    target = tvm.target.Target("opencl", host="llvm")
    (task,) = autotvm.task.extract_from_program(
        module(relay.nn.batch_matmul(relay.var("a", shape=(2, 24, 64)), b))["main"], {}, target)  # fmt: skip
    space = task.config_space
    config = space.get(int(rng.choice([i for i in range(space.range_length) if space.is_index_valid(i)])))
    record = autotvm.MeasureInput(task.target, task, config), autotvm.MeasureResult((1e-6,), 0, 1.0, 1.0)
    made = module(relay.nn.batch_matmul(heads(x, 24, 2, 64), b))
    with tvm.transform.PassContext(opt_level=3), autotvm.apply_history_best([record]) as history:
        relay.build(made, target)
        assert [str(used.config) for used in history.uses.values()] == [str(config)]


@needs_compiler
def test_strips_are_copied_in_whole_vectors():
    x, y = (relay.var(n, shape=(197, 768), dtype="float16") for n in "xy")
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(module(relay.nn.batch_matmul(heads(x, 197, 4, 192), heads(y, 197, 4, 192))), CUDA)
    text = built.lib.imported_modules[0].get_source()
    text = text[text.index('extern "C"') :]
    assert text.count("__global__") == 1 and "tvm_copy_async_16(" in text and "tvm_copy_async_4(" not in text


# Numbers


def backwards(rng, shape: tuple[int, ...], dtype: str) -> tuple[tuple[int, ...], list[Callable[[Any, Any], Any]]]:
    """Random operators that move data and end in a shape: the shape they begin with, and steps of relay or NumPy."""
    steps: list[Callable[[Any, Any], Any]] = []
    for _ in range(int(rng.integers(1, 5))):
        kind = rng.integers(4)
        if kind == 0:
            order = [int(a) for a in rng.permutation(len(shape))]
            steps.insert(0, lambda lib, x, order=order: lib.transpose(x, order))
            shape = tuple(shape[order.index(a)] for a in range(len(shape)))
        elif kind == 1:
            after, place = shape, int(rng.integers(len(shape)))
            size = shape[place]
            factor = int(rng.choice([d for d in range(1, size + 1) if size % d == 0]))
            shape = (*shape[:place], size // factor, factor, *shape[place + 1 :])
            steps.insert(0, lambda lib, x, after=after: lib.reshape(x, after))
        elif kind == 2 and len(shape) > 1:
            after, place = shape, int(rng.integers(len(shape) - 1))
            shape = (*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :])
            steps.insert(0, lambda lib, x, after=after: lib.reshape(x, after))
        else:
            place, before, behind = int(rng.integers(len(shape))), int(rng.choice([0, 3, 8])), int(rng.choice([0, 8]))
            end, rank = before + shape[place], len(shape)

            def cut(lib, x, place=place, before=before, end=end, rank=rank):
                if lib is relay:
                    return relay.strided_slice(x, [before], [end], axes=[place])
                return x[tuple(slice(before, end) if a == place else slice(None) for a in range(rank))]

            steps.insert(0, cut)
            shape = tuple(d + (before + behind) * (a == place) for a, d in enumerate(shape))
    return shape, steps


def drawn_product(rng, dtype: str) -> tuple[relay.Expr, dict[str, np.ndarray], np.ndarray]:
    """A product of operands that are moved at random, values of its inputs, and what it is."""
    batch, m, n, k = int(rng.integers(1, 4)), int(rng.choice([5, 16, 33])), int(rng.choice([7, 24])), 8
    k *= int(rng.choice([1, 3, 8]))
    turned = bool(rng.integers(2)), bool(rng.integers(2))
    sides, values, numbers = [], {}, []
    for name, shape, turn in zip("xy", ((batch, m, k), (batch, k, n)), turned):
        shape = (batch, *shape[:0:-1]) if turn else shape
        start, steps = backwards(rng, shape, dtype)
        print(name, start, "->", shape)
        value = rng.standard_normal(start).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
        side, number = relay.var(name, shape=start, dtype=dtype), value.astype("float64")
        for step in steps:
            side, number = step(relay, side), step(np, number)
        sides.append(side)
        values[name] = value
        numbers.append(number.transpose(0, 2, 1) if turn else number)
    made = relay.nn.batch_matmul(*sides, transpose_a=turned[0], transpose_b=turned[1])
    return relay.nn.relu(made), values, np.maximum(numbers[0] @ numbers[1], 0)


def close(got: np.ndarray, wanted: np.ndarray, dtype: str) -> None:
    limit = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    np.testing.assert_allclose(got.astype("float64"), wanted, limit, limit * max(float(np.abs(wanted).max()), 1.0))


@requires_opencl
@pytest.mark.parametrize("case", range(4))
def test_random_chains_before_products_on_opencl(case, rng):
    made, values, wanted = drawn_product(rng, "float32")
    with tvm.transform.PassContext(opt_level=3):
        executor = graph_executor.GraphModule(relay.build(module(made), "opencl")["default"](tvm.cl(0)))
    for name, value in values.items():
        executor.set_input(name, value)
    executor.run()
    close(executor.get_output(0).numpy(), wanted, "float32")


def emulated(e: relay.Expr, values: dict[str, np.ndarray], shape, target: tvm.target.Target, rule=None) -> np.ndarray:
    """The result of a graph that is one kernel (by the target's rule or another), by the emulator."""
    with target, tvm.transform.PassContext(opt_level=3):
        main = relay.optimize(module(e), target)[0]["main"]
        fused = fuse_function(main, 1, FusionRules(rule or operand_rule(target)))
        call = infer_module(tvm.IRModule.from_expr(fused))["main"].body
        kernel = KernelCompiler(target).lower(call.op)
        with emulator.building():
            built = tvm.build(kernel.module, target=target)
    inputs = [values[a.name_hint] for a in call.args]
    return emulator.call(built, [*inputs, np.zeros(shape, inputs[0].dtype)], kernel.name)[-1]


@needs_emulator
@pytest.mark.parametrize("dtype, arch", [("float16", "sm_80"), ("bfloat16", "sm_90"), ("float32", "sm_90"),
                                         ("float16", "sm_90a")])  # fmt: skip
@pytest.mark.parametrize("which", ["scores", "values", "output"])
def test_products_of_attention_on_cuda(which, dtype, arch, rng):
    rows, count, size = 37, 3, 16
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))

    def given(name, *shape):
        values[name] = rng.standard_normal(shape).astype(kind)
        return relay.var(name, shape=shape, dtype=dtype), values[name].astype("float64")

    def split(x):
        return x.reshape(rows, count, size).transpose(1, 0, 2)

    values: dict[str, np.ndarray] = {}
    if which == "scores":
        (q, x), (k, y) = given("q", rows, count * size), given("k", rows, count * size)
        e = relay.nn.batch_matmul(heads(q, rows, count, size), heads(k, rows, count, size, (0, 2, 3, 1)),
                                  transpose_b=False)  # fmt: skip
        wanted = split(x) @ split(y).transpose(0, 2, 1)
    elif which == "values":
        (p, x), (v, y) = given("p", count, rows, rows), given("v", rows, count * size)
        e = relay.nn.batch_matmul(p, heads(v, rows, count, size), transpose_b=False)
        wanted = x @ split(y)
    else:
        (o, x), (w, y) = given("o", count, rows, size), given("w", count * size, 40)
        e = relay.transpose(relay.reshape(o, (1, count, rows, size)), (0, 2, 1, 3))
        e = relay.nn.matmul(relay.reshape(e, (rows, count * size)), w)
        wanted = x.transpose(1, 0, 2).reshape(rows, -1) @ y
    got = emulated(e, values, wanted.shape, tvm.target.Target(f"cuda -arch={arch}", host="llvm"))
    close(got, wanted, dtype)


@needs_emulator
@pytest.mark.parametrize("dtype, arch", [("float16", "sm_80"), ("bfloat16", "sm_90"), ("float32", "sm_90"),
                                         ("float16", "sm_90a")])  # fmt: skip
def test_any_chain_read_through_gives_the_same_on_cuda(dtype, arch, rng, monkeypatch):
    """Also those that would not be: vectors are cut where they have to be. Tiles are any of the template's."""
    drawn = {gemm: test_gemm.any_configuration(rng), tensor_cores: test_tensor_cores.any_configuration(rng)}
    if arch == "sm_90a":
        drawn[tensor_cores] = lambda sizes, machine: {
            "warpgroup": True, "tile": (64, 64), "warps": (1, 1), "block_k": 64, "stages": 3, "split_k": 1}  # fmt: skip
    for template, choose in drawn.items():
        monkeypatch.setattr(template.TEMPLATE, "choose", choose)
    made, values, wanted = drawn_product(rng, dtype)
    target = tvm.target.Target(f"cuda -arch={arch}", host="llvm")
    close(emulated(made, values, wanted.shape, target, lambda *_: True), wanted, dtype)


@requires_opencl
def test_attention_on_opencl(rng):
    rows, count, size = 21, 2, 16
    values = {n: rng.standard_normal((rows, count * size)).astype("float32") for n in "qkv"}
    values["w"] = rng.standard_normal((count * size, count * size)).astype("float32")
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(module(attention(rows, count, size, "float32")), "opencl")
    assert len([n for n in json.loads(built.get_graph_json())["nodes"] if n["op"] != "null"]) == 4
    executor = graph_executor.GraphModule(built["default"](tvm.cl(0)))
    for name, value in values.items():
        executor.set_input(name, value)
    executor.run()
    wanted = attended(**values, count=count)
    np.testing.assert_allclose(executor.get_output(0).numpy(), wanted, 1e-4, 1e-4 * float(np.abs(wanted).max()))


def test_without_a_rule_fusion_leaves_operands_alone():
    x, w = relay.var("x", shape=(24, 128)), relay.var("w", shape=(2, 64, 32))
    func = module(relay.nn.batch_matmul(heads(x, 24, 2, 64), w, transpose_b=False))["main"]
    for rule, count in ((None, 2), (lambda *_: True, 1), (lambda product, place, chain: len(chain) == 2, 2)):
        text = fuse_function(func, 1, FusionRules(rule)).astext()
        assert text.count("Primitive=1") == count
