"""Populations as arrays: drawn, evolved, and made into states."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.test_evolution import PROGRAMS, breeder_of
from tvm.auto_scheduler import HardwareParams
from tvm.auto_scheduler.population import Population, Space, _moves, evolve
from tvm.auto_scheduler.skeleton import SketchGenes
from tvm.auto_scheduler.state_features import NAMES, FeatureExtractor
from tvm.auto_scheduler.tiling import factorizations


def space_of(name: str, seed: int) -> Space:
    breeder = breeder_of(name, random.Random(seed))
    extractor = FeatureExtractor(breeder.dag, HardwareParams(num_cores=4, target="llvm"))
    return Space(extractor, breeder.sketches, breeder.limits, breeder.generator)


def no_scores(groups):
    return [np.zeros(len(group)) for group in groups]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_candidates_are_known_by_their_keys_and_by_their_decisions(name, seed):
    space = space_of(name, seed)
    population, _ = space.scored(space.random(40), no_scores)
    keys = population.keys()
    again = space.of_keys(keys, len(keys))
    np.testing.assert_array_equal(again.genes, population.genes)
    np.testing.assert_array_equal(again.skeletons, population.skeletons)
    for row in range(0, len(population), 8):
        assert space.key_of(*space.decided(population, row)) == keys[row]


@pytest.mark.slow("breeds two generations of schedules")
@pytest.mark.parametrize("name", ["matmul", "convolution", "softmax"])
def test_children_are_of_the_sketch_of_their_parents_and_most_are_new(name, seed):
    space = space_of(name, seed)
    parents, _ = space.scored(space.random(200), no_scores)
    children = space.children(parents)
    sketch_of = np.array([skeleton.sketch.number for skeleton in space.skeletons])
    np.testing.assert_array_equal(sketch_of[children.skeletons], sketch_of[parents.skeletons])
    valid, _ = space.scored(children, no_scores)
    assert len(valid) > 40
    # About half of them are new where there is little to choose, and four in five elsewhere.
    assert len(set(valid.keys()) - set(parents.keys())) > (0.1 if name == "softmax" else 0.5) * len(valid)


def test_a_factor_of_a_tile_moves_from_one_level_to_another():
    options = factorizations(12, 2, 4)
    first, neighbours = _moves(options, 12)
    for place, (a, b) in enumerate(options):
        levels = np.array([12 // (a * b), a, b])
        around = [options[n] for n in neighbours[first[place] : first[place + 1]]]
        assert len(around) == len(set(around)) and (a, b) not in around
        for c, d in around:
            ratio = np.array([12 // (c * d), c, d]) / levels
            assert sorted(ratio != 1) == [False, True, True] and np.isclose(ratio.prod(), 1)


def test_evolution_gives_each_candidate_once_and_the_best_first(seed):
    space = space_of("matmul", seed)
    lanes = NAMES.index("accumulators")

    def score(groups):
        return [-np.abs(group[:, :, lanes].max(axis=1) - 5) for group in groups]

    first = space.random(64)
    best = space.scored(first, score)[1].max()
    found, scores = evolve(space, first, lambda population: space.scored(population, score), generations=4)
    assert len(set(found.keys())) == len(found) and (np.diff(scores) <= 0).all()
    assert scores[0] >= best
    np.testing.assert_allclose(space.scored(found, score)[1].max(), scores[0])


def test_a_population_of_nothing_evolves_to_nothing(seed):
    space = space_of("matmul", seed)
    nothing = Population(np.zeros(0, dtype="int64"), np.zeros((0, space.width), dtype="int32"))
    found, scores = evolve(space, nothing, lambda population: space.scored(population, no_scores), generations=2)
    assert len(found) == len(scores) == 0


def test_sketches_that_cannot_be_annotated_are_left_out(seed, monkeypatch):
    def refuse(self, choices):
        if self.number != 1:
            raise tvm.TVMError("this sketch has no states")
        return skeleton(self, choices)

    skeleton = SketchGenes.skeleton
    monkeypatch.setattr(SketchGenes, "skeleton", refuse)
    space = space_of("matmul", seed)
    population = space.random(20)
    assert {space.skeletons[number].sketch.number for number in population.skeletons} == {1}


def test_where_no_sketch_can_be_annotated_nothing_is_drawn(seed, monkeypatch):
    def refuse(self, choices):
        raise tvm.TVMError("no sketch has states")

    monkeypatch.setattr(SketchGenes, "skeleton", refuse)
    assert len(space_of("matmul", seed).random(20)) == 0
