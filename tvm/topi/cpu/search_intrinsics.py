"""The tensor intrinsics of CPUs that searches may use: dot products of bytes, on operands where they lie."""

from __future__ import annotations

import functools

from ...auto_scheduler.intrinsics import SearchIntrinsic
from ...target import Target
from .dot_products import INSTRUCTIONS, DotProduct, instructions, multiply_where_they_lie

# How weights lie: the four of a filter in a row (dense layers), or filters in a row (convolutions, channels last).
_ORDERS = {"filter": True, "channel": False}


def _intrinsic(instruction: DotProduct, order: str) -> SearchIntrinsic:
    name = f"{instruction.name}.by_{order}"

    def fits(target: Target) -> bool:
        return any((one.name, one.data) == (instruction.name, instruction.data) for one in instructions(target))

    return SearchIntrinsic(name, fits, lambda: multiply_where_they_lie(instruction, name, _ORDERS[order]))


@functools.cache
def search_intrinsics() -> dict[str, SearchIntrinsic]:
    """The intrinsics by name."""
    # Sums of integers are exact in any order; those of bfloat16 are not what plain loops compute.
    exact = [instruction for instruction in INSTRUCTIONS if instruction.sums == "int32"]
    made = [_intrinsic(instruction, order) for instruction in exact for order in _ORDERS]
    return {one.name: one for one in reversed(made)}


__all__ = ["search_intrinsics"]
