"""Skeletons: many states of a sketch with a shared structure, and arrays for the decisions that differ.

A skeleton is a sketch whose compute locations are chosen, but whose tile sizes are not, and in which no loop is
parallel or vectorized. The remaining decisions are integers, a row of genes for each state: the option of each split,
then for each stage the number of parallel outer loops, the unrolling limit, the number of vectorized inner loops, and
the vector width split off the innermost loop. ``express`` applies the same rules to arrays that ``annotate`` applies to
one state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .annotate import (
    ITERATIONS_PER_CORE,
    UNROLL_STEPS,
    USUAL,
    Choices,
    Decisions,
    Limits,
    length_options,
    open_splits,
    place_stages,
)
from .attach_steps import ROOT
from .compute_dag import ComputeDAG
from .iterator import Annotation, IteratorKind
from .loop_nests import LoopNests
from .loop_state import State
from .loop_steps import Open
from .queries import has_fragments, has_reduce_iter, is_tiled
from .state import Stage, StateObject
from .state_features import StageLoops, surround
from .steps import TransformStep
from .tiling import row_lengths

# The genes of a stage, in this order. UNDECIDED marks a gene that is not sampled yet, or that has no effect.
STAGE_GENES = ("parallel", "unroll", "vector", "lanes")
_PARALLEL, _UNROLL, _VECTOR, _LANES = range(len(STAGE_GENES))
UNDECIDED = -1


class SketchGenes:
    """The genes of the states of one sketch: the open splits with their options."""

    def __init__(self, dag: ComputeDAG, number: int, sketch: StateObject, limits: Limits):
        self.dag, self.number, self.sketch, self.limits = dag, number, sketch, limits
        splits = open_splits(sketch.transform_steps)
        # The length of a split before an rfactor changes the operations, so it belongs to the skeleton.
        self.splits = {n: length_options(step, limits) for n, step in splits.items() if None in step.lengths}
        self.tables = [np.array(options, dtype="int64") for options in self.splits.values()]
        self.places = [{lengths: place for place, lengths in enumerate(options)} for options in self.splits.values()]
        self.extents = [splits[n].extent or 1 for n in self.splits]
        self._made: dict[tuple, Skeleton] = {}

    @property
    def width(self) -> int:
        return len(self.splits) + len(STAGE_GENES) * len(self.sketch.stages)

    def column(self, kind: str, place: int) -> int:
        return len(self.splits) + len(STAGE_GENES) * place + STAGE_GENES.index(kind)

    def skeleton(self, choices: Choices) -> Skeleton:
        """Return the skeleton of the structural decisions in ``choices``."""
        steps: list[TransformStep] = list(self.sketch.transform_steps)
        for number, step in open_splits(steps).items():
            if number in self.splits:
                lengths = tuple(
                    Open(((number, place),)) if length is None else length for place, length in enumerate(step.lengths)
                )
            else:
                lengths = choices.pick("tile", number, length_options(step, self.limits))
            steps[number] = replace(step, lengths=lengths)
        state = State(self.dag.state_of(steps), self.dag)
        if self.limits.changes_location:
            place_stages(state, choices)
        key = tuple(sorted(choices.made.items(), key=lambda item: item[0]))
        if key not in self._made:
            self._made[key] = Skeleton(self, state.state_object, dict(choices.made))
        return self._made[key]

    def genes_of(self, decisions: Decisions) -> np.ndarray:
        """Return the row of genes of a state's decisions."""
        row = np.full(self.width, UNDECIDED, dtype="int32")
        for (kind, number), value in decisions.items():
            if kind == "tile" and number in self.splits:
                column = list(self.splits).index(number)
                row[column] = self.places[column].get(value, UNDECIDED)
            elif kind in STAGE_GENES:
                row[self.column(kind, number)] = value
        return row


@dataclass
class ExpressedStates:
    """States created from genes: the genes with all of them decided, whether annotation could produce each state, and
    the loops of each stage."""

    genes: np.ndarray
    is_valid: np.ndarray
    stages: list[StageLoops]


class Skeleton:
    """A sketch whose compute locations are chosen."""

    def __init__(self, sketch: SketchGenes, state: StateObject, decisions: Decisions):
        self.sketch, self.state, self.decisions = sketch, state, decisions
        self.tiled = [is_tiled(stage) for stage in state.stages]
        self.parents = [
            {stage.attach[1] for stage in state.stages if stage.attach and stage.attach[0] == place}
            for place in range(len(state.stages))
        ]
        # Loops at which stages are computed; annotation computes a stage only at a loop of several iterations.
        self.wanted = [
            value
            for (kind, _), value in decisions.items()
            if kind == "location" and isinstance(value, tuple) and state.stages[value[0]].attach is None
        ]

    def decided(self, row: np.ndarray) -> Decisions:
        """Return the decisions of the state with this row of genes."""
        made = dict(self.decisions)
        for column, (number, options) in enumerate(self.sketch.splits.items()):
            made["tile", number] = options[row[column]]
        for place in range(len(self.state.stages)):
            for kind in STAGE_GENES:
                value = int(row[self.sketch.column(kind, place)])
                if value != UNDECIDED:
                    made[kind, place] = value
        return made

    def express(self, genes: np.ndarray, generator: np.random.Generator) -> ExpressedStates:
        """Return the loops of the states with these genes; genes that are not valid options are sampled again."""
        genes, count = genes.copy(), len(genes)
        lengths = {
            (number, place): table[genes[:, column], place]
            for column, (number, table) in enumerate(zip(self.sketch.splits, self.sketch.tables))
            for place in range(table.shape[1])
        }
        nests = LoopNests(self.sketch.dag, self.state, lengths).nests
        is_valid = np.ones(count, dtype=bool)
        for target, loop in self.wanted:
            is_valid &= np.broadcast_to(nests[target].loops[loop].extent != 1, (count,))
        found = {}
        for place, nest in nests.items():
            stage = self.state.stages[place]
            first = self.sketch.column(STAGE_GENES[0], place)
            making = _StageStates(self, place, genes[:, first : first + len(STAGE_GENES)], generator)
            making.extents = (
                np.stack([np.broadcast_to(loop.extent, (count,)) for loop in nest.loops])
                if (nest.loops)
                else np.ones((0, count), dtype="int64")
            )
            making.run()
            loops = StageLoops.of(stage, nest, count)
            loops.how[making.parallel[loops.owners]] = Annotation.PARALLEL
            loops.how[making.vector[loops.owners]] = Annotation.VECTORIZE
            if making.may_split and loops.axes:
                _append_lanes(loops, making.lanes)
            loops.unroll = making.unroll
            found[place] = loops
        return ExpressedStates(genes, is_valid, surround(found))


def _append_lanes(loops: StageLoops, lanes: np.ndarray) -> None:
    """Split a vectorized loop off the innermost one."""
    extents = np.concatenate([loops.extents, lanes[None].astype("float64")])
    extents[-2] /= lanes
    how = np.where(lanes > 1, Annotation.VECTORIZE, Annotation.NONE).astype("int8")
    loops.extents, loops.how = extents, np.concatenate([loops.how, how[None]])
    loops.axes, loops.kinds = [*loops.axes, loops.axes[-1]], [*loops.kinds, loops.kinds[-1]]
    loops.owners = [*loops.owners, loops.owners[-1] + 1]


class _StageStates:
    """The loops of one stage in many states, with flags for parallel and vectorized loops."""

    extents: np.ndarray

    def __init__(self, skeleton: Skeleton, place: int, genes: np.ndarray, generator: np.random.Generator):
        self.limits, self.stage = skeleton.sketch.limits, skeleton.state.stages[place]
        self.is_tiled, self.attached = skeleton.tiled[place], skeleton.parents[place]
        self.genes, self.generator, self.count = genes, generator, len(genes)

    @property
    def may_split(self) -> bool:
        """Return whether a vectorized loop may be split off the innermost one."""
        iters = self.stage.iters
        return bool(iters) and not self.is_tiled and _is_free(self.stage, -1) and len(iters) - 1 not in self.attached

    def run(self) -> None:
        self.parallel = self.vector = np.zeros(self.extents.shape, dtype=bool)
        self.lanes = np.ones(self.count, dtype="int64")
        if self.stage.compute_at == ROOT:
            self._parallelize()
        else:
            self.genes[:, _PARALLEL] = UNDECIDED
        self._unroll()
        self._vectorize()

    def _pick(self, gene: int, low: int, high: np.ndarray, applies: np.ndarray) -> np.ndarray:
        """Return the values of a gene between ``low`` and ``high``, of which ``high`` is preferred; values outside the
        range are sampled again."""
        own = self.genes[:, gene]
        is_usual = self.generator.random(self.count) < USUAL
        sampled = low + (self.generator.random(self.count) * (high - low + 1)).astype(own.dtype)
        sampled = np.where(is_usual, high, np.minimum(sampled, high))
        chosen = np.where((own < low) | (own > high), sampled, own)
        self.genes[:, gene] = np.where(applies, chosen, UNDECIDED)
        return np.where(applies, chosen, 0)

    def _parallelize(self) -> None:
        start, taken, degree = (np.full(self.count, value) for value in (0, 0, 1))
        goes_on = np.ones(self.count, dtype=bool)
        for loop in range(len(self.stage.iters)):
            if not _is_free(self.stage, loop) or not goes_on.any():
                break
            taken = taken + goes_on
            degree = np.where(goes_on, degree * self.extents[loop], degree)
            if loop in self.attached:
                # Skip outer loops whose combined number of iterations is one.
                goes_on = goes_on & (degree == 1)
                start, taken = np.where(goes_on, loop + 1, start), np.where(goes_on, 0, taken)
            else:
                goes_on = goes_on & (degree <= self.limits.num_cores * ITERATIONS_PER_CORE)
        depth = self._pick(_PARALLEL, 1, taken, (taken > 0) & (degree > 1))
        loops = np.arange(len(self.stage.iters))[:, None]
        self.parallel = (loops >= start) & (loops < start + depth)

    def _unroll(self) -> None:
        own = self.genes[:, _UNROLL]
        if not has_reduce_iter(self.stage) or has_fragments(self.stage):
            own[:] = UNDECIDED
            self.unroll = np.full(self.count, self.stage.auto_unroll_max_step)
            return
        sampled = self.generator.choice(UNROLL_STEPS, self.count)
        own[:] = np.where(np.isin(own, UNROLL_STEPS), own, sampled)
        self.unroll = np.where(own > 0, own, self.stage.auto_unroll_max_step)

    def _vectorize(self) -> None:
        size, lengths = len(self.stage.iters), row_lengths(self.stage) if self.is_tiled else []
        taken, total = np.zeros(self.count, dtype="int64"), np.ones(self.count, dtype="int64")
        goes_on = np.ones(self.count, dtype=bool)
        for loop in reversed(range(size)):
            inside, most = size - 1 - loop, self.limits.max_vectorize_size
            is_row = not self.is_tiled or inside < max(len(lengths), 1)
            if not _is_free(self.stage, loop) or loop in self.attached or not is_row:
                break
            if self.is_tiled and inside:
                goes_on = goes_on & (self.extents[loop + 1] == lengths[inside - 1]) & (self.extents[loop] > 1)
            elif self.is_tiled:
                most = self.limits.max_innermost_split_factor
            goes_on = goes_on & ~self.parallel[loop] & (total * self.extents[loop] <= most)
            total = np.where(goes_on, total * self.extents[loop], total)
            taken = taken + goes_on
        applies = (taken > 0) & (total > 1)
        chosen = self._pick(_VECTOR, 0, taken, applies)
        self.vector = np.arange(size)[:, None] >= size - chosen
        if self.may_split:
            self._split_lanes(~applies & ~self.parallel[-1])
        else:
            self.genes[:, _LANES] = UNDECIDED

    def _split_lanes(self, applies: np.ndarray) -> None:
        extent, own = self.extents[-1], self.genes[:, _LANES]
        options = np.arange(1, self.limits.max_vectorize_size + 1)[:, None]
        fits = extent % options == 0
        largest = (options * fits).max(axis=0)
        random = (self.generator.random(fits.shape) * fits).argmax(axis=0) + 1
        sampled = np.where(self.generator.random(self.count) < USUAL, largest, random)
        is_option = (own >= 1) & (own <= self.limits.max_vectorize_size) & (extent % np.maximum(own, 1) == 0)
        chosen = np.where(is_option, own, sampled)
        own[:] = np.where(applies, chosen, UNDECIDED)
        self.lanes = np.where(applies, chosen, 1)


def _is_free(stage: Stage, loop: int) -> bool:
    it = stage.iters[loop]
    return it.kind is IteratorKind.SPATIAL and it.annotation is Annotation.NONE


__all__ = ["ExpressedStates", "STAGE_GENES", "Skeleton", "SketchGenes", "UNDECIDED"]
