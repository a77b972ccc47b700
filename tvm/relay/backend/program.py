"""The intermediate form between Relay and executors: kernels, their calls in order, values and devices.

``from_relay.py`` builds a program from optimized Relay, ``memory_plan.py`` assigns storage to its values, and
``writers.py`` converts it to the format of an executor, for example the JSON of the graph executor.
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

# A value: (node index, output index).
Ref = tuple[int, int]


class Kind(enum.Enum):
    """The operation of a node at run time."""

    INPUT = "input"
    CONSTANT = "constant"
    KERNEL = "kernel"
    # A view of its inputs: a reshape of one value, or a concatenation of values that are adjacent in memory.
    VIEW = "view"
    # A copy of its input to another device.
    COPY = "copy"


@dataclass
class Node:
    """One step of a program.

    ``device`` is the DLPack device type of its outputs. The kernel may overwrite the values in ``in_place`` with its
    output. ``attrs`` are shown in reports. ``function`` is the Relay function of the node if a shape of its inputs or
    outputs is dynamic.
    """

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
        """Whether the value is available before the program runs."""
        return self.kind in (Kind.INPUT, Kind.CONSTANT)


@dataclass
class Program:
    """Nodes in execution order, the output values, constants by the name of their node, and the memory plan once it is
    computed."""

    nodes: list[Node] = field(default_factory=list)
    outputs: list[Ref] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    plan: Plan | None = None

    def first_entries(self) -> list[int]:
        """Return the index of the first output of each node among all outputs, followed by the total number of
        outputs."""
        rows = [0]
        for node in self.nodes:
            rows.append(rows[-1] + len(node.types))
        return rows

    def entries(self) -> Iterator[tuple[Node, TensorType]]:
        """Iterate over all values in order: the node that computes the value, and its type."""
        return ((node, t) for node in self.nodes for t in node.types)

    @property
    def copies(self) -> int:
        """The number of copies between devices in one run."""
        return sum(node.kind is Kind.COPY for node in self.nodes)


def byte_size(t: TensorType) -> int:
    """Return the size of a tensor with static shape in bytes; at least 1."""
    total = info(t.dtype).bytes * info(t.dtype).lanes
    for d in t.shape:
        total *= int(d)
    return max(total, 1)


__all__ = ["Kind", "Node", "Program", "Ref", "byte_size"]
