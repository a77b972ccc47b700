"""Whole models with and without records."""

from __future__ import annotations

import numpy as np

import tvm
from tvm import autotvm, relay
from tvm.autotvm.measure.measure import MeasureInput, MeasureResult
from tvm.target import Target
from tvm.tuning import model as whole_model
from tvm.tuning.relay_model import RelayModel


def a_model():
    data, weight = relay.var("data", shape=(1, 64, 28, 28)), relay.var("weight", shape=(64, 64, 3, 3))
    index = relay.var("index", shape=(1,), dtype="int64")
    body = relay.nn.conv2d(data, weight, padding=(1, 1), channels=64, kernel_size=(3, 3))
    function = relay.Function([data, weight, index], relay.take(body, index, axis=1))
    random = np.random.default_rng(0)
    params = {"weight": random.standard_normal((64, 64, 3, 3)).astype("float32")}
    return relay.transform.InferType()(tvm.IRModule.from_expr(function)), params


def test_ratios_tell_which_choice_of_records_is_slow(monkeypatch):
    monkeypatch.setattr(whole_model, "ROUNDS", 20)
    mod, params = a_model()
    target = Target("llvm")
    tasks = autotvm.task.extract_from_program(mod, params, target)
    records = []
    for task in tasks:
        # The smallest tiles of all: no estimate would choose them.
        result = MeasureResult((1.0,), 0, 0.0, 0.0)
        records.append(autotvm.record.encode(MeasureInput(target, task, task.config_space.get(0)), result))
    model = RelayModel(mod, params, target)
    seconds, (same, slow) = model.compare([[], records])
    assert 0 < seconds < 1
    # A machine that is busy blurs both, but not so far.
    assert slow > same
