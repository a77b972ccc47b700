"""A compiled model between Relay and its executors: what is called, in which order, on which values, where.

A program is made from optimized Relay (``from_relay.py``), gets its storage from the planner (``memory_plan.py``) and
is written down by the writer of an executor (``writers.py``), of which the JSON of the graph executor is one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...dtype import info
from ...ir.tensor_type import TensorType
from .te_compiler import Kernel

if TYPE_CHECKING:
    from ..expr import Function
    from .memory_plan import Plan

# A value: one result of one node.
Ref = tuple[int, int]


class Kind(enum.Enum):
    """What a node does when the program runs."""

    INPUT = "input"
    CONSTANT = "constant"
    KERNEL = "kernel"
    # The values it reads, seen as one: a reshape of a value, or a concatenation of values that lie side by side.
    VIEW = "view"
    # The value it reads, in the memory of another device.
    COPY = "copy"


@dataclass
class Node:
    """One step of a program. ``device`` is the device type (its DLPack number) its results lie on; the kernel may write
    its result over the values in ``in_place``; ``attrs`` is what reports show of it. ``function`` is what it computes,
    where a size of what it reads or writes is known only when running."""

    kind: Kind
    name: str
    types: list[TensorType]
    device: int
    inputs: list[Ref] = field(default_factory=list)
    kernel: Kernel | None = None
    attrs: dict[str, str] = field(default_factory=dict)
    in_place: list[Ref] = field(default_factory=list)
    function: Function | None = None

    @property
    def is_given(self) -> bool:
        """Whether the value is there before the program runs."""
        return self.kind in (Kind.INPUT, Kind.CONSTANT)


@dataclass
class Program:
    """Nodes in the order of execution, the values that are its results, its constants by the name of their node, and,
    once it is planned, the storage of every value."""

    nodes: list[Node] = field(default_factory=list)
    outputs: list[Ref] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    plan: Plan | None = None

    def first_entries(self) -> list[int]:
        """The number of the first result of each node, all results counted in order; at the end, how many there are."""
        rows = [0]
        for node in self.nodes:
            rows.append(rows[-1] + len(node.types))
        return rows

    def entries(self) -> Iterator[tuple[Node, TensorType]]:
        """Every value in the order of its number: the node that makes it, and its type."""
        return ((node, t) for node in self.nodes for t in node.types)

    @property
    def copies(self) -> int:
        """How often a run copies a value from one device to another."""
        return sum(node.kind is Kind.COPY for node in self.nodes)


def byte_size(t: TensorType) -> int:
    """Bytes of a tensor whose dimensions are known; an empty one takes one."""
    total = info(t.dtype).bytes * info(t.dtype).lanes
    for d in t.shape:
        total *= int(d)
    return max(total, 1)


__all__ = ["Kind", "Node", "Program", "Ref", "byte_size"]
