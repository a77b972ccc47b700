"""Tiled matmuls: on tensor cores if the target supports the operand types, otherwise in thread tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...te.tensor import Tensor
from . import gemm, tensor_cores
from .gemm import AxisRoles
from .machine import Machine
from .operands import read_through


def matmul(
    lhs: Callable[..., Any],
    rhs: Callable[..., Any],
    batch: Sequence[Any],
    sizes: tuple[Any, Any, Any],
    dtype: str,
    name: str,
    axis_roles: AxisRoles | None,
    machine: Machine,
    workload: tuple[Any, ...] | None = None,
) -> Tensor:
    """Return a tiled matmul like ``gemm.matmul``. Layout-changing ops are fused into the operands."""
    lhs, rhs = (read_through(read, batch, size, sizes[2]) for read, size in zip((lhs, rhs), sizes))
    start = [0] * (len(batch) + 2)
    if tensor_cores.fits({lhs(*start).dtype, rhs(*start).dtype}, dtype, machine.target):
        return tensor_cores.matmul(lhs, rhs, batch, sizes, name, axis_roles, machine, workload)
    return gemm.matmul(lhs, rhs, batch, sizes, dtype, name, axis_roles, machine, workload)
