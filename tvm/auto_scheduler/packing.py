"""Packed operands: sketches in whose tiles a compact copy of an operand is read.

What the lanes of a tiled stage read is read again for each of its inner tiles, but its rows lie apart: few of them fit
the sets of a cache and the pages that a core knows. A copy for each part of the reduction lies together. Sketches that
copy are twins of those that the rules give.
"""

from __future__ import annotations

from .attach_steps import INLINED
from .compute_dag import ComputeDAG
from .loop_state import State
from .queries import Queries, has_cache_read, is_tensorized, is_tiled, outer_reduction
from .state import StateObject


def packed(dag: ComputeDAG, sketch: StateObject) -> StateObject | None:
    """The twin of a sketch in which all operands are packed that may be; None where there are none."""
    state, places = State(sketch, dag), range(len(sketch.stages))
    # A copy is a stage of its own, so operands are packed from the last one on.
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
    """The tiled stage that reads an input along its lanes, and each element of it for several of its own; None where
    there is none. Constants that are stored in the order of the loops need no copy."""
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
    # A lane moves the last index by one and no other index; some other axis moves none.
    is_row = len(reads) == 1 and [reach({lanes: 2}) for reach in reads[0]] == [1] * (len(reads[0]) - 1) + [2]
    is_reused = is_row and any(all(reach({axis: 2}) == 1 for reach in reads[0]) for axis in others)
    return target if is_reused else None


__all__ = ["packed"]
