"""The cycles of kernels on tensor cores, of templates and of searched states: from what one step of a block does, the
part of the reduction that is in shared memory at a time.

The constants are those of ``gpu_cost.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .features import Features
from .gpu_cost import SM_REGISTERS, TensorCoreCost

# Shared memory of a block that the system takes, what registers are given out in, and the most blocks at once.
_SYSTEM_BYTES, _REGISTER_UNIT, _MOST_BLOCKS = 1024, 8, 32
# Bytes of k that a fragment has; and warps that have a tensor core each.
_FRAGMENT_BYTES, _TENSOR_CORES = 32, 4
# Bytes that are moved for an element of the sums at the end of a block.
_SUM_BYTES = 12


class Work(NamedTuple):
    """What the blocks of a kernel do: numbers, or arrays of those of many kernels."""

    blocks: Any
    # The threads of a block, the registers of one of them, and the shared memory of a block.
    threads: Any
    registers: Any
    shared_bytes: Any
    # The steps of a block; the bytes that one fetches, and that all warps load from shared memory.
    steps: Any
    fetched_bytes: Any
    loaded_bytes: Any
    # Multiplications of a step, the bytes of k, and the elements of sums.
    multiplies: Any
    row_bytes: Any
    sums: Any
    # The parts of the reduction in shared memory, one of which is multiplied; and the bytes of an element.
    stages: Any
    element_bytes: int = 2


class Groups(NamedTuple):
    """Warpgroups in the place of warps: how many a block has, and how many groups of multiplications are in flight."""

    count: Any
    in_flight: int


def cycles(work: Work, features: Features, groups: Groups | None = None) -> tuple[Any, Any]:
    """The cycles until the last block is done, and how many blocks a multiprocessor has at once."""
    cost = features.cost.tensor_core
    fit = _blocks_at_once(work, features)
    rate = cost.multiplies_per_cycle if groups is None else cost.group_multiplies_per_cycle
    bandwidth = cost.fetch_bytes_per_cycle if groups is None else cost.group_fetch_bytes_per_cycle
    # Cycles in which one step of a block keeps the units busy, and how long it takes where the block is alone.
    multiply = work.multiplies / (rate * 2 / work.element_bytes)
    shared = (work.loaded_bytes + work.fetched_bytes) / cost.shared_bytes_per_cycle
    busy = np.maximum(np.maximum(multiply, shared), work.fetched_bytes / bandwidth)
    if groups is None:
        waits = _step_of_warps(work, cost, multiply, work.threads / max(features.warp_size, 1))
    else:
        # The tensor cores are idle while warpgroups wait for each other, issue the next copies and begin again.
        pause = cost.group_step_cycles * (2 + groups.count)
        waits = np.maximum(pause + multiply, cost.group_latency_cycles / (work.stages - 1 - groups.in_flight))
    alone = np.maximum(waits, busy)
    ends = cost.block_cycles + work.sums * _SUM_BYTES / cost.shared_bytes_per_cycle
    rounds, rest = np.divmod(work.blocks, features.multiprocessors * fit)
    # The latency of a block is hidden behind the work of the others: entirely where warpgroups multiply asynchronously.
    overlap = np.hypot if groups is None else np.maximum
    last = overlap(busy * -(-rest // features.multiprocessors), alone) * work.steps + ends
    taken = rounds * (overlap(busy * fit, alone) * work.steps + ends) + np.where(rest > 0, last, 0)
    return taken, fit


def _blocks_at_once(work: Work, features: Features) -> Any:
    registers = work.registers + features.cost.tensor_core.other_registers
    used = -(-registers // _REGISTER_UNIT) * _REGISTER_UNIT * work.threads
    memory = max(features.dynamic_shared_bytes, features.multiprocessor_shared_bytes)
    fit = np.minimum(SM_REGISTERS // used, memory // (work.shared_bytes + _SYSTEM_BYTES))
    return np.clip(np.minimum(fit, features.multiprocessor_threads // work.threads), 1, _MOST_BLOCKS)


def _step_of_warps(work: Work, cost: TensorCoreCost, multiply: Any, warps: Any) -> Any:
    """How long a step takes: warps wait for what is fetched, unless it was asked for before."""
    own = multiply / warps * _TENSOR_CORES * -(-warps // _TENSOR_CORES)
    own = cost.step_cycles + work.row_bytes / _FRAGMENT_BYTES * cost.fragment_load_cycles + own
    latency = cost.memory_latency_cycles
    ahead = np.maximum(work.stages - 1, 1)
    return np.where(work.stages == 1, own + latency, np.maximum(own, latency / ahead))
