"""Trees as arrays score as the model they come from, and weights are taken only for families that are known."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm.auto_scheduler import SearchTask, XGBModel
from tvm.auto_scheduler.cost_model import weights
from tvm.auto_scheduler.cost_model.forest import Forest
from tvm.auto_scheduler.state_features import NAMES
from tvm.testing import auto_scheduler as workloads

HAND_MADE = Forest([[0, 1, 0]], [[0.5, 2.0, 3.0]], [[1.0, 2.0, 3.0, 4.0]], ["a", "b"])


def test_rows_go_left_where_they_are_less():
    rows = np.array([[0.0, 1.0], [0.0, 2.0], [0.5, 9.0], [3.0, 0.0]], dtype="float32")
    assert HAND_MADE.predict(rows).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert HAND_MADE.predict(rows[:0]).shape == (0,)
    read = Forest.from_json(HAND_MADE.to_json())
    assert read.predict(rows).tolist() == [1.0, 2.0, 3.0, 4.0] and read.names == ("a", "b")


@pytest.mark.parametrize(
    "features, thresholds, leaves",
    [
        ([[0, 1]], [[0.5, 2.0]], [[1.0, 2.0, 3.0]]),
        ([[0]], [[0.5]], [[1.0]]),
        ([[2]], [[0.5]], [[1.0, 2.0]]),
    ],
)
def test_what_is_no_forest_of_full_trees_is_refused(features, thresholds, leaves):
    with pytest.raises(tvm.TVMError, match="forest"):
        Forest(features, thresholds, leaves, ["a", "b"])


def test_a_forest_scores_as_its_booster(seed):
    xgboost = pytest.importorskip("xgboost")
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(200, 3)).astype("float32")
    data = xgboost.DMatrix(rows, label=np.sin(rows[:, 0]) + rows[:, 1] * rows[:, 2])
    booster = xgboost.train({"max_depth": 4, "base_score": 0.0, "nthread": 1}, data, 12)
    forest = Forest.of_booster(booster, 4, ["x", "y", "z"])
    np.testing.assert_allclose(forest.predict(rows), booster.predict(data), rtol=1e-3, atol=1e-3)
    read = Forest.from_json(forest.to_json())
    np.testing.assert_allclose(read.predict(rows), booster.predict(data), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "target, family",
    [
        ("llvm -mtriple=aarch64-linux-gnu", "aarch64"),
        ("llvm -mtriple=x86_64-linux-gnu", "x86_64"),
        ("llvm -mtriple=riscv64-linux-gnu", ""),
        ("cuda -arch=sm_80", "nvidia"),
        ("opencl", ""),
    ],
)
def test_targets_belong_to_families(target, family):
    assert weights.family_of(tvm.target.Target(target)) == family


def test_weights_of_families_that_are_shipped_are_over_the_features_there_are():
    for path in weights.FOLDER.glob("*.json"):
        forest = weights.starting_weights(path.stem)
        assert forest is not None and forest.names == weights.names_of(path.stem)
    assert weights.starting_weights("") is None and weights.starting_weights("nobody") is None


def test_a_model_scores_by_starting_weights_until_it_learns_and_adds_what_it_learns(monkeypatch, tmp_path):
    pytest.importorskip("xgboost")
    task = SearchTask(func=workloads.matmul_auto_scheduler_test, args=(32, 32, 32), target="llvm")
    lanes = NAMES.index("lanes")
    prefers_lanes = Forest([[lanes]], [[2.0]], [[0.0, 1.0]], NAMES)
    monkeypatch.setattr("tvm.auto_scheduler.cost_model.xgb_model.starting_weights", lambda family: prefers_lanes)
    rows = np.zeros((6, 2, len(NAMES)), dtype="float32")
    rows[3:, 0, lanes] = 4
    # Each of two stages takes a step: the estimate is half a state a step, and weights add to its logarithm.
    rows[:, :, NAMES.index("relative steps")] = 1
    np.testing.assert_allclose(XGBModel().predict_rows(task, [rows])[0], [0.5, 0.5, 0.5, 1, 1, 1])
    np.testing.assert_allclose(XGBModel(pretrained=False).predict_rows(task, [rows])[0], [0.5] * 6)
    # What was learned on top of them is read with them, and what was learned without them without.
    model = XGBModel(num_warmup_sample=2)
    state = task.compute_dag.init_state.state_object
    from tvm.auto_scheduler import MeasureInput, MeasureResult

    inputs = [MeasureInput(task, state)] * 4
    for one, is_pretrained in ((model, True), (XGBModel(num_warmup_sample=2, pretrained=False), False)):
        one.update(inputs, [MeasureResult([1.0], 0, "", 1, 1)] * 4)
        one.save(str(tmp_path / "model"))
        again = XGBModel(model_file=str(tmp_path / "model"))
        assert again.pretrained == is_pretrained
        np.testing.assert_allclose(again.predict(task, [state]), one.predict(task, [state]), rtol=1e-5)
