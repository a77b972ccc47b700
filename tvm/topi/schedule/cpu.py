"""CPU schedules by pattern: any graph of operators is scheduled with parallel outer loops and vectorized inner loops.

Producers that are cheap to recompute are inlined. A reduction keeps a tile of results in registers during the reduction
loops, and its elementwise consumers are computed on the tile before it is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...arith import Analyzer
from ...ir.prim import IntImm, IterVar, PrimExpr, ProducerLoad
from ...target import Target
from ...te.schedule import AttachType, Schedule, Stage, create_schedule
from ...te.tensor import ComputeOp, Tensor
from .. import access, size_class
from ..cpu import (
    byte_windows,
    conv2d,
    conv2d_dots,
    conv2d_pairs,
    conv2d_tiles,
    conv_nd,
    depthwise,
    depthwise_int8,
    matmul,
    matmul_dots,
    matmul_nbits,
    matmul_pairs,
    matmul_tiles,
    pool,
    rows,
    tuned,
    winograd,
    winograd_any_image,
)
from ..cpu.machine import Machine
from ..template import CPUTemplate
from ..utils import prod
from .inline import inline

# Templates by the tag of the operation. The first template that supports the dtype and the operation is used.
TEMPLATES: dict[str, list[CPUTemplate]] = {}
for _module in (
    byte_windows, conv2d, conv2d_dots, conv2d_pairs, conv2d_tiles, conv_nd, depthwise, depthwise_int8, pool, matmul,
    matmul_dots, matmul_nbits, matmul_pairs, matmul_tiles, winograd, winograd_any_image,
):  # fmt: skip
    for _tag in _module.TEMPLATE.tags:
        TEMPLATES.setdefault(_tag, []).append(_module.TEMPLATE)

# The number of points below which waking other threads costs more than it saves.
PARALLEL_POINTS = 1 << 14
# The minimum number of elements in a cache line.
LINE = 16


def schedule_for(outs: list[Tensor], target: Target) -> Schedule:
    """The schedule for the operations that compute ``outs``."""
    s = create_schedule([t.op for t in outs])
    Planner(s, Machine(target)).run()
    return s


class Planner:
    def __init__(self, s: Schedule, machine: Machine):
        self.s = s
        self.machine = machine
        self.parallel_points = PARALLEL_POINTS
        self.placed: set[Stage] = set()
        self.plain: Schedule | None = None

    def run(self) -> None:
        inline(self.s, access.is_cheap)
        live = [x for x in self.s.stages if x.attach_type != AttachType.INLINE and isinstance(x.op, ComputeOp)]
        # Leave loops without iterations unscheduled: optimizing them is useless, and fused extents would divide by
        # zero.
        live = [x for x in live if all(access.extent_of(a) != 0 for a in (*x.op.axis, *x.op.reduce_axis))]
        plain = self.plain = self.s.normalize()
        if rows.plan(self, live, plain):
            return
        fused: dict[Stage, Stage] = {}
        for stage in live:
            if stage.op.reduce_axis:
                consumer = access.own_consumer(self.s, stage, plain)
                if consumer is not None and consumer not in fused.values():
                    fused[stage] = consumer
        # Templates also schedule their producers, so they run first.
        for stage in live:
            template = next((t for t in TEMPLATES.get(stage.op.tag or "", ()) if t.takes(stage.op)), None)
            if template is not None:
                self.templated(template, stage, fused.get(stage))
        for stage in live:
            if stage in self.placed:
                continue
            if stage in fused or stage.op.reduce_axis:
                self.reduction(stage, fused.get(stage))
            elif stage not in fused.values():
                self.injective(stage)

    def templated(self, template: CPUTemplate, stage: Stage, consumer: Stage | None) -> None:
        config = tuned.configuration(template, stage.op, self.machine)
        self.placed.add(stage)
        if consumer is None:
            consumer, stage = stage, self.s[self.s.cache_write(stage.op.output(0), "local")]
        self.placed.update((stage, consumer))
        template.apply(self, stage, consumer, config)

    # -- elementwise operations ------------------------------------------------------------------------------------

    def injective(self, stage: Stage) -> None:
        op = stage.op
        if not op.axis:
            return
        axes = list(op.axis)
        lanes = self.machine.lanes(op.output(0).dtype)
        inner = self.vector_axis(axes, lanes)
        points = access.work(op)
        if inner is None:
            self.parallel(stage, axes, points)
            return
        axis, factor = inner
        across = self.across(stage, axis)
        outer, vector = stage.split(axis, factor=factor)
        rest = [a for a in axes if a is not axis and a is not across] + [outer]
        stage.reorder(*rest, *([] if across is None else [across]), vector)
        stage.vectorize(vector)
        self.parallel(stage, rest, points)

    def across(self, stage: Stage, axis: IterVar) -> IterVar | None:
        """Return the axis along which the data of a transposition is contiguous. As an inner loop it lets each lane
        read neighbours from a cache line that is already loaded."""
        twin = self.plain.stage_map.get(stage.op) if self.plain is not None else None
        if twin is None or not isinstance(twin.op, ComputeOp) or access.work(twin.op) < PARALLEL_POINTS:
            return None
        axes = list(twin.op.axis)
        own = axes[list(stage.op.axis).index(axis)]
        for load in access.loads(twin.op.body):
            if abs(access.first_step(load, axes, own) or 0) < LINE:
                continue
            for number, other in enumerate(axes):
                if other is not own and access.first_step(load, axes, other) == 1:
                    return stage.op.axis[number]
        return None

    def vector_axis(self, axes: list[IterVar], lanes: int) -> tuple[IterVar, int] | None:
        """Return the last axis with more than one iteration and the number of its iterations that form a vector."""
        for axis in reversed(axes):
            n = access.extent_of(axis)
            if n == 1:
                continue
            return axis, vector_factor(n, lanes)
        return None

    def parallel(self, stage: Stage, axes: list[IterVar], points: int, op: ComputeOp | None = None) -> None:
        """Distribute the outer loops (outermost first) over threads if there is enough work. ``op`` is the whole
        operation if ``stage`` computes only its last part."""
        large = self.is_large(op or stage.op, points)
        if not axes or large is False:
            return
        chosen: list[IterVar] = []
        count, is_known = 1, True
        for axis in axes:
            if not is_known and axis is axes[-1]:
                # Dividing by dynamic dimensions costs too much for each vector.
                break
            chosen.append(axis)
            if axis.dom is not None and access.extent_of(axis) is None:
                # The extent may be 1.
                is_known = False
            else:
                count *= self.extent_now(stage, axis)
            if count >= 64:
                break
        self.spread(stage, stage.fuse(*chosen) if len(chosen) > 1 else chosen[0], large)

    def spread(self, stage: Stage, axis: IterVar, large: bool | PrimExpr) -> None:
        """Run a loop on threads if there is enough work, as determined by ``is_large``."""
        if large is not False:
            stage.parallel(axis)
        if not isinstance(large, bool):
            stage.pragma(axis, "parallel_if", large)

    def is_large(self, op: ComputeOp, points: int) -> bool | PrimExpr:
        """Return whether there is enough work for several threads. With dynamic dimensions the result is a condition on
        them, which is evaluated when the loop starts."""
        steps = [] if access.is_ragged(op) else op.reduce_axis
        extents = [a.dom.extent for a in (*op.axis, *steps)]
        known = math.prod(e.value for e in extents if isinstance(e, IntImm))
        if known >= self.parallel_points or all(isinstance(e, IntImm) for e in extents) or not size_class.is_chosen():
            return points >= self.parallel_points
        return prod(extents) >= self.parallel_points

    def extent_now(self, stage: Stage, axis: IterVar) -> int:
        if axis.dom is not None:
            return access.extent_of(axis) or 64
        for r in stage.relations:
            if getattr(r, "outer", None) is axis and getattr(r, "parent", None) is not None and r.factor is not None:
                parent = self.extent_now(stage, r.parent)
                return -(-parent // max(int(r.factor), 1))
        return 1

    # -- reductions --------------------------------------------------------------------------------------------------

    def reduction(self, stage: Stage, consumer: Stage | None) -> None:
        op = stage.op
        if access.is_ragged(op):
            self.parallel(stage, list(op.axis), access.work(op))
            return
        if not op.axis:
            self.row_reduction(stage)
            return
        lanes = self.machine.lanes(op.output(0).dtype)
        vector = self.data_vector(op, lanes)
        if vector is None and self.row_vector(op, lanes) and consumer is None and op.num_outputs == 1:
            self.row_reduction(stage)
            return
        if consumer is None and op.num_outputs == 1:
            cache = self.s.cache_write(op.output(0), "local")
            consumer, stage = stage, self.s[cache]
        self.tiled(stage, consumer, vector)

    def data_vector(self, op: ComputeOp, lanes: int) -> tuple[int, int] | None:
        """Return the position of the data axis to vectorize and the number of lanes. Inputs must be contiguous along it
        or independent of it."""
        for place in reversed(range(len(op.axis))):
            axis = op.axis[place]
            n = access.extent_of(axis)
            if n == 1:
                continue
            kinds = {access.runs_along(x, axis.var) for x in access.loads(op.body)}
            if "far" in kinds and (n is None or n < 4 or self.row_vector(op, lanes)):
                return None
            return place, vector_factor(n, lanes) if n is not None else _lanes_below(axis.dom.extent, lanes)
        return None

    def row_vector(self, op: ComputeOp, lanes: int) -> bool:
        """Return whether the last reduction axis is contiguous in memory and long enough for vectors."""
        axis = op.reduce_axis[-1]
        n = access.extent_of(axis)
        if n is None or n < 2 * lanes:
            return False
        return all(access.runs_along(x, axis.var) != "far" for x in access.loads(op.body))

    def row_reduction(self, stage: Stage) -> None:
        """Reduce along a contiguous axis: accumulate vectors of partial results and combine them at the end."""
        op = stage.op
        lanes = self.machine.lanes(op.output(0).dtype)
        axis = op.reduce_axis[-1]
        if self.row_vector(op, lanes) and op.num_outputs == 1:
            outer, inner = stage.split(axis, factor=lanes)
            factored = self.s.rfactor(op.output(0), inner, -1)
            part = self.s[factored]
            if stage.op.axis:
                part.compute_at(stage, stage.op.axis[-1])
            own = part.op.axis[-1]
            part.reorder(*part.op.reduce_axis, own)
            part.vectorize(own)
        points = access.work(op)
        data = list(stage.op.axis)
        self.parallel(stage, data, points, op)

    def tiled(self, stage: Stage, consumer: Stage | None, vector: tuple[int, int] | None) -> None:
        op = stage.op
        host = consumer or stage
        axes = list(host.op.axis)
        place, factor = vector if vector is not None else (None, 1)
        tile = self.register_tile(op, place)
        outer, inner, last = [], [], None
        for i, axis in enumerate(axes):
            if i == place:
                o, last = host.split(axis, factor=factor)
                outer.append(o)
            elif i in tile:
                o, t = host.split(axis, factor=tile[i])
                outer.append(o)
                inner.append(t)
            else:
                outer.append(axis)
        if consumer is None:
            host.reorder(*outer, *op.reduce_axis, *inner, *([last] if last is not None else []))
            if last is not None:
                host.vectorize(last)
            self.parallel(host, outer, access.work(op))
            return
        host.reorder(*outer, *inner, *([last] if last is not None else []))
        if last is not None:
            host.vectorize(last)
        for t in inner:
            host.unroll(t)
        stage.compute_at(host, outer[-1])
        self.accumulate(stage, place, tile)
        if len(outer) > 1:
            self.parallel(host, outer[:-1], access.work(op), op)
        else:
            self.spread(host, outer[0], self.is_large(op, access.work(op)))

    def accumulate(self, stage: Stage, place: int | None, tile: dict[int, int]) -> None:
        """Schedule the inside of the tile: reduction loops outside, the tile itself in registers."""
        op = stage.op
        axes = list(op.axis)
        # The axis along which the vector operand is constant goes inside the axis along which the scalar operand is.
        tiled = [axes[i] for i in sorted(tile, reverse=True)]
        inside = tiled + ([axes[place]] if place is not None else [])
        rest = [a for a in axes if a not in inside]
        stage.reorder(*rest, *op.reduce_axis, *inside)
        for axis in tiled:
            stage.unroll(axis)
        if place is not None:
            stage.vectorize(axes[place])
        stage.set_scope("local")

    def register_tile(self, op: ComputeOp, place: int | None) -> dict[int, int]:
        """Return the data axes of the register tile with their sizes. A loaded operand is reused along the axes it does
        not depend on, so choose the tile with the fewest loads per multiplication."""
        loads = access.loads(op.body)
        choices: list[tuple[int, list[int]]] = []
        for i, axis in enumerate(op.axis):
            n = access.extent_of(axis)
            if i == place or n is None or n == 1:
                continue
            if any(access.runs_along(x, axis.var) == "same" for x in loads):
                choices.append((i, [d for d in range(1, min(n, 28) + 1) if n % d == 0]))
        best: tuple[float, dict[int, int]] = (float("inf"), {})
        vectors = [place is not None and access.runs_along(x, op.axis[place].var) == "next" for x in loads]
        for tile in _tiles(choices):
            size = 1
            for d in tile.values():
                size *= d
            counts = [self.loaded(x, op, tile) for x in loads]
            held = sum(c for c, v in zip(counts, vectors) if v)
            if size > 4 and (place is None or size + held > self.machine.registers):
                continue
            # Loading a whole vector costs more than broadcasting one scalar.
            cost = sum(c * (3 if v else 1) for c, v in zip(counts, vectors)) / size
            # With fewer than eight independent accumulators the multipliers wait for each other.
            cost += max(0, 8 - size) * 0.1
            # Rows and blocks that are not adjacent use more cache lines.
            cost += sum(0.02 for i in tile if place is None or i != place - 1)
            if cost < best[0] - 1e-9:
                best = (cost, {i: d for i, d in tile.items() if d > 1})
        return best[1]

    def loaded(self, load: ProducerLoad, op: ComputeOp, tile: dict[int, int]) -> int:
        count = 1
        for i, d in tile.items():
            if access.runs_along(load, op.axis[i].var) != "same":
                count *= d
        return count


def _tiles(choices: list[tuple[int, list[int]]]) -> Iterator[dict[int, int]]:
    """Yield tile sizes for at most two of the axes."""
    yield {}
    for a, (i, sizes) in enumerate(choices):
        for d in sizes:
            yield {i: d}
            for k, others in choices[a + 1 :]:
                for e in others:
                    yield {i: d, k: e}


def largest_divisor(n: int, limit: int) -> int:
    return next(d for d in range(min(limit, n), 0, -1) if n % d == 0)


def _lanes_below(extent: PrimExpr, lanes: int) -> int:
    """Return the number of lanes for an axis of dynamic length. It must be less than the maximum length; otherwise the
    accumulators of a vector would be treated as those of the whole axis, whose number is not constant."""
    most = Analyzer().const_int_bound(extent).max_value
    while lanes > 1 and lanes >= most:
        lanes //= 2
    return lanes


def vector_factor(n: int | None, lanes: int) -> int:
    """Return the number of lanes for an axis of ``n`` iterations: a divisor if there is a good one, so that there is no
    remainder."""
    if n is None:
        return lanes
    if n <= lanes:
        return n
    best = largest_divisor(n, lanes)
    return best if best * 4 >= lanes else lanes
