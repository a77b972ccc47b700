"""The workloads of tests of the auto-scheduler compute what their names say."""

from __future__ import annotations

import numpy as np

from tests.auto_scheduler.programs import arrays_of, run
from tvm.auto_scheduler import ComputeDAG
from tvm.testing import auto_scheduler as workloads


def results(tensors, seed: int) -> list[np.ndarray]:
    dag = ComputeDAG(tensors)
    return run(dag, dag.init_state, arrays_of(dag, seed))


def test_products_of_matrices(seed):
    a, b, c = results(workloads.matmul_auto_scheduler_test(5, 6, 7), seed)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
    a, b, c, e = results(workloads.double_matmul_auto_scheduler_test(5), seed)
    np.testing.assert_allclose(e, a @ b @ c, rtol=1e-4, atol=1e-5)
    a, b, c, d, e = results(workloads.parallel_matmul_auto_scheduler_test(5), seed)
    np.testing.assert_allclose(d, a @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(e, a @ c, rtol=1e-4, atol=1e-5)


def convolution(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """3x3, padded by one, of images in NHWC and filters in HWIO."""
    _, height, width, _ = x.shape
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return sum(
        np.einsum("nhwi,io->nhwo", x[:, i : i + height, j : j + width], k[i, j]) for i in range(3) for j in range(3)
    )


def test_a_convolution_with_its_normalization(seed):
    x, k, bias, offset, scale, y = results(
        workloads.conv2d_nchw_bn_relu_auto_scheduler_test(1, 6, 7, 3, 4, 3, 1, 1), seed
    )
    expected = convolution(x.transpose(0, 2, 3, 1), k.transpose(2, 3, 1, 0)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(y, np.maximum((expected + bias) * scale + offset, 0), rtol=1e-4, atol=1e-5)


def test_winograd_is_the_convolution_of_the_filters_before_their_transform(seed):
    dag = ComputeDAG(workloads.conv2d_winograd_nhwc_auto_scheduler_test(1, 7, 9, 3, 5, 3, 1, 1))
    arrays = arrays_of(dag, seed)
    filters = np.random.default_rng(seed).uniform(-1, 1, (3, 3, 3, 5)).astype("float32")
    _, transform, _ = workloads.winograd_matrices()
    arrays[1] = np.einsum("eh,fw,hwio->efio", transform, transform, filters).astype("float32")
    x, _, y = run(dag, dag.init_state, arrays)
    np.testing.assert_allclose(y, convolution(x, filters), rtol=1e-3, atol=1e-4)


def test_softmax_minimum_pooling_and_scalars(seed):
    a, b = results(workloads.softmax_nm_auto_scheduler_test(3, 5), seed)
    np.testing.assert_allclose(b, np.exp(a) / np.exp(a).sum(1, keepdims=True), rtol=1e-4)
    a, b = results(workloads.softmax_abcd_auto_scheduler_test(1, 2, 3, 5), seed)
    np.testing.assert_allclose(b, np.exp(a) / np.exp(a).sum(-1, keepdims=True), rtol=1e-4)
    a, b = results(workloads.min_nm_auto_scheduler_test(3, 5), seed)
    np.testing.assert_array_equal(b, a.min(-1))
    a, b = results(workloads.max_pool2d_auto_scheduler_test(1, 4, 5, 2, 0), seed)
    np.testing.assert_array_equal(b, np.maximum.reduce([a[:, :, i : i + 3, j : j + 4] for i in (0, 1) for j in (0, 1)]))
    a, b = results(workloads.zero_rank_reduce_auto_scheduler_test(7), seed)
    np.testing.assert_allclose(b, a.sum(), rtol=1e-4, atol=1e-5)
    a, b = results(workloads.zero_rank_compute_auto_scheduler_test(7), seed)
    assert b == a[0]
