"""Row-by-row kernels: one parallel loop, the numbers of NumPy for every length of row."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tvm import te, topi
from tvm.ir.visit import post_order
from tvm.tir.stmt import For, ForKind
from tvm.topi.schedule import schedule_for

HERE = tvm.target.Target("llvm")
SHAPES = [(1, 1), (3, 5), (5, 16), (7, 33), (2, 3, 100), (1, 1000), (40, 64), (12, 197)]


def run(function, *arrays):
    with HERE, quick_code():
        inputs = [te.placeholder(a.shape, name=f"in{i}") for i, a in enumerate(arrays)]
        out = function(*inputs)
        s = schedule_for([out], HERE)
        built = tvm.build(s, [*inputs, out], HERE)
    got = tvm.nd.empty([int(d) for d in out.shape])
    built(*[tvm.nd.array(a) for a in arrays], got)
    return got.numpy()


def loops(function, *shapes):
    with HERE:
        inputs = [te.placeholder(shape, name=f"in{i}") for i, shape in enumerate(shapes)]
        out = function(*inputs)
        mod = tvm.lower(schedule_for([out], HERE), [*inputs, out])
    return [n for n in post_order(mod["main"].body) if isinstance(n, For)]


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_agrees_with_numpy(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32") * 4
    e = np.exp(x.astype("float64") - x.max(-1, keepdims=True))
    np.testing.assert_allclose(run(topi.nn.softmax, x), e / e.sum(-1, keepdims=True), rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm_agrees_with_numpy(shape):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype("float32") + 3
    g, b = (rng.standard_normal(shape[-1:]).astype("float32") for _ in range(2))
    wide = x.astype("float64")
    normal = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(topi.nn.layer_norm, x, g, b), normal * g + b, rtol=1e-4, atol=1e-4)


def test_rows_are_one_parallel_loop():
    for function, shapes in ((topi.nn.softmax, [(64, 512)]), (topi.nn.layer_norm, [(64, 512), (512,), (512,)])):
        found = loops(function, *shapes)
        assert [int(f.extent) for f in found if f.kind is ForKind.PARALLEL] == [64]
        # No step is done lane by lane: the longest serial loop counts vectors.
        assert max(int(f.extent) for f in found if f.kind is ForKind.SERIAL) <= 512 // 4


def test_sums_along_columns_are_no_rows():
    found = loops(lambda x: topi.nn.softmax(x, axis=0), (64, 512))
    assert len([f for f in found if f.kind is ForKind.PARALLEL]) > 1
