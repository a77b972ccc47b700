"""The cost models of the GPU templates: their constants with units.

The constants were fitted to measured kernels of a data-centre GPU (H200); other architectures (``nvidia.py``) may have
their own. Cycles are those of a multiprocessor (SM).
"""

from __future__ import annotations

from typing import NamedTuple

# Registers per multiprocessor.
SM_REGISTERS = 65536
# Maximum number of blocks along the second and third grid dimension.
MAX_GRID_BLOCKS = 65535


class TiledMatmulCost(NamedTuple):
    """Cost model of matmuls tiled over threads; fitted to a thousand kernels."""

    # Cycles from the request of the next block tile to its first use.
    memory_latency_cycles: float = 450.0
    # Cycles of a multiplication of a thread whose latency is not hidden.
    lone_multiply_cycles: float = 1.5
    # Cycles of an additional kernel launch.
    launch_cycles: float = 4000.0
    # Cycles to add one of the partial sums of split-k.
    partial_sum_cycles: float = 50.0
    # Cycles to write or read partial sums.
    partial_bytes_per_cycle: float = 1300.0
    multiplies_per_cycle: int = 128
    # A warp's read of up to four columns from shared memory; rows cost half, because there are half as many.
    shared_read_cycles: float = 1.7
    # A warp's copy to shared memory.
    shared_copy_cycles: float = 2.2
    # Number of multiplications of one k step that fit in the instruction cache, and the slowdown of longer code.
    cached_multiplies: int = 1024
    long_code_factor: float = 1.2
    # For threads that read global memory directly: a load of four elements, and a loop iteration.
    global_load_cycles: float = 4.0
    loop_cycles: float = 8.0
    # Registers of a thread besides its tile: as compiled, the required minimum, and the slowdown if there are fewer.
    other_registers: int = 42
    least_other_registers: int = 16
    spill_factor: float = 4.0


class TensorCoreCost(NamedTuple):
    """Cost model of matmuls on tensor cores; fitted to 1,100 kernels with warps and 700 with warpgroups."""

    # Half-precision multiplications per cycle.
    multiplies_per_cycle: float = 1200.0
    # Cycles from the request of a block tile to its first use.
    memory_latency_cycles: float = 840.0
    # Overhead of a k step besides its multiplications, and of loading fragments before the first multiplication.
    step_cycles: float = 200.0
    fragment_load_cycles: float = 63.0
    # Overhead of a block, and of an additional kernel launch.
    block_cycles: float = 500.0
    launch_cycles: float = 2300.0
    shared_bytes_per_cycle: float = 128.0
    # Bandwidth from the L2 cache per multiprocessor.
    fetch_bytes_per_cycle: float = 26.0
    # Cycles to write or read partial sums of split-k.
    partial_bytes_per_cycle: float = 2100.0
    # The same constants for warpgroups where they differ; a step costs more if more groups synchronize.
    group_multiplies_per_cycle: float = 1800.0
    group_latency_cycles: float = 1600.0
    group_step_cycles: float = 60.0
    group_fetch_bytes_per_cycle: float = 64.0
    # Registers of a thread besides its accumulators and fragments.
    other_registers: int = 40


class DepthwiseCost(NamedTuple):
    """Cost model of depthwise convolutions."""

    # Instructions of a thread: fixed overhead; to compute the address of a pixel and test for padding; to read it from
    # shared memory; to copy it there.
    start_instructions: float = 60.0
    load_instructions: float = 6.0
    shared_read_instructions: float = 1.5
    fetch_instructions: float = 14.0
    # Cycles of memory latency, and of a block synchronization.
    memory_latency_cycles: float = 600.0
    barrier_cycles: float = 300.0
    # Warp instructions that a multiprocessor issues per cycle; cycles between dependent instructions of a warp.
    issues_per_cycle: int = 4
    dependent_cycles: float = 3.0
    # Registers of a thread besides its tile.
    other_registers: int = 40
    # Bytes of an image that all multiprocessors read per cycle.
    memory_bytes_per_cycle: float = 2500.0


class GPUCost(NamedTuple):
    """The constants of all cost models for one architecture."""

    tiled_matmul: TiledMatmulCost = TiledMatmulCost()
    tensor_core: TensorCoreCost = TensorCoreCost()
    depthwise: DepthwiseCost = DepthwiseCost()
