"""Cost of fragment matmul kernels: the work of one step of a block, computed from its loops, and the cycles of the
kernel by the model of the tensor core templates (``target/tensor_core_cycles.py``)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dtype import info
from ..target import tensor_core_cycles
from ..target.features import Features
from .gpu_limits import region_of_block
from .iterator import IteratorKind
from .loop_nests import LoopNests
from .state import StateObject

# Bytes of the vectors in which operands of fragments are copied.
VECTOR_BYTES = 16


@dataclass
class FragmentSteps:
    """The steps of a block, and the work of each step."""

    steps: float = 1
    # Bytes that are copied from global memory, and bytes that all warps load from shared memory.
    fetched_bytes: float = 0
    loaded_bytes: float = 0
    # Multiplications of all warps, the bytes of k, and the number of accumulator elements.
    multiplies: float = 0
    row_bytes: float = 0
    sums: float = 0
    buffers: int = 1

    def note_copy(self, state: StateObject, nests: LoopNests, place: int, threads: float) -> None:
        """Add an operand that is copied to shared memory: all threads copy the same number of vectors."""
        stage = state.stages[place]
        width = info(stage.op.output(0).dtype).bits // 8
        size = width * math.prod(region_of_block(state, nests, place))
        self.fetched_bytes += math.ceil(size / (threads * VECTOR_BYTES)) * threads * VECTOR_BYTES
        self.buffers = stage.buffers

    def note_load(self, nests: LoopNests, place: int, width: int, warps: float, times: float) -> None:
        """Add fragments that each warp loads ``times`` times in a step."""
        self.loaded_bytes += width * nests.nests[place].iterations() * warps * times

    def note_matmuls(self, nests: LoopNests, place: int, width: int, warps: float, outer: int) -> None:
        """Add the matmuls of a stage whose loops up to ``outer`` are those of the steps."""
        loops = nests.nests[place].loops
        sums = math.prod(loop.extent for loop in loops if loop.kind is IteratorKind.SPATIAL)
        terms = math.prod(loop.extent for loop in loops[outer + 1 :] if loop.kind is IteratorKind.REDUCTION)
        self.steps = math.prod(loop.extent for loop in loops[: outer + 1] if loop.kind is IteratorKind.REDUCTION)
        self.sums, self.multiplies, self.row_bytes = sums * warps, sums * warps * terms, terms * width

    def cycles(
        self, blocks: float, threads: float, registers: float, shared_bytes: float, features: Features
    ) -> tuple[float, float]:
        """Return the cycles until the last block has finished, and the number of resident blocks per multiprocessor."""
        work = tensor_core_cycles.Work(
            blocks,
            threads,
            registers,
            shared_bytes,
            self.steps,
            self.fetched_bytes,
            self.loaded_bytes,
            self.multiplies,
            self.row_bytes,
            self.sums,
            self.buffers,
        )
        cycles, fit = tensor_core_cycles.cycles(work, features)
        return float(cycles), float(fit)


__all__ = ["VECTOR_BYTES", "FragmentSteps"]
