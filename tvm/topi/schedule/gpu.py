"""GPU schedules by pattern: any graph of operators becomes kernels with data axes bound to threads.

A stage without a template is a separate kernel with one element for each thread. Producers that are cheap to recompute
are inlined. The epilogue of a reduction is computed by the thread that has the result. A reduction with few outputs is
divided among the threads of a block.
"""

from __future__ import annotations

from ...dtype import info
from ...ir.prim import Call, IntImm, IterVar
from ...ir.visit import post_order
from ...target import Target
from ...te.axes import Fuse, Split
from ...te.dataflow import swap_op
from ...te.operation import thread_axis
from ...te.schedule import AttachType, Schedule, Stage, create_schedule
from ...te.tensor import ComputeOp, ExternOp, HybridOp, ScanOp, Tensor
from .. import access
from ..gpu import depthwise, extern, gemm, rows, tensor_cores, transpose, winograd
from ..gpu.machine import Machine
from ..nominal import Nominal
from ..template import GPUTemplate
from .inline import inline

# Templates by the tag of the operation.
TEMPLATES: dict[str, GPUTemplate] = {
    tag: template
    for template in (gemm.TEMPLATE, tensor_cores.TEMPLATE, depthwise.TEMPLATE, winograd.TEMPLATE)
    for tag in template.tags
}

# The default number of threads in a block.
THREADS = 256
# The length below which one thread reduces as fast as many threads.
SHORT_SUM = 32
# The maximum reads of an element for which its producer is recomputed instead of stored.
FEW_READS = 2


def schedule_for(outs: list[Tensor], target: Target) -> Schedule:
    """The schedule for the operations that compute ``outs``."""
    machine = Machine(target)
    s = create_schedule([t.op for t in outs])
    if any(x.op.reduce_axis for x in s.stages) and not any(x.op.tag in TEMPLATES for x in s.stages):
        if rows.plan(Planner(s, machine)):
            return s
        s = create_schedule([t.op for t in outs])
    Planner(s, machine).run()
    return s


class Planner:
    def __init__(self, s: Schedule, machine: Machine):
        self.s = s
        self.machine = machine
        self.placed: set[Stage] = set()
        # Nominal values of dynamic dimensions for the comparison of element counts.
        self.sizes = Nominal()
        self.plain: Schedule | None = None

    def run(self) -> None:
        self.statements()
        inline(self.s, is_free)
        live = [x for x in self.s.stages if x.attach_type == AttachType.GROUP_ROOT and x.group is None]
        live = [x for x in live if isinstance(x.op, ComputeOp) and not self.is_scan_start(x)]
        # Data without elements launches no kernels: such loops disappear in lowering.
        live = [x for x in live if all(access.extent_of(a) != 0 for a in x.op.axis)]
        plain = self.plain = self.s.normalize()
        fused: dict[Stage, Stage] = {}
        for stage in live:
            if stage.op.reduce_axis:
                consumer = access.own_consumer(self.s, stage, plain)
                if consumer is not None and consumer in live and consumer not in fused.values():
                    fused[stage] = consumer
        # Find all consumers first, because templates replace operations.
        heavy = [(x, t, t.consumer(self, x, plain)) for x in live if (t := TEMPLATES.get(x.op.tag or "")) is not None]
        for stage, template, consumer in heavy:
            self.placed.add(stage)
            template.apply(self, stage, consumer)
        for stage in live:
            if stage in self.placed:
                continue
            if stage in fused or stage.op.reduce_axis:
                self.reduction(stage, fused.get(stage))
            elif stage not in fused.values() and not (live == [stage] and transpose.plan(self, stage)):
                self.injective(stage)

    # -- statements ------------------------------------------------------------------------------------------------

    def statements(self) -> None:
        """Schedule statement operators and scans on threads."""
        for stage in list(self.s.stages):
            if isinstance(stage.op, ExternOp):
                op = extern.on_threads(stage.op)
                if op is not None:
                    swap_op(self.s, stage, op, set())
            elif isinstance(stage.op, ScanOp):
                stage.env_threads([thread_axis((0, 1), tag) for tag in ("blockIdx.x", "threadIdx.x")])
            elif isinstance(stage.op, HybridOp) and stage.op.axis:
                self.spread(stage, stage.leaf_iter_vars[0], 1)

    def is_scan_start(self, stage: Stage) -> bool:
        """Return whether a scan computes this stage inside its own loops."""
        return any(isinstance(x.op, ScanOp) and any(t.op is stage.op for t in x.op.init) for x in self.s.stages)

    # -- elementwise operations ----------------------------------------------------------------------------------------

    def injective(self, stage: Stage) -> None:
        op = stage.op
        axes = list(op.axis)
        lanes = self.vector_lanes(op)
        if lanes > 1:
            outer, vector = stage.split(axes[-1], factor=lanes)
            stage.vectorize(vector)
            axes[-1] = outer
        self.spread(stage, self.fused(stage, axes))

    def vector_lanes(self, op: ComputeOp) -> int:
        """Return the vector width of a thread's loads and stores: all inputs are contiguous or the same for all
        lanes."""
        if not op.axis or op.num_outputs != 1:
            return 1
        last = op.axis[-1]
        n = access.extent_of(last)
        twin = self.plain_op(op)
        widest = max([b.dtype for b in op.body] + [x.dtype for x in access.loads(twin.body)], key=_bytes)
        lanes = min(self.machine.lanes(widest), 4)
        if widest == "bool" or n is None or any(access.is_choosing(n) for b in twin.body for n in post_order(b)):
            return 1
        if any(access.runs_along(x, twin.axis[-1].var) == "far" for x in access.loads(twin.body)):
            return 1
        while lanes > 1 and (n % lanes or access.work(op) // lanes < self.machine.enough_threads):
            lanes //= 2
        return lanes

    def can_vectorize(self, op: ComputeOp, lanes: int) -> bool:
        """Return whether ``lanes`` elements along the last axis can be computed and stored as one vector: the axis is
        divisible into vectors, and every load is contiguous or the same for all lanes."""
        twin = self.plain_op(op)
        if op.num_outputs != 1 or lanes not in (2, 4) or (access.extent_of(op.axis[-1]) or 1) % lanes:
            return False
        if any(access.is_choosing(node) for b in twin.body for node in post_order(b)):
            return False
        if "bool" in [x.dtype for x in (*twin.body, *access.loads(twin.body))]:
            return False
        return all(access.runs_along(x, twin.axis[-1].var) != "far" for x in access.loads(twin.body))

    def plain_op(self, op: ComputeOp) -> ComputeOp:
        """Return the operation with its inlined producers."""
        twin = self.plain.stage_map.get(op) if self.plain is not None else None
        if twin is None:
            twin = self.s.normalize().stage_map.get(op)
        return twin.op if twin is not None and isinstance(twin.op, ComputeOp) else op

    def fused(self, stage: Stage, axes: list[IterVar]) -> IterVar:
        if not axes:
            return stage.fuse()
        return stage.fuse(*axes) if len(axes) > 1 else axes[0]

    def spread(self, stage: Stage, axis: IterVar, threads: int = THREADS) -> tuple[IterVar, IterVar]:
        """Bind a loop to blocks and threads. Return the two loops into which it is split."""
        n = self.extent_now(stage, axis)
        if n is not None:
            # Small kernels are divided into more blocks than necessary, so that each multiprocessor gets one.
            share = -(-n // self.machine.multiprocessors)
            threads = min(threads, -(-max(share, 1) // 32) * 32, n)
        block, thread = stage.split(axis, factor=min(threads, self.machine.max_threads))
        stage.bind(block, thread_axis("blockIdx.x"))
        stage.bind(thread, thread_axis("threadIdx.x"))
        return block, thread

    def extent_now(self, stage: Stage, axis: IterVar) -> int | None:
        """Return the number of iterations of a loop made by splits and fusions, or None if it is dynamic."""
        if axis.dom is not None:
            return access.extent_of(axis)
        for r in stage.relations:
            if isinstance(r, Fuse) and r.fused is axis:
                outer, inner = self.extent_now(stage, r.outer), self.extent_now(stage, r.inner)
                return None if outer is None or inner is None else outer * inner
            if isinstance(r, Split) and r.outer is axis and isinstance(r.factor, IntImm):
                parent = self.extent_now(stage, r.parent)
                return None if parent is None else -(-parent // r.factor.value)
        return None

    # -- reductions ----------------------------------------------------------------------------------------------------

    def reduction(self, stage: Stage, consumer: Stage | None) -> None:
        op = stage.op
        if access.is_ragged(op):
            self.spread(stage, self.fused(stage, list(op.axis)))
            return
        results = access.elements([a.dom.extent for a in op.axis])
        steps = access.elements([a.dom.extent for a in op.reduce_axis])
        if steps >= SHORT_SUM and results * 32 <= self.machine.enough_threads * 4 and not op.body[0].init:
            self.cross_thread(stage, consumer, steps)
        else:
            self.serial(stage, consumer)

    def serial(self, stage: Stage, consumer: Stage | None) -> None:
        """Compute a whole reduction in one thread."""
        op = stage.op
        if consumer is None and op.num_outputs == 1:
            consumer, stage = stage, self.s[self.s.cache_write(op.output(0), "local")]
        host = consumer or stage
        _, thread = self.spread(host, self.fused(host, list(host.op.axis)))
        if host is not stage:
            stage.compute_at(host, thread)
            stage.set_scope("local")

    def cross_thread(self, stage: Stage, consumer: Stage | None, steps: int) -> None:
        """Compute a reduction in a thread block: each thread computes a partial result, and the partial results are
        combined."""
        count = self.machine.threads(-(-steps // 4))
        threads = thread_axis((0, count), "threadIdx.x")
        host = consumer or stage
        row = self.fused(host, list(host.op.axis))
        if host is stage:
            # Fused data loops stay when the reduction is divided.
            self.across_threads(stage, count, threads)
            stage.set_store_predicate(threads.var.equal(0))
            stage.bind(row, thread_axis("blockIdx.x"))
            return
        block, one = host.split(row, factor=1)
        host.bind(block, thread_axis("blockIdx.x"))
        host.bind(one, threads)
        host.set_store_predicate(threads.var.equal(0))
        self.across_threads(stage, count, threads)
        stage.compute_at(host, block)
        stage.set_scope("local")

    def across_threads(self, stage: Stage, count: int, threads: IterVar) -> None:
        """Divide the reduction of a stage among ``count`` threads."""
        _, inner = stage.split(self.fused(stage, list(stage.op.reduce_axis)), factor=count)
        parts = self.s.rfactor(stage.op.output(0), inner, len(stage.op.axis))
        part = self.s[parts if isinstance(parts, Tensor) else parts[0]]
        own = stage.op.reduce_axis[0]
        stage.bind(own, threads)
        part.compute_at(stage, own)
        part.set_scope("local")


def is_free(op: ComputeOp) -> bool:
    """Return whether recomputing an element costs less than a store and a load. This is true for a select, which
    includes padding."""
    return access.is_cheap(op) or is_choice(op) and len(access.loads(op.body)) <= FEW_READS


def is_choice(op: ComputeOp) -> bool:
    """Return whether an element costs no more than selects and cheap arithmetic."""
    for b in op.body:
        for node in post_order(b):
            if isinstance(node, Call) and node.op.name not in access.CHEAP_CALLS and not access.is_choosing(node):
                return False
    return True


def _bytes(dtype: str) -> int:
    return info(dtype).bytes
