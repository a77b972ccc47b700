"""The tuner with a cost model: its model ranks, its search beats chance, records of other shapes help."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import numpy as np
import pytest

from tvm import autotvm
from tvm.autotvm.task.space import ConfigSpace
from tvm.autotvm.tuner.metric import max_curve, mean_curve, recall_curve, spearman
from tvm.testing.autotvm import get_sample_records, get_sample_task

pytest.importorskip("xgboost")
from tvm.autotvm.tuner.model_based_tuner import submodular_pick
from tvm.autotvm.tuner.sa_model_optimizer import SimulatedAnnealingOptimizer
from tvm.autotvm.tuner.xgboost_cost_model import XGBoostCostModel


class ConvolutionLike:
    """A space of a hundred thousand with the shape of a convolution's: sums that fit the registers are fast."""

    name = "test/conv_like"
    flop = 1.0
    target = None

    def __init__(self, width: int = 28):
        self.workload = (self.name, width)
        self.config_space = space = ConfigSpace()
        space.define_split("tile_w", space.axis(224), num_outputs=3)
        space.define_knob("tile_h", [1, 2, 3, 4])
        space.define_knob("tile_oc", [1, 2, 4, 8])
        space.define_knob("rows", [1, 2, 4, 7, 8, 14, 16, 28])
        space.define_knob("outer", ["filters", "pixels"])
        space.define_knob("unroll", [1, 2, 4, 8, 16])

    def speed(self, index: int, noise: random.Random) -> float:
        values = self.config_space.get(int(index)).values()
        tile = values["tile_w"][-1] * values["tile_h"] * values["tile_oc"]
        fast = tile / (tile + 6) if tile <= 28 else 8.0 / tile + 0.2
        fast *= 0.7 if values["outer"] == "pixels" and values["rows"] > 8 else 1.0
        fast *= min(1.0, values["unroll"] * tile / 32 + 0.5)
        return fast * (1 + noise.uniform(-0.02, 0.02))


@pytest.mark.parametrize(
    "feature, loss, wanted",
    [("itervar", "reg", 0.8), ("itervar", "rank", 0.7), ("knob", "reg", 0.6), ("curve", "rank-binary", 0.3)],
)
def test_model_ranks_configurations_it_has_not_seen(feature: str, loss: str, wanted: float):
    task, noise = ConvolutionLike(), random.Random(7)
    random.seed(11)
    seen, held = task.config_space.sample_ints(256), task.config_space.sample_ints(300)
    model = XGBoostCostModel(task, feature, loss)
    model.fit(seen, [task.speed(i, noise) for i in seen], plan_size=64)
    assert spearman(model.predict(held), [task.speed(i, noise) for i in held]) > wanted


def test_annealing_finds_what_the_model_likes():
    task, noise = ConvolutionLike(), random.Random(3)
    random.seed(5)
    seen = task.config_space.sample_ints(256)
    model = XGBoostCostModel(task, "itervar")
    model.fit(seen, [task.speed(i, noise) for i in seen], plan_size=64)
    found = SimulatedAnnealingOptimizer(task, n_iter=60).find_maximums(model, 32, set(seen))
    assert len(found) == len(set(found)) == 32 and not set(found) & set(seen)
    chance = model.predict(task.config_space.sample_ints(1000))
    assert model.predict(found).min() > np.quantile(chance, 0.95)


class Speeds(autotvm.measure.Runner):
    def __init__(self, task):
        super().__init__(1, 1)
        self.task_, self.noise, self.seen = task, random.Random(1), []

    def run(self, measure_inputs, build_results):
        self.seen += [inp.config.index for inp in measure_inputs]
        speeds = [self.task_.speed(inp.config.index, self.noise) for inp in measure_inputs]
        return [autotvm.MeasureResult((1 / s,), 0, 0.1, time.time()) for s in speeds]


class Nothing(autotvm.measure.Builder):
    def build(self, measure_inputs):
        return [None] * len(measure_inputs)


def mean_of_later_trials(kind, **options) -> float:
    """How fast the configurations are that a tuner tries in its second half; the very best are too close to count."""
    task = ConvolutionLike()
    runner = Speeds(task)
    kind(task, **options).tune(128, {"builder": Nothing(1, 2), "runner": runner})
    assert len(runner.seen) == len(set(runner.seen)) == 128
    noise = random.Random(0)
    return float(np.mean([task.speed(index, noise) for index in runner.seen[64:]]))


@pytest.mark.slow("trains cost models in three long searches")
def test_model_beats_chance_at_equal_trials():
    random.seed(2)
    ratios = [
        mean_of_later_trials(autotvm.tuner.XGBTuner, plan_size=32) / mean_of_later_trials(autotvm.tuner.RandomTuner)
        for _ in range(3)
    ]
    assert np.median(ratios) > 1.2


def test_first_plan_begins_with_what_the_space_suggests():
    task = ConvolutionLike()
    task.config_space.start = [1234]
    assert autotvm.tuner.XGBTuner(task).next_batch(1)[0].index == 1234
    assert autotvm.tuner.XGBTuner(task, start=False).trials == []


def test_small_space_is_measured_whole():
    task, _ = get_sample_task()
    runner = Speeds(task)
    task.speed = lambda index, noise: 1.0 + index
    tuner = autotvm.tuner.XGBTuner(task, plan_size=16, diversity_filter_ratio=2)
    tuner.tune(1000, {"builder": Nothing(1, 2), "runner": runner})
    assert sorted(runner.seen) == list(range(64)) and tuner.best_config.index == 63


def test_history_of_other_shapes_makes_a_base_model():
    task, _ = get_sample_task(64)
    records = get_sample_records(100)
    tuner = autotvm.tuner.XGBTuner(task)
    tuner.load_history(records, min_seed_records=10)
    assert tuner.cost_model.base_model is not None and len(tuner.trials) > 0
    few = autotvm.tuner.XGBTuner(task)
    few.load_history(records, min_seed_records=1000)
    assert few.cost_model.base_model is None
    upper = XGBoostCostModel(task, "itervar", "rank")
    upper.load_basemodel(tuner.cost_model.base_model)
    upper.fit(np.arange(10), np.arange(10), plan_size=32)
    assert len(upper.predict(np.ones(12))) == 12


def test_history_of_the_task_alone_makes_a_base_model_where_it_is_long_enough():
    task, _ = get_sample_task()
    for least, wanted in ((10, True), (11, False)):
        tuner = autotvm.tuner.XGBTuner(task)
        tuner.load_history(get_sample_records(10), min_seed_records=least)
        assert (tuner.cost_model.base_model is not None) == wanted


def test_what_a_tuner_is_told_of_is_not_measured_again():
    task, _ = get_sample_task()
    tuner = autotvm.tuner.XGBTuner(task)
    records = get_sample_records(5)
    tuner.update([inp for inp, _ in records], [res for _, res in records])
    assert tuner.visited == set(tuner.xs) == {inp.config.index for inp, _ in records}


def test_picks_differ():
    knobs = [[0, 0]] * 5 + [[1, 1], [2, 2]]
    assert set(submodular_pick([1.0, 0.99, 0.98, 0.97, 0.96, 0.5, 0.4], knobs, 3)) == {0, 5, 6}


def test_curves():
    assert list(max_curve([1, 3, 2])) == [1, 3, 3]
    assert list(mean_curve([2, 4])) == [2, 3]
    assert list(recall_curve([0, 5, 1], top=2)) == [0.5, 0.5, 1.0]
    assert abs(spearman([1, 2, 3, 4], [10, 20, 30, 40]) - 1) < 1e-9
    assert abs(spearman([1, 2, 3, 4], [4, 3, 2, 1]) + 1) < 1e-9


def test_xgboost_is_loaded_only_when_used():
    code = "import sys, tvm.autotvm.tuner, tvm.topi; assert 'xgboost' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
