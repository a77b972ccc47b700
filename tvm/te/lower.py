"""Lowering of a normalized schedule with inferred bounds to loops: first a statement over tensors, then one over
buffers."""

from __future__ import annotations

from functools import reduce
from typing import Any

from ..error import ScheduleError
from ..ir.op import Op
from ..ir.prim import GE, LT, Call, CommReducer, IntImm, IterVar, PrimExpr, ProducerLoad, Range, Var, const
from ..ir.primop import logical_and, logical_or
from ..ir.structural import structural_equal
from ..ir.subst import substitute, uses_var, variables
from ..ir.visit import rewrite
from ..tir.op import likely
from ..tir.stmt import AttrStmt, For, ForKind, IfThenElse, LetStmt, ProducerRealize, ProducerStore, Stmt, no_op, seq
from . import axes as algebra
from . import padding
from .infer import Bounds
from .layout_steps import layout_axes, noted_layouts
from .schedule import AttachType, Fuse, Schedule, Split, Stage
from .tensor import BaseComputeOp, ComputeOp, ExternOp, HybridOp, PlaceholderOp, ScanOp, TensorComputeOp

FOR_KIND = {
    IterVar.Unrolled: ForKind.UNROLLED,
    IterVar.Vectorized: ForKind.VECTORIZED,
    IterVar.Parallelized: ForKind.PARALLEL,
}


class Loops:
    """The loops of one stage: the variable of each leaf axis, and the value of every axis."""

    def __init__(self, lowering: Lowering, stage: Stage, suffix: str = ""):
        self.lowering = lowering
        self.stage = stage
        self.bounds = lowering.bounds
        self.suffix = suffix
        self.variables: dict[IterVar, Var] = {}
        self.values: dict[IterVar, PrimExpr] = {}
        self.threads: dict[IterVar, IterVar] = {}
        self.uneven: set[IterVar] = set()
        outer = lowering.threads_around(stage)
        for axis in stage.leaf_iter_vars:
            self._add(axis, outer)
        algebra.pass_up_index(stage.relations, self.bounds.ranges, self.values)
        self._record_fused_bounds()

    def _record_fused_bounds(self) -> None:
        """Record that fused axes are within their ranges whenever the fused loop is. Their values do not show this for
        dynamic dimensions. Stages computed inside then need no guards for these axes."""
        ranges, relations = self.bounds.ranges, self.stage.relations
        fused = [r for r in relations if isinstance(r, Fuse) and not isinstance(ranges[r.fused].extent, IntImm)]
        if not fused:
            return
        need = algebra.needs_guard(relations, ranges, self.uneven, self.bounds.analyzer)
        for r in fused:
            for axis in (r.outer, r.inner) if r.fused not in need else ():
                end = ranges[axis].min + ranges[axis].extent
                self.lowering.inside.append((self.bounds.analyzer.simplify(self.values[axis]), end))

    def _is_inside(self, r: Range, end: PrimExpr) -> bool:
        """Return whether a range that starts at a fused axis ends at or before ``end``."""
        low, analyzer = r.min, self.bounds.analyzer
        return any(
            structural_equal(low, value) and analyzer.can_prove(limit - 1 + r.extent <= end)
            for value, limit in self.lowering.inside
        )

    def _computes_once(self, axis: IterVar) -> bool:
        """Return whether elements along ``axis`` must not be computed twice. A reduction would accumulate twice, and a
        stage may overwrite a tensor that it also reads."""
        if self.stage.op.reduce_axis:
            return True
        own = [s for s in self.bounds.schedule.stages if any(p is self.stage for p, _ in self.bounds.attach.path(s))]
        made = {t for s in own for t in s.op.outputs}
        along = {a.var for a in algebra.fused_of(self.stage.relations, axis)}
        return any(load.producer not in made and uses_var(load, along.__contains__)
                   for load in self.bounds.loads_of(self.stage))  # fmt: skip

    def resolved(self, value: PrimExpr) -> PrimExpr:
        """Express an extent, or a condition on one, by loop variables. The extent of a reduction may depend on axes of
        the operation, as in the rows of a sparse matrix."""
        roots = getattr(self.stage.op, "axis", ())
        known = {a.var: self.values[a] for a in roots if self.values.get(a, a.var) is not a.var}
        return value if isinstance(value, IntImm) or not known else substitute(value, known)

    def _add(self, axis: IterVar, outer: dict[str, IterVar]) -> None:
        r = self.bounds.ranges[axis]
        thread = self.bounds.attach.bound_thread(self.stage, axis)
        if thread is not None:
            thread = outer.get(thread.thread_tag, thread) if thread.thread_tag != "vthread" else thread
            self.threads[axis] = thread
            there = self.bounds.ranges[thread].extent
            if not self.bounds.analyzer.can_prove_equal(there, r.extent):
                self.uneven.add(axis)
            if isinstance(there, IntImm) and isinstance(r.extent, IntImm) and there.value < r.extent.value:
                raise ScheduleError(
                    f"stage {self.stage.name}: loop {axis.var.name} has {r.extent} iterations for "
                    f"{thread.thread_tag}, but the loops around it bind only {there} threads; split the loop by at "
                    "most that factor"
                )
            variable = thread.var
        elif self.suffix or not _is(r.min, 0):
            variable = Var(axis.var.name + self.suffix, axis.var.dtype)
            self.bounds.analyzer.bind(variable, Range(min=const(0, r.extent.dtype), extent=r.extent))
        else:
            variable = axis.var
        self.variables[axis] = variable
        if _is(r.extent, 1) and axis not in self.uneven:
            # Constant bounds are int32 even if the axis is int64.
            value = r.min.astype(axis.var.dtype)
        else:
            # A loop of one iteration bound to a wider thread axis keeps the thread index, which its guard tests.
            value = variable.astype(axis.var.dtype)
            value = value if _is(r.min, 0) else value + r.min.astype(axis.var.dtype)
        if variable is not axis.var and not self.suffix:
            self.lowering.values[axis.var] = value
        self.values[axis] = value

    def wrap(self, axis: IterVar, body: Stmt, outer: dict[str, IterVar]) -> Stmt:
        """Return the loop of ``axis`` around ``body``."""
        r = self.bounds.ranges[axis]
        attrs = self.stage.peek(axis)
        thread = self.threads.get(axis)
        if attrs is not None and attrs.skips_padding:
            body = self._unless_padding(axis, body)
        body = guarded([test for test, last in self._tile_conditions() if last is axis], body)
        if thread is not None:
            return self._thread(axis, thread, body, outer)
        for tensor, offset in attrs.prefetch if attrs else ():
            body = AttrStmt(tensor, "prefetch_scope", offset, body)
        kind = FOR_KIND.get(attrs.iter_type, ForKind.SERIAL) if attrs else ForKind.SERIAL
        if kind is ForKind.VECTORIZED and not isinstance(r.extent, IntImm):
            raise ScheduleError(
                f"vectorize on stage {self.stage.name}: axis {axis.var.name} has {r.extent} iterations; a vectorized "
                "loop needs a constant extent: split the axis by a constant factor first"
            )
        stmt: Stmt = For(self.variables[axis], const(0, r.extent.dtype), self.resolved(r.extent), kind, body)
        for key, value in attrs.pragmas if attrs else ():
            stmt = AttrStmt(axis, "pragma_" + key, const(1) if value is None else value, stmt)
        return stmt

    def _tile_conditions(self) -> list[tuple[PrimExpr, IterVar]]:
        """Return the conditions that an overlapping tile exists, for outer loops that were split, each with the
        innermost loop that it depends on. The whole tile is computed under the condition, because all its elements are
        in range. Stages with thread bindings test each stored element instead, because their threads synchronize."""
        out: list[tuple[PrimExpr, IterVar]] = []
        for r in self.stage.relations if not self.threads else ():
            if isinstance(r, Split) and r.overlaps and r.outer not in self.stage.leaf_iter_vars:
                test = self.values[r.outer] < self.bounds.ranges[r.outer].extent
                of_tile = [a for a in self.stage.leaf_iter_vars if uses_var(test, {self.variables[a]}.__contains__)]
                if of_tile and not self.bounds.analyzer.can_prove(test):
                    out.append((self.resolved(self.bounds.analyzer.simplify(test)), of_tile[-1]))
        return out

    def _unless_padding(self, axis: IterVar, body: Stmt) -> Stmt:
        """Run ``body`` only in the steps of the loop that read data."""
        analyzer = self.bounds.analyzer
        for _, _, (first, last), region in self.bounds.steps_read(self.stage, axis):
            tests: list[PrimExpr] = []
            if region.has_upper_bound():
                tests.append(region.max_value >= first)
            if region.has_lower_bound():
                tests.append(region.min_value <= last)
            for test in tests:
                if not analyzer.can_prove(test):
                    body = IfThenElse(analyzer.simplify(test), body)
        op, leaves = self.stage.op, self.stage.leaf_iter_vars
        inside = {self.variables[a] for a in leaves[leaves.index(axis) + 1 :]}
        values = {a.var: self.values[a] for a in (*op.axis, *op.reduce_axis)}
        for part in padding.idle_unless(op):
            test = substitute(part, values)
            if not uses_var(test, inside) and not analyzer.can_prove(test):
                body = IfThenElse(analyzer.simplify(test), body)
        return body

    def decided(self, value: PrimExpr) -> PrimExpr:
        """Add to the conditions of ``value`` constant conditions on the variables of unrolled loops: most pixels of a
        tile never read padding, regardless of where the tile starts."""
        attrs = {self.variables[a]: self.stage.peek(a) for a in self.stage.leaf_iter_vars}
        unrolled = {v: const(0, v.dtype) for v, a in attrs.items() if a and a.iter_type == IterVar.Unrolled}
        simplify = self.bounds.analyzer.simplify

        def post(n: Any) -> PrimExpr | None:
            if not isinstance(n, (GE, LT)) or not uses_var(n, unrolled):
                return None
            room = n.a - n.b if isinstance(n, GE) else n.b - n.a - 1
            rest = substitute(room, unrolled)
            least, moved = algebra.least(rest, self.bounds.analyzer), simplify(room - rest)
            if least is None or not all(v in unrolled for v in variables(moved)):
                return None
            return logical_or(moved >= -least, n)

        def choose(n: Any) -> PrimExpr | None:
            if isinstance(n, Call) and n.op is Op.get("tir.if_then_else"):
                return n.replace(args=(rewrite(n.args[0], post), *n.args[1:]))
            return None

        return rewrite(value, choose)

    def _thread(self, axis: IterVar, thread: IterVar, body: Stmt, outer: dict[str, IterVar]) -> Stmt:
        if outer.get(thread.thread_tag) is thread and thread.thread_tag != "vthread":
            return body
        extent = self.bounds.ranges[thread].extent
        tag = thread.thread_tag
        key = "virtual_thread" if tag in ("vthread", "cthread") else "thread_extent"
        if tag == "pipeline":
            key = "pipeline_exec_scope"
        return AttrStmt(thread, key, extent, body)

    def guards(self, skip_reduction: bool = False) -> list[PrimExpr]:
        """Return the conditions that keep loops in their ranges and ranges in the data, without those that are
        proven."""
        return [self.resolved(test) for test in self._guards(skip_reduction)]

    def _guards(self, skip_reduction: bool) -> list[PrimExpr]:
        ranges, analyzer = self.bounds.ranges, self.bounds.analyzer
        repeated = [axis for axis in algebra.repeats(self.stage.relations, ranges, self.uneven, analyzer)
                    if not (skip_reduction and axis.iter_type == IterVar.CommReduce)]  # fmt: skip
        # Fused axes with constant extents each keep a guard of their own, because it is simpler than the guard of the
        # fused axis.
        open_ends = [axis for axis in repeated if not isinstance(ranges[axis].extent, IntImm)]
        need = algebra.needs_guard(self.stage.relations, ranges, self.uneven, analyzer, open_ends)
        out: list[PrimExpr] = []
        op = self.stage.op
        # A loop that exceeds its range repeats the work of another iteration. Repeated accumulation gives incorrect
        # results, and repeated initialization undoes updates. A stage computed inside the enclosing loop exists only
        # for that loop's range.
        asked = [r.outer for r in self.stage.relations if isinstance(r, Split) and r.overlaps and not self.threads]
        for axis in repeated:
            if axis in asked:
                continue
            test = self.values[axis] < ranges[axis].min + ranges[axis].extent
            if not analyzer.can_prove(test):
                out.append(analyzer.simplify(test))
        out += [
            self.values[r.parent] - ranges[r.parent].min >= self.values[r.outer] * ranges[r.inner].extent
            for r in self.stage.relations
            if isinstance(r, Split) and r.overlaps and self._computes_once(r.parent)
        ]
        roots = list(op.loops) if isinstance(op, TensorComputeOp) else list(op.axis) + list(op.reduce_axis)
        mapped = {a for r in self.stage.relations if isinstance(r, algebra.Transform) for a in r.parents}
        for axis in roots:
            if skip_reduction and axis in op.reduce_axis:
                continue
            value, r, dom = self.values[axis], ranges[axis], algebra.range_of(axis)
            end = dom.min + dom.extent
            if axis in need:
                limit = r.min + r.extent
                tests = [value >= r.min, value < limit] if axis in mapped else [value < limit]
                out += [analyzer.simplify(test) for test in tests if not analyzer.can_prove(test)]
            if r is dom:
                continue
            if not analyzer.can_prove(r.min >= dom.min) and not analyzer.can_prove(value >= dom.min):
                out.append(analyzer.simplify(value >= dom.min))
            if analyzer.can_prove(r.min + r.extent <= end) or self._is_inside(r, end):
                continue
            if not analyzer.can_prove(value < end):
                out.append(analyzer.simplify(value < end))
        return out


def _is(e: PrimExpr, value: int) -> bool:
    return isinstance(e, IntImm) and e.value == value


def guarded(conditions: list[PrimExpr], stmt: Stmt) -> Stmt:
    """Wrap ``stmt`` in all of the conditions, each marked as likely."""
    test = None
    for c in conditions:
        if _is(c, 1):
            continue
        c = likely(c)
        test = c if test is None else logical_and(test, c)
    return stmt if test is None else IfThenElse(test, stmt)


class Lowering:
    """The builder of the statement of a whole schedule."""

    def __init__(self, schedule: Schedule, bounds: Bounds):
        self.schedule = schedule
        self.bounds = bounds
        self.attach = bounds.attach
        self._around: dict[Stage, dict[str, IterVar]] = {}
        # Axes whose value is not their own loop variable: thread axes, and loops that do not start at zero. The stages
        # computed inside use the axis, so the whole statement is rewritten at the end.
        self.values: dict[Var, PrimExpr] = {}
        # Values of fused axes, with the upper bounds of their ranges.
        self.inside: list[tuple[PrimExpr, PrimExpr]] = []
        self.scan_inits: dict[Stage, Stage] = {}
        self.overlaps = any(isinstance(r, Split) and r.overlaps for s in schedule.stages for r in s.relations)
        for stage in schedule.stages:
            if isinstance(stage.op, ScanOp):
                for tensor in stage.op.init:
                    self.scan_inits[schedule.stage_map[tensor.op]] = stage

    def threads_around(self, stage: Stage) -> dict[str, IterVar]:
        """Return the thread axes of the loops around a stage, by thread tag."""
        got: dict[str, IterVar] | None = self._around.get(stage)
        if got is None:
            got = {}
            for parent, axis in reversed(self.attach.path(stage)):
                thread = self.attach.bound_thread(parent, axis)
                if thread is not None:
                    got.setdefault(thread.thread_tag, thread)
            self._around[stage] = got
        return got

    def run(self) -> Stmt:
        return noted_layouts(self.schedule, self._resolved(self.place(None, no_op())))

    def _resolved(self, stmt: Stmt) -> Stmt:
        if not self.values:
            return stmt
        resolved: dict[Var, PrimExpr] = {}

        def resolve(var: Var) -> PrimExpr | None:
            if var not in self.values:
                return None
            if var not in resolved:
                # The minimum of a range may depend on outer axes, which are resolved in turn.
                value = self.values[var]
                resolved[var] = value if value is var else substitute(value, lambda v: None if v is var else resolve(v))
            return resolved[var]

        return substitute(stmt, resolve)

    def place(self, point: Any, body: Stmt) -> Stmt:
        """Put the stages computed at ``point`` before ``body``."""
        for stage in reversed(self.attach.children.get(point, [])):
            if isinstance(stage.op, PlaceholderOp) or stage in self.scan_inits:
                continue
            body = self.realize(stage, seq(self.produce(stage), body))
        return body

    # -- memory ------------------------------------------------------------------------------------------------

    def realize(self, stage: Stage, body: Stmt) -> Stmt:
        op = stage.op
        for index, tensor in enumerate(op.outputs):
            if stage.attach_type == AttachType.SCAN_UPDATE:
                continue
            if isinstance(op, BaseComputeOp):
                region = tuple(self.bounds.ranges[a] for a in op.axis)
            else:
                region = tuple(Range(min=const(0, d.dtype), extent=d) for d in tensor.shape)
            if stage.double_buffered and index == 0:
                body = AttrStmt(tensor, "double_buffer_scope", const(stage.double_buffered - 1), body)
            if stage.rolls:
                body = AttrStmt(tensor, "rolling_buffer_scope", const(1), body)
            body = ProducerRealize(tensor, region, const(True, "bool"), body, self.attach.scope(stage))
            # Strides are recorded before the memory is allocated.
            for dim, axis in enumerate(layout_axes(stage) if isinstance(op, BaseComputeOp) else ()):
                attrs = stage.peek(axis)
                if attrs is not None and attrs.dim_align_factor:
                    body = AttrStmt(
                        tensor,
                        "buffer_dim_align",
                        Call(
                            "handle",
                            Op.get("tir.tvm_tuple"),
                            (const(dim), const(attrs.dim_align_factor), const(attrs.dim_align_offset)),
                        ),
                        body,
                    )
        return body

    # -- computation -------------------------------------------------------------------------------------------

    def produce(self, stage: Stage) -> Stmt:
        op = stage.op
        if isinstance(op, ComputeOp):
            tensorized = self._tensorized_axis(stage)
            self._check_skipping(stage, tensorized is not None)
            if tensorized is not None:
                from .tensorize import tensorized_stage

                return tensorized_stage(self, stage, tensorized)
            return self.reduction(stage) if op.reduce_axis else self.elementwise(stage)
        if isinstance(op, TensorComputeOp):
            from .tensorize import tensor_compute_stage

            return tensor_compute_stage(self, stage)
        if isinstance(op, ScanOp):
            return self.scan(stage)
        if isinstance(op, ExternOp):
            from .bind_extern import bind_extern

            return bind_extern(op)
        if isinstance(op, HybridOp):
            from .hybrid.lower import hybrid_stage

            return hybrid_stage(self, stage)
        raise ScheduleError(f"cannot lower {op.name}: unsupported operation {type(op).__name__}")

    def _tensorized_axis(self, stage: Stage) -> IterVar | None:
        for axis in stage.leaf_iter_vars:
            attrs = stage.peek(axis)
            if attrs is not None and attrs.tensor_intrin is not None:
                return axis
        return None

    def _check_skipping(self, stage: Stage, tensorized: bool) -> None:
        """Check that steps of the marked loops can be skipped. Only plain loops allow it: threads that synchronize must
        all run the same steps, an intrinsic needs all its iterations, and a reduction starts in the first step of a
        loop fused from data and reduction."""
        marked = [a for a in stage.leaf_iter_vars if (got := stage.peek(a)) is not None and got.skips_padding]
        if not marked:
            return
        own = [a for a in stage.leaf_iter_vars if self.attach.bound_thread(stage, a) is not None]
        why = (
            "the stage is tensorized"
            if tensorized
            else "the stage is divided among threads"
            if own or self.threads_around(stage)
            else "a loop is fused from data and reduction"
            if algebra.mixed(stage.relations)
            else ""
        )
        if why:
            raise ScheduleError(
                f"skip_padding on stage {stage.name}: no step of loop {marked[0].var.name} can be skipped, because "
                f"{why}"
            )

    def nest(self, stage: Stage, loops: Loops, leaves: list[IterVar], body: Stmt, attached: bool = True) -> Stmt:
        """Wrap ``body`` in the loops of ``leaves``, with the stages computed at each loop inside it."""
        outer = self.threads_around(stage)
        for axis in reversed(leaves):
            if attached:
                body = self.place((stage, axis), body)
            body = loops.wrap(axis, body, outer)
        return body

    def elementwise(self, stage: Stage) -> Stmt:
        loops = Loops(self, stage)
        op = stage.compute_op
        table = {a.var: loops.values[a] for a in op.axis}
        memo_values = substitute_all(op.body, table)
        indices = tuple(loops.values[a] for a in op.axis)
        stores = seq(*[ProducerStore(t, v, indices) for t, v in zip(op.outputs, memo_values)])
        body = guarded(loops.guards(), self.predicated(stage, stores))
        return self.nest(stage, loops, stage.leaf_iter_vars, body)

    def predicated(self, stage: Stage, stmt: Stmt) -> Stmt:
        return stmt if stage.store_predicate is None else IfThenElse(stage.store_predicate, stmt)

    def reduction(self, stage: Stage) -> Stmt:
        from .cross_thread import cross_thread_reduction, is_cross_thread

        if is_cross_thread(self, stage):
            return cross_thread_reduction(self, stage)
        self._check_sharing(stage)
        main = Loops(self, stage)
        first, inner_data = reduction_split(stage)
        update = self.update(stage, main)
        body = guarded(main.guards() + self.condition(stage, main), self.predicated(stage, update))
        if algebra.mixed(stage.relations):
            steps = self.nest(stage, main, stage.leaf_iter_vars, seq(self._init_in_first_step(stage, main), body))
            return seq(self._empty_reduction(stage), steps)
        body = self.nest(stage, main, stage.leaf_iter_vars[first:], body)
        init = Loops(self, stage, ".init") if inner_data else main
        # The initialization and the update share the loops outside the first reduction loop.
        if init is not main:
            for axis in stage.leaf_iter_vars[:first]:
                init.variables[axis], init.values[axis] = main.variables[axis], main.values[axis]
            algebra.pass_up_index(stage.relations, self.bounds.ranges, init.values)
        start = guarded(init.guards(skip_reduction=True), self.predicated(stage, self.init(stage, init.values)))
        start = self.nest(stage, init, inner_data, start, attached=False)
        return self.nest(stage, main, stage.leaf_iter_vars[:first], seq(start, body))

    def _check_sharing(self, stage: Stage) -> None:
        """Check that no two threads accumulate into the same elements of a reduction in shared memory."""
        if not self.attach.scope(stage).startswith("shared"):
            return
        own = {t.thread_tag for a in stage.leaf_iter_vars if (t := self.attach.bound_thread(stage, a)) is not None}
        around = self.threads_around(stage)
        for tag, thread in {**self._threads_of_kernel(stage), **around}.items():
            extent = self.bounds.ranges[thread].extent
            if tag.startswith("threadIdx.") and tag not in own and not _is(extent, 1):
                place = f"inside {tag}" if tag in around else f"in a kernel with {tag}"
                raise ScheduleError(
                    f"stage {stage.name} is a reduction in scope shared {place}, whose {extent} threads would all "
                    f"add to the same elements; bind one of its axes to {tag}"
                )

    def _threads_of_kernel(self, stage: Stage) -> dict[str, IterVar]:
        """Return the thread axes of all loops of the kernel around a stage, by thread tag. A thread axis belongs to the
        whole kernel even if its loop starts further inside, so all of its threads also run the statements before that
        loop."""
        path = self.attach.path(stage)
        if not path:
            return {}
        kernel = path[-1][0]
        members = [s for s in self.schedule.stages if s is kernel or (p := self.attach.path(s)) and p[-1][0] is kernel]
        threads = (self.attach.bound_thread(s, a) for s in members for a in s.leaf_iter_vars)
        return {t.thread_tag: t for t in threads if t is not None}

    def _init_in_first_step(self, stage: Stage, loops: Loops) -> Stmt:
        """Initialize inside the loops, in the first step of the reduction. Loops that mix data and reduction keep their
        order, so the step in which each reduction axis is at its minimum comes first."""
        test: PrimExpr = const(True, "bool")
        for axis in stage.op.reduce_axis:
            test = logical_and(test, loops.values[axis].equal(axis.dom.min))
        stmt = IfThenElse(test, self.predicated(stage, self.init(stage, loops.values)))
        return guarded(loops.guards(skip_reduction=True), stmt)

    def _empty_reduction(self, stage: Stage) -> Stmt:
        """Initialize the outputs of a reduction without steps: a loop over data and reduction then has no iterations.
        For a loop bound to threads nothing is generated, because no threads can be launched."""
        op, ranges, analyzer = stage.compute_op, self.bounds.ranges, self.bounds.analyzer
        threads = [a for a in stage.leaf_iter_vars if self.attach.bound_thread(stage, a) is not None]
        variables = {a: Var(a.var.name + ".none", a.var.dtype) for a in op.axis}
        values = {a: v + ranges[a].min for a, v in variables.items()}
        table = {a.var: v for a, v in values.items()}
        lengths = [substitute(algebra.range_of(a).extent, table) for a in op.reduce_axis]
        none = [n.equal(0) for n in lengths if not analyzer.can_prove(n > 0)]
        if threads or self.threads_around(stage) or not none:
            return no_op()
        for axis, variable in variables.items():
            analyzer.bind(variable, Range(min=const(0, variable.dtype), extent=ranges[axis].extent))
        doms = {a: algebra.range_of(a) for a in op.axis if ranges[a] is not a.dom}
        inside = [test for a, r in doms.items() for test in (values[a] >= r.min, values[a] < r.min + r.extent)
                  if not analyzer.can_prove(test)]  # fmt: skip
        start = IfThenElse(reduce(logical_or, none), self.predicated(stage, self.init(stage, values)))
        stmt = guarded(inside, start)
        for axis, variable in reversed(variables.items()):
            extent = ranges[axis].extent
            stmt = For(variable, const(0, extent.dtype), extent, ForKind.SERIAL, stmt)
        return stmt

    def condition(self, stage: Stage, loops: Loops) -> list[PrimExpr]:
        op = stage.compute_op
        condition = op.body[0].condition
        if _is(condition, 1):
            return []
        table = {a.var: loops.values[a] for a in list(op.axis) + list(op.reduce_axis)}
        return [self.bounds.analyzer.simplify(substitute(condition, table))]

    def init(self, stage: Stage, values: dict[IterVar, PrimExpr]) -> Stmt:
        op = stage.compute_op
        reduction = op.body[0]
        table = {a.var: values[a] for a in op.axis}
        starts = substitute_all(reduction.init or reduction.combiner.identity_element, table)
        indices = tuple(values[a] for a in op.axis)
        return seq(*[ProducerStore(t, starts[b.value_index], indices) for t, b in zip(op.outputs, op.body)])

    def update(self, stage: Stage, loops: Loops) -> Stmt:
        op = stage.compute_op
        reduction = op.body[0]
        table = {a.var: loops.values[a] for a in list(op.axis) + list(op.reduce_axis)}
        source = substitute_all(reduction.source, table)
        if self.overlaps:
            source = [loops.decided(e) for e in source]
        indices = tuple(loops.values[a] for a in op.axis)
        return combine(op, substitute(reduction.combiner, table), source, indices)

    def scan(self, stage: Stage) -> Stmt:
        """Return the statement that computes the initial states, then the steps; both write into the memory of the
        scan."""
        scan = stage.op
        assert isinstance(scan, ScanOp), f"stage {stage.name} is not a scan"
        inits = [self.schedule.stage_map[t.op] for t in scan.init]
        start = seq(*[self.produce(s) for s in dict.fromkeys(inits)])
        loops = Loops(self, stage)
        leaves = [a for a in stage.leaf_iter_vars if a not in scan.spatial_axis_]
        where = next(i for i, a in enumerate(leaves) if self.attach.children.get((stage, a)))
        steps = self.nest(stage, loops, leaves[where:], no_op())
        return self.nest(stage, loops, leaves[:where], seq(start, steps))


def reduction_split(stage: Stage) -> tuple[int, list[IterVar]]:
    """Return the position of the first reduction loop, and the data loops inside it, which the initialization needs
    too."""
    marked = dict.fromkeys(stage.op.reduce_axis, True)
    algebra.pass_down_mark(stage.relations, marked)
    leaves = stage.leaf_iter_vars
    first = next((i for i, a in enumerate(leaves) if marked.get(a)), len(leaves))
    return first, [a for a in leaves[first:] if not marked.get(a)]


def combine(op: ComputeOp, combiner: CommReducer, source: list[PrimExpr], indices: tuple[Any, ...]) -> Stmt:
    """Return the update output = combine(output, source). All outputs are computed before any is stored."""
    old = {b.value_index: ProducerLoad(t, indices) for t, b in zip(op.outputs, op.body)}
    lhs = [old.get(i) for i in range(len(source))]
    if any(e is None for e in lhs):
        raise ScheduleError(f"stage {op.name}: a reduction of {len(source)} values must return all of them as outputs")
    results = combiner(tuple(lhs), tuple(source))
    if len(op.body) == 1:
        return ProducerStore(op.output(0), results[op.body[0].value_index], indices)
    names = [Var(f"{op.name}.v{i}.new", r.dtype) for i, r in enumerate(results)]
    stmt = seq(*[ProducerStore(t, names[b.value_index], indices) for t, b in zip(op.outputs, op.body)])
    for name, value in zip(reversed(names), reversed(results)):
        stmt = LetStmt(name, value, stmt)
    return stmt


def substitute_all(values: Any, table: dict[Any, Any]) -> list[PrimExpr]:
    """Substitute in several expressions at once, so that shared subexpressions stay shared."""
    memo: dict[Any, Any] = {}
    get = table.get

    def post(n: Any):
        return get(n) if isinstance(n, Var) else None

    return [rewrite(v, post, memo=memo) for v in values]


def schedule_ops(schedule: Schedule, ranges: dict[IterVar, Range] | None = None) -> Stmt:
    """Return the statement of a schedule, over tensors."""
    if any(s.attach_type == AttachType.INLINE for s in schedule.stages):
        schedule = schedule.normalize()
    bounds = Bounds(schedule)
    bounds.run()
    if ranges:
        bounds.ranges.update({a: r for a, r in ranges.items() if a not in bounds.ranges})
    return Lowering(schedule, bounds).run()
