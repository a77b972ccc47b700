"""What schedules ask of a GPU."""

from __future__ import annotations

from ...dtype import info
from ...target import Target

# Multiprocessors of the data-centre part of each generation; what fills them is asked of schedules.
_MULTIPROCESSORS = {"sm_70": 80, "sm_75": 40, "sm_80": 108, "sm_86": 84, "sm_89": 128, "sm_90": 132, "sm_90a": 132}


class Machine:
    """What the schedules ask of a GPU."""

    def __init__(self, target: Target):
        self.target = target
        arch = str(target.attrs.get("arch") or "")
        features = target.features
        self.warp = max(features.warp_size, 1)
        self.max_threads = features.max_threads or 256
        self.shared_bytes = features.shared_bytes or 16384
        # What all blocks of a multiprocessor have together.
        self.multiprocessor_shared = max(self.shared_bytes, (228 if arch.startswith("sm_90") else 96) << 10)
        self.vector_bytes = max(features.vector_bits, 32) // 8
        self.is_cuda = "cuda" in target.keys
        self.multiprocessors = _MULTIPROCESSORS.get(arch, 80 if self.is_cuda else 16)
        # Threads that keep every multiprocessor busy.
        self.enough_threads = self.multiprocessors * (512 if self.is_cuda else 64)

    def lanes(self, dtype: str) -> int:
        """Elements of one vector load."""
        return max(self.vector_bytes // max(info(dtype).bytes, 1), 1)

    def threads(self, wanted: int) -> int:
        """The smallest power of two that is at least ``wanted``, a whole warp and allowed."""
        count = max(self.warp, 32)
        while count < wanted and count * 2 <= min(self.max_threads, 256):
            count *= 2
        return min(count, self.max_threads)
