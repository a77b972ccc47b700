"""The cost models of the GPU templates: their constants, each with its unit.

They were fitted to measured kernels of a data-centre GPU (H200); the row of another architecture (``nvidia.py``) may
have its own. Cycles are those of a multiprocessor (SM).
"""

from __future__ import annotations

from typing import NamedTuple

# Registers of a multiprocessor.
SM_REGISTERS = 65536
# Blocks along the second and third dimension of a grid.
MAX_GRID_BLOCKS = 65535


class TiledMatmulCost(NamedTuple):
    """Matmuls in tiles of threads; fitted to a thousand kernels."""

    # Cycles from the request of the next block tile to its use.
    memory_latency_cycles: float = 450.0
    # A multiplication of a thread that no other hides.
    lone_multiply_cycles: float = 1.5
    # A kernel more than one.
    launch_cycles: float = 4000.0
    # Adding one of the partial sums of split-k.
    partial_sum_cycles: float = 50.0
    # Partial sums, written or read.
    partial_bytes_per_cycle: float = 1300.0
    multiplies_per_cycle: int = 128
    # A warp's read of up to four columns from shared memory; rows, of which it has half as many, cost half.
    shared_read_cycles: float = 1.7
    # A warp's copy into shared memory.
    shared_copy_cycles: float = 2.2
    # Multiplications of one k step that the instruction cache holds, and the factor for longer code.
    cached_multiplies: int = 1024
    long_code_factor: float = 1.2
    # Where threads read global memory themselves: a load of four elements, and a step of the loop.
    global_load_cycles: float = 4.0
    loop_cycles: float = 8.0
    # Registers of a thread beside its tile: as compiled, and the least that do; the factor where there are fewer.
    other_registers: int = 42
    least_other_registers: int = 16
    spill_factor: float = 4.0


class TensorCoreCost(NamedTuple):
    """Matmuls on tensor cores; fitted to 1,100 kernels of warps and 700 of warpgroups."""

    # Multiplications of half precision.
    multiplies_per_cycle: float = 1200.0
    # Cycles from the request of a block tile to its use.
    memory_latency_cycles: float = 840.0
    # A k step beside its multiplications, and loading fragments before the first of them.
    step_cycles: float = 200.0
    fragment_load_cycles: float = 63.0
    # A block that begins and ends, and a kernel more than one.
    block_cycles: float = 500.0
    launch_cycles: float = 2300.0
    shared_bytes_per_cycle: float = 128.0
    # Bandwidth of a multiprocessor from the L2 cache.
    fetch_bytes_per_cycle: float = 26.0
    # Partial sums of split-k, written or read.
    partial_bytes_per_cycle: float = 2100.0
    # The same figures for warpgroups where they differ; a step costs more the more groups wait for each other.
    group_multiplies_per_cycle: float = 1800.0
    group_latency_cycles: float = 1600.0
    group_step_cycles: float = 60.0
    group_fetch_bytes_per_cycle: float = 64.0
    # Registers of a thread beside its accumulators and fragments.
    other_registers: int = 40


class DepthwiseCost(NamedTuple):
    """Depthwise convolutions."""

    # Instructions of a thread: beside its work; to find a pixel and ask whether it is padding; to read it from shared
    # memory; to fetch it there.
    start_instructions: float = 60.0
    load_instructions: float = 6.0
    shared_read_instructions: float = 1.5
    fetch_instructions: float = 14.0
    # Until the memory answers, and to wait for the threads of a block.
    memory_latency_cycles: float = 600.0
    barrier_cycles: float = 300.0
    # Warp instructions a multiprocessor starts in a cycle; cycles between two of one warp that depend on each other.
    issues_per_cycle: int = 4
    dependent_cycles: float = 3.0
    # Registers of a thread beside its tile.
    other_registers: int = 40
    # Bytes of an image that all multiprocessors together read.
    memory_bytes_per_cycle: float = 2500.0


class GPUCost(NamedTuple):
    """The constants of all templates for one architecture."""

    tiled_matmul: TiledMatmulCost = TiledMatmulCost()
    tensor_core: TensorCoreCost = TensorCoreCost()
    depthwise: DepthwiseCost = DepthwiseCost()
