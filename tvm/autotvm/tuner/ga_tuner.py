"""A genetic algorithm: the genes of a configuration are the choices of its knobs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ..measure.measure import MeasureInput, MeasureResult
from .tuner import Tuner


class GATuner(Tuner):
    """A tuner that uses a genetic algorithm. Parents are selected with a probability that depends on their speed;
    children combine the genes of two parents and mutate occasionally.

    The ``elite_num`` fastest configurations are parents of every generation; ``mutation_prob`` is the probability that
    a knob mutates.

    Parameters
    ----------
    task : Task
        The task.
    pop_size : int, optional
        The number of configurations of a generation.
    elite_num : int, optional
        The number of fastest configurations that remain parents.
    mutation_prob : float, optional
        The probability that a knob mutates.
    """

    def __init__(self, task: Any, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1):
        super().__init__(task)
        if elite_num > pop_size:
            raise AssertionError(f"elite_num {elite_num} is larger than pop_size {pop_size}")
        self.elite_num, self.mutation_prob = elite_num, mutation_prob
        self.pop_size = min(pop_size, len(self.space))
        self.genes: list[list[int]] = []
        self.scores: list[float] = []
        self.elites: list[list[int]] = []
        self.elite_scores: list[float] = []
        self.trial_pt = 0
        self._first_generation()

    def _first_generation(self) -> None:
        """Return the start points of the space, and random points."""
        first = [i for i in self.space.start if self.space.is_index_valid(i)][: self.pop_size]
        for index in [*first, *self.space.sample_ints(self.pop_size)]:
            if len(self.genes) < self.pop_size and index not in self.visited:
                self.visited.add(index)
                self.genes.append(self.space.point2knob(index))

    def has_next(self) -> bool:
        return len(self.visited) - (len(self.genes) - self.trial_pt) < len(self.space)

    def next_batch(self, batch_size: int) -> list[Any]:
        batch = []
        while len(batch) < batch_size and self.has_next():
            if self.trial_pt >= len(self.genes):
                if self.trial_pt > len(self.scores):
                    break
                self._next_generation()
                if not self.genes:
                    break
            batch.append(self.space.get(self.space.knob2point(self.genes[self.trial_pt])))
            self.trial_pt += 1
        return batch

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        known = {tuple(g) for g in self.genes}
        for inp, result in zip(inputs, results):
            knob = self.space.point2knob(inp.config.index)
            if tuple(knob) in known:
                self.scores.append(self.flops(result))
            else:
                # A record of an earlier run is a future parent, but does not belong to this generation.
                self.elites.append(knob)
                self.elite_scores.append(self.flops(result))

    def _next_generation(self) -> None:
        parents = self.genes[: len(self.scores)] + self.elites
        scores = self.scores + self.elite_scores
        best = sorted(range(len(parents)), key=lambda i: -scores[i])[: self.elite_num]
        self.elites, self.elite_scores = [parents[i] for i in best], [scores[i] for i in best]
        weights = [s + 1e-8 for s in scores]
        children: list[list[int]] = []
        tries = 0
        while len(children) < self.pop_size and len(self.visited) < len(self.space) and tries < 64 * self.pop_size:
            tries += 1
            a, b = random.choices(parents, weights, k=2)
            child = [x if random.random() < 0.5 else y for x, y in zip(a, b)]
            child = [
                random.randrange(dim) if random.random() < self.mutation_prob else x
                for x, dim in zip(child, self.space.dims)
            ]
            index = self.space.knob2point(child)
            if index in self.visited:
                index = self.space.random_walk(index)
            if index in self.visited or not self.space.is_index_valid(index):
                continue
            self.visited.add(index)
            children.append(self.space.point2knob(index))
        if not children and len(self.visited) < len(self.space):
            index = self.space.get_rand_index(to_exclude=self.visited)
            self.visited.add(index)
            children.append(self.space.point2knob(index))
        self.genes, self.scores, self.trial_pt = children, [], 0

    def load_history(self, data_set: Any, min_seed_records: int = 500) -> None:
        # The members of the first generation are not measured yet, and records may contain them.
        self.visited -= {self.space.knob2point(g) for g in self.genes[self.trial_pt :]}
        waiting, self.genes = self.genes[self.trial_pt :], []
        super().load_history(data_set, min_seed_records)
        kept = [g for g in waiting if self.space.knob2point(g) not in self.visited]
        self.genes, self.scores, self.trial_pt = kept, [], 0
        self.visited |= {self.space.knob2point(g) for g in kept}

    def reset(self) -> None:
        super().reset()
        self.genes, self.scores, self.elites, self.elite_scores, self.trial_pt = [], [], [], [], 0
        self._first_generation()
