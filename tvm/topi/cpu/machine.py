"""Properties of a CPU that schedules depend on."""

from __future__ import annotations

from ...dtype import info
from ...target import Target


class Machine:
    """Properties of a CPU that schedules depend on."""

    def __init__(self, target: Target):
        self.target = target
        features = target.features
        self.vector_bytes = max(features.vector_bits, 128) // 8
        self.registers = features.vector_registers or 16
        # On ARM, LLVM pairs the loads of adjacent elements even if they are used one after the other.
        self.loads_pairs = bool(features.has_asimd)
        # Whether multiply-adds have memory operands that are broadcast to all lanes, as in AVX-512.
        self.has_memory_operands = features.has_avx512 and features.has_llvm_intrinsics
        # On 32-bit Arm, LLVM loads the operands of all unrolled steps before the multiply-adds, which needs registers.
        is_small = self.loads_pairs and self.registers <= 16
        self.max_unroll = 1 if is_small else 16
        self.registers -= 3 if is_small else 0
        # Whether multiply-adds can broadcast a lane of a register, as in NEON, and there are many registers.
        self.has_lane_operands = self.loads_pairs and not is_small
        # Whether long runs of written cache lines bypass the caches unless the lines were loaded before.
        self.has_streaming_stores = self.has_lane_operands
        self.threads = max(features.threads, 1)
        self.l1_bytes = features.l1_bytes or 1 << 15
        self.l2_bytes = features.l2_bytes or 1 << 18

    def lanes(self, dtype: str) -> int:
        return max(self.vector_bytes // max(info(dtype).bytes, 1), 1)
