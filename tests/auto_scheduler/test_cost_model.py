"""Cost models: features of stages, and a model that learns which states are fast."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.test_evolution import PROGRAMS, breeder_of
from tests.packages import needs_xgboost
from tvm import auto_scheduler
from tvm.auto_scheduler import HardwareParams, SearchTask
from tvm.auto_scheduler.loop_nests import LoopNests
from tvm.auto_scheduler.measure import MeasureInput, MeasureResult
from tvm.auto_scheduler.state import StateObject
from tvm.auto_scheduler.state_features import NAMES, FeatureExtractor
from tvm.testing import auto_scheduler as workloads


def feature(rows: np.ndarray, name: str) -> np.ndarray:
    return 2.0 ** rows[:, NAMES.index(name)] - 1


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_each_stage_with_loops_has_a_row_of_finite_numbers(name, seed):
    breeder = breeder_of(name, random.Random(seed))
    extractor = FeatureExtractor(breeder.dag, HardwareParams(num_cores=4, target="llvm"))
    for _ in range(6):
        state = breeder.random().state
        rows = extractor.rows(state)
        assert rows.shape == (len(LoopNests(breeder.dag, state).nests), len(NAMES))
        assert np.isfinite(rows).all()
        # A state of a record has its steps alone.
        np.testing.assert_array_equal(extractor.rows(StateObject((), state.transform_steps)), rows)


def test_features_of_a_product_are_what_can_be_counted_by_hand():
    A, B, C = workloads.matmul_auto_scheduler_test(64, 32, 16)
    dag = auto_scheduler.ComputeDAG([A, B, C])
    state = dag.get_init_state()
    io, ii = state.split(C, state[C].iters[0], [4])
    jo, ji = state.split(C, state[C].iters[2], [8])
    state.reorder(C, [io, jo, state[C].iters[4], ii, ji])
    state.parallel(C, io)
    state.vectorize(C, state[C].iters[4])
    state.pragma(C, state[C].iters[0], "auto_unroll_max_step$16")
    hardware = HardwareParams(num_cores=4, vector_unit_bytes=16, target="llvm")
    rows, registers = FeatureExtractor(dag, hardware).rows(state.state_object), 2
    expected = {
        "iterations": 64 * 32 * 16,
        "multiply operations": 64 * 32 * 16,
        "add operations": 64 * 32 * 16,
        "elements": 64 * 32,
        "terms": 16,
        "parallel iterations": 16,
        "parallel waste": 1,
        "lanes": 8,
        "contiguous reads": 1,
        "broadcast reads": 1,
        "strided reads": 0,
        "contiguous store": 1,
        "accumulators": 32,
        "accumulator bytes": 128,
        "unique bytes": 4 * (64 * 16 + 16 * 32 + 64 * 32),
        "buffers": 3,
        "loops": 5,
        "innermost elements": 32,
        "innermost terms": 16,
        "unrolled": 4,
        "most unrolled": 16,
        # Four rows of eight lanes, each element of A with a vector of B, for sixteen terms without a store.
        "body vectors": 4 * registers,
        "body accumulators": 4 * registers,
        "carried terms": 16,
        "trips": 16,
        "body loads": 4 + registers,
        "lanes gathered": 0,
        "registers": 4 + 5 * registers,
        "spilled": 0,
    }
    for name, value in expected.items():
        assert math.isclose(feature(rows, name)[0], value, rel_tol=1e-4, abs_tol=1e-4), name


def test_a_stage_computed_in_a_parallel_loop_runs_on_its_threads():
    a, b, c = workloads.matmul_auto_scheduler_test(64, 32, 16)
    d = tvm.te.compute((64, 32), lambda i, j: c[i, j] + 1.0, name="d")
    dag = auto_scheduler.ComputeDAG([a, b, d])
    state = dag.get_init_state()
    io, _ = state.split(d, state[d].iters[0], [8])
    state.compute_at(c, d, io)
    state.parallel(d, io)
    rows = FeatureExtractor(dag, HardwareParams(num_cores=4, target="llvm")).rows(state.state_object)
    np.testing.assert_allclose(feature(rows, "parallel iterations"), [8, 8], rtol=1e-5)


def labelled(count: int, seed: int):
    """States with costs by a rule: long lanes are fast, few parallel iterations slow."""
    task = SearchTask(func=workloads.matmul_auto_scheduler_test, args=(64, 64, 64), target="llvm")
    policy = auto_scheduler.SketchPolicy(task, seed=seed, verbose=0, params={"evolutionary_search_population": 8})
    states = [candidate.state for candidate in policy._random(count)]
    extractor = FeatureExtractor(task.compute_dag, task.hardware_params)

    def cost(state) -> float:
        rows = extractor.rows(state)
        return 1e-3 * feature(rows, "parallel waste").max() / (1 + feature(rows, "lanes").max())

    inputs = [MeasureInput(task, state) for state in states]
    return task, inputs, [MeasureResult([cost(state)], 0, "", 1, 1) for state in states]


@needs_xgboost
def test_the_model_tells_fast_states_from_slow_ones_that_it_has_not_seen(seed, tmp_path):
    task, inputs, results = labelled(140, seed)
    model = auto_scheduler.XGBModel(num_warmup_sample=16, seed=0, pretrained=False)
    states = [inp.state for inp in inputs[100:]]
    assert len(set(model.predict(task, states))) > 1
    model.update(inputs[:8], results[:8])
    assert model.bst is None
    model.update(inputs[8:100], results[8:100])
    order = np.argsort([res.mean_cost for res in results[100:]])
    scores = np.array(model.predict(task, states))
    assert scores[order[:10]].mean() > 1.5 * scores[order[-20:]].mean()
    assert model.predict(task, []) == []
    # Scores are speeds relative to the fastest measured state.
    costs = np.array([res.mean_cost for res in results])
    wanted = costs[:100].min() / costs
    speeds = np.array(model.predict(task, [inp.state for inp in inputs]))
    assert np.sqrt(np.mean((speeds[:100] - wanted[:100]) ** 2)) < 0.1
    assert np.median(np.abs(np.log2(speeds / wanted))) < 0.5
    model.save(str(tmp_path / "model"))
    again = auto_scheduler.XGBModel(model_file=str(tmp_path / "model"))
    np.testing.assert_allclose(again.predict(task, states), model.predict(task, states), rtol=1e-5)


@needs_xgboost
def test_the_model_learns_from_record_files_and_leaves_out_what_is_not_registered(seed, tmp_path):
    task, inputs, results = labelled(20, seed)
    log = str(tmp_path / "log.json")
    auto_scheduler.save_records(log, inputs, results)
    other = SearchTask.of_record('["nobody registered this", 1]', "llvm")
    auto_scheduler.save_records(log, [MeasureInput(other, StateObject(()))], [results[0]])
    model = auto_scheduler.XGBModel(num_warmup_sample=10)
    model.update_from_file(log)
    assert len(model._rows) == 20 and model.bst is not None
    with pytest.raises(tvm.TVMError, match="the model is not trained; call update before save"):
        auto_scheduler.XGBModel().save(log)


@needs_xgboost
def test_adaptive_training_waits_for_more(seed):
    _, inputs, results = labelled(24, seed)
    model = auto_scheduler.XGBModel(num_warmup_sample=4, adaptive_training=True)
    model.update(inputs[:20], results[:20])
    first = model.bst
    model.update(inputs[20:22], results[20:22])
    assert model.bst is first
    model.update(inputs[22:], results[22:])
    assert model.bst is not first


@needs_xgboost
def test_states_that_failed_are_the_slowest(seed):
    task, inputs, results = labelled(60, seed)
    bad = {inp.state.transform_steps for inp in inputs if inp.state.transform_steps[0].code == "CHW"}
    given = [
        MeasureResult([1e10], 4, "crashed", 1, 1) if inp.state.transform_steps in bad else res
        for inp, res in zip(inputs, results)
    ]
    model = auto_scheduler.XGBModel(num_warmup_sample=10, seed=0)
    model.update(inputs, given)
    scores = dict(zip((inp.state.transform_steps for inp in inputs), model.predict(task, [i.state for i in inputs])))
    good = [score for key, score in scores.items() if key not in bad]
    assert not bad or np.mean([scores[key] for key in bad]) < np.mean(good)


def test_a_model_by_chance_is_repeated_by_its_seed():
    model = auto_scheduler.RandomModel()
    model.seed(3)
    first = model.predict(None, [None] * 4)
    model.seed(3)
    assert model.predict(None, [None] * 4) == first and len(set(first)) == 4


@needs_xgboost
def test_a_model_that_has_read_records_scores_and_learns_from_other_copies_of_their_workload(tmp_path, seed):
    def task():
        return auto_scheduler.SearchTask(
            func=workloads.conv2d_nchw_bn_relu_auto_scheduler_test, args=(1, 9, 9, 3, 4, 3, 1, 1), target="llvm"
        )

    def inputs(of):
        policy = auto_scheduler.SketchPolicy(of, params={"sample_init_min_population": 4}, seed=seed, verbose=0)
        return [auto_scheduler.MeasureInput(of, state) for state in policy.sample_initial_population()]

    first, second = task(), task()
    results = [auto_scheduler.MeasureResult([1e-3], 0, "", 0.1, 1)] * 4
    auto_scheduler.save_records(tmp_path / "log.json", inputs(first), results)
    model = auto_scheduler.XGBModel(num_warmup_sample=2)
    model.update_from_file(tmp_path / "log.json")
    model.update(inputs(second), results)
    scores = model.predict(second, [inp.state for inp in inputs(second)])
    assert scores == model.predict(first, [inp.state for inp in inputs(first)])


@needs_xgboost
def test_scores_of_stages_add_up_to_those_of_their_states(seed):
    task = auto_scheduler.SearchTask(func=workloads.softmax_nm_auto_scheduler_test, args=(8, 16), target="llvm")
    policy = auto_scheduler.SketchPolicy(task, params={"sample_init_min_population": 4}, seed=seed, verbose=0)
    states = policy.sample_initial_population()
    model = auto_scheduler.XGBModel(num_warmup_sample=2)
    model.update(
        [auto_scheduler.MeasureInput(task, state) for state in states],
        [auto_scheduler.MeasureResult([1e-3 * (n + 1)], 0, "", 0.1, 1) for n in range(4)],
    )
    scores = model.predict(task, states)
    found = model.predict_stages(task, states)
    assert found[:4] == scores and model.predict_stages(task, []) == []
    place = 4
    for score in scores:
        count = int(found[place])
        assert sum(found[place + 1 : place + 1 + count]) == pytest.approx(score, abs=1e-5)
        place += 1 + count
    assert place == len(found)
