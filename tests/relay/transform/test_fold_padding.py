"""Paddings before convolutions and pools: folded where the operator would pad with the same number, else kept."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay

nn = relay.nn


def folded(expr, *values):
    """Whether the padding is gone; results before and after are the same."""
    mod = tvm.IRModule.from_expr(expr)
    new = relay.transform.FoldExplicitPadding()(mod)
    before, after = (relay.create_executor("graph", m).evaluate()(*values).numpy() for m in (mod, new))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    return "nn.pad" not in relay.analysis.list_op_freqs(new)


def random(*shape, dtype="float32"):
    return np.random.default_rng(3).uniform(-3, 3, shape).astype(dtype)


def around(before, after, rank=2):
    return [(0, 0), (0, 0), *[(before, after)] * rank]


def test_zeros_before_a_convolution():
    x, w = relay.var("x", shape=(1, 2, 6, 7)), relay.var("w", shape=(3, 2, 3, 3))
    data = random(1, 2, 6, 7), random(3, 2, 3, 3)
    assert folded(nn.conv2d(nn.pad(x, around(1, 2)), w, padding=(0, 1, 1, 0)), *data)
    assert not folded(nn.conv2d(nn.pad(x, around(1, 2), pad_value=1.0), w), *data)
    assert not folded(nn.conv2d(nn.pad(x, around(1, 1), pad_mode="reflect"), w), *data)
    more = relay.var("w", shape=(3, 4, 3, 3))
    assert not folded(nn.conv2d(nn.pad(x, [(0, 0), (1, 1), (1, 1), (1, 1)]), more), data[0], random(3, 4, 3, 3))


def test_the_zero_point_before_a_quantized_convolution():
    x, w = relay.var("x", shape=(1, 2, 6, 7), dtype="int8"), relay.var("w", shape=(3, 2, 3, 3), dtype="int8")
    data = random(1, 2, 6, 7, dtype="int8"), random(3, 2, 3, 3, dtype="int8")
    one = relay.const(1.0)

    def conv(value, zero):
        padded = nn.pad(x, around(1, 1), pad_value=value)
        zero, none = relay.const(zero, "int32"), relay.const(0, "int32")
        return relay.qnn.op.conv2d(padded, w, zero, none, one, one, kernel_size=(3, 3), channels=3)

    assert folded(conv(2, 2), *data)
    assert not folded(conv(0, 2), *data)


@pytest.mark.parametrize("value, width, is_folded", [
    (-np.inf, 3, True), (np.finfo("float32").min, 1, True), (np.finfo("float32").min, 3, False), (0.0, 1, False),
])  # fmt: skip
def test_padding_before_a_maximum(value, width, is_folded):
    """Three wide, a window of two lies in the padding alone: its maximum is what the data were padded with."""
    x = relay.var("x", shape=(1, 2, 6, 7))
    pool = nn.max_pool2d(nn.pad(x, around(width, 0), pad_value=float(value)), pool_size=(2, 2))
    assert folded(pool, random(1, 2, 6, 7)) == is_folded


def test_zeros_before_an_average():
    x, data = relay.var("x", shape=(1, 2, 6, 7)), random(1, 2, 6, 7)
    padded = nn.pad(x, around(1, 1))
    assert folded(nn.avg_pool2d(padded, pool_size=(2, 2)), data)
    assert folded(nn.avg_pool2d(padded, pool_size=(2, 2), padding=(1, 0), count_include_pad=True), data)
    assert not folded(nn.avg_pool2d(padded, pool_size=(2, 2), padding=(1, 0)), data)
