"""The hardware parameters of a search."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..target import Target

_CACHE_LINE_BYTES = 64
# Bytes of a register, and the number of threads of a block for which each can use the maximum number of registers.
_REGISTER_BYTES, _FULL_THREADS = 4, 256


@dataclass(frozen=True, init=False)
class HardwareParams:
    """Hardware parameters; missing values come from the target. Records contain them in this order.

    Parameters
    ----------
    num_cores : int, optional
        The number of cores.
    vector_unit_bytes : int, optional
        The size of a vector in bytes.
    cache_line_bytes : int, optional
        The size of a cache line in bytes.
    max_shared_memory_per_block : int, optional
        The shared memory of a block in bytes.
    max_local_memory_per_block : int, optional
        The local memory of a block in bytes.
    max_threads_per_block : int, optional
        The maximum number of threads of a block.
    max_vthread_extent : int, optional
        The maximum extent of virtual threads along a loop.
    warp_size : int, optional
        The number of threads of a warp.
    target : Target or str, optional
        The target that provides the missing values.
    target_host : Target or str, optional
        The host of the target.
    """

    num_cores: int
    vector_unit_bytes: int
    cache_line_bytes: int
    max_shared_memory_per_block: int
    max_local_memory_per_block: int
    max_threads_per_block: int
    max_vthread_extent: int
    warp_size: int

    def __init__(
        self,
        num_cores: int | None = None,
        vector_unit_bytes: int | None = None,
        cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None,
        max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None,
        max_vthread_extent: int | None = None,
        warp_size: int | None = None,
        target: Any = None,
        target_host: Any = None,
    ):
        given = (
            num_cores,
            vector_unit_bytes,
            cache_line_bytes,
            max_shared_memory_per_block,
            max_local_memory_per_block,
            max_threads_per_block,
            max_vthread_extent,
            warp_size,
        )
        values = given if None not in given else _of_target(Target(target or "llvm", target_host))
        for field, own, default in zip(fields(self), given, values):
            object.__setattr__(self, field.name, int(default if own is None else own))

    def to_json(self) -> list[int]:
        """The values in the order of the fields, as in records.

        Returns
        -------
        list of int
        """
        return [getattr(self, field.name) for field in fields(self)]

    @staticmethod
    def from_json(values: list[int]) -> HardwareParams:
        """The parameters in a record; records of older versions have fewer values.

        Parameters
        ----------
        values : list of int
            The values in the order of the fields. Missing values are 0, additional values are ignored.

        Returns
        -------
        HardwareParams
        """
        count = len(fields(HardwareParams))
        return HardwareParams(*values[:count], *[0] * (count - len(values)))


def _of_target(target: Target) -> tuple[int, ...]:
    features = target.features
    if features.is_gpu:
        warp = features.warp_size or 1
        registers = features.thread_registers * _REGISTER_BYTES * _FULL_THREADS
        return (
            -1,
            16,
            _CACHE_LINE_BYTES,
            features.shared_bytes,
            registers,
            features.max_threads,
            max(warp // 4, 1),
            warp,
        )
    return (features.threads or 1, max(features.vector_bits // 8, 4), _CACHE_LINE_BYTES, 0, 0, 0, 0, 0)


__all__ = ["HardwareParams"]
