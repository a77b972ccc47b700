"""Find sparse weights of ``nn.dense`` and convert them to block-sparse (BSR) matrices."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, NamedTuple

import numpy as np

from ...error import TVMError
from ...ir.visit import post_order
from ...runtime import ndarray
from ..expr import Call, RelayExpr, Var


class SparseAnalysisResult(NamedTuple):
    """The names of the converted weights and, for each, the shapes of its BSR arrays: blocks, column indices, row
    offsets."""

    weight_name: list[str]
    weight_shape: list[list[int]]


def weight_of(node: Any) -> Var | None:
    """Return the variable that an ``nn.dense`` with 2-D data reads as its weights, or None."""
    if type(node) is not Call or getattr(node.op, "name", "") != "nn.dense" or type(node.args[1]) is not Var:
        return None
    data = node.args[0].checked_type_
    return node.args[1] if data is None or len(data.shape) == 2 else None


def _search_dense_op_weight(expr: RelayExpr) -> list[str]:
    """Return the names of the variables that are weights of ``nn.dense``, in post order.

    Parameters
    ----------
    expr : RelayExpr
        The graph.

    Returns
    -------
    list of str
    """
    return list(dict.fromkeys(w.name_hint for node in post_order(expr) if (w := weight_of(node)) is not None))


def process_params(
    expr: RelayExpr, params: MutableMapping[str, Any], block_size: tuple[int, int], sparsity_threshold: float
) -> SparseAnalysisResult:
    """Replace sparse weights of ``nn.dense`` in ``params`` by the three arrays of a block-sparse (BSR) matrix.

    The arrays are the blocks (``name.data``), their column indices (``name.indices``) and the row offsets
    (``name.indptr``).

    Parameters
    ----------
    expr : RelayExpr
        The graph.
    params : dict of str to NDArray
        The parameters of the graph, which are modified in place.
    block_size : tuple of int
        The rows and columns of a block.
    sparsity_threshold : float
        The minimum fraction of zeros of weights to convert.

    Returns
    -------
    SparseAnalysisResult

    Raises
    ------
    TVMError
        The shape of sparse weights is not divisible by the block size.
    """
    found = SparseAnalysisResult([], [])
    height, width = block_size
    for name in filter(params.__contains__, _search_dense_op_weight(expr)):
        array = params[name].numpy()
        if 1 - np.count_nonzero(array) / array.size < sparsity_threshold:
            continue
        rows, columns = array.shape
        if rows % height or columns % width:
            raise TVMError(
                f"weights {name} of shape {rows} x {columns} are not divisible into blocks of {height} x {width}"
            )
        blocks = array.reshape(rows // height, height, columns // width, width).transpose(0, 2, 1, 3)
        mask = blocks.any((2, 3))
        starts = np.concatenate([[0], np.cumsum(mask.sum(1))])
        parts = {"data": blocks[mask], "indices": np.nonzero(mask)[1].astype("int32"), "indptr": starts.astype("int32")}
        del params[name]
        params.update({f"{name}.{part}": ndarray.array(value) for part, value in parts.items()})
        found.weight_name.append(name)
        found.weight_shape.append([size for value in parts.values() for size in value.shape])
    return found


__all__ = ["SparseAnalysisResult", "process_params", "weight_of"]
