"""Depthwise convolutions on GPUs: tiles in registers, images in shared memory, both layouts, odd sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import te, topi
from tvm.topi.gpu import depthwise, tasks
from tvm.topi.gpu.machine import Machine

CASES = [
    # images, channels, rows, columns, window, stride, padding, dilation, multiplier
    (1, 8, 13, 17, 3, 1, 1, 1, 1),
    (2, 12, 15, 14, 3, 2, 1, 1, 1),
    (1, 5, 11, 9, 5, 1, 2, 1, 1),
    (1, 4, 23, 31, 7, 2, 3, 1, 1),
    (1, 3, 12, 10, 3, 1, 2, 2, 2),
    (1, 2, 1, 1, 1, 1, 0, 1, 1),
    (1, 8, 19, 21, 3, 1, 6, 6, 1),
    (3, 16, 7, 7, 3, 1, 0, 1, 1),
]


def convolved(x, w, stride: int, padding: int, dilation: int):
    """NCHW with a kernel (channels, multiplier, height, width), in double precision."""
    n, channels, h, width = x.shape
    _, multiplier, kh, kw = w.shape
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows = (h + 2 * padding - (kh - 1) * dilation - 1) // stride + 1
    columns = (width + 2 * padding - (kw - 1) * dilation - 1) // stride + 1
    out = np.zeros((n, channels, multiplier, rows, columns))
    for i, j in itertools.product(range(kh), range(kw)):
        y, z = i * dilation, j * dilation
        part = x[:, :, y : y + (rows - 1) * stride + 1 : stride, z : z + (columns - 1) * stride + 1 : stride]
        out += part[:, :, None] * w[None, :, :, i, j, None, None].astype("float64")
    return out.reshape(n, channels * multiplier, rows, columns)


def any_configuration(rng):
    """In place of the pick: any valid configuration."""

    def choose(sizes, machine):
        table = depthwise.TEMPLATE.space(sizes, machine)
        while True:
            config = {name: values[rng.integers(len(values))] for name, values in table.items()}
            if depthwise.TEMPLATE.valid(sizes, machine, config):
                return config

    return choose


def made(case, layout: str, dtype: str, target):
    """Tensors of a convolution followed by an addition and a relu."""
    n, channels, h, width, window, stride, padding, dilation, multiplier = case
    filters = channels * multiplier
    with target:
        if layout == "NCHW":
            shapes = (n, channels, h, width), (channels, multiplier, window, window), (filters, 1, 1)
            d, k, b = (te.placeholder(s, dtype) for s in shapes)
            out = topi.cuda.depthwise_conv2d_nchw(d, k, stride, padding, dilation)
        else:
            shapes = (n, h, width, channels), (window, window, channels, multiplier), (filters,)
            d, k, b = (te.placeholder(s, dtype) for s in shapes)
            out = topi.cuda.depthwise_conv2d_nhwc(d, k, stride, padding, dilation)
        result = topi.nn.relu(topi.add(out, b))
        return [d, k, b, result], topi.schedule.schedule_for([result], target)


@tvm.testing.requires_opencl
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_convolution_with_an_epilogue(case, layout, drawn, rng, monkeypatch):
    n, channels, h, width, window, stride, padding, dilation, multiplier = case
    if drawn:
        monkeypatch.setattr(depthwise.TEMPLATE, "choose", any_configuration(rng))
    x = rng.standard_normal((n, channels, h, width)).astype("float32")
    w = rng.standard_normal((channels, multiplier, window, window)).astype("float32")
    bias = rng.standard_normal(channels * multiplier).astype("float32")
    target = tvm.target.Target("opencl")
    tensors, s = made(case, layout, "float32", target)
    wanted = np.maximum(convolved(x, w, stride, padding, dilation) + bias[:, None, None], 0)
    values = [x, w, bias[:, None, None]]
    if layout == "NHWC":
        values, wanted = [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 0, 1), bias], wanted.transpose(0, 2, 3, 1)
    function = tvm.build(s, tensors, target)
    device = tvm.cl(0)
    out = tvm.nd.array(np.zeros(wanted.shape, "float32"), device)
    function(*[tvm.nd.array(np.ascontiguousarray(v), device) for v in values], out)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-4 * max(float(np.abs(wanted).max()), 1.0))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_code_for_an_nvidia_gpu(layout, dtype):
    """One kernel, whose vectors are loaded and stored at once where channels are last."""
    target = tvm.target.Target("cuda -arch=sm_90", host="llvm")
    tensors, s = made((1, 32, 28, 28, 3, 1, 1, 1, 1), layout, dtype, target)
    source = tvm.build(s, tensors, target).imported_modules[0].get_source()
    assert source.count("__global__") == 1


@pytest.mark.parametrize("bytes_", [2, 4])
def test_small_images_have_a_thread_for_each_result(bytes_):
    machine = Machine(tvm.target.Target("cuda -arch=sm_90"))
    small = depthwise.Sizes(1, 960, 7, 7, (3, 3), (1, 1), 1, False, bytes_)
    assert depthwise.TEMPLATE.choose(small, machine)["tile"] == (1, 1)
    large = depthwise.Sizes(1, 96, 112, 112, (3, 3), (1, 1), 1, False, bytes_)
    tile = depthwise.TEMPLATE.choose(large, machine)["tile"]
    assert tile[0] * tile[1] > 1


def test_large_windows_are_read_from_shared_memory():
    machine = Machine(tvm.target.Target("cuda -arch=sm_90"))
    sizes = depthwise.Sizes(1, 96, 56, 56, (7, 7), (1, 1), 1, False, 4)
    assert depthwise.TEMPLATE.choose(sizes, machine)["patch"] != (0, 0)


def test_what_is_not_valid():
    machine = Machine(tvm.target.Target("opencl"))
    sizes = depthwise.Sizes(1, 6, 64, 64, (3, 3), (1, 1), 1, True, 4)
    config = {"tile": (1, 1), "lanes": 1, "threads": 128, "patch": (0, 0)}
    valid = depthwise.TEMPLATE.valid
    assert valid(sizes, machine, config)
    assert not valid(sizes, machine, {**config, "lanes": 4}), "6 channels are no whole vectors"
    assert not valid(sizes._replace(window=(31, 31)), machine, {**config, "tile": (4, 4)}), "too long a code"
    assert not valid(sizes._replace(channels=1), machine, {**config, "patch": (2, 4)}), "8 threads for 128"
    wide = sizes._replace(window=(9, 99), strides=(1, 16), channels=512)
    assert not valid(wide, machine, {**config, "patch": (8, 16)}), "too much shared memory"


@pytest.mark.parametrize("layout, shape", [("NCHW", (8, 1, 3, 3)), ("NHWC", (3, 3, 8, 1))])
def test_tasks_have_the_space_of_the_pick(layout, shape):
    target = tvm.target.Target("cuda -arch=sm_90", host="llvm")
    data = ("TENSOR", (1, 8, 20, 20) if layout == "NCHW" else (1, 20, 20, 8), "float32")
    args = (data, ("TENSOR", shape, "float32"), (1, 1), (1, 1, 1, 1), (1, 1), "float32")
    task = tvm.autotvm.task.create(f"depthwise_conv2d_{layout.lower()}.cuda", args, target)
    assert set(tasks.DEPTHWISE) == {"NCHW", "NHWC"} and task.flop == 2 * 8 * 400 * 9
    assert list(task.config_space.space_map) == ["tile", "lanes", "threads", "patch"] and len(task.config_space) > 20
