"""The innermost loops of products of bytes for x86, read in the assembly, and the conversion of floats to bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor

VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -num-cores=2"
AVX_VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=alderlake -num-cores=2"
X = {"shape": (1, 64, 28, 28), "dtype": "uint8"}


def convolution(window: int):
    weight = relay.const(np.zeros((64, 64, window, window), "int8"))
    options = {"padding": (window // 2,) * 2, "channels": 64, "kernel_size": (window, window)}
    return relay.nn.conv2d(relay.var("x", **X), weight, out_dtype="int32", **options)


def matmul():
    x = relay.var("x", shape=(128, 768), dtype="uint8")
    return relay.nn.dense(x, relay.const(np.zeros((768, 768), "int8")), out_dtype="int32")


PROGRAMS = {"convolution 1x1": convolution(1), "convolution 3x3": convolution(3), "matmul": matmul()}


def assembly(body, target: str) -> str:
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, target=target).lib.get_source("asm")


def largest_loop(text: str) -> list[str]:
    """Of the loops without another inside, the one with most dot products."""
    lines = [line.strip() for line in text.splitlines()]
    at = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    loops = []
    for number, line in enumerate(lines):
        jump = re.match(r"j\w+\s+(\.L\w+)$", line)
        if jump and at.get(jump[1], number) < number:
            body = lines[at[jump[1]] + 1 : number + 1]
            if not any(text.endswith(":") for text in body):
                loops.append([text for text in body if text and text[0] not in ".#"])
    return max(loops, key=lambda loop: sum("vpdpbusd" in line for line in loop))


@pytest.mark.parametrize("target, register, fewest", [(VNNI, "zmm", 24), (AVX_VNNI, "ymm", 8)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_dot_products_fill_the_innermost_loop_and_nothing_is_spilled(program, target, register, fewest):
    loop = largest_loop(assembly(PROGRAMS[program], target))
    products = [line for line in loop if "vpdpbusd" in line]
    loads = [line for line in loop if line.startswith(("vpbroadcastd", "vmov")) or line in products and "(" in line]
    assert len(products) >= fewest and all(register in line for line in products)
    assert not [line for line in loop if "rsp" in line], "spilled registers"
    # Two loads and two products each cycle, four instructions in all.
    assert len(loads) <= len(products) and len(loop) <= 2 * len(products)


def test_a_requantized_vector_takes_one_rounding_conversion():
    body = relay.cast(convolution(1), "float32") * relay.const(0.01)
    body = relay.cast(relay.clip(relay.nn.relu(relay.round(body)) + relay.const(0.0), 0, 255), "uint8")
    text = assembly(body, VNNI)
    assert "vcvtps2dq" in text and "vpmovdb" in text
    assert "vrndscaleps" not in text and "vcvttps2dq" not in text and "vcmpordps" not in text


VALUES = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5, 1.5, 2.5, -0.5, -1.5, 252.5, 251.5, 127.5, -128.5, 3e9, -3e9]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    "dtype, offset, relu", [("uint8", 0, True), ("uint8", 3, True), ("int8", -5, False), ("uint8", 128, False)]
)
def test_floats_become_bytes_to_the_nearest_even_and_nan_zero(dtype, offset, relu, kind):
    values = np.array(VALUES * 5, kind)
    x = relay.var("x", shape=values.shape, dtype=kind)
    body, low = relay.cast(relay.round(x), "float32"), 0 if dtype == "uint8" else -128
    body = relay.nn.relu(body) if relu else body
    body = relay.cast(relay.clip(body + relay.const(float(offset)), low, low + 255), dtype)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], body)), target="llvm")
    model = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    model.run(x=values)
    whole = np.rint(values)
    whole = np.where(np.isnan(whole), np.nan, np.clip(np.maximum(whole, 0) if relu else whole, -1e9, 1e9))
    want = np.nan_to_num(np.clip(whole + offset, low, low + 255), nan=0)
    np.testing.assert_array_equal(model.get_output(0).numpy(), want)
