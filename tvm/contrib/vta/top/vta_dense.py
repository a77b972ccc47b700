"""Matmuls on packed data."""

from __future__ import annotations

from typing import Any

from .... import autotvm, te
from ....error import TVMError
from .utils import is_packed_layout
from .vta_conv2d import schedule_product

TAG = "dense_pack"


@autotvm.register_topi_compute("dense_packed.vta")
def dense_packed(cfg: Any, data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Any:
    """Compute the product of (N, C, n, c) data with an (O, I, o, i) weight.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration of the template.
    data, weight : Tensor
        The operands.
    bias : None
        Not supported; add the bias to the output.
    out_dtype : str
        The type of the accumulators.

    Returns
    -------
    Tensor
        The output.

    Raises
    ------
    TVMError
        The operands are not packed, or there is a bias.
    """
    if bias is not None:
        raise TVMError("dense_packed: add the bias to the output of the product")
    if len(data.shape) != 4 or len(weight.shape) != 4:
        raise TVMError(f"dense_packed: the operands need 4 dimensions, got {len(data.shape)} and {len(weight.shape)}")
    out_dtype = out_dtype or "int32"
    k_o, k_i = te.reduce_axis((0, data.shape[1]), "k_o"), te.reduce_axis((0, data.shape[3]), "k_i")
    sizes = (data.shape[0], data.shape[2], weight.shape[0], weight.shape[2], data.shape[1], data.shape[3])
    flop = 2
    for size in sizes:
        flop *= int(size)
    cfg.add_flop(flop)
    return te.compute(
        (data.shape[0], weight.shape[0], data.shape[2], weight.shape[2]),
        lambda b_o, c_o, b_i, c_i: te.sum(
            data[b_o, k_o, b_i, k_i].astype(out_dtype) * weight[c_o, k_o, c_i, k_i].astype(out_dtype), axis=[k_o, k_i]
        ),
        name="res",
        tag=TAG,
    )


@autotvm.register_topi_schedule("dense_packed.vta")
def schedule_dense_packed(cfg: Any, outs: Any) -> Any:
    """Schedule a matmul with the elementwise operations after it.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration: tiles, and the number of virtual threads.
    outs : list of Tensor
        The output.

    Returns
    -------
    Schedule
        The schedule.
    """
    return schedule_product(cfg, outs[0], TAG)


__all__ = ["dense_packed", "is_packed_layout", "schedule_dense_packed"]
