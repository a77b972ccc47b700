"""Templates of GPUs as CUDA kernels, on the emulator: tiles in shared memory, barriers, vectors of two types."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_emulator
from tests.topi.gpu.test_convolutions import run_transposed
from tests.topi.gpu.test_depthwise import convolved as depthwise_convolved
from tests.topi.gpu.test_depthwise import made as depthwise_made
from tests.topi.gpu.test_gemm import any_configuration, convolved
from tests.topi.gpu.test_rows import expected as rows_expected
from tests.topi.gpu.test_rows import operator as of_rows
from tests.topi.test_vision import detections, greedy
from tvm import te, topi
from tvm.topi.gpu import depthwise, gemm
from tvm.topi.nn.winograd import transform_filters_in_planes

pytestmark = needs_emulator
ARCH = "sm_90"


def results(values, make):
    """What an operator makes, computed by CUDA kernels."""
    target = tvm.target.Target(f"cuda -arch={ARCH}", host="llvm")
    with target:
        inputs = [te.placeholder(v.shape, str(v.dtype)) for v in values]
        made = make(*inputs)
        outs = list(made) if isinstance(made, (list, tuple)) else [made]
        s = topi.schedule.schedule_for(outs, target)
    empty = [np.zeros([int(d) for d in o.shape], o.dtype) for o in outs]
    return cuda_emulator.run(s, [*inputs, *outs], [*map(np.ascontiguousarray, values), *empty], ARCH)[len(values) :]


def close(got, wanted, digits: float):
    np.testing.assert_allclose(got, wanted, rtol=digits, atol=digits * max(float(np.abs(wanted).max()), 1.0))


@pytest.mark.parametrize("dtype, digits", [("float32", 1e-4), ("float16", 3e-2)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("patch", [(0, 0), (4, 8)])
def test_depthwise_convolution(layout, patch, dtype, digits, rng, monkeypatch):
    lanes = 1 if layout == "NCHW" else 2
    config = {"tile": (2, 2), "lanes": lanes, "threads": 128, "patch": patch}
    monkeypatch.setattr(depthwise.TEMPLATE, "choose", lambda sizes, machine: config)
    case = (1, 8, 13, 18, 3, 1, 1, 1, 1)
    x, w = (rng.standard_normal(s).astype(dtype) for s in ((1, 8, 13, 18), (8, 1, 3, 3)))
    b = rng.standard_normal(8).astype(dtype)
    wanted = np.maximum(depthwise_convolved(x, w, 1, 1, 1) + b[:, None, None].astype("float64"), 0)
    values = [x, w, b[:, None, None]]
    if layout == "NHWC":
        values, wanted = [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 0, 1), b], wanted.transpose(0, 2, 3, 1)
    tensors, s = depthwise_made(case, layout, dtype, tvm.target.Target(f"cuda -arch={ARCH}", host="llvm"))
    arrays = [*map(np.ascontiguousarray, values), np.zeros(wanted.shape, dtype)]
    close(cuda_emulator.run(s, tensors, arrays, ARCH)[-1].astype("float64"), wanted, digits)


def test_convolution_in_groups(rng):
    x, w = rng.standard_normal((1, 16, 7, 7)).astype("float32"), rng.standard_normal((8, 8, 3, 3)).astype("float32")
    (got,) = results([x, w], lambda d, k: topi.cuda.group_conv2d_nchw(d, k, 1, 1, 1, 2))
    close(got, np.concatenate([convolved(x[:, :8], w[:4], 1, 1), convolved(x[:, 8:], w[4:], 1, 1)], 1), 1e-4)


def test_transposed_convolution(rng):
    x, w = rng.standard_normal((1, 8, 5, 6)).astype("float32"), rng.standard_normal((8, 5, 4, 4)).astype("float32")
    (got,) = results([x, w], lambda d, k: topi.cuda.conv2d_transpose_nchw(d, k, 2, 1, "float32", 0))
    close(got, run_transposed(x, w, 1, 2, 1, 1, 0), 1e-4)


@pytest.mark.parametrize("tile", [2, 4])
def test_winograd(tile, rng):
    x, w = rng.standard_normal((1, 8, 11, 12)).astype("float32"), rng.standard_normal((9, 8, 3, 3)).astype("float32")
    (got,) = results([x, transform_filters_in_planes(w, tile)], lambda d, k: topi.cuda.conv2d_winograd_nchw(d, k, 1))
    close(got, convolved(x, w, 1, 1), 1e-4)


@pytest.mark.parametrize("name, shape", [
    ("softmax", (8, 67, 40)), ("softmax", (3, 1000)), ("log_softmax", (300, 33)), ("layer_norm", (5, 768)),
    ("layer_norm", (7, 193)),
])  # fmt: skip
def test_rows(name, shape, rng):
    x = (rng.standard_normal(shape) * 2).astype("float32")
    (got,) = results([x], lambda t: of_rows(name, t))
    np.testing.assert_allclose(got, rows_expected(name, x), rtol=1e-4, atol=1e-5 if name == "softmax" else 1e-3)


def test_what_is_done_to_rows_before_and_after(rng):
    x, mask = rng.standard_normal((6, 5, 128)).astype("float16"), np.where(rng.random((2, 1, 5, 128)) < 0.3, -np.inf, 0)
    mask[..., 7] = 0

    def make(t, m):
        y = topi.add(topi.cast(topi.reshape(t, (2, 3, 5, 128)), "float32") * 0.125, m)
        return topi.cast(topi.reshape(topi.nn.softmax(y), (6, 5, 128)), "float16")

    (got,) = results([x, mask.astype("float32")], make)
    wanted = rows_expected("softmax", x.astype("float32").reshape(2, 3, 5, 128) * 0.125 + mask).reshape(x.shape)
    np.testing.assert_allclose(got.astype("float64"), wanted, rtol=2e-3, atol=1e-4)


def test_transposition(rng):
    x = rng.standard_normal((2, 45, 61)).astype("float32")
    (got,) = results([x], lambda t: topi.transpose(t, (0, 2, 1)))
    np.testing.assert_array_equal(got, x.transpose(0, 2, 1))


def test_running_sum(rng):
    x = rng.integers(-9, 10, (5003,)).astype("int32")
    (got,) = results([x], lambda t: topi.cuda.cumsum(t, 0))
    np.testing.assert_array_equal(got, np.cumsum(x, dtype="int32"))


def test_suppression_of_boxes(rng):
    data, n = detections(rng, 2, 41), 41
    count, places = np.array([n, 20], "int32"), np.tile(np.arange(n, dtype="int32"), (2, 1))
    kept, number = results([data, count, places], lambda d, c, p: topi.cuda.non_max_suppression(d, c, p, 5, 0.5))
    for b in range(2):
        wanted, _ = greedy(data[b], int(count[b]), 5, 0.5, False, -1)
        assert number[b, 0] == len(wanted) and kept[b, : len(wanted)].tolist() == wanted


def products_of(rng, m, n, k, transpose_a, transpose_b):
    a, b = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((k, n)).astype("float32")
    values = [a.T if transpose_a else a, b.T if transpose_b else b]
    turned = transpose_a, transpose_b
    (got,) = results(values, lambda x, y: topi.nn.relu(topi.cuda.matmul(x, y, None, "float32", *turned)))
    close(got, np.maximum(a.astype("float64") @ b.astype("float64"), 0), 1e-4)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_product_of_any_configuration(transpose_a, transpose_b, rng, monkeypatch):
    """Strips along and across the sum, whole and with edges, fetched one by one and in fours."""
    monkeypatch.setattr(gemm.TEMPLATE, "choose", any_configuration(rng))
    fours = int(rng.integers(2))
    m, n, k = (int(x) * (4 if fours else 1) for x in rng.integers(3, 40, 3))
    products_of(rng, m, n, k, transpose_a, transpose_b)
