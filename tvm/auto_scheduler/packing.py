"""Variants of the sketches that rules generate: with packed operands, and with sums in vector lanes.

Each inner tile of a tiled stage reads its operand again, but the rows of the operand are not contiguous: only few of
them fit in the sets of a cache and in the TLB. A copy for each part of the reduction is contiguous.

The rules do not change a reduction without data reuse: its reduction loops stay innermost. If adjacent output elements
are sums of adjacent input elements, as in pooling with channels last, a variant computes them in vector lanes.
"""

from __future__ import annotations

from ..ir.visit import post_order
from .attach_steps import INLINED, ROOT
from .compute_dag import ComputeDAG
from .loop_state import State
from .queries import Queries, has_cache_read, has_reduce_iter, is_tensorized, is_tiled, outer_reduction
from .state import Stage, StateObject


def packed(dag: ComputeDAG, sketch: StateObject) -> StateObject | None:
    """Return the variant of a sketch in which all suitable operands are packed; None if there are none."""
    state, places = State(sketch, dag), range(len(sketch.stages))
    # A copy is a separate stage, so operands are packed from the last one to the first.
    for place in reversed(places):
        reader = _reader(dag, state.state_object, place)
        if reader is None:
            continue
        state.cache_read(place, "global", [reader])
        where = outer_reduction(state.stages[reader + 1])
        assert where is not None
        state.compute_at(place + 1, reader + 1, state.stages[reader + 1].iters[where])
    return state.state_object if len(state.stages) > len(places) else None


def _reader(dag: ComputeDAG, state: StateObject, place: int) -> int | None:
    """Return the tiled stage that reads an input along its vector lanes, and each element for several of its own
    elements; None if there is none. Constants that are stored in loop order need no copy."""
    stage = state.stages[place]
    if not stage.is_placeholder or has_cache_read(state, place):
        return None
    readers = dag.analyzer_of(state).consumers(stage.op)
    if len(readers) != 1 or stage.op.output(0) in dag.layout_free_placeholders:
        return None
    target = next(n for n, one in enumerate(state.stages) if one.op is readers[0])
    own = state.stages[target]
    is_searched = own.compute_at != INLINED and is_tiled(own) and not is_tensorized(own)
    if not is_searched or not Queries(dag, state).needs_multi_level_tiling(target) or outer_reduction(own) is None:
        return None
    reads = dag.analyzer_of(state).accesses[own.op].reaches[stage.op]
    lanes, others = own.op.axis[-1].var, [axis.var for axis in own.op.axis[:-1]]
    # The vector lane advances the last index by one and no other index; some other axis advances none.
    is_row = len(reads) == 1 and [reach({lanes: 2}) for reach in reads[0]] == [1] * (len(reads[0]) - 1) + [2]
    is_reused = is_row and any(all(reach({axis: 2}) == 1 for reach in reads[0]) for axis in others)
    return target if is_reused else None


def with_sums_in_lanes(dag: ComputeDAG, sketch: StateObject) -> StateObject | None:
    """Return the variant of a sketch in which a part of the last axis of plain reductions is inside the reduction
    loops; None if there are none."""
    state = State(sketch, dag)
    for place, stage in enumerate(sketch.stages):
        is_plain = stage.compute_at == ROOT and has_reduce_iter(stage) and not is_tiled(stage)
        if is_plain and _has_lanes(dag, sketch, stage):
            iters, last = list(stage.iters), len(stage.op.axis) - 1
            outer, lanes = state.split(place, iters[last], [None])
            state.reorder(place, [*iters[:last], outer, *iters[last + 1 :], lanes])
    return state.state_object if len(state.transform_steps) > len(sketch.transform_steps) else None


def _has_lanes(dag: ComputeDAG, sketch: StateObject, stage: Stage) -> bool:
    """Return whether a read has a last index that depends on the last axis of a reduction and on none of its reduction
    axes."""
    terms = {axis.var for axis in stage.op.reduce_axis}
    reads = dag.analyzer_of(sketch).accesses[stage.op].reads.values()
    rows = [set(post_order(indices[-1])) for found in reads for indices in found if indices]
    return bool(stage.op.axis) and any(stage.op.axis[-1].var in row and not row & terms for row in rows)


__all__ = ["packed", "with_sums_in_lanes"]
