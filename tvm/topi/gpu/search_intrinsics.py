"""GPU tensor intrinsics for schedule search: matmuls, loads and stores of tensor core fragments."""

from __future__ import annotations

import functools
from itertools import product

from ...auto_scheduler.intrinsics import Fragments, SearchIntrinsic
from ...target import Target
from . import fragments

# Operand types with their accumulator types. float32 is excluded because it is multiplied as tf32, which differs from
# scalar loops.
TYPES = {"float16": ("float32", "float16"), "bfloat16": ("float32",)}


def _intrinsics(dtype: str, accumulator: str) -> list[SearchIntrinsic]:
    """Return the matmul intrinsics for operands whose last dimension is k, or m and n."""

    def fits(target: Target) -> bool:
        return dtype in target.features.mma_dtypes

    # With float32 accumulators mma is used, whose loads need 16 bytes each; otherwise wmma, which needs 32.
    made, rows = [], (16, 8) if accumulator == "float32" else (32, 16)
    store = f"mma.{dtype}.{accumulator}.store"
    for lhs, rhs in product(("mk", "km"), ("nk", "kn")):
        name, flags = f"mma.{dtype}.{accumulator}.{lhs}.{rhs}", (lhs == "mk", rhs == "nk")
        held = Fragments((f"mma.{dtype}.load.{lhs}", f"mma.{dtype}.load.{rhs}"), store, rows)
        make = functools.partial(fragments.multiply, *flags, dtype, accumulator, name)
        made.append(SearchIntrinsic(name, fits, make, fragments=held))
        for use, is_last, load in zip("ab", flags, held.loads):
            made.append(SearchIntrinsic(load, fits, functools.partial(fragments.load, use, is_last, dtype, load)))
    return [*made, SearchIntrinsic(store, fits, functools.partial(fragments.store, dtype, accumulator, store))]


@functools.cache
def search_intrinsics() -> dict[str, SearchIntrinsic]:
    """Return the intrinsics by name."""
    made = [one for dtype, sums in TYPES.items() for accumulator in sums for one in _intrinsics(dtype, accumulator)]
    return {one.name: one for one in made}


__all__ = ["search_intrinsics"]
