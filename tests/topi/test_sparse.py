"""Products with sparse matrices equal those with the dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.topi.evaluate import evaluate
from tvm import te, topi


def sparse(rng, rows: int, columns: int, block: tuple[int, int] | None):
    """A dense matrix that is zero in most places, and its values, columns and beginnings of rows."""
    height, width = block or (1, 1)
    mask = rng.random((rows // height, columns // width)) < 0.4
    # A row without elements, and a matrix with some.
    mask[0], mask[-1, 0] = False, True
    dense = rng.uniform(-1, 1, (rows, columns)).astype("float32") * np.kron(mask, np.ones((height, width), "float32"))
    places = np.argwhere(mask)
    blocks = np.array([dense[r * height : (r + 1) * height, c * width : (c + 1) * width] for r, c in places])
    values = blocks.reshape(-1) if block is None else blocks.reshape(-1, height, width)
    starts = np.concatenate([[0], np.cumsum(mask.sum(1))])
    return dense, values, places[:, 1].astype("int32"), starts.astype("int32")


@pytest.mark.parametrize("block", [None, (4, 1), (2, 3)])
@pytest.mark.parametrize("is_left", [False, True])
def test_a_product_with_a_sparse_matrix_equals_the_dense_one(rng, block, is_left):
    matrix, *parts = sparse(rng, 8, 12, block)
    x = rng.uniform(-1, 1, (5, 12)).astype("float32")
    got = evaluate([x, *parts], lambda x, *parts: topi.nn.sparse_dense(x, *parts, sparse_lhs=is_left))
    expected = matrix @ x.T if is_left else x @ matrix.T
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_what_is_no_sparse_matrix_is_refused():
    x, values = te.placeholder((5, 12)), te.placeholder((7, 2))
    vector = te.placeholder((7,), "int32")
    with pytest.raises(tvm.TVMError, match=r"values with 1 dimension \(CSR\) or 3 \(BSR\).*got \[7, 2\], \[7\], \[7\]"):
        topi.nn.sparse_dense(x, values, vector, vector)
    with pytest.raises(tvm.TVMError, match="the dense operand must be a matrix, got 1 dimensions"):
        topi.nn.sparse_dense(te.placeholder((5,)), te.placeholder((7,)), vector, vector)


def test_a_random_matrix_of_blocks_has_the_share_of_blocks_asked_for():
    pytest.importorskip("scipy")
    from tvm.topi.sparse.utils import random_bsr_matrix

    made = random_bsr_matrix(32, 24, 4, 2, density=0.25, dtype="float32")
    assert made.shape == (32, 24) and made.data.shape[1:] == (4, 2) and made.data.dtype == "float32"
    assert made.indices.dtype == made.indptr.dtype == "int32" and len(made.indices) == 25
    assert np.count_nonzero(made.todense()) == 25 * 8
    assert random_bsr_matrix(8, 8, 2, 2, density=1.0, dtype="float64").nnz == 64
    with pytest.raises(ValueError, match="a matrix of 32 x 24 is not divisible into blocks of 3 x 2"):
        random_bsr_matrix(32, 24, 3, 2, 0.5, "float32")
