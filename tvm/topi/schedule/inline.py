"""Selection of the stages that are inlined into their readers.

Several operations that read a value at one place share its computation, so the cost depends on the number of places. A
place is an operation that is not inlined, with the indices at which it reads through all inlined operations. A stage
that is read at many places is stored even if it is cheap. Otherwise a chain of operations that each read their input
twice at different indices (such as differences of neighbours) would grow exponentially with its length.
"""

from __future__ import annotations

from collections.abc import Callable

from ...arith.compare import Interner
from ...ir.prim import PrimExpr, ProducerLoad, Var
from ...ir.primop import cast
from ...ir.subst import substitute
from ...ir.visit import post_order
from ...te.schedule import AttachType, Schedule, Stage
from ...te.tensor import ComputeOp, Operation
from .. import access

# The maximum number of places at which a stage is recomputed.
MOST_PLACES = 16
# Attributes of operations that are computed by an intrinsic, which reads its inputs from memory.
INTRINSICS = ("instruction", "kind")
# An operation that is not inlined, and the values of the axes of the tensor that it reads.
Place = tuple[Operation, tuple[PrimExpr, ...]]


def inline(s: Schedule, is_free: Callable[[ComputeOp], bool]) -> None:
    """Inline the stages of ``s`` that cost no more when they are computed where they are read: each element is read
    about once, or recomputing it is as cheap as loading it (``is_free``)."""
    chosen: set[Stage] = set()
    readers = _Readers(s)
    for stage in reversed(s.stages):
        op = stage.op
        readings = readers.readings.pop(op, {})
        places = frozenset().union(*readings)
        inlined = (
            0 < len(places) <= MOST_PLACES
            and _can_inline(stage, op)
            and op not in readers.as_memory
            and (not op.axis or is_free(op) or sum(readings.values()) <= 1.01)
        )
        if inlined:
            chosen.add(stage)
        if isinstance(op, ComputeOp):
            readers.add(op, places if inlined else None)
    for stage in s.stages:
        if stage in chosen:
            stage.compute_inline()


def _can_inline(stage: Stage, op: Operation) -> bool:
    # Steps of an operator are scheduled by its template.
    steps = stage.attach_type == AttachType.SCAN_UPDATE or (op.tag or "").endswith(",step")
    return isinstance(op, ComputeOp) and not (op.reduce_axis or stage.is_output or stage.group is not None or steps)


def _reads_memory(op: Operation) -> bool:
    return not isinstance(op, ComputeOp) or any(name in op.attrs for name in INTRINSICS)


class _Readers:
    """The reads of the stages visited so far; readers are visited first."""

    def __init__(self, s: Schedule):
        # The reads of each operation: their places, and the number of reads of an element for each. Reads at the same
        # places are merged.
        self.readings: dict[Operation, dict[frozenset[Place], float]] = {}
        # Tensors read by operations whose body is not an expression, and by operations that an intrinsic computes.
        self.as_memory = {t.op for x in s.stages if _reads_memory(x.op) for t in x.op.input_tensors}
        self._indices = Interner()

    def add(self, op: ComputeOp, places: frozenset[Place] | None) -> None:
        """Add the reads of ``op``: from the ``places`` at which it is inlined, or from the operation itself."""
        points = access.work(op)
        roots = [(op, {})] if places is None else [(p[0], _values(op, p[1])) for p in places]
        for load in {id(n): n for b in op.body for n in post_order(b) if type(n) is ProducerLoad}.values():
            producer = load.producer.op
            if not isinstance(producer, ComputeOp):
                continue
            at = frozenset((root, self._at(load.indices, axes)) for root, axes in roots)
            share = points / max(access.elements(load.producer.shape), 1)
            found = self.readings.setdefault(producer, {})
            found[at] = max(share, found.get(at, 0))

    def _at(self, indices: tuple[PrimExpr, ...], axes: dict[Var, PrimExpr]) -> tuple[PrimExpr, ...]:
        return tuple([self._indices.intern(substitute(i, axes)) for i in indices])


def _values(op: ComputeOp, indices: tuple[PrimExpr, ...]) -> dict[Var, PrimExpr]:
    """Return the values of the axes of an operation that is read at the given indices, whose dtype may be narrower than
    that of the axes."""
    return {a.var: cast(a.var.dtype, at) for a, at in zip(op.axis, indices)}
