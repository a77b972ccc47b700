"""Operators and schedules under the names of devices."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, topi
from tvm.not_built import FeatureNotBuilt

DEVICES = ("arm_cpu", "bifrost", "cuda", "gpu", "intel_graphics", "mali", "rocm", "x86")
CPUS = ("arm_cpu", "x86")


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_has_the_operators_of_topi_and_their_schedules(device):
    face = getattr(topi, device)
    for name in ("conv2d_nchw", "conv2d_nhwc", "batch_matmul", "depthwise_conv2d_nchw"):
        assert callable(getattr(face, name)) and (device in CPUS) == (getattr(face, name) is getattr(topi.nn, name))
    for name in ("topk", "cumsum"):
        assert callable(getattr(face, name)) and (device in CPUS) == (getattr(face, name) is getattr(topi, name))
    assert face.softmax is topi.nn.softmax
    assert face.conv2d_nchw_spatial_pack is face.conv2d_nchw
    for name in ("conv2d_nchw", "conv2d_nhwc_spatial_pack", "pool", "sort", "scan", "dense_small_batch"):
        assert callable(getattr(face, f"schedule_{name}"))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        face.nothing


def test_ways_to_compute_that_are_not_built_are_refused_in_words():
    absent = (topi.cuda.conv2d_cudnn, topi.cuda.schedule_dense_tensorcore, topi.x86.dense_mkl, topi.hls.schedule_pool)
    for use in absent:
        with pytest.raises(tvm.TVMError, match="is not available yet"):
            use(None)


def test_a_named_implementation_runs_on_this_machine(rng):
    a, b = te.placeholder((5, 9), name="a"), te.placeholder((7, 9), name="b")
    x, y = (rng.uniform(-1, 1, shape).astype("float32") for shape in ((5, 9), (7, 9)))
    for compute, schedule in (
        (topi.x86.dense_nopack, topi.x86.schedule_dense_nopack),
        (topi.x86.dense_pack, topi.x86.schedule_dense_pack),
        (topi.arm_cpu.dense, topi.arm_cpu.schedule_dense),
    ):
        with tvm.target.Target("llvm"):
            out = compute(a, b, None, "float32")
            s = schedule([out])
        result = tvm.nd.empty((5, 7))
        tvm.build(s, [a, b, out], "llvm")(tvm.nd.array(x), tvm.nd.array(y), result)
        np.testing.assert_allclose(result.numpy(), topi.testing.dense(x, y, None), rtol=1e-5, atol=1e-6)


def test_a_module_of_a_device_and_the_operator_of_its_name_are_both_found():
    from tvm.topi.cuda.sort import argsort, sort, sort_thrust, topk

    assert sort is not topi.sort and callable(topi.cuda.sort)
    assert (sort.__name__, argsort.__name__, topk.__name__) == ("sort", "argsort", "topk")
    with pytest.raises(FeatureNotBuilt, match="not available yet"):
        sort_thrust(None)


def test_schedules_and_operators_have_their_classic_modules():
    from tvm.topi.cuda import depthwise_conv2d, injective, reduction
    from tvm.topi.generic.nn import schedule_conv2d_hwcn, schedule_conv2d_NCHWc
    from tvm.topi.nn.mapping import scale_shift_nchw, scale_shift_nhwc

    assert depthwise_conv2d.schedule_depthwise_conv2d_nchw is topi.cuda.schedule_depthwise_conv2d_nchw
    assert depthwise_conv2d.schedule_depthwise_conv2d_nhwc is topi.cuda.schedule_depthwise_conv2d_nhwc
    assert reduction.schedule_reduce is topi.cuda.schedule_reduce
    assert injective.schedule_broadcast is topi.cuda.schedule_broadcast
    assert schedule_conv2d_NCHWc is topi.generic.schedule_conv2d_NCHWc
    assert topi.generic.nn.schedule_conv2d_hwcn is schedule_conv2d_hwcn is topi.generic.schedule_conv2d_hwcn
    assert (scale_shift_nchw, scale_shift_nhwc) == (topi.nn.scale_shift_nchw, topi.nn.scale_shift_nhwc)


@pytest.mark.parametrize("elements", [2, 4])
def test_bytes_of_several_channels_lie_side_by_side(elements, rng):
    """``n_elems`` says how many; the same numbers in the plain layout are the oracle."""
    n, c, h, w, o, block = 1, 8, 7, 9, 8, 4
    x = rng.integers(-128, 128, (n, c, h, w)).astype("int8")
    k = rng.integers(-128, 128, (o, c, 3, 3)).astype("int8")
    data = x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2).copy()
    words = block // elements
    kernel = k.reshape(o // block, block, c // block, words, elements, 3, 3).transpose(0, 2, 5, 6, 3, 1, 4).copy()
    a, b = (te.placeholder(v.shape, "int8") for v in (data, kernel))
    out = topi.nn.conv2d_NCHWc_int8(a, b, 1, 1, 1, "NCHW4c", "NCHW4c", "int32", n_elems=elements)
    with tvm.target.Target("llvm"):
        s = topi.generic.nn.schedule_conv2d_NCHWc_int8([out])
    result = tvm.nd.empty([int(d) for d in out.shape], "int32")
    tvm.build(s, [a, b, out], "llvm")(tvm.nd.array(data), tvm.nd.array(kernel), result)
    got = result.numpy().transpose(0, 1, 4, 2, 3).reshape(n, o, h, w)
    np.testing.assert_array_equal(got, topi.testing.conv2d_nchw_python(x.astype("int32"), k.astype("int32"), 1, 1))
    with pytest.raises(tvm.TVMError, match="the kernel 7, the last of size 3"):
        topi.nn.conv2d_NCHWc_int8(a, b, 1, 1, 1, n_elems=3)
