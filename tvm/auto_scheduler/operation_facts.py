"""Properties of an operation for features that do not depend on its loops: its arithmetic, and the tensors it
accesses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtype import info
from ..ir import prim
from ..ir.prim import Call, Cast, ProducerLoad, Reduce, Select, Var
from ..ir.visit import post_order
from ..te.tensor import ComputeOp, Operation
from .access import AccessAnalyzer
from .reach import Extents, Number, Reach, least

KINDS: dict[str, tuple[type, ...]] = {
    "add": (prim.Add, prim.Sub),
    "multiply": (prim.Mul,),
    "divide": (prim.Div, prim.FloorDiv, prim.Mod, prim.FloorMod),
    "compare": (prim.Max, prim.Min, prim.LT, prim.LE, prim.GT, prim.GE, prim.EQ, prim.NE, Select),
    "cast": (Cast,),
    "call": (Call,),
}


# The size of a cache line in bytes, and the distance of addresses that share a set of an L1 cache: a page.
LINE_BYTES, _PAGE_BYTES = 64, 4096


@dataclass(frozen=True)
class Buffer:
    """A tensor that a stage accesses: the element size in bytes, its dimensions, the span of each index of each read,
    whether its layout is that of the reads, and whether only the part that the enclosing loops access is stored."""

    width: int
    shape: tuple[int, ...]
    reads: list[list[Reach]]
    is_layout_free: bool = False
    is_compact: bool = False

    def elements(self, extents: Extents) -> Number:
        """Return the number of elements that are accessed for the given axis extents."""
        touched: Number = 0
        for reaches in self.reads:
            touched = touched + math.prod(least(f(extents), d) for f, d in zip(reaches, self.shape))
        return least(touched, math.prod(self.shape))

    def footprint(self, extents: Extents) -> tuple[Number, Number]:
        """Return the bytes of the cache lines that are accessed for the given axis extents, and the bytes of a cache
        that they occupy. Rows whose distance is a power of two share cache sets, so each of them occupies as much as
        its distance to the next row."""
        if self.is_compact or self.is_layout_free:
            size = self.width * self.elements(extents)
            return size, size
        moved: Number = 0
        occupied: Number = 0
        for reaches in self.reads:
            row, rows, apart, is_whole, stride = np.float64(self.width), np.float64(1), np.float64(0), True, self.width
            for reach, length in zip(reversed(reaches), reversed(self.shape)):
                own = np.minimum(reach(extents), length)
                apart = np.where(np.logical_not(is_whole) & (own > 1) & (apart == 0), stride & -stride, apart)
                row, rows = np.where(is_whole, row * own, row), np.where(is_whole, rows, rows * own)
                is_whole, stride = is_whole & (own == length), stride * length
            moved = moved + rows * np.ceil(row / LINE_BYTES) * LINE_BYTES
            occupied = occupied + rows * np.maximum(row, np.where(rows > 1, np.minimum(apart, _PAGE_BYTES), LINE_BYTES))
        return least(moved, LINE_BYTES * -(-self.width * math.prod(self.shape) // LINE_BYTES)), occupied

    def steps_along(self, axis: Var) -> str:
        """Return the class of the stride of a read along an axis: zero, one element, or more."""
        far = {axis: 2}
        kinds = set()
        for reaches in self.reads:
            moved = [place for place, f in enumerate(reaches) if f(far) > 1]
            last = len(reaches) - 1
            is_next = self.is_layout_free or moved == [last] and reaches[last](far) == 2
            kinds.add("still" if not moved else "next" if is_next else "far")
        return next(kind for kind in ("far", "next", "still", "") if kind in kinds or not kinds)


class OperationFacts:
    """An operation, with the operations in ``inlined`` that are computed inside it. Inputs in ``layout_free`` are
    stored in the order in which they are read; of inputs in ``attached``, only a part is stored at a time."""

    def __init__(
        self,
        op: ComputeOp,
        analyzer: AccessAnalyzer,
        inlined: frozenset[Operation],
        layout_free: frozenset[Operation] = frozenset(),
        attached: frozenset[Operation] = frozenset(),
    ):
        self.op = op
        self.counts = arithmetic(op)
        out = op.output(0)
        self.is_integer = info(out.dtype).is_integer
        axes = [axis.var for axis in op.axis]
        self.store = Buffer(
            width_of(out.dtype), _shape(out), [[lambda e, v=v: e.get(v, 1) for v in axes]], is_compact=op in attached
        )
        self.reads = []
        for producer, reaches in analyzer.accesses[op].reaches.items():
            tensor = producer.output(0)
            self.reads.append(
                Buffer(width_of(tensor.dtype), _shape(tensor), reaches, producer in layout_free, producer in attached)
            )
            if producer in inlined:
                own = _inlined_arithmetic(producer, analyzer, inlined)
                self.counts = [a + b * len(reaches) for a, b in zip(self.counts, own)]
        self._moves: dict[Var, np.ndarray] = {}
        self._steps: dict[tuple[int, Var], str] = {}

    @property
    def buffers(self) -> list[Buffer]:
        return [*self.reads, self.store]

    def step_of(self, buffer: Buffer, axis: Var) -> str:
        """Return the stride of a read of a buffer along an axis."""
        key = (id(buffer), axis)
        if key not in self._steps:
            self._steps[key] = buffer.steps_along(axis)
        return self._steps[key]

    def moves_along(self, axis: Var) -> np.ndarray:
        """Return the number of reads with stride one, zero, and more along an axis, and whether the store has stride
        one."""
        known = self._moves.get(axis)
        if known is None:
            kinds = [buffer.steps_along(axis) for buffer in self.reads]
            found = [*(kinds.count(kind) for kind in ("next", "still", "far")), self.store.steps_along(axis) == "next"]
            known = self._moves[axis] = np.array(found, dtype="float64")
        return known


def _inlined_arithmetic(op: Any, analyzer: AccessAnalyzer, inlined: frozenset[Operation]) -> list[int]:
    """Return the arithmetic of an operation and of the operations inlined into it. Each operation is counted once, even
    if it is shared."""
    todo, seen, total = [op], {op}, [0] * len(KINDS)
    while todo:
        one = todo.pop()
        total = [a + b for a, b in zip(total, arithmetic(one))]
        fresh = [p for p in analyzer.producers(one) if p in inlined and p not in seen]
        seen.update(fresh)
        todo += fresh
    return total


def width_of(dtype: str) -> int:
    return max((info(dtype).bits + 7) // 8, 1)


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(d.value for d in tensor.shape)


def arithmetic(op: ComputeOp) -> list[int]:
    """Return the number of operations of each kind for one term of one element, without index arithmetic."""

    def operands(node: Any) -> Sequence[Any]:
        if isinstance(node, ProducerLoad):
            return ()
        if isinstance(node, Reduce):
            return [*node.source, *node.combiner.result]
        return list(node.children())

    nodes = [node for body in op.body[:1] for node in post_order(body, operands=operands)]
    return [sum(isinstance(node, classes) for node in nodes) for classes in KINDS.values()]


__all__ = ["Buffer", "KINDS", "LINE_BYTES", "OperationFacts", "arithmetic", "width_of"]
