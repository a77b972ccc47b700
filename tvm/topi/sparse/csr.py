"""Matmuls with sparse matrices made by ``tvm.contrib.sparse.placeholder``."""

from __future__ import annotations

from typing import Any

from ... import te
from ...error import TVMError


def csrmv(a, x, y=None):
    """The product of a sparse matrix ``a`` and a column ``x``, plus ``y``, which has an element for each row.

    Raises
    ------
    TVMError
        An operand has the wrong number of dimensions.
    """
    return _product("csrmv", a, x, y)


def csrmm(a, b, c=None):
    """The matmul of a sparse matrix ``a`` and a matrix ``b``, plus ``c``, which has an element for each row.

    Raises
    ------
    TVMError
        An operand has the wrong number of dimensions.
    """
    return _product("csrmm", a, b, c)


def dense(data, weight, bias=None):
    """The matmul of ``data`` and the transposed ``weight``, plus ``bias``. Either the data or the weights are sparse;
    the bias has an element for each output.

    Raises
    ------
    TVMError
        Neither or both are sparse, or an operand has the wrong number of dimensions.
    """
    sparse = [_is_sparse(data), _is_sparse(weight)]
    if sum(sparse) != 1:
        raise TVMError("sparse dense: exactly one of data and weight must be a sparse matrix")
    _check("dense", weight if sparse[0] else data, bias)
    matrix, other = (data, weight) if sparse[0] else (weight, data)

    def body(i: Any, j: Any) -> Any:
        row, column = (i, j) if sparse[0] else (j, i)
        return _row_times(matrix, row, lambda place: other[column, place])

    out = te.compute((data.shape[0], weight.shape[0]), body, name="dense")
    return out if bias is None else te.compute(out.shape, lambda i, j: out[i, j] + bias[j], name="dense_bias")


def _product(name: str, matrix: Any, other: Any, bias: Any) -> Any:
    if not _is_sparse(matrix):
        raise TVMError(f"{name}: the first operand must be a sparse matrix")
    _check(name, other, bias)
    out = te.compute(
        (matrix.shape[0], other.shape[1]),
        lambda row, j: _row_times(matrix, row, lambda place: other[place, j]),
        name=name,
    )
    return out if bias is None else te.compute(out.shape, lambda i, j: out[i, j] + bias[i], name=f"{name}_bias")


def _row_times(matrix: Any, row: Any, other: Any) -> Any:
    """Return the sum over the elements of a row, each multiplied by the value of ``other`` for its column."""
    begin = matrix.indptr[row]
    element = te.reduce_axis((0, matrix.indptr[row + 1] - begin), name="element")
    return te.sum(matrix.data[begin + element] * other(matrix.indices[begin + element]), axis=element)


def _is_sparse(operand: Any) -> bool:
    return hasattr(operand, "indptr")


def _check(name: str, other: Any, bias: Any) -> None:
    if len(other.shape) != 2:
        raise TVMError(f"{name}: the dense operand must be a matrix, got {len(other.shape)} dimensions")
    if bias is not None and len(bias.shape) != 1:
        raise TVMError(f"{name}: the bias must be a vector, got {len(bias.shape)} dimensions")


__all__ = ["csrmm", "csrmv", "dense"]
