"""Features of a state for cost models, a row for each stage that computes, from its loops in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..dtype import info
from ..ir import prim
from ..ir.prim import Call, Cast, ProducerLoad, Reduce, Select, Var
from ..ir.visit import post_order
from ..te.tensor import ComputeOp, Operation
from .compute_dag import ComputeDAG
from .hardware import HardwareParams
from .iterator import Annotation, IteratorKind
from .loop_nests import LoopNests, Nest
from .reach import Extents, Reach
from .state import Stage, StateObject

# Sizes of memory that is near to a core, in bytes: what is touched again while it is there comes from it.
_NEAR_BYTES = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23)
_KINDS: dict[str, tuple[type, ...]] = {
    "add": (prim.Add, prim.Sub), "multiply": (prim.Mul,), "divide": (prim.Div, prim.FloorDiv, prim.Mod, prim.FloorMod),
    "compare": (prim.Max, prim.Min, prim.LT, prim.LE, prim.GT, prim.GE, prim.EQ, prim.NE, Select), "cast": (Cast,),
    "call": (Call,),
}
NAMES = (
    *(f"{kind} operations" for kind in _KINDS), "elements", "terms", "executions", "iterations",
    "parallel iterations", "parallel waste", "lanes", "contiguous reads", "broadcast reads", "strided reads",
    "contiguous store", "unrolled", "most unrolled", "innermost elements", "innermost terms", "innermost loop",
    "accumulators", "accumulator bytes", "is attached", "is reduction", "loops", "unique bytes", "buffers",
    *(f"traffic of {size} bytes" for size in _NEAR_BYTES), "arithmetic per byte",
)


@dataclass(frozen=True)
class _Buffer:
    """A tensor that a stage touches: bytes of an element, the dimensions, and how far each index of each read
    reaches."""

    width: int
    shape: tuple[int, ...]
    reads: list[list[Reach]]

    def elements(self, extents: Extents) -> int:
        """Elements touched while axes have these extents."""
        touched = sum(math.prod(min(f(extents), d) for f, d in zip(reaches, self.shape)) for reaches in self.reads)
        return min(touched, math.prod(self.shape))

    def steps_along(self, axis: Var) -> str:
        """How a read moves when an axis does: not at all, to the next element, or further."""
        far = {axis: 2}
        kinds = set()
        for reaches in self.reads:
            moved = [place for place, f in enumerate(reaches) if f(far) > 1]
            last = len(reaches) - 1
            kinds.add("still" if not moved else "next" if moved == [last] and reaches[last](far) == 2 else "far")
        return next(kind for kind in ("far", "next", "still", "") if kind in kinds or not kinds)


class _Operation:
    """What is true of an operation whatever its loops are."""

    def __init__(self, op: ComputeOp, accesses: Any):
        self.op = op
        self.counts = _arithmetic(op)
        out = op.output(0)
        shape = tuple(d.value for d in out.shape)
        axes = [axis.var for axis in op.axis]
        self.store = _Buffer(_width(out.dtype), shape, [[lambda e, v=v: e.get(v, 1) for v in axes]])
        self.reads = [
            _Buffer(_width(p.output(0).dtype), tuple(d.value for d in p.output(0).shape), reaches)
            for p, reaches in accesses.reaches.items()]

    @cached_property
    def buffers(self) -> list[_Buffer]:
        return [*self.reads, self.store]


def _width(dtype: str) -> int:
    return max((info(dtype).bits + 7) // 8, 1)


def _arithmetic(op: ComputeOp) -> list[int]:
    """Operations of each kind for one term of one element; indices are not counted."""
    def operands(node: Any) -> Sequence[Any]:
        if isinstance(node, ProducerLoad):
            return ()
        if isinstance(node, Reduce):
            return [*node.source, *node.combiner.result]
        return list(node.children())

    nodes = [node for body in op.body[:1] for node in post_order(body, operands=operands)]
    return [sum(isinstance(node, classes) for node in nodes) for classes in _KINDS.values()]


class FeatureExtractor:
    """Features of states of one computation."""

    def __init__(self, dag: ComputeDAG, hardware: HardwareParams):
        self.dag, self.cores = dag, max(hardware.num_cores, 1)
        self._operations: dict[Operation, _Operation] = {}

    def rows(self, state: StateObject) -> np.ndarray:
        """A row for each stage with loops. A state that was read from a record has its loops made first."""
        if not state.stages:
            state = self.dag.state_of(state.transform_steps)
        nests = LoopNests(self.dag, state)
        rows = [self._row(state.stages[place], nest, nests) for place, nest in sorted(nests.nests.items())]
        return np.log2(1.0 + np.array(rows, dtype="float64")).astype("float32")

    def _operation(self, op: Any, nests: LoopNests) -> _Operation:
        known = self._operations.get(op)
        if known is None:
            if len(self._operations) > 4096:
                self._operations.clear()
            known = self._operations[op] = _Operation(op, nests.analyzer.accesses[op])
        return known

    def _row(self, stage: Stage, nest: Nest, nests: LoopNests) -> list[float]:
        operation = self._operation(stage.op, nests)
        iterations = nest.iterations() * nest.times
        space = math.prod(loop.extent for loop in nest.loops if loop.kind is IteratorKind.SPATIAL)
        touched = [self._bytes(operation, nest, first) for first in range(len(nest.loops) + 1)]
        traffic = [_traffic(nest, touched, size) for size in _NEAR_BYTES]
        flop = sum(operation.counts) * iterations
        return [
            *(count * iterations for count in operation.counts), space * nest.times, nest.iterations() / max(space, 1),
            nest.times, iterations, *self._parallel(nest), *_lanes(operation, nest), *_unrolling(stage, nest),
            *_innermost(operation, nest), float(stage.attach is not None), float(bool(stage.op.reduce_axis)),
            len([loop for loop in nest.loops if loop.extent > 1]), touched[0], len(operation.buffers), *traffic,
            flop / max(traffic[2], 1),
        ]

    @staticmethod
    def _bytes(operation: _Operation, nest: Nest, first: int) -> int:
        """Bytes touched by the loops from one on."""
        extents = nest.inside(first)
        return sum(buffer.width * buffer.elements(extents) for buffer in operation.buffers)

    def _parallel(self, nest: Nest) -> tuple[float, float]:
        """Iterations spread over threads, and how many times as long the busiest core works as the mean one."""
        count = math.prod(loop.extent for loop in nest.loops if loop.annotation is Annotation.PARALLEL)
        rounds = -(-count // self.cores)
        return count, rounds * self.cores / count


def _traffic(nest: Nest, touched: list[int], size: int) -> float:
    """Bytes that come from beyond a memory of this size: the loops whose data fits bring it in once."""
    for first, amount in enumerate(touched):
        if amount <= size or first == len(touched) - 1:
            return float(amount) * nest.iterations(0, first) * nest.times
    return 0.0


def _lanes(operation: _Operation, nest: Nest) -> list[float]:
    """The lanes of vectors, and how reads and the store move along them (or along the innermost loop)."""
    loops = [loop for loop in nest.loops if loop.extent > 1]
    lanes = math.prod(loop.extent for loop in loops if loop.annotation is Annotation.VECTORIZE)
    axis = next((var for var, extent in reversed(loops[-1].parts) if extent > 1), None) if loops else None
    if axis is None:
        return [lanes, 0, 0, 0, 0]
    kinds = [buffer.steps_along(axis) for buffer in operation.reads]
    store = operation.store.steps_along(axis)
    return [lanes, kinds.count("next"), kinds.count("still"), kinds.count("far"), float(store == "next")]


def _unrolling(stage: Stage, nest: Nest) -> list[float]:
    """Iterations that are unrolled: those asked for, and the innermost ones as far as the limit goes."""
    asked = math.prod(loop.extent for loop in nest.loops if loop.annotation is Annotation.UNROLL)
    most = 1
    for loop in reversed(nest.loops):
        if most * loop.extent > stage.auto_unroll_max_step:
            break
        most *= 1 if loop.annotation is Annotation.VECTORIZE else loop.extent
    return [asked * most, stage.auto_unroll_max_step]


def _innermost(operation: _Operation, nest: Nest) -> list[float]:
    """The elements inside of the innermost loop of a reduction, its terms, and the accumulators of its tile."""
    loops = nest.loops
    reductions = [i for i, loop in enumerate(loops) if loop.kind is IteratorKind.REDUCTION and loop.extent > 1]
    inner = math.prod(loop.extent for loop in loops[reductions[-1] + 1 :]) if reductions else 1
    terms = loops[reductions[-1]].extent if reductions else 1
    first = reductions[0] if reductions else len(loops)
    tile = math.prod(loop.extent for loop in loops[first:] if loop.kind is IteratorKind.SPATIAL)
    last = next((loop.extent for loop in reversed(loops) if loop.extent > 1), 1)
    return [inner, terms, last, tile, tile * operation.store.width]


__all__ = ["FeatureExtractor", "NAMES"]
