"""The cycles of kernels that multiply fragments, from what one step of a block does: the part of the reduction that is
in shared memory at a time.

The constants are those of the templates on tensor cores (``target/gpu_cost.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dtype import info
from ..target.features import Features
from ..target.gpu_cost import SM_REGISTERS
from .gpu_limits import region_of_block
from .iterator import IteratorKind
from .loop_nests import LoopNests
from .state import StateObject

# Shared memory of a block that the system takes, what registers are given out in, and the most blocks at once.
_SYSTEM_BYTES, _REGISTER_UNIT, _MOST_BLOCKS = 1024, 8, 32
# Bytes of the vectors in which operands of fragments are fetched.
VECTOR_BYTES = 16
# Bytes of k that a fragment has; and warps that have a tensor core each.
_FRAGMENT_BYTES, _TENSOR_CORES = 32, 4
# Bytes that are moved for an element of the sums at the end of a block.
_SUM_BYTES = 12


@dataclass
class FragmentSteps:
    """The steps of a block, and what one of them does."""

    steps: float = 1
    # Bytes that are fetched, and that all warps load from shared memory.
    fetched_bytes: float = 0
    loaded_bytes: float = 0
    # Multiplications of all warps, the bytes of k, and the elements of sums.
    multiplies: float = 0
    row_bytes: float = 0
    sums: float = 0
    buffers: int = 1

    def note_copy(self, state: StateObject, nests: LoopNests, place: int, threads: float) -> None:
        """Account for an operand that is copied into shared memory: all threads take as many vectors."""
        stage = state.stages[place]
        width = info(stage.op.output(0).dtype).bits // 8
        size = width * math.prod(region_of_block(state, nests, place))
        self.fetched_bytes += math.ceil(size / (threads * VECTOR_BYTES)) * threads * VECTOR_BYTES
        self.buffers = stage.buffers

    def note_load(self, nests: LoopNests, place: int, width: int, warps: float, times: float) -> None:
        """Account for fragments that each warp loads ``times`` in a step."""
        self.loaded_bytes += width * nests.nests[place].iterations() * warps * times

    def note_products(self, nests: LoopNests, place: int, width: int, warps: float, outer: int) -> None:
        """Account for the products of a stage whose loops up to ``outer`` are those of steps."""
        loops = nests.nests[place].loops
        sums = math.prod(loop.extent for loop in loops if loop.kind is IteratorKind.SPATIAL)
        terms = math.prod(loop.extent for loop in loops[outer + 1 :] if loop.kind is IteratorKind.REDUCTION)
        self.steps = math.prod(loop.extent for loop in loops[: outer + 1] if loop.kind is IteratorKind.REDUCTION)
        self.sums, self.multiplies, self.row_bytes = sums * warps, sums * warps * terms, terms * width

    def cycles(
        self, blocks: float, threads: float, registers: float, shared_bytes: float, features: Features
    ) -> tuple[float, float]:
        """The cycles until the last block is done, and how many blocks a multiprocessor has at once."""
        cost, warps = features.cost.tensor_core, threads / features.warp_size
        used = -(-(registers + cost.other_registers) // _REGISTER_UNIT) * _REGISTER_UNIT * threads
        fit = min(SM_REGISTERS // used, features.multiprocessor_shared_bytes // (shared_bytes + _SYSTEM_BYTES),
                  features.multiprocessor_threads // threads, _MOST_BLOCKS)
        fit = max(fit, 1)
        rate = cost.multiplies_per_cycle
        busy = max(self.multiplies / rate, self.fetched_bytes / cost.fetch_bytes_per_cycle,
                   (self.loaded_bytes + self.fetched_bytes) / cost.shared_bytes_per_cycle)
        # How long a step takes where a block is alone: warps wait for what is fetched, unless it was asked for before.
        own = self.multiplies / warps / (rate / _TENSOR_CORES) * math.ceil(warps / _TENSOR_CORES)
        own += cost.step_cycles + self.row_bytes / _FRAGMENT_BYTES * cost.fragment_load_cycles
        latency = cost.memory_latency_cycles
        alone = max(own + latency if self.buffers == 1 else max(own, latency / (self.buffers - 1)), busy)
        ends = cost.block_cycles + self.sums * _SUM_BYTES / cost.shared_bytes_per_cycle
        rounds, rest = divmod(blocks, features.multiprocessors * fit)
        cycles = rounds * (math.hypot(busy * fit, alone) * self.steps + ends)
        if rest:
            cycles += math.hypot(busy * math.ceil(rest / features.multiprocessors), alone) * self.steps + ends
        return cycles, fit


__all__ = ["VECTOR_BYTES", "FragmentSteps"]
