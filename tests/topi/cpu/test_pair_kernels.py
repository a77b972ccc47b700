"""Convolutions and matmuls with 2x2 matmul instructions (``smmla``, ``bfmmla``): exact on any machine by an emulation
and under qemu-user, and fewer multiplications in the code for Arm."""

import os
import random
import re

import ml_dtypes
import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tests.topi.cpu.pair_emulation import emulated, session
from tvm import relay
from tvm.contrib import graph_executor
from tvm.error import DiagnosticError
from tvm.topi.cpu import conv2d_pairs, matmul_pairs, pair_products

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1"
RANGES = {"int8": (-128, 128), "uint8": (0, 256), "bfloat16": (-8, 9)}


def numbers(rng, shape, dtype: str) -> np.ndarray:
    low, high = RANGES[dtype]
    return rng.integers(low, high, shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def weight_type(dtype: str) -> str:
    return "int8" if dtype == "uint8" else dtype


def sums_type(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else "int32"


def convolution(rng, dtype, size, channels, filters, window=(1, 1), stride=1, padding=0, dilation=1, batch=1, groups=1):
    """A convolution with constant weights, its data and its exact result."""
    x = numbers(rng, (batch, channels, *size), dtype)
    w = numbers(rng, (filters, channels // groups, *window), weight_type(dtype))
    node = relay.nn.conv2d(
        relay.var("x", shape=x.shape, dtype=dtype), relay.const(w, weight_type(dtype)), strides=stride, groups=groups,
        padding=padding, dilation=dilation, channels=filters, kernel_size=window, out_dtype=sums_type(dtype),
    )  # fmt: skip
    wide = np.pad(x.astype("int64"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = ((n - (k - 1) * dilation - 1) // stride + 1 for n, k in zip(wide.shape[2:], window))
    want = np.zeros((batch, filters, height, width), "int64")
    parts = zip(np.split(wide, groups, 1), np.split(w.astype("int64"), groups), np.split(want, groups, 1))
    for data, kernel, out in parts:
        for i, j in np.ndindex(*window):
            rows, columns = i * dilation, j * dilation
            part = data[:, :, rows : rows + (height - 1) * stride + 1 : stride, columns::stride][..., :width]
            out += np.einsum("nchw,oc->nohw", part, kernel[:, :, i, j])
    return node, {"x": x}, want


def dense(rng, dtype, lead, k, n):
    """A dense layer with constant weights, its data and its exact result."""
    x, w = numbers(rng, (*lead, k), dtype), numbers(rng, (n, k), weight_type(dtype))
    data = relay.var("x", shape=x.shape, dtype=dtype)
    node = relay.nn.dense(data, relay.const(w, weight_type(dtype)), out_dtype=sums_type(dtype))
    return node, {"x": x}, x.astype("int64") @ w.astype("int64").T


def batches(rng, dtype, b, m, k, n, transposed=True):
    """A batch of matmuls of two inputs, and its exact result."""
    x, y = numbers(rng, (b, m, k), dtype), numbers(rng, (b, n, k) if transposed else (b, k, n), weight_type(dtype))
    variables = [relay.var(name, shape=v.shape, dtype=v.dtype.name) for name, v in (("x", x), ("y", y))]
    node = relay.nn.batch_matmul(*variables, out_dtype=sums_type(dtype), transpose_b=transposed)
    rhs = y.transpose(0, 2, 1) if transposed else y
    return node, {"x": x, "y": y}, x.astype("int64") @ rhs.astype("int64")


def compiled(node, target: str):
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(tvm.IRModule.from_expr(node), target)


@pytest.fixture
def uses(monkeypatch) -> list:
    """The intrinsics with pairs that schedules asked for, by name."""
    made: list[str] = []
    for name in ("convolve", "multiply_rows"):
        ask = getattr(pair_products, name)
        monkeypatch.setattr(pair_products, name, lambda *a, _ask=ask, _name=name: (made.append(_name), _ask(*a))[1])
    return made


def check(case) -> None:
    node, inputs, want = case
    with emulated() as target, quick_code():
        model = graph_executor.GraphModule(compiled(node, target)["default"](tvm.cpu()))
    model.run(**inputs)
    np.testing.assert_array_equal(model.get_output(0).numpy(), want)


@pytest.mark.parametrize("case, used", [
    (("int8", (8, 8), 32, 32, (3, 3), 1, 1), True),
    (("uint8", (7, 7), 16, 48), True),  # seven pixels: the last one is multiplied twice
    (("uint8", (15, 9), 24, 20, (3, 3), 2, 1, 1, 2), True),
    (("int8", (12, 10), 8, 8, (2, 3), 1, 2, 2), True),
    (("bfloat16", (14, 6), 16, 40, (3, 3), 1, 1), True),
    (("bfloat16", (5, 6), 20, 24, (1, 1), 1, 0, 1, 2), True),
    (("int8", (17, 19), 16, 8, (1, 1)), False),  # no register tile divides the image
    (("int8", (8, 8), 3, 16, (3, 3), 1, 1), False),  # few channels
    (("int8", (8, 8), 32, 32, (3, 3), 1, 1, 1, 1, 2), False),  # groups
], ids=str)  # fmt: skip
def test_convolutions_are_exact(case, used, uses, seed):
    check(convolution(np.random.default_rng(seed), *case))
    assert ("convolve" in uses) == used


@pytest.mark.parametrize("case, used", [
    (("int8", (48,), 64, 32), True), (("uint8", (7,), 13, 40), True), (("bfloat16", (2, 9), 24, 16), True),
    (("bfloat16", (5,), 3, 33), True), (("int8", (64,), 2048, 16), True),
    (("int8", (1,), 32, 16), False), (("bfloat16", (4, 1), 32, 16), False),
], ids=str)  # fmt: skip
def test_dense_layers_are_exact(case, used, uses, seed):
    check(dense(np.random.default_rng(seed), *case))
    assert ("multiply_rows" in uses) == used


@pytest.mark.parametrize("case, used", [
    (("int8", 2, 12, 16, 32), True), (("uint8", 3, 5, 9, 12, False), True), (("bfloat16", 1, 11, 20, 48, False), True),
    (("int8", 2, 1, 16, 32), False),
], ids=str)  # fmt: skip
def test_batches_are_exact(case, used, uses, seed):
    check(batches(np.random.default_rng(seed), *case))
    assert ("multiply_rows" in uses) == used


@pytest.mark.slow("compiles random convolutions and matmuls")
def test_random_layers_are_exact(seed):
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(int(os.environ.get("TVM_FUZZ_CASES", 3))):
        dtype, window = choose.choice(list(RANGES)), (choose.randint(1, 3), choose.randint(1, 3))
        dilation = choose.choice([1, 1, 2])
        size = [choose.randint((k - 1) * dilation + 1, 20) for k in window]
        case = (dtype, size, choose.randint(1, 40), choose.randint(1, 40), window, choose.choice([1, 1, 2]),
                choose.randint(0, 2), dilation, choose.randint(1, 2))  # fmt: skip
        print(case)
        check(convolution(rng, *case))
        matmul = (dtype, *(choose.randint(1, 40) for _ in range(4)), choose.random() < 0.5)
        print(matmul)
        check(batches(rng, *matmul))


LAYERS = {
    "int8": lambda rng: (convolution(rng, "int8", (14, 14), 32, 32, (3, 3), 1, 1), dense(rng, "uint8", (24,), 64, 32)),
    "bfloat16": lambda rng: (convolution(rng, "bfloat16", (14, 14), 32, 32), batches(rng, "bfloat16", 2, 12, 64, 32)),
}


def products(lib) -> tuple[int, int]:
    """The numbers of dot product and of 2x2 matmul instructions."""
    text = lib.lib.get_source("asm")
    return tuple(len(re.findall(rf"\t\w*{name}\t", text)) for name in ("dot", "mmla"))


@pytest.mark.parametrize("dtype", LAYERS)
def test_code_for_arm_has_the_instructions_of_its_features(dtype, machine, tmp_path):
    for number, (node, inputs, want) in enumerate(LAYERS[dtype](np.random.default_rng(0))):
        lib = compiled(node, ARM)
        dots, pairs = products(lib)
        assert pairs and not dots
        feature = "-i8mm" if dtype == "int8" else "-bf16"
        without = products(compiled(node, f"{ARM} -mattr={feature}"))
        assert without[1] == 0 and bool(without[0]) == (dtype == "int8")
        if machine is not None:
            lib.export_library(str(tmp_path / f"{number}.so"))
            machine.upload(str(tmp_path / f"{number}.so"))
            model = graph_executor.GraphModule(machine.load_module(f"{number}.so")["default"](machine.cpu()))
            model.run(**inputs)
            np.testing.assert_array_equal(model.get_output(0).numpy(), want)


@pytest.fixture(scope="module")
def machine():
    try:
        with session() as remote:
            yield remote
    except pytest.skip.Exception:
        yield None


@pytest.mark.parametrize("block, image", [(16, (56, 56)), (16, (14, 14)), (16, (7, 7)), (8, (28, 28)), (8, (15, 9))])
def test_register_tiles_divide_the_image_and_fit_the_registers(block, image):
    found = conv2d_pairs.tiles(*image, block)
    for h, w, filters in found:
        assert image[0] % h == image[1] % w == block % filters == 0
        assert -(-h * w // 2) * filters // 2 <= 24
    h, w, filters = min(found, key=conv2d_pairs.cost)
    # Half the multiplications of dot products, which multiply half of a word with four filters, and permutations.
    assert -(-h * w // 2) * (filters // 2 + 1) <= 0.8 * h * w * filters / 2


@pytest.mark.parametrize("m, rows", [(2, 2), (3, 3), (5, 2), (7, 4), (8, 4), (9, 3), (12, 4), (197, 4)])
def test_rows_of_a_register_tile(m, rows):
    assert matmul_pairs.tile_rows(m) == rows


def test_kernels_with_other_words_are_refused():
    x = relay.var("x", shape=(1, 1, 8, 8, 16), dtype="int8")
    w = relay.var("w", shape=(1, 1, 1, 1, 1, 16, 16), dtype="int8")
    node = relay.op.nn.packed.contrib_conv2d_nchwc_int8(
        x, w, kernel_size=(1, 1), data_layout="NCHW16c", kernel_layout="OIHW1i16o16i", out_dtype="int32"
    )
    with pytest.raises(DiagnosticError, match="expected a kernel OIHW<i/4>i<o>o4i or OIHW<i/8>i<o>o8i"):
        relay.transform.InferType()(tvm.IRModule.from_expr(node))
