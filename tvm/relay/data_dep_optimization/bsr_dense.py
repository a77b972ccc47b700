"""Convert dense layers with sparse weights to matmuls with block-sparse (BSR) matrices."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from ..analysis.sparse_dense import process_params, weight_of
from ..expr import Function, var
from ..infer import infer_type
from ..op.nn import sparse_dense
from .utils import with_parameters


def convert(
    func: Function, params: MutableMapping[str, Any], blocksize: tuple[int, int], sparsity_threshold: float
) -> tuple[Function, MutableMapping[str, Any]]:
    """Replace ``nn.dense`` with sparse weights by ``nn.sparse_dense``.

    Parameters
    ----------
    func : Function
        The function.
    params : dict of str to NDArray
        The parameters of the function, which are modified in place.
    blocksize : tuple of int
        The rows and columns of a block.
    sparsity_threshold : float
        The minimum fraction of zeros of weights to convert.

    Returns
    -------
    tuple
        The function and the parameters.
    """
    func, old = infer_type(func), dict(params)
    names = process_params(func, params, blocksize, sparsity_threshold).weight_name
    made = {
        param: [
            var(key, shape=params[key].shape, dtype=params[key].dtype)
            for key in (f"{param.name_hint}.{part}" for part in ("data", "indices", "indptr"))
        ]
        for param in func.params
        if param.name_hint in names
    }

    def rewrite(call, args):
        weight = weight_of(call)
        if weight not in made or call.attrs.out_dtype not in ("", old[weight.name_hint].dtype):
            return None
        return sparse_dense(args[0], made[weight])

    return infer_type(with_parameters(func, made, old, params, rewrite)), params


__all__ = ["convert"]
