"""The tensor intrinsics of CPUs that searches may use: dot products of bytes, on operands where they lie."""

from __future__ import annotations

import functools

from ...auto_scheduler.intrinsics import SearchIntrinsic
from ...target import Target
from .dot_products import INSTRUCTIONS, DotProduct, instructions, multiply_rows, multiply_where_they_lie


def _intrinsics(instruction: DotProduct) -> list[SearchIntrinsic]:
    """Weights lie by filter, the terms of each in a row (dense layers), or by channel, filters in a row (convolutions,
    channels last). Rows of a filter are read four words at a time where its terms are whole fours of them."""
    by_filter, by_channel = f"{instruction.name}.by_filter", f"{instruction.name}.by_channel"
    rows = f"{instruction.name}.by_rows"

    def fits(target: Target) -> bool:
        return any((one.name, one.data) == (instruction.name, instruction.data) for one in instructions(target))

    return [
        SearchIntrinsic(rows, fits, lambda: multiply_rows(instruction, rows), replaces=by_filter),
        SearchIntrinsic(by_filter, fits, lambda: multiply_where_they_lie(instruction, by_filter, True)),
        SearchIntrinsic(by_channel, fits, lambda: multiply_where_they_lie(instruction, by_channel, False)),
    ]


@functools.cache
def search_intrinsics() -> dict[str, SearchIntrinsic]:
    """The intrinsics by name."""
    # Sums of integers are exact in any order; those of bfloat16 are not what plain loops compute.
    exact = [instruction for instruction in INSTRUCTIONS if instruction.sums == "int32"]
    made = [one for instruction in exact for one in _intrinsics(instruction)]
    return {one.name: one for one in reversed(made)}


__all__ = ["search_intrinsics"]
