"""Tags of operators, by which schedules and fusion choose."""

from __future__ import annotations

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether each output element is a function of one element of every input, at the same or a broadcast index."""
    return tag.split(",")[0] in (ELEMWISE, BROADCAST)


def is_injective(tag: str) -> bool:
    """Whether each output element is a function of a few input elements. Such operators can be inlined into their
    readers."""
    return tag.split(",")[0] in (ELEMWISE, BROADCAST, INJECTIVE)
