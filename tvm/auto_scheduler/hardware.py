"""What a search knows about the machine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..target import Target

_CACHE_LINE_BYTES = 64
# Bytes of a register, and threads of a block that may each have all the registers that a thread can have.
_REGISTER_BYTES, _FULL_THREADS = 4, 256


@dataclass(frozen=True, init=False)
class HardwareParams:
    """Sizes of a machine; those that are not given are the target's. They are written into records in this order.

    Parameters
    ----------
    num_cores : int, optional
        The cores.
    vector_unit_bytes : int, optional
        The bytes of a vector.
    cache_line_bytes : int, optional
        The bytes of a cache line.
    max_shared_memory_per_block : int, optional
        The bytes that threads of a block share.
    max_local_memory_per_block : int, optional
        The bytes that they have of their own.
    max_threads_per_block : int, optional
        How many threads a block has.
    max_vthread_extent : int, optional
        How many virtual threads there are along a loop.
    warp_size : int, optional
        How many threads run in step.
    target : Target or str, optional
        Whose numbers those are that are not given.
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
        self, num_cores: int | None = None, vector_unit_bytes: int | None = None, cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None, max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None, max_vthread_extent: int | None = None, warp_size: int | None = None,
        target: Any = None, target_host: Any = None,
    ):
        given = (num_cores, vector_unit_bytes, cache_line_bytes, max_shared_memory_per_block,
                 max_local_memory_per_block, max_threads_per_block, max_vthread_extent, warp_size)
        values = given if None not in given else _of_target(Target(target or "llvm", target_host))
        for field, own, default in zip(fields(self), given, values):
            object.__setattr__(self, field.name, int(default if own is None else own))

    def to_json(self) -> list[int]:
        """The numbers in the order of the fields, as records have them.

        Returns
        -------
        list of int
        """
        return [getattr(self, field.name) for field in fields(self)]

    @staticmethod
    def from_json(values: list[int]) -> HardwareParams:
        """What a record says; those of early logs end sooner.

        Parameters
        ----------
        values : list of int
            The numbers in the order of the fields; those that are missing are 0, further ones are left out.

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
        return (-1, 16, _CACHE_LINE_BYTES, features.shared_bytes, registers, features.max_threads, max(warp // 4, 1),
                warp)
    return (features.threads or 1, max(features.vector_bits // 8, 4), _CACHE_LINE_BYTES, 0, 0, 0, 0, 0)


__all__ = ["HardwareParams"]
