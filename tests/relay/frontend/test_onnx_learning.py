"""Converters of random numbers, trees, tables of labels and counts of groups."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper
from onnx.reference import ReferenceEvaluator

from tvm.contrib import onnx_backend


def single(node, inputs, outputs, *imports):
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs],
    )
    sets = [helper.make_opsetid("", 22), *[helper.make_opsetid(*i) for i in imports]]
    return helper.make_model(graph, opset_imports=sets)


def run(model, *arrays):
    return onnx_backend.run_model(model, list(arrays))[0]


def test_a_seed_repeats_its_draw_and_another_does_not():
    def draw(**attributes):
        node = helper.make_node("RandomUniform", [], ["y"], shape=[1000], low=2.0, high=3.0, **attributes)
        return run(single(node, [], [("y", 1, [1000])]))

    first = draw(seed=1.0)
    assert first.dtype == np.float32 and first.min() >= 2 and first.max() <= 3 and len(np.unique(first)) > 900
    np.testing.assert_array_equal(first, draw(seed=1.0))
    assert (first != draw(seed=2.0)).any()
    assert (draw() != draw()).any()


def test_normal_numbers_have_the_mean_and_deviation_asked_for():
    x = np.zeros((100, 100), "float32")
    node = helper.make_node("RandomNormalLike", ["x"], ["y"], mean=3.0, scale=2.0, seed=5.0, dtype=11)
    got = run(single(node, [("x", 1, x.shape)], [("y", 11, x.shape)]), x)
    assert got.dtype == np.float64
    # Ten thousand numbers of a fixed seed: the mean is off by 0.02 on average.
    assert abs(got.mean() - 3) < 0.2 and abs(got.std() - 2) < 0.2


def test_bernoulli_draws_ones_as_often_as_asked():
    x = np.repeat([[0.0], [0.25], [1.0]], 4000, 1).astype("float32")
    node = helper.make_node("Bernoulli", ["x"], ["y"], seed=3.0, dtype=7)
    got = run(single(node, [("x", 1, x.shape)], [("y", 7, x.shape)]), x)
    assert not got[0].any() and got[2].all() and abs(got[1].mean() - 0.25) < 0.05


def test_classes_are_drawn_by_their_weights():
    logits = np.log(np.array([[0.7, 0.3], [1e-9, 1.0]], "float32"))
    node = helper.make_node("Multinomial", ["x"], ["y"], sample_size=2000, seed=3.0, dtype=7)
    got = run(single(node, [("x", 1, (2, 2))], [("y", 7, (2, 2000))]), logits)
    assert got.dtype == np.int64 and got[1].all() and abs(got[0].mean() - 0.3) < 0.1


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("shortest", [1, 2])
def test_groups_of_numbers_are_counted_as_the_reference_does(mode, shortest, rng):
    x = rng.integers(1, 5, (3, 9)).astype("int64")
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode=mode,
        min_gram_length=shortest,
        max_gram_length=2,
        max_skip_count=2,
        ngram_counts=[0, 3],
        ngram_indexes=[4, 0, 1, 3, 2],
        pool_int64s=[1, 2, 7, 1, 2, 3, 3],
        weights=[1.0, 2.0, 3.0, 4.0, 5.0],
    )
    made = single(node, [("x", 7, x.shape)], [("y", 1, (3, 5))])
    want = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(run(made, x), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", range(6))
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_trees_decide_as_walking_them_does(mode, aggregate):
    """Two trees of two nodes each, on values below, at and above the splits, and a missing one."""
    x = np.array([[v, w] for v in (1.0, 2.0, 3.0) for w in (4.0, 5.0, np.nan)], "float32")
    splits = np.array([2.0, 5.0, 5.0, 2.0], "float32")
    weights = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], "float32")
    features, tracks = [0, 1, 1, 0], [0, 1, 0, 0]
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        aggregate_function=aggregate,
        n_targets=2,
        tree_roots=[0, 2],
        nodes_featureids=features,
        nodes_modes=onnx.numpy_helper.from_array(np.full(4, mode, "uint8"), "m"),
        nodes_splits=onnx.numpy_helper.from_array(splits, "s"),
        nodes_missing_value_tracks_true=tracks,
        nodes_truenodeids=[1, 0, 3, 3],
        nodes_trueleafs=[0, 1, 0, 1],
        nodes_falsenodeids=[2, 1, 5, 4],
        nodes_falseleafs=[1, 1, 1, 1],
        leaf_targetids=[0, 1, 1, 0, 1, 0],
        leaf_weights=onnx.numpy_helper.from_array(weights, "w"),
    )
    made = single(node, [("x", 1, x.shape)], [("y", 1, (len(x), 2))], ("ai.onnx.ml", 5))
    compare = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal][mode]
    rows = []
    for row in x:
        holds = [compare(row[f], s) or t and np.isnan(row[f]) for f, s, t in zip(features, splits, tracks)]
        leaves = [(0 if holds[1] else 1) if holds[0] else 2, (3 if holds[3] else 4) if holds[2] else 5]
        by_target = [[weights[k] for k in leaves if (0, 1, 1, 0, 1, 0)[k] == t] for t in (0, 1)]
        how = [lambda v: sum(v) / 2, sum, min, max][aggregate]
        rows.append([how(v) if v else 0.0 for v in by_target])
    np.testing.assert_allclose(run(made, x), np.array(rows, "float32"), rtol=1e-6, atol=1e-6)


def test_labels_that_are_numbers_are_exchanged():
    x = np.array([[1, 5], [9, 2]], "int64")
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_int64s=[1, 2, 5],
        values_floats=[0.5, 0.25, 2.0],
        default_float=-1.0,
    )
    made = single(node, [("x", 7, x.shape)], [("y", 1, x.shape)], ("ai.onnx.ml", 4))
    np.testing.assert_array_equal(run(made, x), np.array([[0.5, 2.0], [-1.0, 0.25]], "float32"))
