"""Candidates of a search (a sketch with its decisions), and their mutation and crossover, one state at a time.

If populations are arrays (``population``), this module builds only the states that are measured.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..error import TVMError
from .annotate import Choices, Decisions, Key, Limits, annotate, decisions_of, length_options, open_splits
from .compute_dag import ComputeDAG
from .state import StateObject
from .steps import TransformStep
from .tiling import divisors

# The probability of a mutation of each kind of decision; "location" and "vector" include related kinds.
_MUTATIONS = {"tile": 0.85, "unroll": 0.06, "location": 0.05, "parallel": 0.02, "vector": 0.02, "buffers": 0.05}
# The probability of a crossover; other children are mutations.
_CROSSOVER = 0.1


@dataclass(eq=False)
class Candidate:
    """A state, identified by the number of its sketch and its decisions."""

    sketch: int
    decisions: Decisions
    state: StateObject

    @property
    def key(self) -> tuple[TransformStep, ...]:
        return self.state.transform_steps


class Breeder:
    """A generator of candidates from the sketches of one task."""

    def __init__(self, dag: ComputeDAG, sketches: Sequence[StateObject], limits: Limits, generator: random.Random):
        self.dag, self.sketches, self.limits, self.generator = dag, sketches, limits, generator

    def annotated(self, sketch: int, given: Decisions, complete: bool = False) -> Candidate | None:
        """Return the candidate of a sketch with the given decisions, as far as they are valid options."""
        choices = Choices(self.generator, given, complete)
        try:
            state = annotate(self.dag, self.sketches[sketch], choices, self.limits)
        except TVMError:
            # A user-defined rule may generate sketches that some decisions cannot complete.
            return None
        return Candidate(sketch, choices.made, state)

    def random(self) -> Candidate | None:
        return self.annotated(self.generator.randrange(len(self.sketches)), {})

    def recovered(self, state: StateObject) -> Candidate | None:
        """Return the candidate of an annotated state; None if the state does not belong to a sketch."""
        for number, sketch in enumerate(self.sketches):
            decisions = decisions_of(sketch, state.transform_steps)
            if decisions is not None:
                made = self.annotated(number, decisions, complete=True)
                if made is not None and made.key == state.transform_steps:
                    return made
        return None

    # -- mutation and crossover -------------------------------------------------------------------------------------

    def child(self, parent: Candidate, population: Sequence[Candidate]) -> Candidate | None:
        """Return a mutation of a parent, or a crossover with another candidate of the same sketch."""
        if self.generator.random() < _CROSSOVER:
            other = self.generator.choice(population)
            if other.sketch == parent.sketch and other is not parent:
                return self._crossed(parent, other)
        return self.mutated(parent)

    def _crossed(self, a: Candidate, b: Candidate) -> Candidate | None:
        mixed = {key: (a if self.generator.random() < 0.5 else b).decisions.get(key) for key in a.decisions}
        return self.annotated(a.sketch, {key: value for key, value in mixed.items() if value is not None})

    def mutated(self, parent: Candidate) -> Candidate | None:
        """Return a candidate with one decision changed."""
        kinds = {kind: [key for key in parent.decisions if _kind(key) == kind] for kind in _MUTATIONS}
        there = [kind for kind, keys in kinds.items() if keys]
        if not there:
            return None
        (kind,) = self.generator.choices(there, [_MUTATIONS[kind] for kind in there])
        key = self.generator.choice(kinds[kind])
        given = dict(parent.decisions)
        old = given.pop(key)
        if kind == "tile":
            given[key] = self._moved(parent.sketch, key, old)
        return self.annotated(parent.sketch, given)

    def _moved(self, sketch: int, key: Key, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """Return tile sizes with a factor moved from one level to another."""
        step = open_splits(self.sketches[sketch].transform_steps)[key[1]]
        options = length_options(step, self.limits)
        levels = [max((step.extent or 1) // math.prod(lengths), 1), *lengths]
        giving = [i for i, length in enumerate(levels) if length > 1]
        if giving:
            source = self.generator.choice(giving)
            target = self.generator.choice([i for i in range(len(levels)) if i != source])
            factor = self.generator.choice(divisors(levels[source])[1:])
            levels[source] //= factor
            levels[target] *= factor
        moved = tuple(levels[1:])
        return moved if moved in options else self.generator.choice(options)


def _kind(key: Key) -> str:
    return "vector" if key[0] == "lanes" else key[0]


def evolve(
    breeder: Breeder,
    population: Sequence[Candidate],
    score: Callable[[Sequence[Candidate]], Sequence[float]],
    generations: int,
    count: int,
) -> list[Candidate]:
    """Return the best candidates of a population and its descendants, from best to worst."""
    best: dict[tuple[TransformStep, ...], tuple[float, Candidate]] = {}
    now, generator, size = list(population), breeder.generator, len(population)
    for generation in range(generations + 1):
        scores = list(score(now)) if now else []
        for value, candidate in zip(scores, now):
            best[candidate.key] = (value, candidate)
        if generation == generations or not now:
            break
        low = min(scores)
        parents = generator.choices(now, [max(value - low, 0.0) + 1e-9 for value in scores], k=size)
        fresh = {child.key: child for child in (breeder.child(p, now) for p in parents) if child is not None}
        now = [child for key, child in fresh.items() if key not in best]
    ranked = sorted(best.values(), key=lambda pair: -pair[0])
    return [candidate for _, candidate in ranked[:count]]


__all__ = ["Breeder", "Candidate", "evolve"]
