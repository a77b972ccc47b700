"""The public path of integer sets."""

from .intset import (
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
