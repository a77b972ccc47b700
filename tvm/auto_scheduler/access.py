"""Access patterns between the operations of a program, which sketch rules depend on."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..ir.prim import Add, Call, IntImm, PrimExpr, ProducerLoad, Select, Sub, Var
from ..ir.visit import post_order
from ..te.tensor import ComputeOp, Operation
from .reach import Reach, offset_of, reach_of

# Attributes of operations that guide their schedules; their values are names of axes.
NO_SPLIT_AT_INNER = "auto_scheduler_no_split_at_inner"
NO_SPLIT_AT_OUTER = "auto_scheduler_no_split_at_outer"
SIMPLIFY_CONST_TENSOR_INDICES = "auto_scheduler_simplify_const_tensor_indices"

# Calls as cheap as an addition, which may be recomputed at each use.
_CHEAP_CALLS = frozenset(
    {
        "tir.likely",
        "tir.reinterpret",
        "tir.bitwise_and",
        "tir.bitwise_or",
        "tir.bitwise_xor",
        "tir.bitwise_not",
        "tir.shift_left",
        "tir.shift_right",
        "tir.fabs",
        "tir.q_multiply_shift",
    }
)
_BRANCH = "tir.if_then_else"

Indices = tuple[PrimExpr, ...]


def _call_name(node: Call) -> str:
    return getattr(node.op, "name", "")


def _shifted_axis(index: PrimExpr, places: dict[Var, int]) -> int | None:
    """Return the number of the axis that an index equals, with or without a constant offset; None for any other
    index."""
    if isinstance(index, (Add, Sub)):
        if isinstance(index.b, IntImm):
            index = index.a
        elif isinstance(index, Add) and isinstance(index.a, IntImm):
            index = index.b
    return places.get(index) if isinstance(index, Var) else None


@dataclass(frozen=True)
class _Shape:
    """The indices of a read, expressed with the axes of the reader."""

    is_simple: bool
    places: tuple[int, ...] = ()

    def names_each_axis_once_in_order(self, count: int) -> bool:
        return self.is_simple and self.places == tuple(range(count))

    @property
    def keeps_order(self) -> bool:
        """Return whether the indices are axes in order, each at most once."""
        return all(a < b for a, b in zip(self.places, self.places[1:]))


@dataclass
class Access:
    """The reads of an operation, and its consumers."""

    op: Operation
    reads: dict[Operation, list[Indices]] = field(default_factory=dict)
    readers: list[Operation] = field(default_factory=list)

    @cached_property
    def _places(self) -> dict[Var, int]:
        return {axis.var: place for place, axis in enumerate(self.op.axis)}

    @cached_property
    def reaches(self) -> dict[Operation, list[list[Reach]]]:
        """Return the span of each index of each read."""
        return {
            producer: [[reach_of(index) for index in indices] for indices in reads]
            for producer, reads in self.reads.items()
        }

    @cached_property
    def offsets(self) -> dict[Operation, list[list[int]]]:
        """Return the constant offset of each index of each read."""
        return {
            producer: [[offset_of(index) for index in indices] for indices in reads]
            for producer, reads in self.reads.items()
        }

    def shape_of(self, indices: Indices) -> _Shape:
        found = []
        for index in indices:
            if isinstance(index, IntImm):
                continue
            place = _shifted_axis(index, self._places)
            if place is None:
                return _Shape(False)
            found.append(place)
        return _Shape(True, tuple(found))

    def leading_axes(self, producer: Operation) -> int:
        """Return the number of leading dimensions of a producer that are read at the index that is written."""
        extents = [_extent(axis) for axis in self.op.axis]
        shape = [dim.value if isinstance(dim, IntImm) else None for dim in producer.output(0).shape]
        count = min(len(extents), len(shape))
        for indices in self.reads[producer]:
            same = 0
            while same < count and _shifted_axis(indices[same], self._places) == same and extents[same] == shape[same]:
                same += 1
            count = same
        return count


def _extent(axis) -> int | None:
    return axis.dom.extent.value if isinstance(axis.dom.extent, IntImm) else None


class AccessAnalyzer:
    """The access patterns of a program, whose operations are given in topological order. ``outputs`` are outputs of the
    program even if they have consumers."""

    def __init__(self, ops: Sequence[Operation], outputs: Container[Operation] = ()):
        self.outputs = outputs
        self.accesses = {op: Access(op) for op in ops}
        for op in ops:
            if isinstance(op, ComputeOp):
                self._note_reads(op)
        self._strictly_inlineable: dict[Operation, bool] = {}

    def _note_reads(self, op: ComputeOp) -> None:
        access = self.accesses[op]
        seen: set[int] = set()
        for body in op.body:
            for node in post_order(body, seen=seen):
                if isinstance(node, ProducerLoad):
                    access.reads.setdefault(node.producer.op, []).append(tuple(node.indices))
        for producer in access.reads:
            self.accesses[producer].readers.append(op)

    # -- neighbours ------------------------------------------------------------------------------------------------

    def producers(self, op: Operation) -> list[Operation]:
        return list(self.accesses[op].reads)

    def consumers(self, op: Operation) -> list[Operation]:
        return list(self.accesses[op].readers)

    def is_output(self, op: Operation) -> bool:
        """Return whether the operation is an output of the program: it was given as one, or it has no consumers."""
        return op in self.outputs or not self.accesses[op].readers

    # -- kinds of operations ---------------------------------------------------------------------------------------

    def is_simple_access(self, op: Operation) -> bool:
        """Return whether all indices are axes of the operation, with or without constant offsets."""
        access = self.accesses[op]
        return all(access.shape_of(indices).is_simple for reads in access.reads.values() for indices in reads)

    def is_strictly_inlineable(self, op: Operation) -> bool:
        """Return whether inlining never makes the program slower. This holds for cheap elementwise operations that do
        not transpose, for copies of whole rows, and for operations without reads whose value is constant in its
        context."""
        known = self._strictly_inlineable.get(op)
        if known is None:
            is_constant = isinstance(op, ComputeOp) and not self.accesses[op].reads and not op.reduce_axis
            known = is_constant or _moves_rows(op) or self._reads_in_order(op) and _is_cheap(op)
            self._strictly_inlineable[op] = known
        return known

    def _reads_in_order(self, op: Operation) -> bool:
        access = self.accesses[op]
        shapes = [access.shape_of(indices) for reads in access.reads.values() for indices in reads]
        return isinstance(op, ComputeOp) and all(shape.is_simple and shape.keeps_order for shape in shapes)

    def needs_multi_level_tiling(self, op: Operation) -> bool:
        """Return whether tiles reuse data: some read does not depend on all axes."""
        if not isinstance(op, ComputeOp) or SIMPLIFY_CONST_TENSOR_INDICES in op.attrs:
            return False
        axes = [axis.var for axis in op.axis if _extent(axis) != 1]
        reused = 0
        for reads in self.accesses[op].reads.values():
            seen: set[int] = set()
            used = {
                node for indices in reads for e in indices for node in post_order(e, seen=seen) if isinstance(node, Var)
            }
            reused += any(var not in used for var in axes)
        return reused >= (1 if op.reduce_axis else 2)

    # -- two operations --------------------------------------------------------------------------------------------

    def num_common_outer_iterators(self, op: Operation, target: Operation) -> int:
        """Return the number of outer loops that ``op`` has in common with ``target``, its direct or indirect
        consumer."""
        best = {op: len(op.output(0).shape)}
        for reader, access in self.accesses.items():
            counts = [min(best[p], access.leading_axes(p)) for p in access.reads if p in best]
            if counts and reader is not op:
                best[reader] = min(counts)
        return best.get(target, 0)

    def elementwise_match(self, op: Operation, target: Operation) -> bool:
        """Return whether ``target`` is the only direct or indirect consumer of ``op`` and reads it elementwise."""
        todo, seen = [] if op is target else [op], {op, target}
        while todo:
            one = todo.pop()
            readers = self.accesses[one].readers
            if not readers or not all(self._reads_same_element(reader, one) for reader in readers):
                return False
            todo += [reader for reader in readers if reader not in seen]
            seen.update(readers)
        return True

    def _reads_same_element(self, reader: Operation, op: Operation) -> bool:
        access = self.accesses[reader]
        extents = [_extent(axis) for axis in reader.axis]
        shape = [getattr(dim, "value", None) for dim in op.output(0).shape]
        return extents == shape and all(
            access.shape_of(indices).names_each_axis_once_in_order(len(extents)) for indices in access.reads[op]
        )


def _moves_rows(op: Operation) -> bool:
    """Return whether the operation copies elements of another tensor that are contiguous along the last axis, without a
    condition on the position."""
    load = op.body[0] if isinstance(op, ComputeOp) and len(op.body) == 1 else None
    if not isinstance(load, ProducerLoad) or not op.axis or not load.indices:
        return False
    row, seen = op.axis[-1].var, set()
    is_free = all(node is not row for index in load.indices[:-1] for node in post_order(index, seen=seen))
    return load.indices[-1] is row and is_free


def _is_cheap(op: ComputeOp) -> bool:
    """Return whether the value has no branch on the position and no expensive call."""
    seen: set[int] = set()
    for body in op.body:
        for node in post_order(body, seen=seen):
            if isinstance(node, Call) and _call_name(node) not in (*_CHEAP_CALLS, _BRANCH):
                return False
            is_choice = isinstance(node, Select) or isinstance(node, Call) and _call_name(node) == _BRANCH
            if is_choice and _depends_on_position(next(iter(node.children()))):
                return False
    return True


def _depends_on_position(condition: PrimExpr) -> bool:
    """Return whether a condition tests axes, like that of padding, and not data."""

    def operands(node: PrimExpr) -> Sequence[PrimExpr]:
        return () if isinstance(node, ProducerLoad) else list(node.children())

    return any(isinstance(node, Var) for node in post_order(condition, operands=operands))


__all__ = ["Access", "AccessAnalyzer"]
