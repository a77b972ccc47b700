"""Quantized layers on emulated boards with DSP instructions and Helium: exact for odd channels and windows."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.micro.conftest import build
from tvm import micro, relay
from tvm.contrib import graph_executor
from tvm.relay import qnn

BOARDS = {"mps2-an386": "c -mcpu=cortex-m4", "mps3-an547": "c -mcpu=cortex-m55"}


def requantized(rng: np.random.Generator, sums, axis: int, channels: int, zero: int):
    """An int8 tensor from int32 sums with a bias, with a scale for each channel or one for all."""
    sums = relay.nn.bias_add(sums, relay.const(rng.integers(-20000, 20000, channels).astype("int32")), axis)
    count = channels if rng.integers(2) else None
    scale = relay.const(np.asarray(rng.uniform(0.002, 0.02, count), "float32"))
    one, none = relay.const(np.float32(1)), relay.const(0)
    return qnn.op.requantize(sums, scale, none, one, relay.const(zero), axis=axis, out_dtype="int8")


def layers(rng: np.random.Generator, count: int):
    """A chain of random convolutions, ordinary and depthwise, and a dense layer, as a function of int8 data."""
    channels, zero = int(rng.integers(1, 18)), int(rng.integers(-128, 128))
    x = value = relay.var("x", shape=(1, 9, 8, channels), dtype="int8")
    none, one = relay.const(0), relay.const(np.float32(1))
    size = [9, 8]
    for number in range(count):
        is_depthwise = number % 2 == 1
        filters = channels if is_depthwise else int(rng.integers(1, 18))
        window, strides = rng.integers(1, 4, 2).tolist(), rng.integers(1, 3, 2).tolist()
        padding = [int(p) for p in rng.integers(0, 2, 4)]
        window = [min(k, n + p) for k, n, p in zip(window, size, padding)]
        shape = (*window, channels, 1 if is_depthwise else filters)
        low = int(rng.choice([-128, -127, -3]))
        weight = relay.const(rng.integers(low, 128, shape).astype("int8"))
        sums = qnn.op.conv2d(
            value, weight, relay.const(zero), none, one, one, window, filters, strides, padding, (1, 1),
            channels if is_depthwise else 1, "NHWC", "HWOI" if is_depthwise else "HWIO",
        )  # fmt: skip
        size = [(n + p + q - k) // s + 1 for n, p, q, k, s in zip(size, padding[:2], padding[2:], window, strides)]
        channels, zero = filters, int(rng.integers(-128, 128))
        value = requantized(rng, sums, 3, channels, zero)
    terms, units = size[0] * size[1] * channels, int(rng.integers(1, 18))
    weight = relay.const(rng.integers(-128, 128, (units, terms)).astype("int8"))
    flat = relay.reshape(value, (1, terms))
    sums = qnn.op.dense(flat, weight, relay.const(zero), none, one, one, units)
    return relay.Function([x], relay.Tuple([value, requantized(rng, sums, 1, units, 3)])), x.type_annotation.shape


def built(module: tvm.IRModule, target: str):
    with tvm.transform.PassContext(opt_level=3):
        return build(module, target)


def needs_tools() -> None:
    missing = [tool for tool in ("arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")


def run_on(board: str, model, data: np.ndarray, folder: Path):
    template = micro.get_microtvm_template_projects("qemu_cortex_m")
    with micro.generate_project(template, model, folder, {"board": board}) as made:
        made.options = {"warning_as_error": True}
        made.build()
        return micro.run_project(made, {"x": data}, timeout_sec=60)


def expected(module: tvm.IRModule, data: np.ndarray) -> list[np.ndarray]:
    with tvm.transform.PassContext(opt_level=3):
        model = graph_executor.GraphModule(relay.build(module, "llvm")["default"](tvm.cpu()))
    model.run(x=data)
    return [model.get_output(number).numpy() for number in range(2)]


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("is_extreme", [False, True])
def test_random_layers_are_exact(board, is_extreme, tmp_path):
    needs_tools()
    rng = np.random.default_rng(np.random.randint(1 << 31))
    function, shape = layers(rng, 6)
    module = tvm.IRModule.from_expr(function)
    shape = tuple(int(d) for d in shape)
    data = (rng.choice([-128, 127], shape) if is_extreme else rng.integers(-128, 128, shape)).astype("int8")
    found = run_on(board, built(module, BOARDS[board]), data, tmp_path / "p").outputs
    for number, value in enumerate(expected(module, data)):
        np.testing.assert_array_equal(found[f"output{number}"], value)


@pytest.mark.parametrize("board", BOARDS)
def test_instructions_of_the_processor_save_time(board, tmp_path):
    """A run takes at most 0.9 times the instructions of portable C, and gives the same output."""
    needs_tools()
    rng = np.random.default_rng(5)
    x = relay.var("x", shape=(1, 6, 6, 32), dtype="int8")
    none, one = relay.const(0), relay.const(np.float32(1))
    weight = relay.const(rng.integers(-128, 128, (1, 1, 32, 16)).astype("int8"))
    sums = qnn.op.conv2d(x, weight, none, none, one, one, (1, 1), 16, data_layout="NHWC", kernel_layout="HWIO")
    weight = relay.const(rng.integers(-128, 128, (3, 3, 32, 1)).astype("int8"))
    taps = qnn.op.conv2d(
        x, weight, none, none, one, one, (3, 3), 32, groups=32, data_layout="NHWC", kernel_layout="HWOI"
    )
    module = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([sums, taps])))
    data = rng.integers(-128, 128, (1, 6, 6, 32)).astype("int8")
    portable, special = (
        run_on(board, built(module, target), data, tmp_path / str(number))
        for number, target in enumerate(("c", BOARDS[board]))
    )
    for name, value in portable.outputs.items():
        np.testing.assert_array_equal(special.outputs[name], value)
    assert special.seconds <= 0.9 * portable.seconds
