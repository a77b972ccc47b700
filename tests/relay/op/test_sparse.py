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

    assert "values with 1 dimension (CSR) or 3 (BSR)" in refused(of, *types)
    assert "not enough values" in refused(lambda x, *parts: relay.nn.sparse_dense(x, parts[1:]), *types)


def filled(indices, values, shape, default):
    """Indices, values and the empty rows of a sparse tensor, row by row."""
    places, numbers, empty = [], [], []
    for row in range(shape[0]):
        here = np.flatnonzero(indices[:, 0] == row)
        empty.append(here.size == 0)
        places += [list(i) for i in indices[here]] or [[row] + [0] * (indices.shape[1] - 1)]
        numbers += list(values[here]) or [default[0]]
    return np.array(places), np.array(numbers), np.array(empty)


FILLED = {
    "rows between and after": ([[0, 1], [0, 3], [2, 0], [3, 1]], [1, 2, 3, 4], [5, 6], [10]),
    "three dimensions": ([[1, 1, 1], [1, 3, 1], [2, 0, 5], [3, 1, 6]], [1, 2, 3, 4], [7, 7, 7], [5]),
    "one dimension": ([[1], [2]], [7, 8], [5], [4]),
    "no value": (np.ones((0, 3)), [], [4, 3, 7], [100]),
    "no empty row": ([[0, 1], [1, 0]], [3, 4], [2, 2], [9]),
    "rows out of order": ([[3, 1], [0, 2], [3, 0]], [7, 8, 9], [4, 3], [1]),
}


@pytest.mark.parametrize("kind", ["vm", "debug"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FILLED)
def test_empty_rows_are_filled(name, dynamic, kind):
    dtype = "int32" if dynamic else "int64"
    given = [np.asarray(a).astype(dtype) for a in FILLED[name]]
    params = [relay.var(n, shape=[relay.Any()] * a.ndim if dynamic else a.shape, dtype=dtype)
              for n, a in zip(("indices", "values", "shape", "default"), given)]  # fmt: skip
    results = relay.sparse_fill_empty_rows(*params)
    types = [part.checked_type for part in relay.testing.run_infer_type(results)]
    assert [t.dtype for t in types] == [dtype, dtype, "bool"] and [len(t.shape) for t in types] == [2, 1, 1]
    mod = tvm.IRModule.from_expr(relay.Function(params, results))
    got = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()(*given)
    for part, wanted in zip(got, filled(*given)):
        np.testing.assert_array_equal(part.numpy(), wanted)


@pytest.mark.parametrize("shapes, message", [
    (((3,), (3,), (1,), (1,)), "the indices must be a matrix"),
    (((3, 2), (4,), (2,), (1,)), "length 3, the number of indices"),
    (((3, 2), (3,), (3,), (1,)), "must be a vector of length 2"),
    (((3, 2), (3,), (2,), (2,)), "the default value must be a scalar"),
])  # fmt: skip
def test_sparse_tensors_whose_parts_do_not_fit_are_rejected(shapes, message):
    assert message in refused(relay.sparse_fill_empty_rows, *[tensor(*s, dtype="int64") for s in shapes])


def test_values_and_their_default_have_one_type():
    types = tensor(3, 2, dtype="int64"), tensor(3), tensor(2, dtype="int64"), tensor(1, dtype="int64")
    assert "the values are float32, but the default value is int64" in refused(relay.sparse_fill_empty_rows, *types)


@pytest.mark.parametrize("count", [None, 5, "tensor"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(4,), (4, 3, 2)])
def test_segments_are_counted_when_running(rng, shape, dynamic, count):
    data, ids = rng.uniform(-1, 1, shape).astype("float32"), np.array([0, 0, 2, 1], "int32")
    sizes = [relay.Any()] * len(shape) if dynamic else shape
    params = [relay.var("data", shape=sizes), relay.var("ids", shape=[relay.Any() if dynamic else 4], dtype="int32")]
    given = [data, ids]
    if count == "tensor":
        params.append(relay.var("count", shape=(1,), dtype="int32"))
        given.append(np.array([6], "int32"))
    made = relay.segment_sum(*params[:2], params[2] if count == "tensor" else count)
    wanted = np.zeros(({None: 3, 5: 5, "tensor": 6}[count], *shape[1:]), "float32")
    np.add.at(wanted, ids, data)
    run = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function(params, made)), tvm.cpu(), "llvm")
    np.testing.assert_allclose(run.evaluate()(*given).numpy(), wanted, rtol=1e-5, atol=1e-6)
