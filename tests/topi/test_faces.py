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
    for compute, schedule in ((topi.x86.dense_nopack, topi.x86.schedule_dense_nopack),
                              (topi.x86.dense_pack, topi.x86.schedule_dense_pack),
                              (topi.arm_cpu.dense, topi.arm_cpu.schedule_dense)):
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
