"""Loops in closed form: their extents are those that bound inference finds."""

from __future__ import annotations

import random

import pytest

from tests.auto_scheduler.test_evolution import PROGRAMS, breeder_of
from tvm import te
from tvm.auto_scheduler.loop_nests import LoopNests
from tvm.auto_scheduler.reach import reach_of


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_extents_are_those_of_bound_inference(name, seed):
    breeder = breeder_of(name, random.Random(seed))
    for _ in range(4):
        state = breeder.random().state
        nests = LoopNests(breeder.dag, state).nests
        inferred = breeder.dag.infer_bound_from_state(state)
        for place, nest in nests.items():
            found, wanted = [loop.extent for loop in nest.loops], [it.extent for it in inferred.stages[place].iters]
            assert found == wanted, f"{state.stages[place].op.name} of\n{state}"


def test_a_nest_runs_as_often_as_the_loops_around_it(seed):
    breeder = breeder_of("matmul", random.Random(seed))
    for _ in range(20):
        state = breeder.random().state
        for place, nest in LoopNests(breeder.dag, state).nests.items():
            op = state.stages[place].op
            elements = [axis.dom.extent.value for axis in (*op.axis, *op.reduce_axis)]
            total = 1
            for extent in elements:
                total *= extent
            assert nest.times * nest.iterations() == total


@pytest.mark.parametrize(
    "index, reach",
    [
        (lambda i, j: i, 4),
        (lambda i, j: i + 3, 4),
        (lambda i, j: i * 2 + j, 11),
        (lambda i, j: i - j, 8),
        (lambda i, j: te.indexdiv(i, 2), 2),
        (lambda i, j: te.indexmod(i, 3), 3),
        (lambda i, j: te.indexmod(j, 100), 5),
    ],
)
def test_how_far_an_index_reaches(index, reach):
    i, j = te.var("i"), te.var("j")
    assert reach_of(index(i, j))({i: 4, j: 5}) == reach
    assert reach_of(index(i, j))({}) == 1
