"""Attributes below what they can be are refused, by name, before a type rule or a kernel meets them."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay, te, topi
from tvm.relay.op.record import call

x = relay.var("x", shape=(1, 4, 8, 8))
w = relay.var("w", shape=(4, 4, 2, 2))
ints, kernel = relay.var("x", shape=(1, 4, 8, 8), dtype="int8"), relay.var("w", shape=(4, 4, 2, 2), dtype="int8")
boxes = relay.var("boxes", shape=(2, 5))
offsets = relay.var("offsets", shape=(1, 8, 7, 7))
quantum = (relay.const(0), relay.const(0), relay.const(1.0), relay.const(1.0))
images = ((1, 4, 8, 8), (1, 4, 8, 8))

CALLS = [
    ("nn.conv2d", "dilation", (-1000000, 1), lambda v: relay.nn.conv2d(x, w, dilation=v)),
    ("nn.conv2d", "strides", (1, 0), lambda v: relay.nn.conv2d(x, w, strides=v)),
    ("nn.conv2d", "padding", (0, -1, 0, 0), lambda v: relay.nn.conv2d(x, w, padding=v)),
    ("nn.conv2d", "groups", 0, lambda v: relay.nn.conv2d(x, w, groups=v)),
    ("nn.conv2d", "kernel_size", (0, 2), lambda v: relay.nn.conv2d(x, relay.var("w"), kernel_size=v, channels=4)),
    ("nn.conv2d", "channels", -4, lambda v: relay.nn.conv2d(x, relay.var("w"), kernel_size=(2, 2), channels=v)),
    ("nn.conv2d_transpose", "dilation", (-3, -3), lambda v: relay.nn.conv2d_transpose(x, w, dilation=v)),
    ("nn.conv2d_transpose", "output_padding", (-1, 0), lambda v: relay.nn.conv2d_transpose(x, w, output_padding=v)),
    ("nn.contrib_conv2d_NCHWc", "strides", (-1, -1), lambda v: relay.nn.contrib_conv2d_nchwc(
        relay.var("x", shape=(1, 1, 8, 8, 4)), relay.var("w", shape=(1, 1, 2, 2, 4, 4)), strides=v)),
    ("nn.deformable_conv2d", "dilation", (0, 1), lambda v: relay.nn.deformable_conv2d(x, offsets, w, dilation=v)),
    ("nn.max_pool2d", "pool_size", (0, 2), lambda v: relay.nn.max_pool2d(x, v)),
    ("nn.avg_pool2d", "strides", (-1, -1), lambda v: relay.nn.avg_pool2d(x, 2, v)),
    ("nn.adaptive_avg_pool2d", "output_size", (-1, -1), lambda v: relay.nn.adaptive_avg_pool2d(x, v)),
    ("nn.correlation", "stride2", 0, lambda v: relay.nn.correlation(x, x, 1, 1, 1, v, 0, True, "NCHW")),
    ("nn.lrn", "size", -5, lambda v: relay.nn.lrn(x, v)),
    ("nn.depth_to_space", "block_size", -2, lambda v: relay.nn.depth_to_space(x, v)),
    ("nn.batch_to_space_nd", "crops", ((-1, 0), (0, 0)), lambda v: relay.nn.batch_to_space_nd(
        relay.var("x", shape=(4, 2, 2, 1)), (2, 2), v)),
    ("nn.dilate", "strides", (1, 1, -2, 1), lambda v: relay.nn.dilate(x, v)),
    ("nn.upsampling", "scale_h", -2.0, lambda v: relay.nn.upsampling(x, v, 2.0)),
    ("image.resize2d", "size", (0, 4), lambda v: relay.image.resize2d(x, v)),
    ("image.dilation2d", "dilations", (-1, 1), lambda v: relay.image.dilation2d(
        x, relay.var("w", shape=(4, 2, 2)), dilations=v)),
    ("vision.roi_pool", "pooled_size", (0, 0), lambda v: relay.vision.roi_pool(x, boxes, v, 1.0)),
    ("vision.yolo_reorg", "stride", 0, lambda v: relay.vision.yolo_reorg(x, v)),
    ("sliding_window", "strides", (0, 1), lambda v: relay.sliding_window(x, 2, (2, 2), v)),
    ("qnn.conv2d", "dilation", (-1, -1), lambda v: relay.qnn.op.conv2d(
        ints, kernel, *quantum, (2, 2), 4, dilation=v)),
]  # fmt: skip


@pytest.mark.parametrize("operator, attribute, value, build", CALLS, ids=[f"{c[0]} {c[1]}" for c in CALLS])
def test_a_size_that_has_no_meaning_is_refused_by_name(operator, attribute, value, build):
    made = build(value)
    with pytest.raises(tvm.error.DiagnosticError) as caught:
        relay.transform.InferTypeLocal(made)
    said = str(caught.value).splitlines()[0]
    assert f"operator {operator}" in said and attribute in said and str(value) in said


def test_the_steps_of_a_slice_may_go_backwards():
    made = relay.strided_slice(x, [7], [-9], [-1], axes=[3])
    assert tuple(relay.transform.InferTypeLocal(made).shape) == (1, 4, 8, 8)


def test_a_result_of_a_negative_size_is_refused():
    small = relay.var("x", shape=(1, 1, 4, 4))
    made = relay.nn.correlation(small, small, 1, 4, 1, 1, 0, True, "NCHW")
    with pytest.raises(tvm.error.DiagnosticError, match="dimension -4 is negative"):
        relay.transform.InferTypeLocal(made)
    data, kernel = relay.var("d", shape=(1, 1, 2, 2, 4)), relay.var("k", shape=(1, 1, 5, 5, 4, 4))
    blocks = relay.nn.contrib_conv2d_nchwc(data, kernel)
    with pytest.raises(tvm.error.DiagnosticError, match=r"would have the invalid shape \(1, 1, -2, -2, 4\)"):
        relay.transform.InferTypeLocal(blocks)


def test_sizes_are_checked_of_calls_that_no_builder_made():
    made = call("nn.max_pool2d", x, pool_size=[2, 2], strides=[tvm.tir.IntImm("int32", -1), 1], dilation=[1, 1],
                padding=[0, 0, 0, 0], layout="NCHW", out_layout="", ceil_mode=False)  # fmt: skip
    with pytest.raises(tvm.error.DiagnosticError, match=r"strides must be at least 1, got \(-1, 1\)"):
        relay.transform.InferTypeLocal(made)


@pytest.mark.parametrize(
    "build",
    [
        lambda d, k: topi.nn.conv2d_nchw(d, k, 1, 0, (-2, 1)),
        lambda d, k: topi.nn.conv2d_nchw(d, k, 0, 0, 1),
        lambda d, k: topi.nn.conv2d_nchw(d, k, 1, -1, 1),
        lambda d, k: topi.nn.depthwise_conv2d_nchw(d, k, 1, 0, -1),
        lambda d, k: topi.nn.conv2d_transpose_nchw(d, k, (-1, 1), 0, "float32", 0),
        lambda d, k: topi.nn.pool2d(d, (0, 1), (1, 1), (1, 1), (0, 0, 0, 0), "max"),
        lambda d, k: topi.nn.pool2d(d, (2, 2), (1, -1), (1, 1), (0, 0, 0, 0), "avg"),
        lambda d, k: topi.nn.pool2d(d, (2, 2), (1, 1), (1, 1), (0, 0, -1, 0), "avg"),
        lambda d, k: topi.nn.adaptive_pool(d, (-1, -1), "avg"),
        lambda d, k: topi.nn.correlation_nchw(d, d, 2, 1, 1, 1, 0, True),
        lambda d, k: topi.nn.deformable_conv2d_nchw(d, te.placeholder((1, 6, 7, 7)), k, 1, 0, 1, 1, 1, None),
    ],
)
def test_topi_refuses_them_too(build):
    data, weight = te.placeholder((1, 4, 8, 8)), te.placeholder((4, 4, 2, 2))
    with pytest.raises(tvm.TVMError, match="must (not )?(be|have)"):
        build(data, weight)


def test_dilation2d_takes_strides_of_all_four_dimensions(rng):
    data, weight = rng.normal(size=(1, 2, 7, 6)).astype("f"), rng.normal(size=(2, 2, 3)).astype("f")
    d, k = relay.var("d", shape=data.shape), relay.var("k", shape=weight.shape)
    made = relay.Function([d, k], relay.image.dilation2d(d, k, strides=[1, 1, 2, 1], dilations=[1, 1, 1, 2]))
    got = relay.create_executor("graph", tvm.IRModule.from_expr(made)).evaluate()(data, weight).numpy()
    taps = [data[:, :, i : i + 5 : 2, 2 * j : 2 * j + 2] + weight[:, i, j, None, None]
            for i in range(2) for j in range(3)]  # fmt: skip
    np.testing.assert_allclose(got[:, :, :3], np.max(taps, 0), rtol=1e-6)
    bad = relay.image.dilation2d(d, k, strides=[1, 2, 2, 1])
    with pytest.raises(tvm.error.DiagnosticError, match="four with 1 for images and channels"):
        relay.transform.InferTypeLocal(bad)
