"""Random states of sketches, and those that come from them, compute what plain loops compute."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.auto_scheduler.programs import arrays_of, products_of_matrices, run
from tvm.auto_scheduler import HardwareParams, SearchTask, SketchPolicy, evolution, steps
from tvm.auto_scheduler.annotate import Limits
from tvm.auto_scheduler.evolution import Breeder
from tvm.auto_scheduler.iterator import Annotation
from tvm.auto_scheduler.queries import is_tiled
from tvm.auto_scheduler.state import StateObject
from tvm.auto_scheduler.tiling import divisors, factorizations
from tvm.testing import auto_scheduler as workloads

PROGRAMS = {
    "matmul": (workloads.matmul_auto_scheduler_test, (12, 20, 18)),
    "long reduction": (workloads.matmul_auto_scheduler_test, (4, 3, 60)),
    "two products": (workloads.double_matmul_auto_scheduler_test, (12,)),
    "shared operand": (workloads.parallel_matmul_auto_scheduler_test, (8,)),
    "convolution": (workloads.conv2d_nchw_bn_relu_auto_scheduler_test, (1, 7, 8, 3, 4, 3, 1, 1)),
    "pooling": (workloads.max_pool2d_auto_scheduler_test, (1, 7, 8, 6, 1)),
    "minimum": (workloads.min_nm_auto_scheduler_test, (6, 30)),
    "softmax": (workloads.softmax_nm_auto_scheduler_test, (6, 24)),
    "scalar sum": (workloads.zero_rank_reduce_auto_scheduler_test, (36,)),
    "products of matrices": (products_of_matrices, (6, 5, 2, 4)),
    "scalar": (workloads.zero_rank_compute_auto_scheduler_test, (8,)),
}


def breeder_of(name: str, generator: random.Random) -> Breeder:
    function, args = PROGRAMS[name]
    task = SearchTask(
        func=function, args=args, target="llvm", hardware_params=HardwareParams(num_cores=4, target="llvm")
    )
    return Breeder(task.compute_dag, SketchPolicy(task, verbose=0).breeder.sketches, Limits(4), generator)


@pytest.mark.parametrize("name", ["long reduction", "shared operand", "scalar sum", "scalar"])
def test_random_states_and_their_children_compute_the_same(name, seed):
    """Programs that test_states has not."""
    generator = random.Random(seed)
    breeder = breeder_of(name, generator)
    dag = breeder.dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)
    parents = [breeder.random() for _ in range(2)]
    children = [child for child in (breeder.child(parent, parents) for parent in parents) if child is not None]
    for candidate in (*parents, *children):
        for got, wanted in zip(run(dag, candidate.state, arrays), expected):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4, err_msg=str(candidate.state))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_state_that_is_written_and_read_is_the_same_candidate(name, seed):
    generator = random.Random(seed)
    breeder = breeder_of(name, generator)
    for _ in range(8):
        candidate = breeder.random()
        lines = steps.to_json(candidate.key)
        read = StateObject((), tuple(steps.from_json(line) for line in lines))
        assert steps.to_json(read.transform_steps) == lines
        recovered = breeder.recovered(read)
        assert recovered is not None and recovered.key == candidate.key
        assert str(recovered.state) == str(candidate.state)


def test_mutations_change_and_keep_what_fits(seed):
    generator = random.Random(seed)
    breeder = breeder_of("matmul", generator)
    parent = breeder.random()
    children = [breeder.mutated(parent) for _ in range(40)]
    assert sum(child.key != parent.key for child in children) > 20
    assert all(child.sketch == parent.sketch for child in children)
    for child in children:
        for step in child.key:
            if isinstance(step, steps.STEPS["SP"]):
                assert step.extent % np.prod(step.lengths) == 0 and step.lengths[-1] <= 64


def test_what_was_made_otherwise_has_no_candidate(seed):
    breeder = breeder_of("matmul", random.Random(seed))
    assert breeder.recovered(StateObject((), (steps.from_json(["SP", 2, 1, 20, [5], 1]),))) is None
    assert breeder.recovered(StateObject(())) is None


def test_evolution_finds_what_the_score_asks_for(seed):
    """By a score that counts iterations inside of the innermost tile, the best is found among many."""
    generator = random.Random(seed)
    breeder = breeder_of("matmul", generator)

    def score(candidates):
        return [-abs(np.log2(np.prod([s.lengths[-1] for s in c.key if s.code == "SP"]) / 40)) for c in candidates]

    population = [breeder.random() for _ in range(24)]
    first = max(score(population))
    best = evolution.evolve(breeder, population, score, generations=6, count=5)
    assert len({c.key for c in best}) == 5
    assert score(best) == sorted(score(best), reverse=True)
    assert score(best)[0] >= first


def test_factors_are_all_and_fit():
    assert divisors(12) == (1, 2, 3, 4, 6, 12)
    ways = factorizations(12, 2, 4)
    assert len(ways) == len(set(ways))
    assert sorted(ways) == sorted((a, b) for a in range(1, 13) for b in range(1, 5) if 12 % (a * b) == 0)


def test_policies_give_states_by_chance_and_by_evolution(seed):
    function, args = PROGRAMS["matmul"]
    task = SearchTask(func=function, args=args, target="llvm")
    params = {"sample_init_min_population": 12, "evolutionary_search_num_iters": 2}
    policy = SketchPolicy(task, params=params, seed=seed, verbose=0)
    population = policy.sample_initial_population()
    assert len(population) == 12 and all(state.state_object.concrete for state in population)
    assert len(policy.evolutionary_search(population, 5)) == 5
    again = SketchPolicy(task, params=params, seed=seed, verbose=0).sample_initial_population()
    assert [state.transform_steps for state in again] == [state.transform_steps for state in population]


def test_whole_rows_of_small_matrices_are_lanes_together(seed):
    def lanes(rows, columns):
        """The most lanes among states of the sketch that has no cache whose innermost tiles are whole matrices."""
        task = SearchTask(func=products_of_matrices, args=(6, 5, rows, columns), target="llvm")
        breeder = SketchPolicy(task, verbose=0, seed=seed).breeder
        number = next(n for n, one in enumerate(breeder.sketches) if len(one.stages) == 3 and is_tiled(one.stages[2]))
        tiles = {("tile", 1): (1, 1, rows), ("tile", 2): (1, 1, columns)}
        states = [made.state for made in (breeder.annotated(number, tiles) for _ in range(64)) if made is not None]
        return max(
            it.extent for state in states for it in state.stages[2].iters if it.annotation is Annotation.VECTORIZE
        )

    assert lanes(4, 4) == 16
    # Five rows of four are more than a vector, and have no part that divides them.
    assert lanes(5, 4) == 4


def test_stages_of_a_row_are_computed_together_in_most_states(seed):
    task = SearchTask(
        func=workloads.softmax_nm_auto_scheduler_test,
        args=(80, 24),
        target="llvm",
        hardware_params=HardwareParams(num_cores=4, target="llvm"),
    )
    policy = SketchPolicy(task, seed=seed % 1000, verbose=0)
    space = policy.space
    assert space is not None
    attached = [[stage.attach for stage in skeleton.state.stages if stage.attach] for skeleton in space.skeletons]
    names = [[stage.op.name for stage in skeleton.state.stages] for skeleton in space.skeletons]
    rows = [
        all(target == len(own) - 1 for target, _ in found) and len(found) >= 3 for own, found in zip(names, attached)
    ]
    # The exponentials have two readers: their sum, and the last stage inside whose loops that is computed.
    assert sum(rows) > len(rows) // 8
    for skeleton in space.skeletons:
        last = skeleton.state.stages[-1]
        for stage in skeleton.state.stages:
            # No stage is computed inside the loop over the elements of a row, for each of them anew.
            assert (
                stage.attach is None
                or stage.attach[0] != len(skeleton.state.stages) - 1
                or (last.iters[stage.attach[1]].name == "i0")
            )


def test_no_register_tile_takes_most_of_a_round_while_there_are_others(seed):
    """A cost model that is wrong about the best one would propose nothing else, and not find out."""
    function, args = PROGRAMS["matmul"]
    policy = SketchPolicy(SearchTask(func=function, args=args, target="llvm"), seed=seed, verbose=0)
    assert policy.space is not None
    ranked, _ = policy.space.scored(policy.space.random(300), lambda groups: [np.zeros(len(g)) for g in groups])
    tiles = policy.space.register_tiles(ranked)
    for row in range(0, len(ranked), 20):
        number, decisions = policy.space.decided(ranked, row)
        lengths = [value[-1] for (kind, _), value in decisions.items() if kind == "tile" and len(value) > 1]
        assert tiles[row][0] == number and [n for n in tiles[row][1:] if n] == lengths
    mixed = policy._mixed(ranked, range(len(ranked)), 2)
    assert sorted(mixed) == list(range(len(ranked)))
    met = [sum(tiles[row] == tiles[before] for before in mixed[:place]) for place, row in enumerate(mixed)]
    late = next(place for place, count in enumerate(met) if count == 2)
    assert all(count < 2 for count in met[:late]) and all(count >= 2 for count in met[late:])
    assert mixed[:late] == sorted(mixed[:late])
