"""Properties of a GPU that schedules depend on."""

from __future__ import annotations

from ...dtype import info
from ...target import Target


class Machine:
    """Properties of a GPU that schedules depend on."""

    def __init__(self, target: Target):
        self.target = target
        features = target.features
        self.warp = max(features.warp_size, 1)
        self.max_threads = features.max_threads or 256
        if features.block_threads:
            self.max_threads = min(self.max_threads, features.block_threads)
        # Operand tiles are stored in shared memory; without shared memory, threads read global memory.
        self.has_shared = features.has_near_shared
        self.registers = features.thread_registers
        self.shared_bytes = features.shared_bytes or 16384
        self.vector_bytes = max(features.vector_bits, 32) // 8
        self.is_nvidia = features.is_nvidia
        # The bytes of shared memory available to one block, and to all blocks of a multiprocessor together.
        self.dynamic_shared = features.dynamic_shared_bytes
        self.multiprocessor_shared = max(self.dynamic_shared, features.multiprocessor_shared_bytes)
        self.multiprocessors = features.multiprocessors
        self.multiprocessor_threads = features.multiprocessor_threads
        self.cost = features.cost
        self.has_warpgroups = features.has_warpgroups
        # The number of threads that keeps every multiprocessor busy.
        self.enough_threads = self.multiprocessors * (512 if self.is_nvidia else 64)

    def lanes(self, dtype: str) -> int:
        """Return the number of elements in one vector load."""
        return max(self.vector_bytes // max(info(dtype).bytes, 1), 1)

    def threads(self, wanted: int) -> int:
        """Return the smallest allowed power of two that is at least ``wanted`` and at least a warp."""
        count = max(self.warp, 32)
        while count < wanted and count * 2 <= min(self.max_threads, 256):
            count *= 2
        return min(count, self.max_threads)
