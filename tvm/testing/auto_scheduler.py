"""Workloads for tests of the auto-scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import auto_scheduler, te, topi
from ..topi.utils import const_matrix

Tensors = list[Any]


def _matmul(a: Any, b: Any, name: str, **attrs: Any) -> Any:
    k = te.reduce_axis((0, a.shape[1]), name="k")
    shape = (a.shape[0], b.shape[1])
    return te.compute(shape, lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name=name, attrs=attrs or None)


@auto_scheduler.register_workload
def matmul_auto_scheduler_test(N: int, M: int, K: int) -> Tensors:
    A, B = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [A, B, _matmul(A, B, "C", layout_free_placeholders=[B])]


@auto_scheduler.register_workload("matmul_auto_scheduler_test_rename_1")
def matmul_auto_scheduler_test_rename_0(N: int, M: int, K: int) -> Tensors:
    """A workload that is registered under a name other than the function's."""
    A, B = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [A, B, _matmul(A, B, "C")]


@auto_scheduler.register_workload
def double_matmul_auto_scheduler_test(N: int) -> Tensors:
    """Two matmuls, the second of which uses the output of the first."""
    A, B, C = (te.placeholder((N, N), name=name) for name in "ABC")
    return [A, B, C, _matmul(_matmul(A, B, "D"), C, "E")]


@auto_scheduler.register_workload
def parallel_matmul_auto_scheduler_test(N: int) -> Tensors:
    """Two matmuls that share an operand."""
    A, B, C = (te.placeholder((N, N), name=name) for name in "ABC")
    return [A, B, C, _matmul(A, B, "D"), _matmul(A, C, "E")]


@auto_scheduler.register_workload
def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int, dilation: int = 1
) -> Tensors:
    data = te.placeholder((N, CI, H, W), name="Data")
    kernel = te.placeholder((CO, CI, kernel_size, kernel_size), name="Kernel")
    bias, scale, offset = (te.placeholder((CO, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset"))
    x = topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation)

    def channelwise(x: Any, operand: Any, f: Any, name: str) -> Any:
        return te.compute(x.shape, lambda n, c, h, w: f(x[n, c, h, w], operand[c, 0, 0]), name=name)

    x = channelwise(x, bias, lambda a, b: a + b, "Bias_add")
    x = channelwise(x, scale, lambda a, b: a * b, "Bn_mul")
    x = channelwise(x, offset, lambda a, b: a + b, "Bn_add")
    return [data, kernel, bias, offset, scale, topi.nn.relu(x)]


@auto_scheduler.register_workload
def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> Tensors:
    data = te.placeholder((N, CI, H, W), name="Data")
    return [data, topi.nn.pool2d(data, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")]


@auto_scheduler.register_workload
def min_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    A = te.placeholder((N, M), name="A")
    return [A, topi.min(A, axis=-1)]


@auto_scheduler.register_workload
def softmax_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    A = te.placeholder((N, M), name="A")
    return [A, topi.nn.softmax(A, axis=1)]


@auto_scheduler.register_workload
def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> Tensors:
    A = te.placeholder((a, b, c, d), name="A")
    return [A, topi.nn.softmax(A, axis=-1)]


@auto_scheduler.register_workload
def invalid_compute_definition() -> Tensors:
    """An operation with two axes of the same name, which is an error."""
    A = te.placeholder((10, 10), name="A")
    one, other = te.reduce_axis((0, 2), name="r1"), te.reduce_axis((0, 2), name="r1")
    return [A, te.compute((10,), lambda i: te.sum(A[i, one + other], axis=[one, other]), name="B")]


@auto_scheduler.register_workload
def zero_rank_reduce_auto_scheduler_test(N: int) -> Tensors:
    A, k = te.placeholder((N,), name="A"), te.reduce_axis((0, N), name="k")
    return [A, te.compute((), lambda: te.sum(A[k], axis=k), name="B")]


@auto_scheduler.register_workload
def zero_rank_compute_auto_scheduler_test(N: int) -> Tensors:
    A = te.placeholder((N,), name="A")
    return [A, te.compute((), lambda: A[0], name="B")]


def winograd_matrices(points: Sequence[float] = (0, 1, -1, 0.5, -2)) -> tuple[Any, Any, Any]:
    """Return the Winograd transforms of data, weight and output tiles of F(4x4, 3x3), from interpolation points."""
    powers = np.array([[p**k for k in range(4)] for p in points] + [[0, 0, 0, 1]])
    filters = np.array([[p**k for k in range(3)] for p in points] + [[0, 0, 1]])
    # Output i of the filter that is the unit vector k is element i + k of the tile.
    products = np.einsum("ji,jk->ikj", powers, filters).reshape(12, 6)
    shifted = np.array([[i + k == column for column in range(6)] for i in range(4) for k in range(3)], float)
    tiles = np.linalg.lstsq(products, shifted, rcond=None)[0].round(12)
    return tiles.T.astype("float32"), filters.astype("float32"), powers.astype("float32")


@auto_scheduler.register_workload
def conv2d_winograd_nhwc_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int = 3, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Tensors:
    """A Winograd convolution with 3x3 filters; the weights are passed in transformed form."""
    if (kernel_size, stride, dilation) != (3, 1, 1):
        raise ValueError("the Winograd transforms support 3x3 filters with stride 1 and without dilation only")
    inputs = te.placeholder((N, H, W, CI), name="inputs")
    weight = te.placeholder((6, 6, CI, CO), name="weight")
    padded = topi.nn.pad(inputs, (0, padding, padding, 0), (0, padding, padding, 0), name="data_pad")
    out_h, out_w = H + 2 * padding - 2, W + 2 * padding - 2
    rows, columns = -(-out_h // 4), -(-out_w // 4)
    tiles = N * rows * columns
    of_tiles, _, of_results = winograd_matrices()
    B, A = const_matrix(of_tiles, "B"), const_matrix(of_results, "A")

    def tile(eps: Any, nu: Any, p: Any, ci: Any) -> Any:
        h, w = te.indexmod(te.indexdiv(p, columns), rows) * 4 + eps, te.indexmod(p, columns) * 4 + nu
        at = padded[te.indexdiv(p, rows * columns), h, w, ci]
        if out_h % 4 == 0 and out_w % 4 == 0:
            return at
        return te.if_then_else(te.all(h < H + 2 * padding, w < W + 2 * padding), at, 0.0)

    input_tile = te.compute((6, 6, tiles, CI), tile, name="input_tile")
    r_a, r_b = te.reduce_axis((0, 6), "r_a"), te.reduce_axis((0, 6), "r_b")
    data_pack = te.compute(
        (6, 6, tiles, CI),
        lambda eps, nu, p, ci: te.sum(input_tile[r_a, r_b, p, ci] * B[r_a, eps] * B[r_b, nu], axis=[r_a, r_b]),
        name="data_pack",
        attrs={"auto_scheduler_simplify_const_tensor_indices": ["eps", "nu", "r_a", "r_b"]},
    )
    ci = te.reduce_axis((0, CI), name="ci")
    bgemm = te.compute(
        (6, 6, tiles, CO),
        lambda eps, nu, p, co: te.sum(data_pack[eps, nu, p, ci] * weight[eps, nu, ci, co], axis=[ci]),
        name="bgemm",
    )
    r_a, r_b = te.reduce_axis((0, 6), "r_a"), te.reduce_axis((0, 6), "r_b")
    inverse = te.compute(
        (4, 4, tiles, CO),
        lambda vh, vw, p, co: te.sum(bgemm[r_a, r_b, p, co] * A[r_a, vh] * A[r_b, vw], axis=[r_a, r_b]),
        name="inverse",
        attrs={"auto_scheduler_simplify_const_tensor_indices": ["vh", "vw", "r_a", "r_b"]},
    )
    output = te.compute(
        (N, out_h, out_w, CO),
        lambda n, h, w, co: inverse[
            te.indexmod(h, 4),
            te.indexmod(w, 4),
            n * rows * columns + te.indexdiv(h, 4) * columns + te.indexdiv(w, 4),
            co,
        ],
        name="conv2d_winograd",
    )
    return [inputs, weight, output]


def get_tiled_matmul() -> tuple[Any, Any]:
    """Return a matmul and a state of it with tiled loops."""
    A, B, C = matmul_auto_scheduler_test(512, 512, 512)
    dag = auto_scheduler.ComputeDAG([A, B, C])
    state = dag.get_init_state()
    rows = state.split(C, state[C].iters[0], [4, 8, 8])
    columns = state.split(C, state[C].iters[4], [8, 4, 4])
    state.reorder(C, [*(it for pair in zip(rows, columns) for it in pair), state[C].iters[8]])
    return dag, state
