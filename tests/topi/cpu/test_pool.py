"""Pooling over channels in blocks, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tvm import te, topi
from tvm.topi.schedule import schedule_for

CASES = [
    ("max", 3, 2, (1, 1, 1, 1), (13, 11), 16),
    ("max", 2, 2, (0, 0, 0, 0), (8, 8), 8),
    ("max", 3, 1, (0, 1, 2, 1), (5, 29), 16),
    ("avg", 3, 1, (1, 1, 1, 1), (7, 9), 16),
    ("avg", 7, 7, (0, 0, 0, 0), (7, 7), 4),
]


@pytest.mark.parametrize("kind, window, stride, padding, size, block", CASES)
def test_windows(kind, window, stride, padding, size, block):
    shape = (2, 3, *size, block)
    data = np.random.default_rng(5).standard_normal(shape).astype("float32")
    x = te.placeholder(shape, name="x")
    y = topi.nn.pool2d(x, (window, window), (stride, stride), (1, 1), padding, kind, False, f"NCHW{block}c", False)
    target = tvm.target.Target("llvm")
    with quick_code():
        function = tvm.build(schedule_for([y], target), [x, y], target)
    out = tvm.nd.array(np.zeros([int(d) for d in y.shape], "float32"))
    function(tvm.nd.array(data), out)
    top, left, bottom, right = padding
    wide = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0)), constant_values=np.nan)
    expected = np.empty(out.shape, "float32")
    for i, j in np.ndindex(*out.shape[2:4]):
        part = wide[:, :, i * stride : i * stride + window, j * stride : j * stride + window]
        expected[:, :, i, j] = (np.nanmax if kind == "max" else np.nanmean)(part, axis=(2, 3))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6)
