"""Properties of mobile GPUs: one table entry per family (``-device=``)."""

from __future__ import annotations

from typing import NamedTuple


class MobileGPU(NamedTuple):
    """A GPU family: preferred threads per block, multiprocessors of a typical product, registers per thread, and
    whether shared memory is faster than global memory."""

    block_threads: int
    multiprocessors: int
    thread_registers: int
    has_near_shared: bool


# Mali stores shared memory in global memory and runs small blocks best; a wave of Adreno has 64 or 128 threads.
FAMILIES = {
    "mali": MobileGPU(64, 12, 64, False),
    "bifrost": MobileGPU(64, 12, 64, False),
    "adreno": MobileGPU(128, 4, 80, True),
}
