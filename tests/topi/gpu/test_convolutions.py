"""Convolutions as products on GPUs: in groups, transposed, and by Winograd's algorithm."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tvm
import tvm.testing
from tests.topi.gpu.test_gemm import any_configuration, convolved, run
from tvm import te, topi
from tvm.topi.gpu import gemm, winograd
from tvm.topi.gpu.machine import Machine
from tvm.topi.nn.winograd import transform_filters_in_planes

GROUPED = [
    # images, groups, channels and filters of a group, size, window, stride, padding, layout
    (1, 2, 4, 6, 9, 3, 1, 1, "NCHW"),
    (2, 3, 8, 5, 7, 1, 1, 0, "NCHW"),
    (1, 5, 2, 1, 11, 3, 2, 1, "NCHW"),
    (2, 4, 3, 4, 6, 3, 1, 1, "NHWC"),
]
TRANSPOSED = [
    # images, groups, channels and filters of a group, size, window, stride, dilation, padding, output padding, layout
    (1, 1, 8, 5, 6, 4, 2, 1, 1, 0, "NCHW"),
    (2, 1, 9, 7, 5, 3, 2, 1, 1, 1, "NCHW"),
    (1, 2, 8, 3, 5, 3, 1, 1, 0, 0, "NCHW"),
    (1, 1, 9, 5, 4, 2, 3, 1, 0, 2, "NHWC"),
    (1, 2, 8, 4, 4, 3, 2, 3, 2, 0, "NHWC"),
    (1, 1, 8, 4, 4, 3, 2, 2, 1, 0, "NCHW"),
]


def run_transposed(x, w, groups: int, stride: int, dilation: int, padding: int, extra: int):
    """By definition: every element of NCHW data adds its multiple of the kernel (IOHW), in double precision."""
    n, channels, h, width = x.shape
    _, filters, kh, kw = w.shape
    rows = (h - 1) * stride + (kh - 1) * dilation + 1 + extra
    columns = (width - 1) * stride + (kw - 1) * dilation + 1 + extra
    out = np.zeros((n, groups * filters, rows, columns))
    each = channels // groups
    for g, y, z, i, j in itertools.product(range(groups), range(h), range(width), range(kh), range(kw)):
        part = x[:, g * each : (g + 1) * each, y, z].astype("float64") @ w[g * each : (g + 1) * each, :, i, j]
        out[:, g * filters : (g + 1) * filters, y * stride + i * dilation, z * stride + j * dilation] += part
    return out[:, :, padding : rows - padding, padding : columns - padding]


@tvm.testing.requires_opencl
@pytest.mark.parametrize("case", GROUPED)
@pytest.mark.parametrize("drawn", [False, True])
def test_groups_are_a_batch_of_products(case, drawn, rng, monkeypatch):
    n, groups, channels, filters, size, window, stride, padding, layout = case
    if drawn:
        monkeypatch.setattr(gemm.TEMPLATE, "choose", any_configuration(rng))
    x = rng.standard_normal((n, groups * channels, size, size)).astype("float32")
    w = rng.standard_normal((groups * filters, channels, window, window)).astype("float32")
    b = rng.standard_normal(groups * filters).astype("float32")
    parts = [
        convolved(x[:, g * channels : (g + 1) * channels], w[g * filters : (g + 1) * filters], stride, padding)
        for g in range(groups)
    ]
    wanted = np.maximum(np.concatenate(parts, 1) + b[:, None, None], 0)
    values = [x, w, b[:, None, None]]
    target = tvm.target.Target("opencl")
    if layout == "NHWC":
        wanted, values = wanted.transpose(0, 2, 3, 1), [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), b]
    with target:
        d, k, bias = (te.placeholder(v.shape) for v in values)
        make = topi.cuda.group_conv2d_nchw if layout == "NCHW" else topi.cuda.group_conv2d_nhwc
        r = topi.nn.relu(topi.add(make(d, k, stride, padding, 1, groups), bias))
        stages = topi.schedule.schedule_for([r], target).stages
    assert any(x.op.tag == gemm.TAG for x in stages)
    run([r], [d, k, bias, r], values, wanted, target)


@tvm.testing.requires_opencl
@pytest.mark.parametrize("case", TRANSPOSED)
@pytest.mark.parametrize("drawn", [False, True])
def test_transposed_convolution(case, drawn, rng, monkeypatch):
    n, groups, channels, filters, size, window, stride, dilation, padding, extra, layout = case
    if drawn:
        monkeypatch.setattr(gemm.TEMPLATE, "choose", any_configuration(rng))
    x = rng.standard_normal((n, groups * channels, size, size + 1)).astype("float32")
    w = rng.standard_normal((groups * channels, filters, window, window)).astype("float32")
    b = rng.standard_normal(groups * filters).astype("float32")
    wanted = run_transposed(x, w, groups, stride, dilation, padding, extra) + b[:, None, None]
    values = [x, w, b[:, None, None]]
    if layout == "NHWC":
        wanted, values = wanted.transpose(0, 2, 3, 1), [x.transpose(0, 2, 3, 1), w, b]
    target = tvm.target.Target("opencl")
    with target:
        d, k, bias = (te.placeholder(v.shape) for v in values)
        made = topi.cuda.conv_transpose(d, k, stride, padding, dilation, groups, layout, "IOHW", extra)
        r = topi.add(made, bias)
        stages = topi.schedule.schedule_for([r], target).stages
    # A stride and a dilation with a common factor have results that see nothing: they are no product.
    assert any(x.op.tag == gemm.TAG for x in stages) == (stride == 1 or dilation % stride != 0)
    run([r], [d, k, bias, r], values, wanted, target)


@tvm.testing.requires_opencl
@pytest.mark.parametrize("tile", winograd.TILES)
@pytest.mark.parametrize("case", [(1, 8, 12, 11, 13, 1), (2, 5, 7, 8, 6, 0), (1, 1, 1, 3, 3, 1), (3, 16, 4, 16, 16, 1)])
@pytest.mark.parametrize("ends", ["alone", "bias and relu"])
def test_winograd(case, tile, ends, rng):
    n, channels, filters, height, width, padding = case
    x = rng.standard_normal((n, channels, height, width)).astype("float32")
    w = rng.standard_normal((filters, channels, 3, 3)).astype("float32")
    b = rng.standard_normal((filters, 1, 1)).astype("float32")
    target = tvm.target.Target("opencl")
    values = [x, transform_filters_in_planes(w, tile), b]
    wanted = convolved(x, w, 1, padding)
    with target:
        d, k, bias = (te.placeholder(v.shape) for v in values)
        r = topi.cuda.conv2d_winograd_nchw(d, k, padding)
        if ends == "bias and relu":
            r, wanted = topi.nn.relu(topi.add(r, bias)), np.maximum(wanted + b, 0)
    run([r], [d, k, bias, r], values, wanted, target)


def test_winograd_is_for_convolutions_with_many_products():
    machine = Machine(tvm.target.Target("cuda -arch=sm_90"))
    assert winograd.plan(1, 256, 256, 56, 56, machine) == 4
    assert winograd.plan(1, 64, 64, 14, 14, machine) is None
    assert winograd.plan(1, 3, 64, 224, 224, machine) is None
