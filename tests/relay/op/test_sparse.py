"""Products with sparse matrices in graphs equal those with the dense ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from compiled import compiled, refused, tensor

import tvm
from tests.topi.test_sparse import sparse
from tvm import relay


class Rows(NamedTuple):
    """A sparse matrix as SciPy has it."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


@pytest.mark.parametrize("block", [None, (4, 1), (2, 3)])
@pytest.mark.parametrize("is_left", [False, True])
def test_a_sparse_product_and_what_follows_it(rng, block, is_left):
    """Sizes that one thread computes and that several do, known and not."""
    for rows, columns, count in ((8, 12, 5), (128, 192, 65)):
        dense, *parts = sparse(rng, rows, columns, block)
        x = rng.uniform(-1, 1, (count, columns)).astype("float32")
        expected = np.maximum((dense @ x.T if is_left else x @ dense.T) + 0.5, 0)
        for matrix in (Rows(*parts), [relay.const(part) for part in parts]):
            made = {}
            for size in (count, relay.Any()):
                var = relay.var("x", shape=(size, columns))
                out = relay.nn.relu(relay.nn.sparse_dense(var, matrix, sparse_lhs=is_left) + relay.const(0.5))
                made[size] = tvm.IRModule.from_expr(relay.Function([var], out))
            known, unknown = made.values()
            graph = compiled(known)
            graph.run(x=x)
            run = relay.create_executor("vm", unknown, tvm.cpu(), "llvm").evaluate()
            for got in (graph.get_output(0), run(x)):
                np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_what_is_no_sparse_matrix_is_refused():
    types = tensor(5, 12), tensor(7, 2), tensor(7, dtype="int32"), tensor(7, dtype="int32")

    def of(x, *parts):
        return relay.nn.sparse_dense(x, parts)

    assert "values of 1 dimension (CSR) or 3 (BSR)" in refused(of, *types)
    assert "not enough values" in refused(lambda x, *parts: relay.nn.sparse_dense(x, parts[1:]), *types)
