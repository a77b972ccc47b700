"""Estimates the cycles of tensor core kernels, for templates and for searched states, from the work of one step of a
block: the part of the reduction that is in shared memory at a time.

The constants are in ``gpu_cost.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .features import Features
from .gpu_cost import SM_REGISTERS, TensorCoreCost

# Shared memory of a block reserved by the system, the register allocation granularity, and the maximum number of
# blocks.
_SYSTEM_BYTES, _REGISTER_UNIT, _MOST_BLOCKS = 1024, 8, 32
# Size of a fragment along k in bytes; number of warps that share a tensor core.
_FRAGMENT_BYTES, _TENSOR_CORES = 32, 4
# Bytes moved per accumulator element at the end of a block.
_SUM_BYTES = 12


class Work(NamedTuple):
    """The work of the blocks of a kernel: numbers, or arrays of numbers for many kernels."""

    blocks: Any
    # Threads per block, registers per thread, and shared memory per block.
    threads: Any
    registers: Any
    shared_bytes: Any
    # Steps per block; bytes that a step fetches, and that all warps load from shared memory.
    steps: Any
    fetched_bytes: Any
    loaded_bytes: Any
    # Multiplications per step, bytes along k, and accumulator elements.
    multiplies: Any
    row_bytes: Any
    sums: Any
    # Parts of the reduction in shared memory, one of which is being multiplied; and bytes per element.
    stages: Any
    element_bytes: int = 2


class Groups(NamedTuple):
    """Warpgroups instead of warps: groups per block, and groups of multiplications in flight."""

    count: Any
    in_flight: int


def cycles(work: Work, features: Features, groups: Groups | None = None) -> tuple[Any, Any]:
    """Return the cycles until the last block finishes, and the number of resident blocks per multiprocessor."""
    cost = features.cost.tensor_core
    fit = _blocks_at_once(work, features)
    rate = cost.multiplies_per_cycle if groups is None else cost.group_multiplies_per_cycle
    bandwidth = cost.fetch_bytes_per_cycle if groups is None else cost.group_fetch_bytes_per_cycle
    # Cycles in which one step of a block keeps the units busy, and its latency if the block runs alone.
    multiply = work.multiplies / (rate * 2 / work.element_bytes)
    shared = (work.loaded_bytes + work.fetched_bytes) / cost.shared_bytes_per_cycle
    busy = np.maximum(np.maximum(multiply, shared), work.fetched_bytes / bandwidth)
    if groups is None:
        waits = _step_of_warps(work, cost, multiply, work.threads / max(features.warp_size, 1))
    else:
        # Tensor cores are idle while warpgroups synchronize, issue the next copies and restart.
        pause = cost.group_step_cycles * (2 + groups.count)
        waits = np.maximum(pause + multiply, cost.group_latency_cycles / (work.stages - 1 - groups.in_flight))
    alone = np.maximum(waits, busy)
    ends = cost.block_cycles + work.sums * _SUM_BYTES / cost.shared_bytes_per_cycle
    rounds, rest = np.divmod(work.blocks, features.multiprocessors * fit)
    # Other blocks hide the latency of a block: completely if warpgroups multiply asynchronously.
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
    """Return the latency of a step: warps wait for the fetched data unless it was prefetched."""
    own = multiply / warps * _TENSOR_CORES * -(-warps // _TENSOR_CORES)
    own = cost.step_cycles + work.row_bytes / _FRAGMENT_BYTES * cost.fragment_load_cycles + own
    latency = cost.memory_latency_cycles
    ahead = np.maximum(work.stages - 1, 1)
    return np.where(work.stages == 1, own + latency, np.maximum(own, latency / ahead))
