"""Sparse matrices of tvm.contrib.sparse and their products, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, topi
from tvm.contrib import sparse


def matrix_of(rng, shape, dtype):
    return (rng.integers(-9, 9, shape) * (rng.random(shape) < 0.4)).astype(dtype)


def parts(m):
    return [m.data, m.indices, m.indptr]


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("name, columns, biased", [("csrmv", 1, True), ("csrmm", 3, True), ("csrmm", 3, False)])
def test_products_of_a_sparse_matrix_of_any_size(rng, dtype, name, columns, biased):
    rows, nonzeros = te.var("rows"), te.var("nonzeros")
    a = sparse.placeholder((rows, 6), nonzeros, dtype, name="a")
    b, c = te.placeholder((6, columns), dtype, name="b"), te.placeholder((rows,), dtype, name="c")
    d = getattr(topi.sparse, name)(a, b, c if biased else None)
    made = tvm.build(te.create_schedule(d.op), [*parts(a), b, c, d], "llvm")
    full, other, bias = matrix_of(rng, (5, 6), dtype), matrix_of(rng, (6, columns), dtype), np.arange(5).astype(dtype)
    full[2] = 0
    held = sparse.array(full)
    np.testing.assert_array_equal(held.numpy(), full)
    out = tvm.nd.array(np.full((5, columns), 7, dtype))
    made(*parts(held), tvm.nd.array(other), tvm.nd.array(bias), out)
    np.testing.assert_array_equal(out.numpy(), full @ other + (bias[:, None] if biased else 0))


@pytest.mark.parametrize("data_is_sparse", [True, False])
def test_dense_layers_with_one_sparse_operand(rng, data_is_sparse):
    data, weight = matrix_of(rng, (3, 5), "float32"), matrix_of(rng, (2, 5), "float32")
    bias = np.array([1, -1], "float32")
    x = sparse.placeholder((3, 5), name="x") if data_is_sparse else te.placeholder((3, 5), name="x")
    w = te.placeholder((2, 5), name="w") if data_is_sparse else sparse.placeholder((2, 5), name="w")
    b = te.placeholder((2,), name="b")
    y = topi.sparse.dense(x, w, b)
    tensors = [*parts(x), w] if data_is_sparse else [x, *parts(w)]
    made = tvm.build(te.create_schedule(y.op), [*tensors, b, y], "llvm")
    held = [*parts(sparse.array(data)), weight] if data_is_sparse else [data, *parts(sparse.array(weight))]
    out = tvm.nd.array(np.zeros((3, 2), "float32"))
    made(*(tvm.nd.array(t) for t in held), tvm.nd.array(bias), out)
    np.testing.assert_array_equal(out.numpy(), data @ weight.T + bias)


def test_what_is_no_sparse_product_is_refused():
    matrix, vector = te.placeholder((3, 3)), te.placeholder((3,))
    with pytest.raises(tvm.TVMError, match="exactly one of data and weight must be a sparse matrix"):
        topi.sparse.dense(matrix, matrix)
    with pytest.raises(tvm.TVMError, match="csrmv: the first operand must be a sparse matrix"):
        topi.sparse.csrmv(matrix, matrix)
    with pytest.raises(tvm.TVMError, match="csrmm: the dense operand must be a matrix, got 1 dimensions"):
        topi.sparse.csrmm(sparse.placeholder((3, 3)), vector)
    with pytest.raises(tvm.TVMError, match="expected a matrix, got an array with 1 dimensions"):
        sparse.array(np.zeros(3))
    with pytest.raises(NotImplementedError, match="sparse format 'bsr' is not supported"):
        sparse.placeholder((3, 3), stype="bsr")
