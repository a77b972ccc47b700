"""Kernels that work row by row on a GPU: softmax, layer normalization, and whatever else is made of reductions over
rows and element-by-element steps on the same rows, with what is done to the rows before and after.

A warp or a block of threads does all of a row, or one thread does where rows are short or do not run along memory. The
results of the reductions stay with the threads, and so do their parts of the rows that are read more than once, in
registers; of rows too long for that, steps between the reductions are computed again where they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...arith import Analyzer
from ...dtype import info
from ...ir.prim import IntImm, IterVar, PrimExpr, Var
from ...ir.structural import structural_equal
from ...ir.visit import post_order
from ...te.operation import thread_axis
from ...te.schedule import Schedule, Stage
from ...te.tensor import ComputeOp, PlaceholderOp, Tensor
from .. import access

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

# Rows shorter than this are done by one thread each.
SHORT_ROW = 16
# Reductions and steps in one kernel at most.
MOST_STEPS = 24
# Elements of a row that one thread does; where most multiprocessors have no row; and at most where each has many rows,
# if a warp does a row then: blocks of four such rows were measured to be a quarter faster than blocks of one.
SHARE, FEW_ROWS_SHARE, MANY_ROWS_SHARE = 8, 4, 32
# Rows of one block, where each is done by one warp.
ROWS_OF_A_BLOCK = 4
# Registers of a thread for one copy of its part of a row.
ROW_REGISTERS = 64


def plan(planner: Planner) -> bool:
    """Schedule everything row by row if that is what it is; says whether it was. Where it was not, nothing but the
    inlining of steps is changed, and the caller begins anew."""
    s = planner.s
    stages = [x for x in s.stages if not x.op.input_tensors == [] or x.is_output]
    stages = [x for x in stages if isinstance(x.op, ComputeOp)]
    if len(stages) > MOST_STEPS or any(not isinstance(x.op, ComputeOp) for x in s.stages if x.op.input_tensors):
        return False
    outputs = [x for x in s.stages if x.is_output]
    if len(outputs) != 1 or outputs[0].op.reduce_axis or not any(x.op.reduce_axis for x in stages):
        return False
    last = outputs[0]
    if any(x.op.num_outputs != 1 for x in stages) or any(access.extent_of(a) in (0, None) for a in last.op.axis):
        return False
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and not stage.is_output and not stage.op.reduce_axis:
            stage.compute_inline()
    members = [x for x in s.stages if isinstance(x.op, ComputeOp) and x.op.reduce_axis]
    found = _lead(s.normalize(), last, members)
    if found is None:
        return False
    lead, place = found
    along = [i for i in range(len(last.op.axis)) if i not in lead]
    if not along:
        return False
    rows = access.elements([last.op.axis[i].dom.extent for i in lead])
    length = access.elements([last.op.axis[i].dom.extent for i in along])
    if length == 1 < max(access.elements([a.dom.extent for a in x.op.reduce_axis]) for x in members):
        # One result for each row.
        return False
    if length < SHORT_ROW or (along[-1] != len(last.op.axis) - 1 and rows >= 256):
        _one_thread(planner, last, members, lead, along)
        return True
    parts = _parts(planner, last, members, along, rows, length)
    if parts is None:
        _one_block(planner, last, members, lead, along)
    else:
        _InRegisters(planner, last, members, rows, place, parts).schedule()
    return True


def _lead(plain: Schedule, last: Stage, members: list[Stage]) -> tuple[list[int], list[PrimExpr]] | None:
    """The dimensions of the output that say which row it is, if all reductions are of that row, and the indices of
    the row among the reductions' results."""
    ops = {plain.stage_map[m.op].op if m.op in plain.stage_map else None for m in members}
    twins = [x for x in plain.stages if isinstance(x.op, ComputeOp)]
    end = next((x.op for x in twins if x.is_output), None)
    if end is None or None in ops or len(ops) != len(members):
        return None
    place: list[PrimExpr] | None = None
    for twin in twins:
        known = _knows_axes(twin.op)
        for load in access.loads(twin.op.body):
            if load.producer.op not in ops:
                continue
            found = [known.simplify(i) for i, a in zip(load.indices, load.producer.op.axis) if access.extent_of(a) != 1]
            if twin.op is not end:
                own = [a.var for a in twin.op.axis if access.extent_of(a) != 1]
                if len(found) != len(own) or any(i is not v for i, v in zip(found, own)):
                    return None
            elif place is None:
                place = found
            elif len(found) != len(place) or not all(map(structural_equal, found, place)):
                return None
    if place is None:
        return None
    lead = [i for i, a in enumerate(end.axis) if any(_has(e, a.var) for e in place)]
    rows = access.elements([end.axis[i].dom.extent for i in lead])
    if any(op is None or access.elements([a.dom.extent for a in op.axis]) != rows for op in ops):
        return None
    return lead, place


def _knows_axes(op: ComputeOp) -> Analyzer:
    known = Analyzer()
    for a in (*op.axis, *op.reduce_axis):
        known.bind(a.var, a.dom)
    return known


def _is_one(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 1


def _has(e: PrimExpr, var: Var) -> bool:
    return any(n is var for n in post_order(e))


def _one_thread(planner: Planner, last: Stage, members: list[Stage], lead: list[int], along: list[int]) -> None:
    """One thread for each row."""
    axes = list(last.op.axis)
    last.reorder(*[axes[i] for i in lead], *[axes[i] for i in along])
    _, thread = planner.spread(last, planner.fused(last, [axes[i] for i in lead]))
    for stage in members:
        stage.compute_at(last, thread)
        stage.set_scope("local")


def _one_block(planner: Planner, last: Stage, members: list[Stage], lead: list[int], along: list[int]) -> None:
    """A block of threads for each row, of which nothing is kept."""
    axes = list(last.op.axis)
    last.reorder(*[axes[i] for i in lead], *[axes[i] for i in along])
    row = planner.fused(last, [axes[i] for i in lead])
    length = access.elements([axes[i].dom.extent for i in along])
    count = planner.machine.threads(-(-length // 4))
    threads = thread_axis((0, count), "threadIdx.x")
    last.bind(row, thread_axis("blockIdx.x"))
    outer, inner = last.split(planner.fused(last, [axes[i] for i in along]), factor=count)
    last.reorder(inner, outer)
    last.bind(inner, threads)
    for stage in members:
        planner.across_threads(stage, count, threads)
        stage.compute_at(last, row)
        stage.set_scope("local")


class Parts(NamedTuple):
    """How the threads of a block divide a row: ``count`` times ``threads`` vectors of ``lanes`` elements."""

    threads: int
    lanes: int
    count: int

    def cut(self, stage: Stage, axis: IterVar) -> tuple[IterVar, IterVar, IterVar]:
        """The loops over a row: vectors of a thread, threads, lanes."""
        outer, inner = stage.split(axis, factor=self.threads * self.lanes)
        thread, lane = stage.split(inner, factor=self.lanes)
        return outer, thread, lane


def _parts(
    planner: Planner, last: Stage, members: list[Stage], along: list[int], rows: int, length: int
) -> Parts | None:
    """How to divide rows so that threads keep their parts, None if they are not plain rows or too long."""
    axes = [last.op.axis[i] for i in along]
    if access.extent_of(axes[-1]) != length or along[-1] != len(last.op.axis) - 1:
        return None
    for stage in members:
        if len(stage.op.reduce_axis) != 1 or access.extent_of(stage.op.reduce_axis[0]) != length:
            return None
    machine = planner.machine
    share = SHARE if 4 * rows >= machine.multiprocessors else FEW_ROWS_SHARE
    if machine.is_nvidia and rows >= 8 * machine.multiprocessors and rows % 2 == 0 and length <= MANY_ROWS_SHARE * 32:
        share = MANY_ROWS_SHARE
    threads = machine.threads(-(-length // share))
    if length < threads:
        return None
    dtypes = [x.op.output(0).dtype for x in planner.s.stages]
    widest = max(info(d).bytes for d in dtypes)
    lanes = next((n for n in (4, 2) if n * widest <= machine.vector_bytes and length % (threads * n) == 0), 1)
    count = -(-length // (threads * lanes))
    return Parts(threads, lanes, count) if count * lanes * max(widest // 4, 1) <= ROW_REGISTERS else None


class _InRegisters:
    """Rows divided among the threads of a block, each keeping its own part of what is read more than once."""

    def __init__(self, planner: Planner, last: Stage, members: list[Stage], rows: int, place: list[PrimExpr],
                 parts: Parts):
        self.planner = planner
        self.s = planner.s
        self.last = last
        self.members = members
        self.rows = rows
        self.place = place
        self.parts = parts

    def schedule(self) -> None:
        # Asked while the output reads memory, and not yet what the threads keep of it.
        vectors = self.planner.stores_together(self.last.op, self.parts.lanes)
        scalars, steps, inputs = self.kept()
        *lead, along = self.last.op.axis
        row = self.planner.fused(self.last, lead)
        together = self.rows_together()
        if together > 1:
            row, own = self.last.split(row, factor=together)
            self.last.bind(own, thread_axis((0, together), "threadIdx.y"))
        self.last.bind(row, thread_axis("blockIdx.x"))
        outer, thread, lane = self.parts.cut(self.last, along)
        self.last.reorder(thread, outer, lane)
        threads = thread_axis((0, self.parts.threads), "threadIdx.x")
        self.last.bind(thread, threads)
        copies = [self.s[self.s.cache_read(x, "local", [u.op.output(0) for u in users])] for x, users in inputs]
        for stage in (*copies, *steps):
            self.keep(stage, thread)
        for stage in scalars:
            stage.compute_at(self.last, thread)
            stage.set_scope("local")
        for stage in self.members:
            self.reduce(stage, thread, threads)
        self.last.unroll(outer)
        _together(self.last, lane, vectors)

    def rows_together(self) -> int:
        """Rows of one block: a warp for each where warps need not wait for each other and all have a row."""
        machine = self.planner.machine
        if not machine.is_nvidia or self.parts.threads != machine.warp:
            return 1
        most = self.rows // machine.multiprocessors
        return next(n for n in (ROWS_OF_A_BLOCK, 2, 1) if n == 1 or self.rows % n == 0 and n <= most)

    def keep(self, stage: Stage, thread: IterVar) -> None:
        """Each thread computes its own part of the rows of ``stage`` once."""
        self.parts.cut(stage, stage.op.axis[-1])
        part = self.s[self.s.cache_write(stage.op.output(0), "local")]
        stage.compute_inline()
        *_, outer, _, lane = part.op.axis
        part.compute_at(self.last, thread)
        part.unroll(outer)
        _together(part, lane, self.planner.stores_together(part.op, self.parts.lanes))

    def reduce(self, stage: Stage, thread: IterVar, threads: IterVar) -> None:
        """Each thread reduces its own part, then they join the results."""
        _, inner, _ = self.parts.cut(stage, stage.op.reduce_axis[0])
        part = self.s[self.s.rfactor(stage.op.output(0), inner, len(stage.op.axis))]
        own = stage.op.reduce_axis[0]
        stage.bind(own, threads)
        part.compute_at(stage, own)
        part.set_scope("local")
        for axis in part.op.reduce_axis:
            part.unroll(axis)
        stage.compute_at(self.last, thread)
        stage.set_scope("local")

    def kept(self) -> tuple[list[Stage], list[Stage], list[tuple[Tensor, list[Stage]]]]:
        """What threads keep: values of a row, steps and inputs along it that several others read."""
        inner = [x for x in self.s.stages if isinstance(x.op, ComputeOp) and x.op.input_tensors]
        inner = [x for x in inner if not x.is_output and not x.op.reduce_axis]
        sizes = {x: access.elements(x.op.output(0).shape) for x in inner}
        scalars = [x for x in inner if sizes[x] == self.rows]
        steps = [x for x in inner if sizes[x] > self.rows and len(self.s.consumers(x)) > 1 and self.is_row_long(x)]
        for stage in (*scalars, *steps):
            stage.compute_root()
        while True:
            misread = self.misread({*scalars, *steps})
            again = [x for x in (*scalars, *steps) if x in misread]
            if not again:
                break
            for stage in again:
                stage.compute_inline()
            scalars, steps = ([x for x in xs if x not in again] for xs in (scalars, steps))
        given = [x for x in self.s.stages if isinstance(x.op, PlaceholderOp) and self.is_row_long(x)]
        inputs = [x for x in given if len(self.s.consumers(x)) > 1 and x not in misread and self.runs(x)]
        return scalars, steps, [(x.op.output(0), self.s.consumers(x)) for x in inputs]

    def is_row_long(self, stage: Stage) -> bool:
        shape = stage.op.output(0).shape
        return bool(shape) and structural_equal(shape[-1], self.last.op.axis[-1].dom.extent)

    def misread(self, kept: set[Stage]) -> set[Stage]:
        """Stages that are read elsewhere than at the row, or the element of the row, that is being computed."""
        plain = self.s.normalize()
        stages = {x.uid: x for x in self.s.stages}
        found: set[Stage] = set()
        for twin in plain.stages:
            if not isinstance(twin.op, ComputeOp):
                continue
            reader, known = stages[twin.uid], _knows_axes(twin.op)
            along = (*twin.op.axis, *twin.op.reduce_axis)[-1].var if self.runs(reader) else None
            lead = self.place if twin.is_output else [
                a.var for a in twin.op.axis if access.extent_of(a) != 1 and a.var is not along]
            for load in access.loads(twin.op.body):
                stage = stages[plain.stage_map[load.producer.op].uid]
                if stage in kept or isinstance(stage.op, PlaceholderOp):
                    indices = list(load.indices)
                    # As it is written: loops of threads are found by it.
                    if self.runs(stage) and (along is None or not indices or indices.pop() is not along):
                        found.add(stage)
                        continue
                    at = [known.simplify(i) for i, d in zip(indices, load.producer.shape) if not _is_one(d)]
                    if len(at) != len(lead) or not all(map(structural_equal, at, lead)):
                        found.add(stage)
        return found

    def runs(self, stage: Stage) -> bool:
        """Whether a stage has loops along the row, rather than one value for it."""
        return bool(stage.op.reduce_axis) or access.elements(stage.op.output(0).shape) != self.rows


def _together(stage: Stage, lane: IterVar, vectors: bool) -> None:
    """The lanes of a vector at once, or one by one."""
    if vectors:
        stage.vectorize(lane)
    else:
        stage.unroll(lane)


__all__ = ["plan"]
