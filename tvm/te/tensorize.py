"""Lowering of tensorized stages: one call of the intrinsic replaces the loops inside the tensorized axis.

The lowering compares the semantics of the intrinsic with the computation of the loops; the error for a mismatch shows
both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..arith import interval_set as sets
from ..error import ScheduleError
from ..ir.prim import FloatImm, IntImm, IterVar, PrimExpr, ProducerLoad, Range, Reduce, Var, const
from ..ir.primop import logical_and
from ..ir.structural import structural_equal
from ..ir.subst import substitute
from ..ir.visit import post_order, rewrite
from ..tir.op import max_value, min_value
from ..tir.stmt import IfThenElse, Stmt, seq
from . import axes as algebra
from .bind_extern import bind_buffer
from .schedule import Stage
from .tensor import Tensor, TensorComputeOp
from .tensor_intrin import TensorIntrin

if TYPE_CHECKING:
    from .lower import Loops, Lowering


class Block:
    """The part of a stage that one call of the intrinsic computes."""

    def __init__(self, lowering: Lowering, stage: Stage, axis: IterVar, loops: Loops):
        self.stage = stage
        self.op: Any = stage.op
        self.bounds = lowering.bounds
        self.analyzer = lowering.bounds.analyzer
        where = stage.leaf_iter_vars.index(axis)
        self.outer = stage.leaf_iter_vars[:where]
        self.inner = stage.leaf_iter_vars[where:]
        self.ranges = self._root_ranges(loops)

    def _root_ranges(self, loops: Loops) -> dict[IterVar, Range]:
        ranges = self.bounds.ranges
        state = {a: sets.IntSet.single_point(loops.values[a]) for a in self.outer}
        state.update({a: sets.from_range(ranges[a]) for a in self.inner})
        algebra.pass_up_domain(self.stage.relations, ranges, state, self.analyzer)
        out: dict[IterVar, Range] = {}
        for axis in list(self.op.axis) + list(self.op.reduce_axis):
            out[axis] = self._range(state[axis])
        return out

    def _range(self, region: Any) -> Range:
        low = self.analyzer.simplify(region.min_value)
        extent = self.analyzer.simplify(region.max_value - low + const(1, low.dtype))
        return Range(min=low, extent=extent)

    def input_region(self, tensor: Tensor) -> list[Range]:
        """Return the part of an input that the block reads."""
        doms = {a.var: sets.from_range(r) for a, r in self.ranges.items()}
        regions: list[Any] = [None] * len(tensor.shape)
        for body in self.op.body:
            for node in post_order(body):
                if type(node) is ProducerLoad and node.producer is tensor:
                    for i, index in enumerate(node.indices):
                        got = sets.eval_set(index, doms, self.analyzer)
                        regions[i] = got if regions[i] is None else sets.union([regions[i], got], self.analyzer)
        return [self._range(r) for r in regions]


def _finite(node: Any):
    """Treat the least finite float as minus infinity, because both can initialize a maximum."""
    if isinstance(node, FloatImm) and math.isinf(node.value):
        return (min_value if node.value < 0 else max_value)(node.dtype)
    return None


def _unit(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 1


def _align(ranges: list[Range], want: list[PrimExpr], what: str, name: str) -> list[int | None]:
    """Return, for each given dimension, the wanted dimension it corresponds to. Dimensions of size 1 may be missing;
    the others must be in the same order."""
    out: list[int | None] = [None] * len(ranges)
    j = len(want) - 1
    for i in reversed(range(len(ranges))):
        extent = ranges[i].extent
        if j >= 0 and (not _unit(extent) or _unit(want[j]) or i + 1 <= j + 1):
            out[i] = j
            j -= 1
        elif not _unit(extent):
            shape = ", ".join(str(r.extent) for r in ranges)
            wanted = ", ".join(str(w) for w in want)
            raise ScheduleError(
                f"tensorize with {name}: {what} has extents ({shape}); the intrinsic expects ({wanted})"
            )
    if j >= 0:
        shape = ", ".join(str(r.extent) for r in ranges)
        raise ScheduleError(
            f"tensorize with {name}: {what} has extents ({shape}), too few for ({', '.join(map(str, want))})"
        )
    return out


class Match:
    """A match of the block with the intrinsic: the pairs of corresponding axes, and the values of the intrinsic's
    symbols."""

    def __init__(self, block: Block, intrin: TensorIntrin):
        self.block, self.intrin = block, intrin
        self.symbols: dict[Var, PrimExpr] = {}
        self.table: dict[Var, PrimExpr] = {}
        op, meaning = block.op, intrin.op
        self.match_axes(op.axis, meaning.axis, "output")
        self.match_axes(op.reduce_axis, meaning.reduce_axis, "reduction")
        self.inputs = self.match_inputs()
        self.check_body()

    def match_axes(self, own: tuple[Any, ...], wanted: tuple[Any, ...], what: str) -> None:
        ranges = [self.block.ranges[a] for a in own]
        place = _align(ranges, [w.dom.extent for w in wanted], what, self.intrin.name)
        for axis, r, j in zip(own, ranges, place):
            if j is None:
                self.table[axis.var] = r.min
                continue
            self.same_extent(r.extent, wanted[j].dom.extent, f"{what} axis {axis.var.name}")
            self.table[axis.var] = wanted[j].var + r.min

    def same_extent(self, have: PrimExpr, want: PrimExpr, what: str) -> None:
        if isinstance(want, Var):
            known = self.symbols.setdefault(want, have)
            want = known
        if not self.block.analyzer.can_prove_equal(have, want):
            raise ScheduleError(
                f"tensorize with {self.intrin.name} on stage {self.block.stage.name}: {what} has {have} "
                f"iterations; the intrinsic expects {want}"
            )

    def match_inputs(self) -> list[tuple[Tensor, list[Range], Tensor, list[int | None]]]:
        own = self.block.op.input_tensors
        wanted = self.intrin.inputs
        name = self.intrin.name
        if len(own) != len(wanted):
            raise ScheduleError(
                f"tensorize with {name}: stage {self.block.stage.name} reads {len(own)} tensors "
                f"({', '.join(t.name for t in own)}); the intrinsic reads {len(wanted)}"
            )
        out: list[tuple[Tensor, list[Range], Tensor, list[int | None]]] = []
        for tensor, twin in zip(own, wanted):
            if tensor.dtype != twin.dtype:
                raise ScheduleError(
                    f"tensorize with {name}: input {tensor.name} is {tensor.dtype}; the intrinsic expects {twin.dtype}"
                )
            region = self.block.input_region(tensor)
            place = _align(region, list(twin.shape), f"input {tensor.name}", name)
            for r, j in zip(region, place):
                if j is not None:
                    self.same_extent(r.extent, twin.shape[j], f"input {tensor.name}")
            out.append((tensor, region, twin, place))
        return out

    def check_body(self) -> None:
        """Check that the block's computation, written over the intrinsic's axes and inputs, equals the semantics of the
        intrinsic."""
        analyzer = self.block.analyzer
        views = {tensor: (region, twin, place) for tensor, region, twin, place in self.inputs}

        def own(node: Any):
            if isinstance(node, Var):
                return self.table.get(node)
            if type(node) is ProducerLoad and node.producer in views:
                region, twin, place = views[node.producer]
                indices: list[Any] = [None] * len(twin.shape)
                for index, r, j in zip(node.indices, region, place):
                    if j is not None:
                        indices[j] = analyzer.simplify(index - r.min)
                return ProducerLoad(twin, tuple(indices))
            return None

        def theirs(node: Any):
            return self.symbols.get(node) if isinstance(node, Var) else None

        for axis in self.intrin.op.axis + self.intrin.op.reduce_axis:
            extent = substitute(algebra.range_of(axis).extent, self.symbols)
            analyzer.bind(axis.var, Range(min=const(0, axis.var.dtype), extent=extent))
        for have, want in zip(self.block.op.body, self.intrin.op.body):
            pairs = [(have, want)]
            if isinstance(have, Reduce) and isinstance(want, Reduce):
                pairs = list(zip(have.source, want.source))
                combined = [rewrite(r.combiner, _finite) for r in (have, want)]
                if not structural_equal(combined[0], combined[1], True):
                    self._mismatch(have, want)
                if not structural_equal(self._simple(rewrite(have.condition, own)), self._simple(want.condition)):
                    self._mismatch(have.condition, want.condition)
            for x, y in pairs:
                got, wanted = self._simple(rewrite(x, own)), self._simple(rewrite(y, theirs))
                if not structural_equal(got, wanted):
                    self._mismatch(got, wanted)

    def _simple(self, e: PrimExpr) -> PrimExpr:
        def post(node: Any):
            if type(node) is ProducerLoad:
                return ProducerLoad(node.producer, tuple(self.block.analyzer.simplify(i) for i in node.indices))
            return None

        return self.block.analyzer.simplify(rewrite(e, post))

    def _mismatch(self, have: Any, want: Any):
        raise ScheduleError(
            f"tensorize with {self.intrin.name} on stage {self.block.stage.name}: the loops do not match the "
            f"computation of the intrinsic\n  expected: {want}\n  found:    {have}"
        )

    def bind(self, stmt: Stmt) -> Stmt:
        """Bind the intrinsic's buffers to the block's regions around one of its statements."""
        stmt = substitute(stmt, self.symbols) if self.symbols else stmt
        pairs = [(tensor, region) for tensor, region, _, _ in self.inputs]
        own = [self.block.ranges[a] for a in self.block.op.axis]
        pairs += [(tensor, own) for tensor in self.block.op.outputs]
        for (tensor, region), buffer in reversed(list(zip(pairs, self.intrin.buffers))):
            stmt = bind_buffer(buffer, tensor, [(r.min, r.extent) for r in region], stmt)
        return stmt


def tensorized_stage(lowering: Lowering, stage: Stage, axis: IterVar) -> Stmt:
    from .lower import Loops, guarded, reduction_split

    intrin: TensorIntrin = stage.attributes(axis).tensor_intrin
    loops = Loops(lowering, stage)
    block = Block(lowering, stage, axis, loops)
    match = Match(block, intrin)
    guards = loops.guards()
    inner = {loops.variables[a] for a in block.inner}
    if any(isinstance(n, Var) and n in inner for g in guards for n in post_order(g)):
        raise ScheduleError(
            f"tensorize with {intrin.name} on stage {stage.name}: the loops of the intrinsic exceed the data "
            f"(condition {guards[0]}); choose tiles that divide the extents"
        )
    first, inner_data = reduction_split(stage)
    outer_reduction = [a for a in block.outer[first:] if a not in inner_data]
    if not stage.op.reduce_axis or not outer_reduction:
        if intrin.body is None:
            raise ScheduleError(
                f"tensorize with {intrin.name}: the intrinsic has no body that computes the whole block"
            )
        return lowering.nest(stage, loops, block.outer, guarded(guards, match.bind(intrin.body)))
    if intrin.reduce_update is None:
        raise ScheduleError(
            f"tensorize with {intrin.name} on stage {stage.name}: there are reduction loops outside the block, so "
            "the intrinsic needs an update (fcompute returning body, reset, update)"
        )
    if intrin.reduce_init is None:
        body = _first_step_or_update(match.bind, intrin, loops, outer_reduction)
        return lowering.nest(stage, loops, block.outer, guarded(guards, body))
    update = lowering.nest(stage, loops, block.outer[first:], guarded(guards, match.bind(intrin.reduce_update)))
    data = [a for a in block.outer[first:] if a in inner_data]
    start = lowering.nest(stage, loops, data, match.bind(intrin.reduce_init), attached=False)
    return lowering.nest(stage, loops, block.outer[:first], seq(start, update))


def tensor_compute_stage(lowering: Lowering, stage: Stage) -> Stmt:
    """Return the loops of a compute operation that calls an intrinsic, around the call."""
    from .lower import Loops, guarded, reduction_split

    op = stage.op
    assert isinstance(op, TensorComputeOp), f"{stage.name} does not call an intrinsic"
    loops = Loops(lowering, stage)
    values = {axis.var: loops.values[axis] for axis in op.loops}
    bind = functools.partial(_bind_call, op, values, lowering.bounds.ranges)
    guards = loops.guards()
    intrin = op.intrin
    if not op.reduce_axis:
        return lowering.nest(stage, loops, stage.leaf_iter_vars, guarded(guards, bind(intrin.body)))
    first, inner_data = reduction_split(stage)
    reduction = [a for a in stage.leaf_iter_vars[first:] if a not in inner_data]
    if intrin.reduce_init is None:
        body = _first_step_or_update(bind, intrin, loops, reduction)
        return lowering.nest(stage, loops, stage.leaf_iter_vars, guarded(guards, body))
    update = lowering.nest(stage, loops, stage.leaf_iter_vars[first:], guarded(guards, bind(intrin.reduce_update)))
    start = guarded(loops.guards(skip_reduction=True), bind(intrin.reduce_init))
    start = lowering.nest(stage, loops, inner_data, start, attached=False)
    return lowering.nest(stage, loops, stage.leaf_iter_vars[:first], seq(start, update))


def _bind_call(op: TensorComputeOp, values: dict[Var, PrimExpr], ranges: dict[IterVar, Range], stmt: Stmt) -> Stmt:
    """Return a statement of the intrinsic with its buffers bound to the regions of one call."""
    intrin = op.intrin
    scalars = {p: substitute(v, values).astype(p.dtype) for p, v in zip(intrin.scalar_params, op.scalar_inputs)}
    stmt = substitute(stmt, scalars) if scalars else stmt
    own: list[Any] = []
    for i, axis in enumerate(op.axis):
        whole = (ranges[axis].min, ranges[axis].extent)
        own.append((values[axis.var], const(1, axis.var.dtype)) if i < op.schedulable_ndim else whole)

    def move(e: PrimExpr) -> PrimExpr:
        return substitute(e, values)

    regions = [[(move(r.min), move(r.extent)) for r in region] for region in op.input_regions]
    pairs = list(zip(op.inputs, regions)) + [(t, own) for t in op.outputs]
    for (tensor, region), buffer in reversed(list(zip(pairs, intrin.buffers))):
        stmt = bind_buffer(buffer, tensor, region, stmt)
    return stmt


def _first_step_or_update(
    bind: Callable[[Stmt], Stmt], intrin: TensorIntrin, loops: Loops, reduction: list[IterVar]
) -> Stmt:
    """If the intrinsic has no reset, run the body in the first step of the outer reduction and the update in the
    others."""
    test: PrimExpr = const(True, "bool")
    for axis in reduction:
        variable = loops.variables[axis]
        test = logical_and(test, variable.equal(const(0, variable.dtype)))
    first, update = intrin.body, intrin.reduce_update
    assert first is not None and update is not None, "the intrinsic was matched with a reduction"
    return IfThenElse(test, bind(first), bind(update))
