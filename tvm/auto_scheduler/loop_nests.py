"""Loop nests of a state with their extents in closed form, without a te schedule or bound inference.

The extents of a stage that is computed inside a loop of another one follow from the region that its consumers read
there. They are used to select states; the generated programs do not depend on them. If lengths are ``Open``, a state
represents many states, and its extents are arrays with an element for each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir.prim import IntImm, IterVar, Var
from .attach_steps import INLINED
from .compute_dag import ComputeDAG
from .iterator import Annotation, Iterator, IteratorKind
from .loop_steps import Open
from .queries import multiples_of
from .reach import Extents, Number, Reach, least, most
from .state import Stage, StateObject

# The assumed extent of a data-dependent reduction.
_DATA_LENGTH = 32


@dataclass(frozen=True)
class Loop:
    """A loop of a stage, with the extent of the part of each axis that it covers."""

    parts: tuple[tuple[Var, Number], ...]
    kind: IteratorKind
    annotation: Annotation

    @property
    def extent(self) -> Number:
        return math.prod(extent for _, extent in self.parts)


@dataclass(frozen=True)
class Nest:
    """The loops of a stage, and how often the nest is executed. ``outer`` contains the loops of other stages around it,
    split into the parts of axes, outermost first. They determine how often the nest starts, and the extents of axes
    over all its executions."""

    loops: tuple[Loop, ...]
    times: Number
    outer: tuple[tuple[Number, dict[Var, Number]], ...] = ()

    @property
    def parts(self) -> list[tuple[Var, Number]]:
        """Return the parts of axes that the loops cover, with fused loops separated."""
        return [part for loop in self.loops for part in loop.parts]

    def parts_of(self, loops: int) -> int:
        """Return the number of parts that the outermost loops cover."""
        return sum(len(loop.parts) for loop in self.loops[:loops])

    def inside(self, loop: int) -> dict[Var, Number]:
        """Return the extents of axes over the loops from one loop inwards."""
        return self.inside_part(self.parts_of(loop))

    def inside_part(self, first: int) -> dict[Var, Number]:
        """Return the extents of axes over the parts from one part inwards."""
        found: dict[Var, Number] = {}
        for axis, extent in self.parts[first:]:
            found[axis] = found.get(axis, 1) * extent
        return found

    def iterations(self, parts: int | None = None) -> Number:
        """Return the iterations of the outermost parts, or of all parts."""
        return math.prod(extent for _, extent in self.parts[:parts])


class LoopNests:
    """The loop nests of all stages of a state, by number. ``lengths`` are the values of open split lengths, by step
    number and index into its lengths."""

    def __init__(self, dag: ComputeDAG, state: StateObject, lengths: Mapping[tuple[int, int], Number] | None = None):
        self.state, self.analyzer, self._lengths = state, dag.analyzer_of(state), lengths or {}
        self._places = {stage.op: place for place, stage in enumerate(state.stages)}
        self._regions: dict[tuple[int, int, int], dict[Var, Number]] = {}
        self.nests: dict[int, Nest] = {}
        # A stage comes before the one inside which it is computed, so stages are visited backwards.
        for place in reversed(range(len(state.stages))):
            stage = state.stages[place]
            if not stage.is_placeholder and stage.compute_at != INLINED:
                self.nests[place] = self._nest(place, stage)

    def _nest(self, place: int, stage: Stage) -> Nest:
        op = stage.op
        extents = {axis.var: length_of(axis) for axis in (*op.axis, *op.reduce_axis)}
        times = 1
        if stage.attach is not None:
            target, loop = stage.attach
            outer = self.nests[target]
            extents.update(self.region(place, target, loop))
            times = outer.times * outer.iterations(outer.parts_of(loop + 1))
        axes = {axis.var.name: axis.var for axis in (*op.axis, *op.reduce_axis)}
        loops = []
        for it in reversed(stage.iters):
            parts = []
            for part in reversed(_parts(it)):
                axis = _axis_of(part, axes)
                if axis is None:
                    continue
                extent = extents[axis] if part.asked is None else least(self._length(part.asked), extents[axis])
                extents[axis] = -(-extents[axis] // extent)
                parts.append((axis, extent))
            loops.append(Loop(tuple(reversed(parts)), it.kind, it.annotation))
        return Nest(tuple(reversed(loops)), times, tuple(self._outer(place)))

    def _outer(self, place: int) -> list[tuple[Number, dict[Var, Number]]]:
        attach, found = self.state.stages[place].attach, []
        while attach is not None:
            target, last = attach
            outer = self.nests[target]
            found[:0] = [
                (outer.times * outer.iterations(part), self._region(place, target, part))
                for part in range(outer.parts_of(last + 1))
            ]
            attach = self.state.stages[target].attach
        return found

    def _length(self, asked: int | Open) -> Number:
        if isinstance(asked, int):
            return asked
        return asked.times * math.prod(self._lengths[factor] for factor in asked.factors)

    def region(self, place: int, target: int, loop: int) -> dict[Var, Number]:
        """Return the extent along each axis of the region of a stage that one iteration of a loop of another stage
        needs."""
        return self._region(place, target, self.nests[target].parts_of(loop + 1))

    def _region(self, place: int, target: int, first: int) -> dict[Var, Number]:
        """Return the extent along each axis of the region of a stage that the parts of another stage from ``first``
        inwards need."""
        key = (place, target, first)
        if key not in self._regions:
            op = self.state.stages[place].op
            needed = dict.fromkeys((axis.var for axis in op.axis), 1)
            for reader in self.analyzer.consumers(op):
                number = self._places[reader]
                if number == target:
                    inside: Extents = self.nests[target].inside_part(first)
                elif number < target:
                    inside = {**self._region(number, target, first), **_reduction(reader)}
                else:
                    continue
                access = self.analyzer.accesses[reader]
                spans = [
                    _span(reaches, offsets, inside)
                    for reaches, offsets in zip(zip(*access.reaches[op]), zip(*access.offsets[op]))
                ]
                for axis, span in zip(op.axis, spans):
                    needed[axis.var] = most(needed[axis.var], least(span, axis.dom.extent.value))
            for axis, factor in zip(op.axis, multiples_of(self.state, place)):
                needed[axis.var] = -(-needed[axis.var] // factor) * factor
            self._regions[key] = needed
        return self._regions[key]


def _span(reaches: Sequence[Reach], offsets: Sequence[int], inside: Extents) -> Number:
    """Return the number of positions along a dimension from the first to the last that several reads access."""
    first, end = min(offsets), 1
    for reach, offset in set(zip(reaches, offsets)):
        end = most(end, reach(inside) + (offset - first))
    return end


def length_of(axis: IterVar) -> int:
    """Return the extent of an axis, or the assumed extent if it is data-dependent."""
    return axis.dom.extent.value if isinstance(axis.dom.extent, IntImm) else _DATA_LENGTH


def _reduction(op) -> dict[Var, int]:
    return {axis.var: length_of(axis) for axis in op.reduce_axis}


def _parts(it: Iterator) -> list[Iterator]:
    """Return the loops that were fused into this one, outermost first."""
    todo, found = [it], []
    while todo:
        one = todo.pop()
        if one.orig_iters:
            todo += reversed(one.orig_iters)
        else:
            found.append(one)
    return found


def _axis_of(it: Iterator, axes: Mapping[str, Var]) -> Var | None:
    """Return the axis that a loop is a part of: splits append a suffix to its name."""
    name = it.name
    while name and name not in axes:
        shorter = re.sub(r"\.\d+$", "", name)
        if shorter == name:
            return None
        name = shorter
    return axes.get(name)


__all__ = ["Loop", "LoopNests", "Nest", "length_of"]
