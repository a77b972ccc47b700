"""Costs beside a reference: a machine whose speed varies gives the same ones."""

from __future__ import annotations

import random
import time

import pytest

import tvm
from tvm import te
from tvm.runtime.measure import worker as measure_worker
from tvm.runtime.measure.worker import Reference


class Machine:
    """Runs take their own time, times a speed that drifts by a half and jumps now and then."""

    def __init__(self, seed: int):
        self.key, self.random, self.speed, self.runs = "task", random.Random(seed), 1.0, []

    def time(self, function, prepare=None) -> float:
        self.speed = min(max(self.speed + self.random.uniform(-0.02, 0.02), 1.0), 1.5)
        self.runs.append(function)
        late = 3.0 if self.random.random() < 0.05 else 1.0
        return function * self.speed * late


@pytest.fixture
def machine(monkeypatch):
    made = Machine(random.randrange(1 << 30))
    monkeypatch.setattr(measure_worker, "ARGUMENTS", made)
    return made


def cost(reference: Reference, function: float) -> float:
    costs = reference.adjusted(function, 8, 3)  # type: ignore[arg-type]
    assert len(costs) == 3
    return sorted(costs)[1]


def test_costs_compare_although_the_machine_slows_down(machine):
    reference = Reference()
    first = cost(reference, 1.0)
    machine.speed = 1.5
    assert 0.9 < cost(reference, 1.0) / first < 1.1
    machine.speed = 1.0
    assert 1.2 * 0.9 < cost(reference, 1.2) / first < 1.2 * 1.1


def test_every_run_stands_between_two_of_the_reference(machine):
    reference = Reference()
    cost(reference, 1.0)
    machine.runs.clear()
    cost(reference, 1.25)
    assert machine.runs == [1.0, *[1.25, 1.0] * 8] * 3


def test_a_reference_that_waits_for_a_core_makes_no_impossible_costs(monkeypatch):
    """On a busy machine the threads of the reference wait for each other in most runs; a serial candidate does not."""
    generator = random.Random(0)

    class Busy(Machine):
        def time(self, function, prepare=None):
            is_held_up = function == 1.0 and generator.random() < busy
            return function * (20.0 if is_held_up else 1.0)

    monkeypatch.setattr(measure_worker, "ARGUMENTS", Busy(0))
    reference, busy = Reference(), 0.0
    cost(reference, 1.0)
    for busy, least in ((0.5, 0.9), (1.0, 0.5)):
        costs = reference.adjusted(0.8, 3, 40)  # type: ignore[arg-type]
        assert min(costs) >= 0.8 * 0.5 and sorted(costs)[20] >= 0.8 * least


def test_a_much_faster_candidate_is_the_reference_from_then_on(machine):
    reference = Reference()
    slow = cost(reference, 8.0)
    fast = cost(reference, 1.0)
    assert reference.known["task"][0] == 1.0
    assert 0.9 < cost(reference, 1.0) / fast < 1.1
    assert 8 * 0.8 < slow / fast < 8 * 1.2
    assert 2 * 0.8 < cost(reference, 2.0) / fast < 2 * 1.2 and reference.known["task"][0] == 1.0


def test_every_task_has_a_reference_to_which_later_rounds_come_back(machine):
    reference = Reference()
    first = cost(reference, 5.0)
    machine.key = "other"
    cost(reference, 2.0)
    assert reference.known["other"][0] == 2.0
    machine.key, machine.speed = "task", 1.5
    assert 0.9 < cost(reference, 5.0) / first < 1.1
    assert reference.known["task"][0] == 5.0


def test_no_more_references_are_kept_than_a_model_has_tasks(machine, monkeypatch):
    monkeypatch.setattr(measure_worker, "_MOST_REFERENCES", 3)
    reference = Reference()
    for key in "abcadef":
        machine.key = key
        cost(reference, 1.0)
    assert list(reference.known) == ["d", "e", "f"]


def test_a_repeat_takes_its_milliseconds_and_each_run_is_prepared():
    arguments, prepared, ran = measure_worker.Arguments(), [], []
    arguments.key, arguments.sets = "task", [["data", 0], ["data", 1]]  # type: ignore[list-item]
    before, measure_worker.ARGUMENTS = measure_worker.ARGUMENTS, arguments
    try:
        start = time.perf_counter()
        costs = Reference().adjusted(lambda *a: ran.append(a), 2, 3, 20, lambda *a: prepared.append(a))
        took = time.perf_counter() - start
    finally:
        measure_worker.ARGUMENTS = before
    assert len(costs) == 3 and took >= 3 * 0.02
    # Runs take turns on the sets, and all but the second of the same call find theirs prepared.
    assert ran == prepared and set(ran) == {("data", 0), ("data", 1)}


def test_candidates_of_a_task_see_its_arrays_in_shapes_of_their_own(monkeypatch):
    import numpy as np

    monkeypatch.setattr(measure_worker, "ARGUMENTS", measure_worker.Arguments())
    monkeypatch.setattr(measure_worker, "REFERENCE", Reference())
    info = [((6,), "float32"), ((4, 6), "float32"), ((24,), "float32")]
    references = []
    for shape in ((4, 6), (3, 8), (2, 3, 4)):
        a, w = te.placeholder((6,), name="a"), te.placeholder(shape, name="w")
        out = te.compute(shape, lambda *at, a=a, w=w: w(*at) * 2 + a[0], name="out")
        module = tvm.build(te.create_schedule(out.op), [a, w, out], "llvm", name="f")
        shapes = [(6,), shape, shape]
        message = measure_worker.request(info, 1, "f", number=2, repeat=2, outputs=True, shapes=shapes)
        answer, data = measure_worker.measure(module, message)
        arrays = np.frombuffer(data, "float32")
        np.testing.assert_allclose(arrays[30:], arrays[6:30] * 2 + arrays[0], rtol=1e-6)
        assert len(answer["costs"]) == 2
        references.append([*measure_worker.REFERENCE.known])
    # They are of one task, so one of them is the reference of all.
    assert references == [references[0]] * 3 and len(references[0]) == 1


def test_views_of_candidates_that_are_gone_are_not_kept():
    arguments = measure_worker.Arguments()
    arguments.prepare([((4,), "float32"), ((2, 12), "float32")], True, tvm.cpu())
    reference = ((4,), (24,))
    for rows in (1, 2, 3, 4, 6, 8, 12, 24):
        for shapes in (reference, ((4,), (rows, 24 // rows))):
            for one in arguments.sets[:3]:
                assert [view.shape for view in arguments.viewed(one, shapes)] == list(shapes)
        assert len(arguments.views) <= 2


def test_runs_on_cold_arguments_have_a_reference_of_their_own(monkeypatch):
    warm, cold = Reference(), Reference()
    monkeypatch.setattr(measure_worker, "ARGUMENTS", measure_worker.Arguments())
    monkeypatch.setattr(measure_worker, "REFERENCE", warm)
    monkeypatch.setattr(measure_worker, "COLD_REFERENCE", cold)
    a, w = te.placeholder((6,), name="a"), te.placeholder((6,), name="w")
    out = te.compute((6,), lambda i: a[i] + w[i], name="out")
    module = tvm.build(te.create_schedule(out.op), [a, w, out], "llvm", name="f")
    for flush in (False, True):
        message = measure_worker.request([((6,), "float32")] * 3, 1, "f", number=2, repeat=2, flush=flush)
        answer, _ = measure_worker.measure(module, message)
        assert len(answer["costs"]) == 2 and len(warm.known) == 1 and len(cold.known) == flush
