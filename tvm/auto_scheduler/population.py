"""Populations of candidates as arrays, which are sampled, scored and evolved without building states.

A candidate is the number of its skeleton and a row of genes (see ``skeleton``). Only the candidates that are measured
become states.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from ..error import TVMError
from .annotate import Choices, Decisions, Limits
from .skeleton import STAGE_GENES, UNDECIDED, Skeleton, SketchGenes
from .state import StateObject
from .state_features import FeatureExtractor
from .tiling import divisors

# The probability of a mutation of each kind of decision.
_MUTATIONS = {"tile": 0.85, "unroll": 0.06, "location": 0.05, "parallel": 0.02, "vector": 0.02}
# The probability of a crossover; other children are mutations.
_CROSSOVER = 0.1
# The maximum number of skeletons of a sketch and of all sketches, each of which is scored separately; and the number of
# samples without a new skeleton after which sampling ends.
_MOST_SKELETONS, _MOST_OF_ALL, _MOST_REPEATS = 64, 96, 12


@dataclass
class Population:
    """Candidates: the skeleton number of each and its row of genes, padded to the width of the widest sketch."""

    skeletons: np.ndarray
    genes: np.ndarray

    def __len__(self) -> int:
        return len(self.skeletons)

    def take(self, which: np.ndarray) -> Population:
        return Population(self.skeletons[which], self.genes[which])

    @staticmethod
    def joined(parts: Sequence[Population]) -> Population:
        return Population(np.concatenate([p.skeletons for p in parts]), np.concatenate([p.genes for p in parts]))

    def keys(self) -> list[bytes]:
        """Return a key for each candidate; equal candidates have equal keys."""
        table = np.concatenate([self.skeletons[:, None].astype("int32"), self.genes], axis=1)
        return [row.tobytes() for row in table]


# Returns the scores of groups of candidates from their features (candidates × stages × features).
ScoreRows = Callable[[list[np.ndarray]], Sequence[np.ndarray]]
Score = Callable[[Population], tuple[Population, np.ndarray]]


class Space:
    """All candidates of a task's sketches."""

    def __init__(
        self, extractor: FeatureExtractor, sketches: Sequence[StateObject], limits: Limits, generator: random.Random
    ):
        self.generator, self.chance = generator, np.random.default_rng(generator.getrandbits(64))
        self.extractor = extractor
        self.sketches = [SketchGenes(extractor.dag, number, sketch, limits) for number, sketch in enumerate(sketches)]
        self.width = max(sketch.width for sketch in self.sketches)
        self.skeletons: list[Skeleton] = []
        self._numbers: dict[Skeleton, int] = {}
        # A user-defined rule may generate sketches that cannot be annotated.
        self._usable = [sketch for sketch in self.sketches if self._find_skeletons(sketch)]

    def _find_skeletons(self, sketch: SketchGenes) -> int:
        """Sample the skeletons of a sketch, and return how many were found."""
        repeats, first = 0, len(self.skeletons)
        most = min(_MOST_SKELETONS, max(_MOST_OF_ALL // len(self.sketches), 1))
        while repeats < _MOST_REPEATS and len(self.skeletons) - first < most:
            before = len(self.skeletons)
            try:
                self._number(sketch.skeleton(Choices(self.generator)))
            except TVMError:
                pass
            repeats = 0 if len(self.skeletons) > before else repeats + 1
        return len(self.skeletons) - first

    def _number(self, skeleton: Skeleton) -> int:
        if skeleton not in self._numbers:
            self._numbers[skeleton] = len(self.skeletons)
            self.skeletons.append(skeleton)
        return self._numbers[skeleton]

    def _of_sketch(self, number: int) -> np.ndarray:
        return np.array([n for n, skeleton in enumerate(self.skeletons) if skeleton.sketch.number == number])

    # -- candidates ------------------------------------------------------------------------------------------------

    def random(self, count: int, among: Collection[int] | None = None) -> Population:
        """Return random candidates, with equal probability of each sketch, or of each sketch whose number is in
        ``among``. Return none if no sketch can be annotated."""
        usable = [sketch for sketch in self._usable if among is None or sketch.number in among]
        count = count if usable else 0
        sketches = self.chance.integers(max(len(usable), 1), size=count)
        made = Population(np.zeros(count, dtype="int64"), np.full((count, self.width), UNDECIDED, dtype="int32"))
        for number, sketch in enumerate(usable):
            rows = np.flatnonzero(sketches == number)
            made.skeletons[rows] = self.chance.choice(self._of_sketch(sketch.number), len(rows))
            for column, table in enumerate(sketch.tables):
                made.genes[rows, column] = self.chance.integers(len(table), size=len(rows))
        return made

    def key_of(self, number: int, decisions: Decisions) -> bytes:
        """Return the key of the candidate with a sketch and decisions."""
        sketch = self.sketches[number]
        genes = np.full((1, self.width), UNDECIDED, dtype="int32")
        genes[0, : sketch.width] = sketch.genes_of(decisions)
        skeleton = self._number(sketch.skeleton(Choices(self.generator, decisions, complete=True)))
        return Population(np.array([skeleton]), genes).keys()[0]

    def of_keys(self, keys: Sequence[bytes], size: int) -> Population:
        """Return the candidates with these keys, filled up to ``size`` with random ones."""
        table = np.frombuffer(b"".join(keys), dtype="int32").reshape(len(keys), self.width + 1)
        known = Population(table[:, 0].astype("int64"), table[:, 1:].copy())
        return Population.joined([known, self.random(max(size - len(keys), 0))])

    def decided(self, population: Population, row: int) -> tuple[int, Decisions]:
        """Return the number of a candidate's sketch, and the candidate's decisions."""
        skeleton = self.skeletons[population.skeletons[row]]
        return skeleton.sketch.number, skeleton.decided(population.genes[row])

    def register_tiles(self, population: Population) -> list[tuple[int, ...]]:
        """Return the sketch of each candidate and the innermost lengths of its tiles. Candidates that differ only in
        other genes have the same innermost body."""
        owners = np.array([skeleton.sketch.number for skeleton in self.skeletons], dtype="int32")[population.skeletons]
        lengths = np.zeros((len(population), self.width + 1), dtype="int32")
        lengths[:, 0] = owners
        for sketch in self.sketches:
            rows = np.flatnonzero(owners == sketch.number)
            for column, options in enumerate(sketch.splits.values()):
                if len(options[0]) > 1:
                    innermost = np.array([option[-1] for option in options], dtype="int32")
                    lengths[rows, column + 1] = innermost[population.genes[rows, column]]
        return [tuple(row) for row in lengths.tolist()]

    def scored(self, population: Population, score: ScoreRows) -> tuple[Population, np.ndarray]:
        """Return the valid candidates, with all genes decided, and their scores."""
        rows, groups, genes = [], [], population.genes.copy()
        for number in np.unique(population.skeletons):
            skeleton, members = self.skeletons[number], np.flatnonzero(population.skeletons == number)
            made = skeleton.express(population.genes[members, : skeleton.sketch.width], self.chance)
            genes[members, : skeleton.sketch.width] = made.genes
            features = self.extractor.rows_of_many(skeleton.state, made.stages)
            kept = made.is_valid & self.extractor.can_be_built(features)
            rows.append(members[kept])
            groups.append(features[kept])
        if not rows:
            return population, np.zeros(0)
        order = np.concatenate(rows)
        return Population(population.skeletons, genes).take(order), np.concatenate(score(groups))

    # -- mutation and crossover -------------------------------------------------------------------------------------

    def children(self, parents: Population) -> Population:
        """Return children of the parents: each has one decision mutated, or takes each gene from one of two parents of
        the same sketch."""
        made = Population(parents.skeletons.copy(), parents.genes.copy())
        owners = np.array([skeleton.sketch.number for skeleton in self.skeletons])[parents.skeletons]
        for sketch in self.sketches:
            rows = np.flatnonzero(owners == sketch.number)
            crossed = self.chance.random(len(rows)) < _CROSSOVER
            self._cross(made, rows[crossed], parents.genes[self.chance.permutation(rows)[crossed]])
            self._mutate(made, rows[~crossed], sketch)
        return made

    def _cross(self, made: Population, rows: np.ndarray, others: np.ndarray) -> None:
        made.genes[rows] = np.where(self.chance.random(others.shape) < 0.5, made.genes[rows], others)

    def _mutate(self, made: Population, rows: np.ndarray, sketch: SketchGenes) -> None:
        skeletons, stages = self._of_sketch(sketch.number), self._stages_with_genes(sketch)
        is_there = {
            "tile": bool(sketch.tables),
            "unroll": bool(stages["unroll"]),
            "location": len(skeletons) > 1,
            "parallel": bool(stages["parallel"]),
            "vector": bool(stages["vector"]),
        }
        kinds = [kind for kind in _MUTATIONS if is_there[kind]]
        if not kinds:
            return
        weights = np.array([_MUTATIONS[kind] for kind in kinds])
        mutation = self.chance.choice(len(kinds), len(rows), p=weights / weights.sum())
        for number, kind in enumerate(kinds):
            own = rows[mutation == number]
            if kind == "tile":
                self._move_factors(made, own, sketch)
            elif kind == "location":
                made.skeletons[own] = self.chance.choice(skeletons, len(own))
            else:
                chosen = self.chance.choice(stages[kind], len(own))
                made.genes[own, chosen] = UNDECIDED
                if kind == "vector":
                    made.genes[own, chosen + STAGE_GENES.index("lanes") - STAGE_GENES.index("vector")] = UNDECIDED

    def _stages_with_genes(self, sketch: SketchGenes) -> dict[str, list[int]]:
        """Return the columns of each kind of gene, for the stages that have loops."""
        computed = [place for place, stage in enumerate(sketch.sketch.stages) if stage.iters]
        return {kind: [sketch.column(kind, place) for place in computed] for kind in ("parallel", "unroll", "vector")}

    def _move_factors(self, made: Population, rows: np.ndarray, sketch: SketchGenes) -> None:
        """Mutate tile sizes: move a factor of one level of a tile to another level."""
        columns = self.chance.integers(len(sketch.tables), size=len(rows))
        for column, options in enumerate(sketch.splits.values()):
            own = rows[columns == column]
            first, neighbours = _moves(options, sketch.extents[column])
            now = made.genes[own, column]
            sizes = first[now + 1] - first[now]
            at = first[now] + (self.chance.random(len(own)) * sizes).astype("int64")
            made.genes[own, column] = np.where(sizes > 0, neighbours[np.minimum(at, len(neighbours) - 1)], now)


@lru_cache(maxsize=1024)
def _moves(options: tuple[tuple[int, ...], ...], extent: int) -> tuple[np.ndarray, np.ndarray]:
    """For each option of a split, return the indices of the options that result from moving a factor from one level to
    another, as compressed rows: the start of each row, and the concatenated rows."""
    places = {lengths: place for place, lengths in enumerate(options)}
    first, found = [0], []
    for lengths in options:
        levels = (max(extent // int(np.prod(lengths)), 1), *lengths)
        for source, length in enumerate(levels):
            others = [level for level in range(len(levels)) if level != source]
            for factor, target in product(divisors(length)[1:], others):
                moved = list(levels)
                moved[source] //= factor
                moved[target] *= factor
                if tuple(moved[1:]) in places:
                    found.append(places[tuple(moved[1:])])
        first.append(len(found))
    return np.array(first), np.array(found or [0])


def evolve(space: Space, population: Population, score: Score, generations: int) -> tuple[Population, np.ndarray]:
    """Return all candidates of a population and of its descendants, without repetitions, from best to worst, and their
    scores."""
    size, seen = len(population), set()
    kept: list[tuple[Population, np.ndarray]] = []
    for generation in range(generations + 1):
        now, scores = score(population)
        fresh = []
        for row, key in enumerate(now.keys()):
            if key not in seen:
                seen.add(key)
                fresh.append(row)
        kept.append((now.take(np.array(fresh, dtype="int64")), scores[fresh]))
        if generation == generations or not len(now):
            break
        weights = scores - scores.min() + 1e-9
        population = space.children(now.take(space.chance.choice(len(now), size, p=weights / weights.sum())))
    everything, scores = Population.joined([p for p, _ in kept]), np.concatenate([s for _, s in kept])
    order = np.argsort(-scores, kind="stable")
    return everything.take(order), scores[order]


__all__ = ["Population", "ScoreRows", "Space", "evolve"]
