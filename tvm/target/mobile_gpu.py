"""What the GPUs of phones can do: a row for each family (``-device=``)."""

from __future__ import annotations

from typing import NamedTuple


class MobileGPU(NamedTuple):
    """A family of GPUs: threads of a block that run best, multiprocessors of a usual part, registers of a thread, and
    whether shared memory is nearer than the memory all other data is in."""

    block_threads: int
    multiprocessors: int
    thread_registers: int
    has_near_shared: bool


# Mali keeps shared memory where all other data is, and runs blocks of few threads best; a wave of Adreno has 64 or 128
# threads.
FAMILIES = {
    "mali": MobileGPU(64, 12, 64, False),
    "bifrost": MobileGPU(64, 12, 64, False),
    "adreno": MobileGPU(128, 4, 80, True),
}
