"""Bound inference: the range of every axis, from the outputs to the inputs.

The region of a producer is the union of the regions that its readers access. Loops around the producer are fixed at
their current values; all other loops of a reader are relaxed over their whole range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arith import Analyzer
from ..arith import interval_set as sets
from ..error import ScheduleError
from ..ir.prim import Add, FloorDiv, FloorMod, IntImm, IterVar, PrimExpr, ProducerLoad, Range, Reduce, Sub, const
from ..ir.primop import floordiv, floormod
from ..ir.subst import substitute
from ..ir.visit import post_order
from . import axes as algebra
from . import padding
from .attach import Attachments, storage_rank
from .schedule import Schedule, Stage
from .tensor import BaseComputeOp, ExternOp, HybridOp, PlaceholderOp, ScanOp, Tensor, TensorComputeOp


class Bounds:
    """The ranges of all axes, and an analyzer to which they are bound."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.attach = Attachments(schedule)
        self.ranges: dict[IterVar, Range] = {}
        self.analyzer = Analyzer()
        self._loads: dict[int, list[ProducerLoad]] = {}
        readers: dict[Tensor, list[Stage]] = {}
        for stage in schedule.stages:
            for tensor in stage.op.input_tensors:
                readers.setdefault(tensor, []).append(stage)
        self.readers = readers

    def run(self) -> dict[IterVar, Range]:
        for stage in reversed(self.schedule.stages):
            if isinstance(stage.op, PlaceholderOp):
                continue
            self._root_ranges(stage)
            self._leaf_ranges(stage)
        return self.ranges

    # -- root axes ---------------------------------------------------------------------------------------------

    def _root_ranges(self, stage: Stage) -> None:
        op = stage.op
        for axis in op.reduce_axis:
            self.ranges[axis] = algebra.range_of(axis)
        full = not isinstance(op, BaseComputeOp) or stage.is_output and not self.attach.path(stage)
        if full or not any(t in self.readers for t in op.outputs):
            for axis in op.axis:
                self.ranges[axis] = algebra.range_of(axis)
            return
        needed: list[Any] = [None] * len(op.axis)
        for tensor in op.outputs:
            for reader in self.readers.get(tensor, ()):
                for i, region in enumerate(self._accessed_region(stage, tensor, reader)):
                    needed[i] = region if needed[i] is None else sets.union([needed[i], region], self.analyzer)
        for axis, region in zip(op.axis, needed):
            attrs, found = stage.peek(axis), self._range_of(stage, axis, region)
            self.ranges[axis] = self._aligned(found, attrs.region_factor) if attrs and attrs.region_factor else found
        if isinstance(op, TensorComputeOp):
            for axis in op.axis[op.schedulable_ndim :]:
                self.ranges[axis] = algebra.range_of(axis)

    def _range_of(self, stage: Stage, axis: IterVar, region: Any) -> Range:
        dom = algebra.range_of(axis)
        if not region.has_lower_bound() or not region.has_upper_bound():
            return dom
        last = dom.min + dom.extent - const(1, dom.extent.dtype)
        prove = self.analyzer.can_prove
        if prove(region.min_value <= dom.min) and prove(region.max_value >= last):
            return dom
        simplify = self.analyzer.simplify
        if region.is_single_point():
            return Range(min=region.min_value, extent=const(1, region.min_value.dtype))
        low = simplify(region.min_value)
        extent = simplify(region.max_value - low + const(1, low.dtype))
        if not self.attach.path(stage) and _divides_by_sizes(extent):
            # The extent divides by a dynamic dimension, which may be 0 if the region is empty. Use the whole domain
            # instead.
            return dom
        if not isinstance(extent, IntImm) and self.attach.path(stage):
            # A tile that is cut short at the edge of the data keeps its full size, so that memory and loops stay
            # constant. The guard on the domain prevents accesses outside the data.
            bound = self.analyzer.const_int_bound(extent)
            if bound.max_value < (1 << 24):
                extent = const(max(bound.max_value, 0), extent.dtype)
        return Range(min=low, extent=extent)

    def _aligned(self, found: Range, factor: int) -> Range:
        """Extend a range so that it starts and ends at multiples of ``factor``."""
        simplify, whole = self.analyzer.simplify, const(factor, found.min.dtype)
        if self.analyzer.can_prove_equal(floormod(found.min, whole), 0):
            return Range(min=found.min, extent=simplify(floordiv(found.extent + (factor - 1), whole) * whole))
        low = simplify(floordiv(found.min, whole) * whole)
        return Range(min=low, extent=simplify(floordiv(found.extent + 2 * (factor - 1), whole) * whole))

    def _accessed_region(self, stage: Stage, tensor: Tensor, reader: Stage) -> list[Any]:
        """Return the region of ``tensor`` that ``reader`` accesses while the loops around ``stage`` are fixed."""
        path = self.attach.path(stage)
        fixed = {axis for _, axis in path}
        self._check_inside(stage, path, reader)
        state = self._leaf_state(stage, fixed, reader)
        linear = self._linear(stage, reader, state)
        doms = self._reader_domains(state, reader)
        op = reader.op
        if isinstance(op, (ExternOp, HybridOp)):
            return [sets.from_range(Range(min=const(0, d.dtype), extent=d)) for d in tensor.shape]
        if isinstance(op, ScanOp):
            return self._scan_region(op, tensor, doms)
        outer = [
            (p, a)
            for p, a in self.attach.path(reader)
            if (a not in fixed or self.attach.shares(stage, p, a)) and not self._same_thread(stage, p, a)
        ]
        relax = {a.var: sets.from_range(self._carried(p, a)) for p, a in outer}
        moving = self._thread_dependent_loops(path, relax)
        same = self._same_loops(stage, reader)
        regions: list[Any] = [None] * len(tensor.shape)
        dom_map = {axis.var: s for axis, s in doms.items()}
        limits = {} if path else self._reached(tensor, reader)
        for i, index in self._indices_of(reader, tensor):
            got = self._values_of(index, linear, dom_map)
            if moving:
                self._check_same_for_threads(stage, got, moving)
            if relax:
                got = self._relax(got, relax)
            if same:
                got = self._renamed(got, same)
            got = self._clip(got, tensor.shape[i])
            if i in limits:
                got = sets.intersect([got, limits[i]], self.analyzer)
            regions[i] = got if regions[i] is None else sets.union([regions[i], got], self.analyzer)
        return regions

    def _values_of(self, index: PrimExpr, linear: Any, dom_map: dict[Any, Any]) -> Any:
        """Return the set of an index. Prefer the set of its linear form if that is exact, otherwise the smaller set of
        the two analyses."""
        exact = linear(index) if linear is not None else None
        if exact is not None and exact[1]:
            return exact[0]
        region = sets.eval_set(index, dom_map, self.analyzer)
        return region if exact is None else self._smaller(exact[0], region)

    # -- padding that is not read ------------------------------------------------------------------------------

    def steps_read(self, stage: Stage, axis: IterVar) -> list[tuple[Tensor, int, tuple[int, int], sets.IntervalSet]]:
        """Return the reads of padded tensors in one step of a loop that skips padding. Each entry contains the tensor,
        a dimension, the first and last unpadded element of that dimension, and the set of elements read."""
        leaves = stage.leaf_iter_vars
        at = leaves.index(axis)
        state: dict[Any, Any] = {
            a: sets.IntSet.single_point(a.var) if i <= at else sets.from_range(self.ranges[a])
            for i, a in enumerate(leaves)
        }
        doms = {a.var: s for a, s in self._reader_domains(state, stage).items()}
        return [
            (load.producer, dim, inside.extents[dim], sets.eval_set(index, doms, self.analyzer))
            for load, inside in padding.idle_loads(stage.op)
            for dim, index in enumerate(load.indices)
            if dim in inside.extents
        ]

    def _reached(self, tensor: Tensor, reader: Stage) -> dict[int, sets.IntervalSet]:
        """Return, by dimension, how far outside the data a reader that skips padding reads. A step that reads any data
        reaches outside it by at most the extent of the step."""
        marked = [a for a in reader.leaf_iter_vars if (got := reader.peek(a)) is not None and got.skips_padding]
        idle = {id(load) for load, _ in padding.idle_loads(reader.op)} if marked else set()
        if not idle or any(load.producer is tensor and id(load) not in idle for load in self.loads_of(reader)):
            return {}
        limits: dict[int, sets.IntervalSet] = {}
        for producer, dim, (first, last), region in self.steps_read(reader, marked[-1]):
            if producer is not tensor or not region.has_lower_bound() or not region.has_upper_bound():
                continue
            span = self.analyzer.simplify(region.max_value - region.min_value)
            if isinstance(span, IntImm):
                reach = sets.IntervalSet(const(first - span.value, span.dtype), const(last + span.value, span.dtype))
                limits[dim] = reach if dim not in limits else sets.union([limits[dim], reach], self.analyzer)
        return limits

    def _thread_dependent_loops(self, path: list[Any], relax: dict[Any, Any]) -> dict[Any, Any]:
        """Return the loops around a stage whose start differs between threads, by their variables."""
        return {
            axis.var: (parent, axis)
            for parent, axis in path
            if axis.var not in relax and any(node in relax for node in post_order(self.ranges[axis].min))
        }

    def _check_same_for_threads(self, stage: Stage, region: sets.IntervalSet, moving: dict[Any, Any]) -> None:
        """Check that a region in shared memory is the same for all threads."""
        ends = [region.min_value] if region.has_lower_bound() else []
        ends += [region.max_value] if region.has_upper_bound() else []
        for node in (n for end in ends for n in post_order(end)):
            if node in moving:
                parent, axis = moving[node]
                raise ScheduleError(
                    f"stage {stage.name} is shared by threads, but is computed inside loop {axis.var.name} of "
                    f"{parent.name}, whose start differs between threads; compute it outside that loop"
                )

    def _smaller(self, one: sets.IntervalSet, two: sets.IntervalSet) -> sets.IntervalSet:
        """Return the smaller of two sets that both contain all values."""
        if not one.has_lower_bound() or not one.has_upper_bound():
            return two
        if not two.has_lower_bound() or not two.has_upper_bound():
            return one
        sizes = [self.analyzer.const_int_bound(self.analyzer.simplify(x.max_value - x.min_value)) for x in (one, two)]
        return one if sizes[0].max_value < sizes[1].max_value else two

    def _indices_of(self, reader: Stage, tensor: Tensor) -> list[tuple[int, PrimExpr]]:
        """Return the dimension and index of every distinct read of ``tensor``. A region contributes its first and last
        index."""
        op = reader.op
        found: dict[tuple[int, int], tuple[int, PrimExpr]] = {}
        if isinstance(op, TensorComputeOp):
            for source, region in zip(op.inputs, op.input_regions):
                for i, r in enumerate(region if source is tensor else ()):
                    last = self.analyzer.simplify(r.min + r.extent - const(1, r.min.dtype))
                    found.update({(i, id(e)): (i, e) for e in (r.min, last)})
        for load in self.loads_of(reader):
            if load.producer is tensor:
                found.update({(i, id(e)): (i, e) for i, e in enumerate(load.indices)})
        return list(found.values())

    def _relax(self, region: Any, relax: dict[Any, Any]):
        low = sets.eval_set(region.min_value, relax, self.analyzer) if region.has_lower_bound() else None
        high = sets.eval_set(region.max_value, relax, self.analyzer) if region.has_upper_bound() else None
        if low is None or high is None or not low.has_lower_bound() or not high.has_upper_bound():
            return sets.IntSet.everything()
        return sets.IntervalSet(low.min_value, high.max_value)

    def _clip(self, region: Any, extent: PrimExpr):
        """Limit a region to the extent of the tensor. Guarded reads, such as those of padding, may exceed it."""
        if not region.has_lower_bound() or not region.has_upper_bound():
            return sets.from_range(Range(min=const(0, extent.dtype), extent=extent))
        last = extent - const(1, extent.dtype)
        prove = self.analyzer.can_prove
        if prove(region.min_value <= const(0, region.min_value.dtype)) and prove(region.max_value >= last):
            return sets.from_range(Range(min=const(0, extent.dtype), extent=extent))
        return region

    def _check_inside(self, stage: Stage, path: list[Any], reader: Stage) -> None:
        if not path:
            return
        around = set(reader.leaf_iter_vars) | {axis for _, axis in self.attach.path(reader)}
        if any(axis not in around for _, axis in path):
            parent, axis = path[0]
            raise ScheduleError(
                f"stage {stage.name} is computed inside loop {axis.var.name} of {parent.name}, "
                f"but stage {reader.name}, which reads it too, is computed outside that loop"
            )

    def _leaf_state(self, stage: Stage, fixed: set[IterVar], reader: Stage) -> dict[Any, Any]:
        """Return the values of the reader's loops: a point for each fixed loop, the whole range for the others."""
        state: dict[Any, Any] = {}
        for axis in reader.leaf_iter_vars:
            r = self.ranges.get(axis)
            if r is None:
                continue
            if axis in fixed and not self.attach.shares(stage, reader, axis) or self._same_thread(stage, reader, axis):
                state[axis] = sets.IntSet.single_point(axis.var)
            elif getattr(r.extent, "value", None) == 1 and not reader.op.reduce_axis:
                # If only one thread does the work, its reads are under the same condition.
                state[axis] = sets.from_range(r)
            else:
                state[axis] = sets.from_range(self._carried(reader, axis))
        return state

    def _carried(self, stage: Stage, axis: IterVar) -> Range:
        """Return the range of a loop. A loop bound to a wider thread axis covers the extent of the thread axis, and
        reads there."""
        thread = self.attach.bound_thread(stage, axis)
        if thread is None or thread.thread_tag == "vthread" or thread not in self.ranges:
            return self.ranges[axis]
        return self.ranges[thread]

    def _linear(
        self, stage: Stage, reader: Stage, state: dict[Any, Any]
    ) -> Callable[[PrimExpr], tuple[sets.IntervalSet, bool] | None] | None:
        """Return a function that computes the set of an index, and whether it is exact, from its linear form. This
        handles an index that recombines axes which the reader has fused, such as ``y * width + x`` under a loop over
        parts of fused (y, x): separate sets of y and x would cover whole rows. It also handles thread-private stages
        whose index is one of the loops that an axis was split into."""
        fuses = any(isinstance(r, algebra.Fuse) for r in reader.relations)
        private = bool(reader.relations) and storage_rank(self.attach.scope(stage)) >= storage_rank("local")
        if not fuses and not private:
            return None
        values = {axis: _value(axis, self.ranges[axis]) for axis in state}
        algebra.pass_up_index(reader.relations, self.ranges, values)
        roots = {axis.var: values[axis] for axis in (*reader.op.axis, *reader.op.reduce_axis) if axis in values}
        # Threads past the end of a split loop do not read, because the read is under a condition.
        made = {axis for r in reader.relations if isinstance(r, algebra.Split) for axis in (r.outer, r.inner)}
        loops = {
            axis.var: algebra.clip(region, self.ranges[axis], self.analyzer) if axis in made else region
            for axis, region in state.items()
        }

        def exact(index: PrimExpr) -> tuple[sets.IntervalSet, bool] | None:
            if isinstance(index, (FloorDiv, FloorMod)) and private:
                joined = self.analyzer.simplify(substitute(index, roots))
                return None if _divides(joined) else (sets.eval_set(joined, loops, self.analyzer), True)
            if not isinstance(index, (Add, Sub)) or not fuses:
                return None
            joined = substitute(index, roots)
            if all(region.is_single_point() for region in state.values()):
                # Use the same form as the reader, so that the difference of the two simplifies to zero.
                return sets.IntSet.single_point(joined), True
            joined = self.analyzer.simplify(joined)
            if not _divides(joined):
                return sets.eval_set(joined, loops, self.analyzer), True
            # Fused axes may be split and fused again. The result is exact if no division remains.
            whole = self.analyzer.simplify(substitute(index, over_fused))
            return sets.eval_set(whole, fused, self.analyzer), not _divides(whole)

        over_fused, fused = self._over_fused(reader, state) if fuses else ({}, {})
        return exact

    def _over_fused(self, reader: Stage, state: dict[Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Express the root axes of a reader by the axes they are fused into; return these expressions and the sets of
        the fused axes."""
        whole = dict.fromkeys((*reader.op.axis, *reader.op.reduce_axis))
        fuses: list[Any] = []
        for r in reader.relations:
            if isinstance(r, algebra.Fuse) and r.outer in whole and r.inner in whole:
                fuses.append(r)
                del whole[r.outer], whole[r.inner]
                whole[r.fused] = None
        full = dict(state)
        algebra.pass_up_domain(reader.relations, self.ranges, full, self.analyzer)
        values = {axis: _value(axis, self.ranges[axis]) for axis in whole if axis in full}
        regions = {axis.var: full[axis] for axis in values}
        for axis in values:
            # Loops are already bound in the analyzer. Thread axes bound to a loop may have larger extents.
            if axis not in state:
                self.analyzer.bind(axis.var, self.ranges[axis])
        algebra.pass_up_index(fuses, self.ranges, values)
        roots = (*reader.op.axis, *reader.op.reduce_axis)
        return {axis.var: values[axis] for axis in roots if axis in values}, regions

    def _reader_domains(self, leaves: dict[Any, Any], reader: Stage) -> dict[Any, Any]:
        """Return the sets of values of the reader's root axes."""
        state = dict(leaves)
        algebra.pass_up_domain(reader.relations, self.ranges, state, self.analyzer)
        roots = list(reader.op.axis) + list(reader.op.reduce_axis)
        return {axis: state.get(axis) or sets.from_range(self.ranges[axis]) for axis in roots}

    def _same_thread(self, stage: Stage, reader: Stage, axis: IterVar) -> bool:
        """Return whether a loop of a reader is bound to a thread that is also around the stage, with memory private to
        that thread. Such a thread reads only its own part."""
        thread = self.attach.bound_thread(reader, axis)
        if thread is None or thread.thread_tag == "vthread" or self.attach.shares(stage, reader, axis):
            return False
        for parent, outer in self.attach.path(stage):
            around = self.attach.bound_thread(parent, outer)
            if around is not None and around.thread_tag == thread.thread_tag:
                return self.analyzer.can_prove_equal(self.ranges[around].extent, self.ranges[axis].extent)
        return False

    def _same_loops(self, stage: Stage, reader: Stage) -> dict[Any, Any]:
        """Return the loops of and around a reader that are bound to the same thread as a loop around a stage with
        thread-private memory. The result maps the variable of each loop to the variable of the loop around the stage,
        so that the regions of all readers use the same variables."""
        found: dict[Any, Any] = {}
        for parent, axis in [*((reader, a) for a in reader.leaf_iter_vars), *self.attach.path(reader)]:
            if axis not in self.ranges or not self._same_thread(stage, parent, axis):
                continue
            thread = self.attach.bound_thread(parent, axis)
            for owner, outer in self.attach.path(stage):
                around = self.attach.bound_thread(owner, outer)
                if around is not None and thread is not None and around.thread_tag == thread.thread_tag:
                    if outer is not axis and _is_zero(self.ranges[outer].min) and _is_zero(self.ranges[axis].min):
                        found[axis.var] = outer.var.astype(axis.var.dtype)
                    break
        return found

    def _renamed(self, region: sets.IntervalSet, names: dict[Any, Any]) -> sets.IntervalSet:
        if not region.has_lower_bound() or not region.has_upper_bound():
            return region
        if region.is_single_point():
            return sets.IntSet.single_point(substitute(region.min_value, names))
        return sets.IntervalSet(substitute(region.min_value, names), substitute(region.max_value, names))

    def _scan_region(self, scan: ScanOp, tensor: Tensor, doms: dict[Any, Any]) -> list[Any]:
        whole = [sets.from_range(Range(min=const(0, d.dtype), extent=d)) for d in tensor.shape]
        if tensor in scan.update:
            whole[0] = doms[scan.scan_axis]
        return whole

    def loads_of(self, stage: Stage) -> list[ProducerLoad]:
        got: list[ProducerLoad] | None = self._loads.get(stage.uid)
        if got is None:
            got = []
            seen: set[int] = set()
            op = stage.op
            for body in op.scalar_inputs if isinstance(op, TensorComputeOp) else stage.compute_op.body:
                for node in post_order(body):
                    if type(node) is ProducerLoad and id(node) not in seen:
                        seen.add(id(node))
                        got.append(node)
                if isinstance(body, Reduce):
                    break
            self._loads[stage.uid] = got
        return got

    # -- loops -------------------------------------------------------------------------------------------------

    def _leaf_ranges(self, stage: Stage) -> None:
        keep = {a for a in stage.leaf_iter_vars if self._keeps_size(stage, a)}
        algebra.pass_down_domain(stage.relations, self.ranges, self.analyzer, keep)
        for r in stage.relations:
            if isinstance(r, algebra.Split) and r.overlaps:
                # A schedule that makes loops overlap guarantees at least this many iterations, so assume it everywhere.
                self.analyzer.enter_constraint(self.ranges[r.parent].extent >= self.ranges[r.inner].extent)
        for axis in stage.leaf_iter_vars:
            if axis not in self.ranges and axis.dom is not None:
                self.ranges[axis] = axis.dom
            thread = self.attach.bound_thread(stage, axis)
            if thread is not None and thread is not axis:
                self._bind_thread(stage, axis, thread)
            self.analyzer.bind(axis.var, self._carried(stage, axis))

    def _keeps_size(self, stage: Stage, axis: IterVar) -> bool:
        attrs = stage.peek(axis)
        return attrs is not None and (attrs.bind_thread is not None or attrs.iter_type == IterVar.Tensorized)

    def _bind_thread(self, stage: Stage, axis: IterVar, thread: IterVar) -> None:
        extent = self.ranges[axis].extent
        known = self.ranges.get(thread) or thread.dom
        if known is None:
            self.ranges[thread] = Range(min=const(0, extent.dtype), extent=extent)
            self.analyzer.bind(thread.var, self.ranges[thread])
            return
        if thread not in self.ranges:
            self.ranges[thread] = known
            self.analyzer.bind(thread.var, known)
        if not self.analyzer.can_prove(known.extent >= extent):
            raise ScheduleError(
                f"bind on stage {stage.name}: axis {axis.var.name} has {extent} iterations, but {thread.thread_tag} "
                f"has only {known.extent} threads"
            )


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _divides(e: PrimExpr) -> bool:
    return any(isinstance(node, (FloorDiv, FloorMod)) for node in post_order(e))


def _divides_by_sizes(e: PrimExpr) -> bool:
    return any(isinstance(n, (FloorDiv, FloorMod)) and not isinstance(n.b, IntImm) for n in post_order(e))


def _value(axis: IterVar, domain: Range) -> PrimExpr:
    """Return the value of a loop. A loop of one iteration has no variable in the lowered statement."""
    return domain.min if getattr(domain.extent, "value", None) == 1 else axis.var


def infer_bound(schedule: Schedule) -> dict[IterVar, Range]:
    return Bounds(schedule).run()
