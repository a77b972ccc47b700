"""Split a graph over several devices into functions on one device each, and copies between them.

A region contains the calls of one device between two copies. The depth of a value is the maximum number of copies
before it. Calls of one device with equal depth form a region, so that regions do not depend on each other cyclically.
Each region is a separate model that is optimized, fused and scheduled for the target of its device.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ..checked_type import with_type_of
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..transform.function_pass import is_call, type_of
from ..transform.fuse_ops import own_nodes
from ..transform.plan_devices import Planned, flat_fields
from .te_compiler import flatten_type


@dataclass
class Region:
    """The part of a graph between two copies that one device computes.

    Values are expressions of the planned function; a value of tuple type has several tensors. ``inputs`` are the
    tensors (a value and the index of its tensor) that the parameters represent. ``outputs`` are the values that other
    regions read.
    """

    device: int
    inputs: list[tuple[RelayExpr, int]] = field(default_factory=list)
    outputs: dict[int, RelayExpr] = field(default_factory=dict)
    params: dict[int, list[Var]] = field(default_factory=dict)
    made: dict[int, RelayExpr] = field(default_factory=dict)

    def function(self) -> Function:
        fields = [self.made[id(value)] for value in self.outputs.values()]
        params = [var for found in self.params.values() for var in found]
        return Function(params, fields[0] if len(fields) == 1 else Tuple(fields))


@dataclass
class Stage:
    """Copies, followed by regions that do not depend on each other, by device type."""

    copies: list[Call] = field(default_factory=list)
    regions: dict[int, Region] = field(default_factory=dict)


class _Split:
    def __init__(self, planned: Planned):
        self.planned = planned
        self.stages: list[Stage] = []
        # For each value, by id: the number of copies before it, and the region that computes it.
        self.depth: dict[int, int] = {}
        self.region: dict[int, Region] = {}

    def run(self) -> list[Stage]:
        for node in own_nodes(self.planned.function.body):
            self.depth[id(node)] = max((self.depth.get(id(c), 0) for c in node.children()), default=0)
            if is_call(node, "device_copy"):
                self.depth[id(node)] += 1
                self._stage(node).copies.append(node)
                self._export(node.args[0])
            elif isinstance(node, Call):
                device = self.planned.devices[id(node)]
                self._add(node, self._stage(node).regions.setdefault(device, Region(device)))
            elif isinstance(node, TupleGetItem):
                # A field is accessed in the region that computes the tuple.
                self._add(node, self.region[id(node.tuple_value)])
        for value in flat_fields(self.planned.function.body):
            self._export(value)
        return self.stages

    def _stage(self, node: RelayExpr) -> Stage:
        while len(self.stages) <= self.depth[id(node)]:
            self.stages.append(Stage())
        return self.stages[self.depth[id(node)]]

    def _add(self, node: RelayExpr, region: Region) -> None:
        self.region[id(node)] = region
        region.made[id(node)] = with_type_of(node.map_children(lambda c: self._inside(c, region)), node)

    def _inside(self, e: RelayExpr, region: Region) -> RelayExpr:
        """Return an operand for use inside a region: a value of the region, or parameters for a value from outside."""
        if isinstance(e, (Op, Constant, Function)):
            return e
        if isinstance(e, Tuple):
            return with_type_of(e.map_children(lambda c: self._inside(c, region)), e)
        if self.region.get(id(e)) is region:
            return region.made[id(e)]
        self._export(e)
        if id(e) not in region.params:
            tensors = flatten_type(type_of(e))
            start = len(region.inputs)
            region.inputs += [(e, i) for i in range(len(tensors))]
            region.params[id(e)] = [Var(f"v{start + i}", t) for i, t in enumerate(tensors)]
        found = region.params[id(e)]
        return found[0] if isinstance(type_of(e), TensorType) else with_type_of(Tuple(found), e)

    def _export(self, value: RelayExpr) -> None:
        region = self.region.get(id(value))
        if region is not None:
            region.outputs[id(value)] = value


def split_by_device(planned: Planned) -> list[Stage]:
    """Return the stages of a planned function in execution order."""
    return _Split(planned).run()


__all__ = ["Region", "Stage", "split_by_device"]
