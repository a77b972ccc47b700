"""Tune a classifier on a board, open a session with it, and evaluate it (the guide micro_train)."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.micro.test_guides import convolution
from tvm import relay
from tvm.micro import testing
from tvm.runtime.executor import AotModule

TARGET = testing.get_target("crt")


@pytest.fixture(scope="module")
def classifier(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(4, 9)).astype("float32")
    x = relay.var("x", shape=(1, 9))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, relay.const(weights))))
    samples = rng.normal(size=(5, 1, 9)).astype("float32")
    return mod, samples, [int(np.argmax(sample @ weights.T)) for sample in samples]


def test_the_accuracy_of_a_classifier(classifier, tmp_path):
    mod, samples, labels = classifier
    with testing.create_aot_session("crt", None, TARGET, mod, {}, tmp_path) as session:
        runner = AotModule(session.create_aot_executor())
        found = list(testing.predict_labels_aot(session, runner, samples, 2))
        assert [label for label, _ in found] == labels and all(seconds >= 0 for _, seconds in found)
        wrong = [(labels[0] + 1) % 4, *labels[1:]]
        seconds, accuracy, predicted = testing.evaluate_model_accuracy(session, runner, samples, wrong)
        assert (accuracy, predicted) == (0.8, labels) and seconds >= 0
        with pytest.raises(tvm.TVMError, match="got 5 samples and 1 labels"):
            testing.evaluate_model_accuracy(session, runner, samples, [0])
        with pytest.raises(tvm.TVMError, match="runs_per_sample must be positive, got 0"):
            next(testing.predict_labels_aot(session, runner, samples, 0))


def test_a_model_with_two_inputs(model):
    with testing.create_aot_session("crt", None, TARGET, model.module, {}) as session:
        runner = AotModule(session.create_aot_executor())
        with pytest.raises(tvm.TVMError, match=r"requires a model with one input and one output, got \(2, 2\)"):
            next(testing.predict_labels_aot(session, runner, [None]))


def test_tuning(seed, classifier):
    mod, params = convolution(seed)
    log = testing.tune_model("crt", None, TARGET, mod, params, 2)
    assert len(log.getvalue().splitlines()) == 2
    log.seek(0)
    with testing.create_aot_session("crt", None, TARGET, mod, params, tune_logs=log) as session:
        runner = AotModule(session.create_aot_executor())
        runner.run(data=np.zeros((1, 3, 9, 7), "float32"))
        assert not runner.get_output(0).numpy().any()
    x = relay.var("x", shape=(3,))
    with pytest.raises(tvm.TVMError, match="the model has no tuning task for target c"):
        testing.tune_model("crt", None, TARGET, tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), {}, 1)
