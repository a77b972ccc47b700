"""What schedules ask of a GPU."""

from __future__ import annotations

from typing import NamedTuple

from ...codegen.cuda import build as cuda
from ...dtype import info
from ...target import Target

# Multiprocessors of the data-centre part of each generation; what fills them is asked of schedules.
_MULTIPROCESSORS = {"sm_70": 80, "sm_75": 40, "sm_80": 108, "sm_86": 84, "sm_89": 128, "sm_90": 132, "sm_90a": 132}


class Family(NamedTuple):
    """What is particular to a family of GPUs (``-device=``): threads of a block at most, whether shared memory is
    nearer than the device's own, multiprocessors of a usual part, registers of a thread."""

    threads: int
    has_shared: bool
    multiprocessors: int
    registers: int


# Those of phones. Mali keeps shared memory where all other data is, and runs blocks of few threads best; a wave of
# Adreno has 64 or 128 threads.
_FAMILIES = {
    "mali": Family(64, False, 12, 64),
    "bifrost": Family(64, False, 12, 64),
    "adreno": Family(128, True, 4, 80),
}


class Machine:
    """What the schedules ask of a GPU."""

    def __init__(self, target: Target):
        self.target = target
        arch = str(target.attrs.get("arch") or "")
        features = target.features
        family = _FAMILIES.get(str(target.attrs.get("device") or ""))
        self.warp = max(features.warp_size, 1)
        self.max_threads = features.max_threads or 256
        # Strips of operands are kept in shared memory; without it threads read what they need themselves.
        self.has_shared = family is None or family.has_shared
        self.registers = 255 if family is None else family.registers
        self.shared_bytes = features.shared_bytes or 16384
        self.vector_bytes = max(features.vector_bits, 32) // 8
        self.is_cuda = "cuda" in target.keys
        # What a block may ask for at its launch.
        self.dynamic_shared = cuda.limits_of(target).dynamic if self.is_cuda else self.shared_bytes
        # What all blocks of a multiprocessor have together.
        self.multiprocessor_shared = max(self.dynamic_shared, (228 if arch.startswith("sm_90") else 96) << 10)
        self.multiprocessors = _MULTIPROCESSORS.get(arch, 80 if self.is_cuda else 16)
        if family is not None:
            self.max_threads = min(self.max_threads, family.threads)
            self.multiprocessors = family.multiprocessors
        # Whether four warps multiply together (wgmma), which code for exactly this architecture may use.
        self.has_warpgroups = self.is_cuda and arch == "sm_90a"
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
