"""Block sizes of the CPU convolution templates for workloads without tuning records."""

from __future__ import annotations

from ...autotvm.task.space import FallbackConfigEntity, OtherOptionEntity, SplitEntity, get_factors
from ...error import TVMError
from ...target import Target
from ..nn.workload import Workload
from .machine import Machine

# The maximum number of output vectors in the register tile.
_MAX_COLUMNS = 31


def _largest(size: int, most: int) -> int:
    """Return the largest divisor of ``size`` that is at most ``most``."""
    return max(d for d in get_factors(size) if d <= most)


def _split(size: int, block: int) -> SplitEntity:
    return SplitEntity([size // block, block])


def blocks_of(config: FallbackConfigEntity, workload: Workload) -> None:
    """Set the knobs of a convolution on vectors of channels: one vector of channels, and as many output columns as fit
    the registers."""
    lanes = Machine(Target.current(allow_none=True) or Target("llvm")).lanes(workload.out_dtype)
    out_block = _largest(workload.out_filter, lanes)
    config["tile_ic"] = _split(workload.in_filter, _largest(workload.in_filter, out_block))
    config["tile_oc"] = _split(workload.out_filter, out_block)
    config["tile_ow"] = _split(workload.out_width, _largest(workload.out_width, _MAX_COLUMNS))
    config["unroll_kw"] = OtherOptionEntity(False)


def int8_blocks_of(config: FallbackConfigEntity, workload: Workload, int32_lanes: int, num_int8_elements: int) -> None:
    """Set the knobs of a convolution in which a dot product of ``num_int8_elements`` pairs is added to each of
    ``int32_lanes`` accumulators."""
    for what, size, block in (
        ("in", workload.in_filter, num_int8_elements), ("out", workload.out_filter, int32_lanes)
    ):  # fmt: skip
        if size % block:
            raise TVMError(f"conv2d: the {size} channels {what} are not a multiple of {block}")
    config["tile_ic"] = _split(workload.in_filter, num_int8_elements)
    config["tile_oc"] = _split(workload.out_filter, int32_lanes)
    config["tile_ow"] = _split(workload.out_width, _largest(workload.out_width, _MAX_COLUMNS))
    config["unroll_kw"] = OtherOptionEntity(False)


def int8_blocks_1x1(config: FallbackConfigEntity, workload: Workload, int32_lanes: int, num_int8_elements: int) -> None:
    """Set the knobs of a 1x1 convolution with dot products, with one output row at a time."""
    int8_blocks_of(config, workload, int32_lanes, num_int8_elements)
    config["tile_oh"] = OtherOptionEntity(1)


__all__ = ["blocks_of", "int8_blocks_1x1", "int8_blocks_of"]
