"""Matmuls with one sparse operand, stored as rows of elements (CSR) or of blocks (BSR)."""

from __future__ import annotations

from typing import Any

from ... import te
from ...error import TVMError
from ..utils import get_const_tuple


def sparse_dense(dense_data, sparse_data, sparse_indices, sparse_indptr, sparse_lhs=False):
    """The matmul of ``dense_data`` and the transposed sparse matrix S, or of S and the transposed ``dense_data`` with
    ``sparse_lhs``. Row r of S consists of the elements (or blocks) from ``sparse_indptr[r]`` to ``sparse_indptr[r +
    1]``, in the columns ``sparse_indices``.

    Raises
    ------
    TVMError
        The dense operand is not a matrix, or the sparse one does not have the dimensions of CSR or BSR.
    """
    matrix = _Sparse(sparse_data, sparse_indices, sparse_indptr)
    if len(dense_data.shape) != 2:
        raise TVMError(f"sparse_dense: the dense operand must be a matrix, got {len(dense_data.shape)} dimensions")
    product = _blocks if matrix.is_blocked else _elements
    return product(dense_data, matrix, sparse_lhs)


class _Sparse:
    """A sparse matrix: its values, column indices, and row pointers."""

    def __init__(self, data: Any, indices: Any, indptr: Any):
        if len(data.shape) not in (1, 3) or len(indices.shape) != 1 or len(indptr.shape) != 1:
            shapes = ", ".join(str(list(t.shape)) for t in (data, indices, indptr))
            raise TVMError(
                "sparse_dense: a sparse matrix needs values with 1 dimension (CSR) or 3 (BSR), and "
                f"vectors of column indices and row pointers, got {shapes}"
            )
        self.data, self.indices, self.indptr = data, indices, indptr
        self.is_blocked = len(data.shape) == 3
        self.rows = get_const_tuple(indptr.shape)[0] - 1
        self.block = get_const_tuple(data.shape)[1:] if self.is_blocked else (1, 1)

    def element(self, row: Any) -> tuple[Any, Any]:
        """Return a reduction axis over the elements (or blocks) of a row, and the index of the current one among all
        elements."""
        begin = self.indptr[row]
        axis = te.reduce_axis((0, self.indptr[row + 1] - begin), name="elem_idx")
        return axis, begin + axis


def _elements(dense: Any, matrix: _Sparse, sparse_lhs: bool) -> Any:
    others = get_const_tuple(dense.shape)[0]

    def product(row: Any, other: Any) -> Any:
        axis, place = matrix.element(row)
        return te.sum(matrix.data[place] * dense[other, matrix.indices[place]], axis=axis)

    if sparse_lhs:
        return te.compute((matrix.rows, others), product, name="sparse_dense", tag="sparse_dense_sp_lhs_csrmm")
    return te.compute(
        (others, matrix.rows), lambda i, row: product(row, i), name="sparse_dense", tag="sparse_dense_sp_rhs_csrmm"
    )


def _blocks(dense: Any, matrix: _Sparse, sparse_lhs: bool) -> Any:
    others, terms = get_const_tuple(dense.shape)
    height, width = matrix.block

    def product(nb_j: Any, j: Any, i: Any) -> Any:
        axis, place = matrix.element(nb_j)
        c = te.reduce_axis((0, width), name="c")
        value = matrix.data[place, j, c] * dense[i, matrix.indices[place] * width + c]
        return te.sum(value, axis=[axis, c])

    tag = f"sparse_dense_sp_{'lhs' if sparse_lhs else 'rhs'}_bsrmm"
    rows = matrix.rows * height
    # The number of operations is known only for the dense matmul. The auto-scheduler measures with the arrays of these
    # names, because random column indices and row pointers would be invalid.
    attrs = {"FLOP": 2 * others * rows * terms, "auto_scheduler_task_inputs": _names(matrix, rows, terms)}
    if sparse_lhs:
        block = te.compute(
            (matrix.rows, height, others), product, name="sparse_dense_block", tag=f"{tag}_block", attrs=attrs
        )
        return te.compute(
            (rows, others),
            lambda m, n: block[te.indexdiv(m, height), te.indexmod(m, height), n],
            name="sparse_dense",
            tag=tag,
        )
    block = te.compute(
        (others, matrix.rows, height),
        lambda i, nb_j, j: product(nb_j, j, i),
        name="sparse_dense_block",
        tag=f"{tag}_block",
        attrs=attrs,
    )
    return te.compute(
        (others, rows),
        lambda m, n: block[m, te.indexdiv(n, height), te.indexmod(n, height)],
        name="sparse_dense",
        tag=tag,
    )


def _names(matrix: _Sparse, rows: int, terms: int) -> list[list[Any]]:
    """Return the tensors of a block sparse matrix and the names of their arrays."""
    (count,) = get_const_tuple(matrix.indices.shape)
    height, width = matrix.block
    prefix = f"sparse_dense_bsr_{rows}_{terms}_{height}_{width}_{count}_{matrix.rows + 1}_"
    parts = {"W_data": matrix.data, "W_indices": matrix.indices, "W_indptr": matrix.indptr}
    return [[tensor, prefix + name] for name, tensor in parts.items()]


__all__ = ["sparse_dense"]
