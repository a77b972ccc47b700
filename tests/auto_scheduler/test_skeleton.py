"""Many states as arrays: they are the states that annotation gives, with the same features."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.auto_scheduler.test_evolution import PROGRAMS, breeder_of
from tests.auto_scheduler.test_intrinsic_rule import policy_of
from tests.auto_scheduler.test_tile_rule import AMX, matmul
from tvm.auto_scheduler import HardwareParams
from tvm.auto_scheduler.annotate import Choices, annotate
from tvm.auto_scheduler.skeleton import UNDECIDED, SketchGenes
from tvm.auto_scheduler.state_features import NAMES, FeatureExtractor

COUNT = 12


def drawn(genes: SketchGenes, chance: np.random.Generator) -> np.ndarray:
    rows = np.full((COUNT, genes.width), UNDECIDED, dtype="int32")
    for column, table in enumerate(genes.tables):
        rows[:, column] = chance.integers(len(table), size=COUNT)
    return rows


@pytest.mark.parametrize("name", [*sorted(PROGRAMS), "products of tiles"])
def test_states_made_of_arrays_have_the_decisions_and_the_features_of_the_arrays(name, seed):
    generator, chance = random.Random(seed), np.random.default_rng(seed)
    breeder = breeder_of(name, generator) if name in PROGRAMS else policy_of(matmul(k=1024), AMX, seed).breeder
    extractor = FeatureExtractor(breeder.dag, HardwareParams(num_cores=4, target="llvm"))
    for number, sketch in enumerate(breeder.sketches):
        genes = SketchGenes(breeder.dag, number, sketch, breeder.limits)
        skeleton = genes.skeleton(Choices(generator))
        made = skeleton.express(drawn(genes, chance), chance)
        rows = extractor.rows_of_many(skeleton.state, made.stages)
        # What is decided stays so.
        np.testing.assert_array_equal(skeleton.express(made.genes, chance).genes, made.genes)
        for row in np.flatnonzero(made.is_valid)[:4]:
            decisions = skeleton.decided(made.genes[row])
            choices = Choices(generator, decisions, complete=True)
            state = annotate(breeder.dag, sketch, choices, breeder.limits)
            assert choices.made == decisions
            np.testing.assert_array_equal(genes.genes_of(decisions), made.genes[row])
            alone = extractor.rows(state)
            wrong = [NAMES[feature] for feature in np.flatnonzero((np.abs(alone - rows[row]) > 1e-5).any(axis=0))]
            assert not wrong, f"{wrong} of\n{state}"


def test_states_whose_stage_would_be_computed_in_a_loop_of_one_iteration_are_told_apart(seed):
    """They are states of other skeletons."""
    generator, chance = random.Random(seed), np.random.default_rng(seed)
    breeder = breeder_of("convolution", generator)
    genes = SketchGenes(breeder.dag, 0, breeder.sketches[-1], breeder.limits)
    for _ in range(40):
        skeleton = genes.skeleton(Choices(generator))
        made = skeleton.express(drawn(genes, chance), chance)
        for row in np.flatnonzero(~made.is_valid)[:2]:
            decisions = skeleton.decided(made.genes[row])
            choices = Choices(generator, decisions, complete=True)
            annotate(breeder.dag, genes.sketch, choices, breeder.limits)
            assert choices.made != decisions
