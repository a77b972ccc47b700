"""Normalizations and upsampling against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
import tvm.topi.testing
from tvm import te, topi


def run(outs, tensors, arrays):
    outs = outs if isinstance(outs, list) else [outs]
    with tvm.target.Target("llvm"):
        function = tvm.build(topi.generic.schedule_injective(outs), [*tensors, *outs], "llvm")
    results = [tvm.nd.empty([int(d) for d in t.shape], t.dtype) for t in outs]
    function(*[tvm.nd.array(a) for a in arrays], *results)
    return [r.numpy() for r in results]


def inputs(rng, *shapes, dtype="float32"):
    arrays = [rng.uniform(0.2, 1.5, shape).astype(dtype) for shape in shapes]
    return [te.placeholder(a.shape, dtype, name=f"in{i}") for i, a in enumerate(arrays)], arrays


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape, axis, center, scale", [
    ((3,), 0, True, True), ((2, 3), 0, True, True), ((2, 3, 4, 1), 1, False, True), ((3, 4, 1, 5), 2, True, False),
    ((1, 2, 3, 4), 3, False, False),
])  # fmt: skip
def test_batch_norm(rng, shape, axis, center, scale, training):
    c = (shape[axis],)
    tensors, arrays = inputs(rng, shape, c, c, c, c)
    options = (axis, 0.1, center, scale, training, 0.3)
    got = run(topi.nn.batch_norm(*tensors, *options), tensors, arrays)
    for ours, theirs in zip(got, topi.testing.batch_norm(*arrays, *options)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype, rtol", [("float32", 1e-4), ("float16", 4e-3)])
def test_group_and_instance_norm(rng, dtype, rtol):
    shape = (2, 6, 5, 3)
    tensors, arrays = inputs(rng, shape, (6,), (6,), dtype=dtype)
    x = arrays[0].astype("float64")
    (got,) = run(topi.nn.group_norm(*tensors, 3, 1, (2, 3)), tensors, arrays)
    grouped = x.reshape(2, 3, 2, 5, 3)
    plain = (grouped - grouped.mean((2, 3, 4), keepdims=True)) / np.sqrt(grouped.var((2, 3, 4), keepdims=True) + 1e-5)
    weight, bias = (a.astype("float64").reshape(1, 6, 1, 1) for a in arrays[1:])
    np.testing.assert_allclose(got, plain.reshape(shape) * weight + bias, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(got, topi.testing.group_norm_python(*arrays, 3, 1, (2, 3)), rtol=rtol, atol=rtol)
    (got,) = run(topi.nn.instance_norm(*tensors, 1, (2, 3)), tensors, arrays)
    np.testing.assert_allclose(got, topi.testing.instance_norm_python(*arrays, (2, 3)), rtol=rtol, atol=rtol)
    with pytest.raises(tvm.TVMError, match="6 channels are not divisible into 4 groups"):
        topi.nn.group_norm(*tensors, 4, 1, (2, 3))


@pytest.mark.parametrize("axis", [(1,), (1, 2), (-1,)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_rms_norm(rng, axis, with_bias):
    shape = (3, 7, 5)
    sizes = tuple(shape[a] for a in axis)
    tensors, arrays = inputs(rng, shape, sizes, *([sizes] if with_bias else []))
    bias, bias_array = (tensors[2], arrays[2]) if with_bias else (None, None)
    (got,) = run(topi.nn.rms_norm(tensors[0], tensors[1], bias, axis), tensors, arrays)
    want = topi.testing.rms_norm_python(arrays[0], arrays[1], bias_array, tuple(a % 3 for a in axis))
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "method, scale",
    [("nearest_neighbor", (2.0, 3.0)), ("bilinear", (2.0, 2.0)), ("nearest_neighbor", (1.954545497894287, 2.0))],
)
def test_upsampling(rng, layout, method, scale):
    shape = (1, 3, 22, 5) if layout == "NCHW" else (1, 22, 5, 3)
    tensors, arrays = inputs(rng, shape)
    (got,) = run(topi.nn.upsampling(tensors[0], *scale, layout=layout, method=method), tensors, arrays)
    want = topi.testing.resize2d_python(arrays[0], scale, layout, method.removeprefix("bi"), "asymmetric")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [(2.0, 2.0, 3.0), (1.8, 2.0, 1.3)])
def test_upsampling_of_volumes(rng, scale):
    tensors, arrays = inputs(rng, (1, 2, 3, 4, 5))
    made = topi.nn.upsampling3d(tensors[0], *scale, method="trilinear", coordinate_transformation_mode="asymmetric")
    (got,) = run(made, tensors, arrays)
    want = topi.testing.resize3d_python(arrays[0], scale, "NCDHW", "linear", "asymmetric")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_window_beyond_the_tensor_counts_as_padding():
    data = np.full((1, 1, 4), -1, "float32")
    got = topi.testing.poolnd_python(data, [2], [4], [1], [0], [3], "max", ceil_mode=True)
    np.testing.assert_array_equal(got, [[[-1, 0, 0]]])
    image, grads = np.ones((1, 1, 4, 2), "float32"), np.ones((1, 1, 3, 1), "float32")
    share = topi.testing.pool_grad_nchw(image, grads, (2, 2), (2, 2), (0, 0, 2, 0), "max", True)
    np.testing.assert_array_equal(share[0, 0], [[1, 0], [0, 0], [1, 0], [0, 0]])
