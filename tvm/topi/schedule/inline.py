"""Which stages are computed where they are read.

A value that several operations read at one place is computed there once, so what counts are places: an operation that
stays, with the indices it reads at through all that is inlined into it. A stage read at many places is kept however
cheap it is; otherwise a chain of operations that each read their input twice, elsewhere each time (differences of
neighbours), would grow with a power of its length.
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

# Places up to which a stage is computed again.
MOST_PLACES = 16
# Attributes of operations that an intrinsic computes, which takes what they read from memory.
INTRINSICS = ("instruction", "kind")
# An operation that stays, and the values that the axes of what it reads have.
Place = tuple[Operation, tuple[PrimExpr, ...]]


def inline(s: Schedule, is_free: Callable[[ComputeOp], bool]) -> None:
    """Inline the stages of ``s`` that cost nothing more where they are read: each element is read about once, or
    computing it again is as good as loading it (``is_free``)."""
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
    # Steps of an operator are placed by its template.
    steps = stage.attach_type == AttachType.SCAN_UPDATE or (op.tag or "").endswith(",step")
    return isinstance(op, ComputeOp) and not (op.reduce_axis or stage.is_output or stage.group is not None or steps)


def _reads_memory(op: Operation) -> bool:
    return not isinstance(op, ComputeOp) or any(name in op.attrs for name in INTRINSICS)


class _Readers:
    """Where the stages seen so far, readers first, read the others."""

    def __init__(self, s: Schedule):
        # Operation -> its readings: the places of each, and how often it reads an element each time. Readings at the
        # same places are one.
        self.readings: dict[Operation, dict[frozenset[Place], float]] = {}
        # Tensors read by operations without a body of expressions, and by those that an intrinsic computes.
        self.as_memory = {t.op for x in s.stages if _reads_memory(x.op) for t in x.op.input_tensors}
        self._indices = Interner()

    def add(self, op: ComputeOp, places: frozenset[Place] | None) -> None:
        """What ``op`` reads: from the ``places`` it is inlined at, or from itself."""
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
    """The axes of an operation where it is read at some indices, which may be narrower than its sizes are."""
    return {a.var: cast(a.var.dtype, at) for a, at in zip(op.axis, indices)}
