"""Matmuls in tiles, by tensor cores where the target has them for the operands, else by the threads themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...te.tensor import Tensor
from . import gemm, tensor_cores
from .gemm import AxisRoles
from .machine import Machine
from .operands import read_through


def matmul(
    lhs: Callable[..., Any], rhs: Callable[..., Any], batch: Sequence[Any], sizes: tuple[Any, Any, Any],
    dtype: str, name: str, axis_roles: AxisRoles | None, machine: Machine, workload: tuple[Any, ...] | None = None,
) -> Tensor:
    """As ``gemm.matmul``. Operands are read through the operators that only move them."""
    lhs, rhs = (read_through(read, batch, size, sizes[2]) for read, size in zip((lhs, rhs), sizes))
    start = [0] * (len(batch) + 2)
    if tensor_cores.fits({lhs(*start).dtype, rhs(*start).dtype}, dtype, machine.target):
        return tensor_cores.matmul(lhs, rhs, batch, sizes, name, axis_roles, machine, workload)
    return gemm.matmul(lhs, rhs, batch, sizes, dtype, name, axis_roles, machine, workload)
