"""Row kernels on a GPU: softmax, layer normalization, and all other computations of reductions over rows and
elementwise operations on the same rows, with their prologue and epilogue.

A warp or a thread block computes a whole row; a single thread does if rows are short or not contiguous. The results of
the reductions stay in registers, and so does each thread's slice of the rows that are read more than once. For rows too
long for that, the elementwise operations between the reductions are recomputed where they are read.
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
from ..nominal import Nominal

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

# Shorter rows are computed by one thread each.
SHORT_ROW = 16
# The maximum number of operations in one kernel, reductions and elementwise operations together.
MAX_OPERATIONS = 24
# Row elements per thread: in general; if there are too few rows for most multiprocessors; and the maximum for which one
# warp computes a row if there are many rows. Blocks of four such rows were measured to be 25 % faster than blocks of
# one row.
THREAD_ELEMENTS, FEW_ROWS_THREAD_ELEMENTS, MANY_ROWS_THREAD_ELEMENTS = 8, 4, 32
# The rows of a thread block if a warp computes a row.
BLOCK_ROWS = 4
# The threads of a row of dynamic length.
UNKNOWN_ROW_THREADS = 128
# The registers of a thread for one copy of its slice of a row.
ROW_REGISTERS = 64


def plan(planner: Planner) -> bool:
    """Schedule the computation as one row kernel if possible; return whether it is. Otherwise only elementwise
    operations have been inlined, and the caller must start again."""
    s = planner.s
    stages = [x for x in s.stages if not x.op.input_tensors == [] or x.is_output]
    stages = [x for x in stages if isinstance(x.op, ComputeOp)]
    if len(stages) > MAX_OPERATIONS or any(not isinstance(x.op, ComputeOp) for x in s.stages if x.op.input_tensors):
        return False
    outputs = [x for x in s.stages if x.is_output]
    if len(outputs) != 1 or outputs[0].op.reduce_axis or not any(x.op.reduce_axis for x in stages):
        return False
    last = outputs[0]
    if any(x.op.num_outputs != 1 for x in stages) or any(access.extent_of(a) == 0 for a in last.op.axis):
        return False
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and not stage.is_output and not stage.op.reduce_axis:
            stage.compute_inline()
    reductions = [x for x in s.stages if isinstance(x.op, ComputeOp) and x.op.reduce_axis]
    row_axes = _row_axes(s.normalize(), last, reductions, planner.sizes)
    if row_axes is None:
        return False
    lead, row_index = row_axes
    along = [i for i in range(len(last.op.axis)) if i not in lead]
    if not along:
        return False
    rows = planner.sizes.elements([last.op.axis[i].dom.extent for i in lead])
    length = planner.sizes.elements([last.op.axis[i].dom.extent for i in along])
    if length == 1 < max(planner.sizes.elements([a.dom.extent for a in x.op.reduce_axis]) for x in reductions):
        # The output has one element for each row, so this is a plain reduction.
        return False
    if length < SHORT_ROW or (along[-1] != len(last.op.axis) - 1 and rows >= 256):
        _one_thread(planner, last, reductions, lead, along)
        return True
    partition = _partition(planner, last, reductions, along, rows, length)
    if partition is None:
        _one_block(planner, last, reductions, lead, along)
    else:
        _InRegisters(planner, last, reductions, rows, row_index, partition).schedule()
    return True


def _row_axes(
    plain: Schedule, last: Stage, reductions: list[Stage], sizes: Nominal
) -> tuple[list[int], list[PrimExpr]] | None:
    """Return the output axes that identify the row if all reductions are over that row, and the indices with which the
    output reads their results."""
    ops = {plain.stage_map[m.op].op if m.op in plain.stage_map else None for m in reductions}
    twins = [x for x in plain.stages if isinstance(x.op, ComputeOp)]
    end = next((x.op for x in twins if x.is_output), None)
    if end is None or None in ops or len(ops) != len(reductions):
        return None
    row_index: list[PrimExpr] | None = None
    for twin in twins:
        known = _knows_axes(twin.op)
        for load in access.loads(twin.op.body):
            if load.producer.op not in ops:
                continue
            indices = zip(load.indices, load.producer.op.axis)
            index = [known.simplify(i) for i, a in indices if access.extent_of(a) != 1]
            if twin.op is not end:
                axes = [a.var for a in twin.op.axis if access.extent_of(a) != 1]
                if len(index) != len(axes) or any(i is not v for i, v in zip(index, axes)):
                    return None
            elif row_index is None:
                row_index = index
            elif len(index) != len(row_index) or not all(map(structural_equal, index, row_index)):
                return None
    if row_index is None:
        return None
    lead = [i for i, a in enumerate(end.axis) if any(_has(e, a.var) for e in row_index)]
    rows = sizes.elements([end.axis[i].dom.extent for i in lead])
    if any(op is None or sizes.elements([a.dom.extent for a in op.axis]) != rows for op in ops):
        return None
    return lead, row_index


def _knows_axes(op: ComputeOp) -> Analyzer:
    known = Analyzer()
    for a in (*op.axis, *op.reduce_axis):
        known.bind(a.var, a.dom)
    return known


def _is_one(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 1


def _has(e: PrimExpr, var: Var) -> bool:
    return any(n is var for n in post_order(e))


def _one_thread(planner: Planner, last: Stage, reductions: list[Stage], lead: list[int], along: list[int]) -> None:
    """Bind one thread to each row."""
    axes = list(last.op.axis)
    last.reorder(*[axes[i] for i in lead], *[axes[i] for i in along])
    _, thread = planner.spread(last, planner.fused(last, [axes[i] for i in lead]))
    for stage in reductions:
        stage.compute_at(last, thread)
        stage.set_scope("local")


def _one_block(planner: Planner, last: Stage, reductions: list[Stage], lead: list[int], along: list[int]) -> None:
    """Bind one thread block to each row; rows are not stored in registers."""
    axes = list(last.op.axis)
    last.reorder(*[axes[i] for i in lead], *[axes[i] for i in along])
    row = planner.fused(last, [axes[i] for i in lead])
    length = planner.sizes.elements([axes[i].dom.extent for i in along])
    known = access.are_known([axes[i] for i in along])
    count = planner.machine.threads(-(-length // 4) if known else UNKNOWN_ROW_THREADS)
    threads = thread_axis((0, count), "threadIdx.x")
    last.bind(row, thread_axis("blockIdx.x"))
    outer, inner = last.split(planner.fused(last, [axes[i] for i in along]), factor=count)
    last.reorder(inner, outer)
    last.bind(inner, threads)
    for stage in reductions:
        planner.across_threads(stage, count, threads)
        stage.compute_at(last, row)
        stage.set_scope("local")


class RowPartition(NamedTuple):
    """The partition of a row among threads: ``count`` times ``threads`` vectors of ``lanes`` elements."""

    threads: int
    lanes: int
    count: int

    def split(self, stage: Stage, axis: IterVar) -> tuple[IterVar, IterVar, IterVar]:
        """Split the loop over a row into vectors of a thread, threads and lanes."""
        outer, inner = stage.split(axis, factor=self.threads * self.lanes)
        thread, lane = stage.split(inner, factor=self.lanes)
        return outer, thread, lane


def _partition(
    planner: Planner, last: Stage, reductions: list[Stage], along: list[int], rows: int, length: int
) -> RowPartition | None:
    """Return the partition of rows with which threads keep their slices in registers, or None if rows are not
    contiguous or too long."""
    axes = [last.op.axis[i] for i in along]
    if access.extent_of(axes[-1]) != length or along[-1] != len(last.op.axis) - 1:
        return None
    for stage in reductions:
        if len(stage.op.reduce_axis) != 1 or access.extent_of(stage.op.reduce_axis[0]) != length:
            return None
    machine = planner.machine
    elements = THREAD_ELEMENTS if 4 * rows >= machine.multiprocessors else FEW_ROWS_THREAD_ELEMENTS
    many_rows = machine.is_nvidia and rows >= 8 * machine.multiprocessors and rows % 2 == 0
    if many_rows and length <= MANY_ROWS_THREAD_ELEMENTS * 32:
        elements = MANY_ROWS_THREAD_ELEMENTS
    threads = machine.threads(-(-length // elements))
    if length < threads:
        return None
    dtypes = [x.op.output(0).dtype for x in planner.s.stages]
    widest = max(info(d).bytes for d in dtypes)
    lanes = next((n for n in (4, 2) if n * widest <= machine.vector_bytes and length % (threads * n) == 0), 1)
    count = -(-length // (threads * lanes))
    return RowPartition(threads, lanes, count) if count * lanes * max(widest // 4, 1) <= ROW_REGISTERS else None


class _InRegisters:
    """The schedule of rows divided among threads, each of which stores its slice of repeatedly read values in
    registers."""

    def __init__(
        self,
        planner: Planner,
        last: Stage,
        reductions: list[Stage],
        rows: int,
        row_index: list[PrimExpr],
        partition: RowPartition,
    ):
        self.planner = planner
        self.s = planner.s
        self.last = last
        self.reductions = reductions
        self.rows = rows
        self.row_index = row_index
        self.partition = partition

    def schedule(self) -> None:
        # Check this before caches are inserted, while the output still reads its inputs from memory.
        vectors = self.planner.can_vectorize(self.last.op, self.partition.lanes)
        scalars, cached, inputs = self.kept()
        *lead, along = self.last.op.axis
        row = self.planner.fused(self.last, lead)
        count = self.block_rows()
        if count > 1:
            row, warp = self.last.split(row, factor=count)
            self.last.bind(warp, thread_axis((0, count), "threadIdx.y"))
        self.last.bind(row, thread_axis("blockIdx.x"))
        outer, thread, lane = self.partition.split(self.last, along)
        self.last.reorder(thread, outer, lane)
        threads = thread_axis((0, self.partition.threads), "threadIdx.x")
        self.last.bind(thread, threads)
        copies = [self.s[self.s.cache_read(x, "local", [u.op.output(0) for u in users])] for x, users in inputs]
        for stage in (*copies, *cached):
            self.keep(stage, thread)
        for stage in scalars:
            stage.compute_at(self.last, thread)
            stage.set_scope("local")
        for stage in self.reductions:
            self.reduce(stage, thread, threads)
        self.last.unroll(outer)
        _vectorize_or_unroll(self.last, lane, vectors)

    def block_rows(self) -> int:
        """Return the rows of one thread block: one for each warp if warps compute rows and there are enough rows."""
        machine = self.planner.machine
        if not machine.is_nvidia or self.partition.threads != machine.warp:
            return 1
        most = self.rows // machine.multiprocessors
        return next(n for n in (BLOCK_ROWS, 2, 1) if n == 1 or self.rows % n == 0 and n <= most)

    def keep(self, stage: Stage, thread: IterVar) -> None:
        """Compute the slice of each thread of the rows of ``stage`` once and store it in registers."""
        self.partition.split(stage, stage.op.axis[-1])
        cache = self.s[self.s.cache_write(stage.op.output(0), "local")]
        stage.compute_inline()
        *_, outer, _, lane = cache.op.axis
        cache.compute_at(self.last, thread)
        cache.unroll(outer)
        _vectorize_or_unroll(cache, lane, self.planner.can_vectorize(cache.op, self.partition.lanes))

    def reduce(self, stage: Stage, thread: IterVar, threads: IterVar) -> None:
        """Reduce the slice of each thread, then combine the results of the threads."""
        _, inner, _ = self.partition.split(stage, stage.op.reduce_axis[0])
        partial = self.s[self.s.rfactor(stage.op.output(0), inner, len(stage.op.axis))]
        across = stage.op.reduce_axis[0]
        stage.bind(across, threads)
        partial.compute_at(stage, across)
        partial.set_scope("local")
        for axis in partial.op.reduce_axis:
            partial.unroll(axis)
        stage.compute_at(self.last, thread)
        stage.set_scope("local")

    def kept(self) -> tuple[list[Stage], list[Stage], list[tuple[Tensor, list[Stage]]]]:
        """Return the values that threads keep in registers: scalars of a row, and elementwise operations and inputs
        along it with several consumers."""
        inner = [x for x in self.s.stages if isinstance(x.op, ComputeOp) and x.op.input_tensors]
        inner = [x for x in inner if not x.is_output and not x.op.reduce_axis]
        sizes = {x: self.planner.sizes.elements(x.op.output(0).shape) for x in inner}
        scalars = [x for x in inner if sizes[x] == self.rows]
        cached = [x for x in inner if sizes[x] > self.rows and len(self.s.consumers(x)) > 1 and self.is_row_long(x)]
        for stage in (*scalars, *cached):
            stage.compute_root()
        while True:
            misread = self.misread({*scalars, *cached})
            recomputed = [x for x in (*scalars, *cached) if x in misread]
            if not recomputed:
                break
            for stage in recomputed:
                stage.compute_inline()
            scalars, cached = ([x for x in xs if x not in recomputed] for xs in (scalars, cached))
        placeholders = [x for x in self.s.stages if isinstance(x.op, PlaceholderOp) and self.is_row_long(x)]
        inputs = [x for x in placeholders if len(self.s.consumers(x)) > 1 and x not in misread and self.runs(x)]
        return scalars, cached, [(x.op.output(0), self.s.consumers(x)) for x in inputs]

    def is_row_long(self, stage: Stage) -> bool:
        shape = stage.op.output(0).shape
        return bool(shape) and structural_equal(shape[-1], self.last.op.axis[-1].dom.extent)

    def misread(self, kept: set[Stage]) -> set[Stage]:
        """Return the stages that are read at another row, or another element of the row, than the one being
        computed."""
        plain = self.s.normalize()
        stages = {x.uid: x for x in self.s.stages}
        misread: set[Stage] = set()
        for twin in plain.stages:
            if not isinstance(twin.op, ComputeOp):
                continue
            reader, known = stages[twin.uid], _knows_axes(twin.op)
            along = (*twin.op.axis, *twin.op.reduce_axis)[-1].var if self.runs(reader) else None
            lead = (
                self.row_index
                if twin.is_output
                else [a.var for a in twin.op.axis if access.extent_of(a) != 1 and a.var is not along]
            )
            for load in access.loads(twin.op.body):
                stage = stages[plain.stage_map[load.producer.op].uid]
                if stage in kept or isinstance(stage.op, PlaceholderOp):
                    indices = list(load.indices)
                    # The index must be the loop variable itself, which identifies the loops of threads.
                    if self.runs(stage) and (along is None or not indices or indices.pop() is not along):
                        misread.add(stage)
                        continue
                    at = [known.simplify(i) for i, d in zip(indices, load.producer.shape) if not _is_one(d)]
                    if len(at) != len(lead) or not all(map(structural_equal, at, lead)):
                        misread.add(stage)
        return misread

    def runs(self, stage: Stage) -> bool:
        """Return whether a stage has loops along the row instead of one value for it."""
        return bool(stage.op.reduce_axis) or self.planner.sizes.elements(stage.op.output(0).shape) != self.rows


def _vectorize_or_unroll(stage: Stage, lane: IterVar, vectors: bool) -> None:
    """Compute the lanes of a vector with vector instructions, or unrolled."""
    if vectors:
        stage.vectorize(lane)
    else:
        stage.unroll(lane)


__all__ = ["plan"]
