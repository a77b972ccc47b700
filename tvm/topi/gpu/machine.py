"""The properties of a GPU that schedules depend on."""

from __future__ import annotations

from ...dtype import info
from ...target import Target


class Machine:
    """The properties of a GPU that schedules depend on."""

    def __init__(self, target: Target):
        self.target = target
        features = target.features
        self.warp = max(features.warp_size, 1)
        self.max_threads = features.max_threads or 256
        if features.block_threads:
            self.max_threads = min(self.max_threads, features.block_threads)
        # Operand tiles are kept in shared memory; without it threads read global memory.
        self.has_shared = features.has_near_shared
        self.registers = features.thread_registers
        self.shared_bytes = features.shared_bytes or 16384
        self.vector_bytes = max(features.vector_bits, 32) // 8
        self.is_nvidia = features.is_nvidia
        # Bytes of shared memory that a block may have, and that all blocks of a multiprocessor share.
        self.dynamic_shared = features.dynamic_shared_bytes
        self.multiprocessor_shared = max(self.dynamic_shared, features.multiprocessor_shared_bytes)
        self.multiprocessors = features.multiprocessors
        self.multiprocessor_threads = features.multiprocessor_threads
        self.cost = features.cost
        self.has_warpgroups = features.has_warpgroups
        # Threads that keep every multiprocessor busy.
        self.enough_threads = self.multiprocessors * (512 if self.is_nvidia else 64)

    def lanes(self, dtype: str) -> int:
        """Elements of one vector load."""
        return max(self.vector_bytes // max(info(dtype).bytes, 1), 1)

    def threads(self, wanted: int) -> int:
        """The smallest power of two that is at least ``wanted``, a whole warp and allowed."""
        count = max(self.warp, 32)
        while count < wanted and count * 2 <= min(self.max_threads, 256):
            count *= 2
        return min(count, self.max_threads)
