"""Tuning workloads of CPU operators, and the knobs of their templates.

Workloads are logical: they contain the model's shapes without blocks, so that a record is valid for every vector width.
``logical`` contains the channels and filters (and groups) before padding to whole blocks and merging of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...te.tensor import ComputeOp, Tensor
from ..nn.utils import pads
from ..template import CPUTemplate
from ..tuned import decide, is_known, tensor
from ..utils import get_const_int, get_const_tuple
from .machine import Machine

Workload = tuple[Any, ...]
# Task names of convolutions in blocked layouts, by the number of spatial dimensions.
BLOCKED = {1: "conv1d_ncw.x86", 3: "conv3d_ncdhw.x86"}


def configuration(template: CPUTemplate, op: ComputeOp, machine: Machine) -> dict[str, Any]:
    """Return the knobs of an operator: those of a valid tuning record, else the template's analytic choice."""
    picked = template.choose(op, machine)
    keep = None if not template.is_vectorized else lambda values: template.valid(op, machine, values)
    workload = (op.attrs or {}).get("workload")
    return decide(picked, workload, machine.target, lambda: template.space(op, machine), keep)


def packed_workload(
    name: str,
    data: Tensor,
    kernel: Tensor,
    padding: Any,
    strides: Sequence[int],
    dilations: Sequence[int],
    dtype: str,
    logical: Sequence[int] | None,
) -> Workload:
    """Return the workload of an NCHWc convolution, which may be grouped or depthwise."""
    n, co, h, w, ci = (get_const_int(d) for d in data.shape)
    oo, io, kh, kw, ii, oi = (get_const_int(d) for d in kernel.shape)
    sizes = [(k - 1) * d + 1 for k, d in zip((kh, kw), dilations)]
    before, after = pads(padding, sizes, 2, name)
    channels, filters, groups = logical or (co * ci, oo * oi, co * ci // (io * ii))
    shapes = (tensor((n, channels, h, w), data.dtype), tensor((filters, channels // groups, kh, kw), kernel.dtype))
    around = tuple(get_const_int(p) for p in (*before, *after))
    steps = tuple(map(get_const_int, strides)), around, tuple(map(get_const_int, dilations))
    if groups > 1 and name == "conv2d_NCHWc.x86":
        return ("group_conv2d_nchw.x86", *shapes, *steps, groups, dtype)
    return (name, *shapes, *steps, "NCHW", "NCHW", dtype)


def dense_workload(data: Tensor, weight: Tensor, units: Any, dtype: str) -> Workload:
    """Return the workload of a dense layer whose weight is packed into panels."""
    shapes = tensor(data.shape, data.dtype), tensor((units, weight.shape[1]), weight.dtype)
    return ("dense_pack.x86", *shapes, None, dtype)


def batch_matmul_workload(a: Tensor, b: Tensor, dtype: str, transpose_a: bool, transpose_b: bool) -> Workload:
    inputs = tensor(a.shape, a.dtype), tensor(b.shape, b.dtype)
    return ("batch_matmul.x86", *inputs, None, dtype, bool(transpose_a), bool(transpose_b))


def blocked_workload(
    data: Tensor,
    kernel: Tensor,
    padding: Any,
    strides: Sequence[int],
    dilations: Sequence[int],
    dtype: str,
    channels: int | None,
    filters: int | None,
) -> Workload:
    """Return the workload of a 1D or 3D convolution."""
    x, k = get_const_tuple(data.shape), get_const_tuple(kernel.shape)
    n = len(x) - 3
    spans = [(size - 1) * d + 1 for size, d in zip(k[2:-2], dilations)]
    before, after = pads(padding, spans, n, BLOCKED[n])
    channels, filters = channels or x[1] * x[-1], filters or k[0] * k[-1]
    shapes = (tensor((x[0], channels, *x[2:-1]), data.dtype), tensor((filters, channels, *k[2:-2]), kernel.dtype))
    groups = (1,) if n == 3 else ()
    return (BLOCKED[n], *shapes, tuple(strides), (*before, *after), tuple(dilations), *groups, dtype)


def transposed_workload(
    data: Tensor,
    kernel: Tensor,
    window: Sequence[int],
    padding: Any,
    strides: Sequence[int],
    extra: Sequence[int],
    dtype: str,
    channels: int | None,
    filters: int | None,
) -> Workload:
    """Return the workload of a transposed convolution whose kernel contains all phases."""
    batch, blocks, height, width, block = get_const_tuple(data.shape)
    before, after = pads(padding, window, 2, "conv2d_transpose_nchw.x86")
    phases = strides[0] * strides[1]
    filters = filters or get_const_int(kernel.shape[0]) // phases * get_const_int(kernel.shape[-1])
    channels = channels or blocks * block
    shapes = (tensor((batch, channels, height, width), data.dtype),
              tensor((channels, filters, *window), kernel.dtype))  # fmt: skip
    return ("conv2d_transpose_nchw.x86", *shapes, tuple(strides), (*before, *after), dtype, tuple(extra))


def winograd_workload(
    data: Tensor, kernel: Tensor, padding: Any, dtype: str, logical: Sequence[int] | None
) -> Workload:
    """Return the workload of a 3x3 convolution with Winograd's algorithm."""
    batch, blocks, height, width, block = get_const_tuple(data.shape)
    groups, reach, _, _, _, vectors, wide = get_const_tuple(kernel.shape)
    before, after = pads(padding, (3, 3), 2, "conv2d_winograd_NCHWc")
    channels, filters = logical or (blocks * block, groups * vectors * wide)
    shapes = (tensor((batch, channels, height, width), data.dtype), tensor((filters, channels, 3, 3), kernel.dtype))
    around = tuple(get_const_int(p) for p in (*before, *after))
    return ("conv2d_winograd_NCHWc.x86", *shapes, around, reach - 2, dtype)


__all__ = [
    "batch_matmul_workload",
    "blocked_workload",
    "configuration",
    "dense_workload",
    "is_known",
    "packed_workload",
    "transposed_workload",
    "winograd_workload",
]
