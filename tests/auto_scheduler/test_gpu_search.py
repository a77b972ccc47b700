"""Searching on GPUs: estimates, what is learned from measurements, and measuring in worker processes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.auto_scheduler.gpu_tasks import CUDA, PROGRAMS, breeder_of, drawn, policy_of, task_of
from tests.cuda_emulator.marks import needs_emulator
from tvm import auto_scheduler
from tvm.auto_scheduler.cost_model.estimate import EstimateModel
from tvm.auto_scheduler.gpu_features import NAMES, GPUFeatureExtractor, estimated_speed, summary
from tvm.auto_scheduler.measure import MeasureInput, MeasureResult
from tvm.auto_scheduler.search_policy import SketchPolicy, default_policy
from tvm.auto_scheduler.state import StateObject
from tvm.testing import auto_scheduler as workloads
from tvm.testing import requires_opencl


def result(seconds: float | None) -> MeasureResult:
    return MeasureResult([seconds or 1e10], 0 if seconds else 4, "", 0.1, 0.0)


def ranks(values) -> np.ndarray:
    return np.argsort(np.argsort(values))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_each_kernel_has_a_row_of_features(name, seed):
    breeder = breeder_of(name, seed)
    extractor = GPUFeatureExtractor(breeder.dag, tvm.target.Target(CUDA).features)
    for candidate in drawn(breeder, 3):
        rows = extractor.rows(candidate.state)
        roots = [s for s in candidate.state.stages if not s.is_placeholder and s.compute_at == 0]
        assert rows.shape == (len(roots), len(NAMES)) and np.isfinite(rows).all()
        read = StateObject((), candidate.key)
        np.testing.assert_array_equal(extractor.rows(read), rows)
        assert np.isfinite(estimated_speed(rows)) and len(summary(rows)) == 1 + len(NAMES)


def test_an_estimate_prefers_tiles_that_use_what_they_fetch():
    """Of states of a large product, one fetches every operand a quarter as often as another."""
    policy = policy_of(workloads.matmul_auto_scheduler_test, (1024, 1024, 1024), "cuda -arch=sm_90")
    breeder = policy.breeder
    extractor = GPUFeatureExtractor(breeder.dag, policy.search_task.target.features)

    def cycles(space: tuple[int, ...], terms: tuple[int, ...]) -> float:
        candidate = drawn(breeder, 1)[0]
        keys = [key for key in candidate.decisions if key[0] == "tile"]
        given = dict(zip(keys, (space, space, terms, (1,), (4,))))
        found = breeder.annotated(0, given)
        assert found is not None and all(found.decisions[key] == value for key, value in given.items())
        return -float(estimated_speed(extractor.rows(found.state)))

    assert cycles((1, 16, 2, 2), (4, 4)) < cycles((1, 8, 1, 2), (4, 4)) < cycles((1, 8, 1, 1), (1, 1))


def test_an_estimate_prefers_parts_of_a_long_reduction_that_fill_the_machine():
    """Of states by chance of a product with few elements and many terms, the best are those of split-k."""
    policy = policy_of(workloads.matmul_auto_scheduler_test, (128, 768, 3072), "cuda -arch=sm_90")
    breeder, features = policy.breeder, policy.search_task.target.features
    extractor = GPUFeatureExtractor(breeder.dag, features)
    fastest = {}
    for number, sketch in enumerate(breeder.sketches):
        made = filter(None, (breeder.annotated(number, {}) for _ in range(80)))
        parts = next((stage.op.axis[0].dom.extent.value for stage in sketch.stages if stage.op.name == "C.rf"), 1)
        fastest[parts] = min((extractor.kernels(one.state) for one in made), key=lambda ks: sum(k.cycles for k in ks))
    cycles = {parts: sum(kernel.cycles for kernel in kernels) for parts, kernels in fastest.items()}
    best = min(cycles, key=lambda parts: cycles[parts])
    assert best in (8, 16) and cycles[best] < 0.6 * cycles[1]
    assert len(fastest[best]) == 2 and features.multiprocessors / 2 < fastest[best][0].blocks


def test_a_model_learns_how_far_estimates_are_off(seed):
    """Seconds that depend on what the estimate does not count are ranked after some measurements."""
    task = task_of(workloads.matmul_auto_scheduler_test, (512, 512, 128))
    breeder = policy_of(workloads.matmul_auto_scheduler_test, (512, 512, 128), seed=seed).breeder
    extractor = GPUFeatureExtractor(breeder.dag, task.target.features)
    states = [candidate.state for candidate in drawn(breeder, 120)]

    def seconds(state) -> float:
        (kernel,) = extractor.kernels(state)
        return kernel.threads**-0.5 * (1 + abs(np.log2(kernel.thread_tile) - 4)) * 1e-3

    truth = [seconds(state) for state in states]
    model, fit = EstimateModel(), 90

    def spearman() -> float:
        scores = model.predict(task, states[fit:])
        return float(np.corrcoef(ranks(scores), ranks([-t for t in truth[fit:]]))[0, 1])

    before = spearman()
    model.update([MeasureInput(task, state) for state in states[:fit]], [result(t) for t in truth[:fit]])
    assert spearman() > max(before, 0.6)
    # A state that failed is worth less than those that ran.
    failed = EstimateModel()
    failed.update([MeasureInput(task, s) for s in states[:20]], [result(None)] + [result(1e-3)] * 19)
    assert failed.predict(task, states[:20])[0] < np.median(failed.predict(task, states[1:20]))


def test_tasks_for_gpus_are_searched_by_estimates_where_nothing_is_said():
    task = task_of(*PROGRAMS["matmul"])
    assert isinstance(default_policy(task).program_cost_model, EstimateModel)
    policy = default_policy(task)
    policy.params.update(evolutionary_search_population=12, evolutionary_search_num_iters=1)
    assert len({state.transform_steps for state in policy.propose(6)}) == 6


def tuned(target: str, log: str) -> list[int]:
    """The outcomes of trials of a search, one of which asks for more threads than there are."""
    task = task_of(*PROGRAMS["minimum"], target)
    runner = auto_scheduler.LocalRunner(timeout=300, number=1, repeat=1, min_repeat_ms=0)
    builder = auto_scheduler.LocalBuilder(timeout=300, n_parallel=2)
    policy = SketchPolicy(task, EstimateModel(), {"evolutionary_search_population": 8}, seed=0, verbose=0)
    options = auto_scheduler.TuningOptions(
        3,
        num_measures_per_round=3,
        verbose=0,
        builder=builder,
        runner=runner,
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
    )
    task.tune(options, policy)
    greedy = task.compute_dag.get_init_state()
    (stage,) = [n for n, s in enumerate(greedy.stages) if not s.is_placeholder]
    greedy.split(stage, greedy.stages[stage].iters[0], [4096])
    greedy.bind(stage, greedy.stages[stage].iters[1], "threadIdx.x")
    good = auto_scheduler.load_best_record(log)[0].state
    inputs = [MeasureInput(task, state) for state in (greedy, good)]
    outcomes = [runner.run([one], builder.build([one]))[0] for one in inputs]
    schedule, args = task.apply_best(log)
    assert tvm.lower(schedule, args)
    return [res.error_no for _, res in auto_scheduler.load_records(log)] + [res.error_no for res in outcomes]


@requires_opencl
def test_a_search_on_opencl_and_a_candidate_that_fails_alone(tmp_path):
    *found, greedy, good = tuned("opencl", str(tmp_path / "log.json"))
    assert found == [0, 0, 0] and greedy != 0 and good == 0


PROGRAM = """
import json, sys
from tests import cuda_emulator
from tests.auto_scheduler.test_gpu_search import tuned
with cuda_emulator.building():
    print("FOUND", json.dumps(tuned("cuda -arch=sm_80", sys.argv[1])))
"""


@pytest.mark.slow("searches with worker processes on the emulator")
@needs_emulator
def test_a_search_on_the_emulator_of_cuda(tmp_path):
    environment = {**cuda_emulator.environment(), "TVM_NO_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "log.json")],
        env=environment,
        cwd=cuda_emulator.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("FOUND"))
    *found, greedy, good = json.loads(line.removeprefix("FOUND "))
    assert found == [0, 0, 0] and greedy != 0 and good == 0
