"""Convolutions of one and three dimensions and transposed ones over blocked channels: any configuration, odd sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tvm import autotvm, relay
from tvm.autotvm.task.space import ConfigSpace
from tvm.contrib import graph_executor
from tvm.topi import tuned
from tvm.topi.cpu import conv_nd
from tvm.topi.cpu.machine import Machine
from tvm.topi.nn.blocked import phase, phase_kernels


def correlation(data: np.ndarray, kernel: np.ndarray, strides, padding, dilation) -> np.ndarray:
    """By definition: windows of padded data, summed up tap by tap."""
    n = len(strides)
    data = np.pad(data, [(0, 0), (0, 0), *zip(padding[:n], padding[n:])]).astype("float64")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], dilation)]
    out = [(size - span) // s + 1 for size, span, s in zip(data.shape[2:], spans, strides)]
    total = np.zeros((data.shape[0], kernel.shape[0], *out))
    for tap in itertools.product(*map(range, kernel.shape[2:])):
        window = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, strides))
        total += np.einsum("nc...,oc->no...", data[(slice(None), slice(None), *window)], kernel[(..., *tap)])
    return total


def transposed(data: np.ndarray, kernel: np.ndarray, strides, padding, output_padding) -> np.ndarray:
    """By definition: every element of the data adds the kernel at its place."""
    n, _, h, w = data.shape
    _, filters, kh, kw = kernel.shape
    whole = np.zeros((n, filters, (h - 1) * strides[0] + kh + output_padding[0],
                      (w - 1) * strides[1] + kw + output_padding[1]))  # fmt: skip
    for y, x in itertools.product(range(h), range(w)):
        at = (slice(None), slice(None), slice(y * strides[0], y * strides[0] + kh),
              slice(x * strides[1], x * strides[1] + kw))  # fmt: skip
        whole[at] += np.einsum("nc,cohw->nohw", data[:, :, y, x].astype("float64"), kernel)
    top, left, bottom, right = padding
    return whole[:, :, top : whole.shape[2] - bottom, left : whole.shape[3] - right]


def model_of(op: str, data, kernel, bias, **attrs):
    x = relay.var("x", shape=data.shape)
    weight, shift = relay.const(kernel), relay.const(bias)
    y = relay.nn.relu(relay.nn.bias_add(getattr(relay.nn, op)(x, weight, **attrs), shift))
    return tvm.IRModule.from_expr(relay.Function([x], y))


def run(mod, data) -> np.ndarray:
    with tvm.transform.PassContext(opt_level=3), quick_code():
        lib = relay.build(mod, "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", data)
    module.run()
    return module.get_output(0).numpy()


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def agrees(got: np.ndarray, want: np.ndarray, bias: np.ndarray) -> None:
    want = np.maximum(want + bias.reshape(1, -1, *[1] * (want.ndim - 2)), 0)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "data, kernel, strides, padding, dilation",
    [((1, 16, 40), (32, 16, 3), (1,), (1, 1), (1,)), ((2, 5, 37), (7, 5, 4), (2,), (3, 0), (1,)),
     ((1, 80, 101), (40, 80, 5), (1,), (2, 2), (2,)), ((1, 3, 1), (1, 3, 1), (1,), (0, 0), (1,)),
     ((1, 8, 30), (20, 8, 4), (1,), (21, 21), (14,)),
     ((2, 16, 6, 5, 9), (8, 16, 3, 3, 3), (1, 2, 1), (5,) * 6, (5, 4, 6)),
     ((1, 24, 7, 9, 11), (20, 24, 3, 3, 3), (1, 1, 1), (1,) * 6, (1, 1, 1)),
     ((2, 3, 5, 6, 7), (9, 3, 2, 3, 1), (2, 1, 2), (0, 1, 2, 1, 0, 0), (1, 2, 1)),
     ((1, 17, 1, 1, 13), (33, 17, 1, 1, 1), (1, 1, 1), (0,) * 6, (1, 1, 1))],
)  # fmt: skip
def test_convolutions_agree_with_their_definition(data, kernel, strides, padding, dilation):
    x, w, b = numbers(1, *data), numbers(2, *kernel), numbers(3, kernel[0])
    op = f"conv{len(strides)}d"
    got = run(model_of(op, x, w, b, strides=strides, padding=padding, dilation=dilation, channels=kernel[0],
                       kernel_size=kernel[2:]), x)  # fmt: skip
    agrees(got, correlation(x, w, strides, padding, dilation), b)


@pytest.mark.parametrize(
    "data, kernel, strides, padding, extra",
    [((1, 16, 8, 8), (16, 32, 4, 4), (2, 2), (1, 1, 1, 1), (0, 0)),
     ((2, 5, 7, 9), (5, 7, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
     ((1, 3, 4, 5), (3, 18, 5, 2), (3, 2), (2, 0, 1, 1), (2, 0)),
     ((1, 20, 6, 6), (20, 24, 2, 2), (2, 2), (0, 0, 0, 0), (0, 0)),
     ((1, 8, 5, 6), (8, 8, 3, 3), (1, 1), (1, 1, 1, 1), (0, 0)),
     ((1, 4, 3, 3), (4, 4, 1, 1), (4, 3), (0, 0, 0, 0), (3, 2)),
     ((1, 4, 6, 6), (4, 5, 7, 7), (2, 2), (5, 5, 4, 4), (1, 0))],
)  # fmt: skip
def test_transposed_convolutions_agree_with_their_definition(data, kernel, strides, padding, extra):
    x, w, b = numbers(4, *data), numbers(5, *kernel), numbers(6, kernel[1])
    mod = model_of("conv2d_transpose", x, w, b, strides=strides, padding=padding, output_padding=extra,
                   channels=kernel[1], kernel_size=kernel[2:])  # fmt: skip
    agrees(run(mod, x), transposed(x, w, strides, padding, extra), b)


def test_phases_of_one_dimension():
    assert phase(size=8, kernel=4, stride=2, before=1, out=16) == (2, 0, 9, 1, 1)
    assert phase(size=5, kernel=2, stride=2, before=0, out=10) == (1, 0, 5, 0, 0)
    kernel = np.arange(5.0).reshape(1, 1, 1, 5)
    made = phase_kernels(kernel, (1, 2))
    assert made.shape == (1, 1, 2, 1, 1, 3)
    assert made[0, 0, 0, 0, 0].tolist() == [4, 2, 0] and made[0, 0, 1, 0, 0].tolist() == [0, 3, 1]


def tasks_of(mod):
    return autotvm.task.extract_from_program(mod, {}, "llvm")


CASES = [
    ("conv1d", "conv1d_ncw.x86", (1, 20, 60), (24, 20, 3), {"padding": (1, 1), "channels": 24, "kernel_size": 3}),
    ("conv3d", "conv3d_ncdhw.x86", (1, 6, 5, 6, 10), (20, 6, 3, 3, 3),
     {"padding": (1,) * 6, "channels": 20, "kernel_size": (3, 3, 3)}),
    ("conv2d_transpose", "conv2d_transpose_nchw.x86", (1, 12, 9, 9), (12, 20, 4, 4),
     {"strides": (2, 2), "padding": (1, 1), "channels": 20, "kernel_size": (4, 4)}),
]  # fmt: skip


@pytest.mark.parametrize("op, name, data, kernel, attrs", CASES, ids=[c[0] for c in CASES])
def test_tasks_hold_logical_shapes_and_any_configuration_computes_the_same(op, name, data, kernel, attrs):
    x, w = numbers(7, *data), numbers(8, *kernel)
    filters = attrs["channels"]
    bias = numbers(9, filters)
    mod = model_of(op, x, w, bias, **attrs)
    (task,) = tasks_of(mod)
    assert task.name == name and task.args[0] == ("TENSOR", data, "float32")
    assert task.args[1] == ("TENSOR", kernel, "float32")
    assert [t.name for t in autotvm.task.extract_from_program(mod, {}, "llvm", ops=[f"nn.{op}"])] == [name]
    assert task.config_space.is_index_valid(task.config_space.start[0])
    strides, padding = attrs.get("strides", (1,) * (len(data) - 2)), attrs["padding"]
    if op == "conv2d_transpose":
        want = transposed(x, w, strides, padding * 2, (0, 0))
        products = 2 * np.prod(data) * np.prod(kernel[1:])
    else:
        want = correlation(x, w, strides, padding, strides)
        products = 2 * np.prod(want.shape) * np.prod(kernel[1:])
    assert task.flop == products
    for index in task.config_space.sample_ints(4):
        config = task.config_space.get(index)
        result = autotvm.MeasureResult((1e-6,), 0, 1.0, 1.0)
        history = autotvm.apply_history_best([(autotvm.MeasureInput(task.target, task, config), result)])
        with history:
            got = run(mod, x)
            assert [use is not None for use in history.uses.values()] == [True], config
        agrees(got, want, bias)


def test_every_configuration_of_a_space_schedules():
    with tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512") as target:
        task = autotvm.task.create(
            "conv1d_ncw.x86",
            (("TENSOR", (1, 32, 48), "float32"), ("TENSOR", (64, 32, 3), "float32"), (1,), (1, 1), (1,), "float32"),
            target,
        )
        values = {name: len(space) for name, space in task.config_space.space_map.items()}
        assert values["parts"] == 10 and values["outer"] == values["pad"] == 2 and values["tile"] > 20
        for index in task.config_space.sample_ints(12):
            tvm.lower(*task.instantiate(task.config_space.get(index)))


def test_the_pick_gives_every_thread_work():
    machine = Machine(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"))
    machine.threads = 8
    with tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"):
        data = tvm.te.placeholder((1, 4, 16000, 16))
        kernel = tvm.te.placeholder((4, 4, 9, 16, 16))
        op = tvm.topi.nn.conv_blocked(data, kernel, 1, 4, 1).op
    pick = conv_nd.TEMPLATE.choose(op, machine)
    chunks = 1 if pick["outer"] == "pixels" else 4 // pick["tile"][2]
    assert chunks * pick["parts"] >= 8
    space = ConfigSpace()
    tuned.define(space, tuned.choices(conv_nd.TEMPLATE.space(op, machine), pick), pick)
    assert space.index_of(pick) == space.start[0]
