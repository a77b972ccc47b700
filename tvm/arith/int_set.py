"""The public module of integer sets."""

from .interval_set import (
    IntervalSet,
    IntSet,
    eval_set,
    from_min_extent,
    from_range,
    intersect,
    neg_inf,
    pos_inf,
    union,
    union_lower_bound,
)

__all__ = [
    "IntSet",
    "IntervalSet",
    "eval_set",
    "from_min_extent",
    "from_range",
    "intersect",
    "neg_inf",
    "pos_inf",
    "union",
    "union_lower_bound",
]


def __getattr__(name: str):
    # Region estimates import iterator maps, which import integer sets; the lazy import avoids a cycle.
    if name.startswith("estimate_region_"):
        from . import region

        return getattr(region, name)
    raise AttributeError(f"module 'tvm.arith.int_set' has no attribute '{name}'")
