"""Matmuls on a GPU: the operators of ``topi.nn``, computed in the tiles of the templates."""

from __future__ import annotations

from typing import Any

from ... import te
from ...ir.prim import convert
from ...target import Target
from ...te.tensor import Tensor
from .. import nn
from ..broadcast import broadcast_index
from ..nn.dense import batch_sizes, matmul_sizes, with_bias
from . import gemm, tiled_matmul, tuned
from .classes import as_number
from .machine import Machine


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.matmul`` in tiles if its n is large enough."""
    _, n, _ = matmul_sizes(tensor_a, tensor_b, transpose_a, transpose_b)
    if not gemm.is_tiled((tensor_a, tensor_b), n):
        return nn.matmul(tensor_a, tensor_b, bias, out_dtype, transpose_a, transpose_b)
    dtype = out_dtype or tensor_a.dtype
    return with_bias(_matmul(tensor_a, tensor_b, dtype, transpose_a, transpose_b, Machine(target)), bias, dtype)


def dense(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None, *, target: Target
) -> Tensor:
    """Return ``topi.nn.dense`` in tiles."""
    return matmul(data, weight, bias, out_dtype, False, True, target=target)


def _matmul(a: Tensor, b: Tensor, dtype: str, transpose_a: bool, transpose_b: bool, machine: Machine) -> Tensor:
    """Return the matmul of a stack of matrices and one matrix as one matmul whose m covers the rows of all matrices."""
    lead = [as_number(d) for d in a.shape[:-2]]
    m, k = map(as_number, a.shape[-2:] if not transpose_a else a.shape[:-3:-1])
    n = as_number(b.shape[0] if transpose_b else b.shape[1])
    dims = [*lead, m]
    rows = m
    for d in lead:
        rows = rows * d

    def lhs(r, i):
        at, rest = [], i
        for d in reversed(dims[1:]):
            at.insert(0, rest % d)
            rest = rest // d
        at.insert(0, rest)
        return a(*at[:-1], *((r, at[-1]) if transpose_a else (at[-1], r)))

    def rhs(r, j):
        return b(j, r) if transpose_b else b(r, j)

    axis_roles = {"batch": (), "m": tuple(range(len(dims))), "n": (len(dims),)}
    workload = tuned.matmul_workload(a, b, dtype, transpose_a, transpose_b)
    out = tiled_matmul.matmul(lhs, rhs, (), (rows, n, k), dtype, "T_matmul", axis_roles, machine, workload)

    def unfold(*at):
        row: Any = 0
        for i, d in zip(at, dims):
            row = row * d + i
        return out(row, at[-1]).astype(dtype)

    return te.compute((*dims, n), unfold, name="T_matmul", tag="matmul")


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Any = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.batch_matmul`` in tiles if its n is large enough."""
    a, b, dtype = tensor_a, tensor_b, out_dtype or tensor_a.dtype
    sizes = batch_sizes(a, b, transpose_a, transpose_b)
    if not gemm.is_tiled((a, b), sizes.n, sizes.count):
        return nn.batch_matmul(a, b, oshape, out_dtype, transpose_a, transpose_b)
    batch, m, n, k = map(as_number, sizes[:4])

    def lhs(z, r, i):
        return a(*broadcast_index(a.shape[:1], sizes[:1], [convert(z)]), *((r, i) if transpose_a else (i, r)))

    def rhs(z, r, j):
        return b(*broadcast_index(b.shape[:1], sizes[:1], [convert(z)]), *((j, r) if transpose_b else (r, j)))

    axis_roles = {"batch": (0,), "m": (1,), "n": (2,)}
    workload = tuned.batch_matmul_workload(a, b, dtype, transpose_a, transpose_b)
    machine = Machine(target)
    out = tiled_matmul.matmul(lhs, rhs, (batch,), (m, n, k), dtype, "T_batch_matmul", axis_roles, machine, workload)
    return te.compute((batch, m, n), lambda *at: out(*at).astype(dtype), name="T_batch_matmul", tag="batch_matmul")


__all__ = ["batch_matmul", "dense", "matmul"]
