"""Partitions are kept if their code generator is faster, by measurement, records or a mock."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tvm
from tests.plain_codegen import network, plainc
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import collage
from tvm.relay.backend.external import summarize
from tvm.relay.op.contrib import partition_for


@pytest.fixture(scope="module")
def model():
    """A module with two partitions, its function in NumPy and an input."""
    plainc()
    rng = np.random.default_rng(3)
    mod, function = network(rng)
    return partition_for("plainc", mod), function, rng.standard_normal((3, 7)).astype("float32")


def check(mod, model):
    runner = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    runner.run(x=model[2])
    np.testing.assert_allclose(runner.get_output(0).numpy(), model[1](model[2]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("cost", "left"), [(1, 2), (2, 2), (3, 0)])
def test_the_faster_alternative_is_kept(model, cost, left):
    estimator = collage.MockCostEstimator({"plainc": cost, "llvm": 2})
    mod, choices = collage.keep_faster_partitions(model[0], "llvm", estimator)
    assert len(summarize(mod).partitions) == left
    assert [c.is_kept for c in choices] == [left == 2] * 2
    assert all(c.library_seconds * 2 == c.target_seconds * cost for c in choices)
    check(mod, model)


def test_records_replace_measurements(model, tmp_path):
    file = tmp_path / "partitions.json"
    costs = {"plainc": 5, "llvm": 2}
    first = collage.keep_faster_partitions(model[0], "llvm", collage.MockCostEstimator(costs), file)[1]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["compiler"] for line in lines] == ["plainc", "plainc"]
    assert lines[0]["operators"] == ["nn.dense", "nn.relu", "add", "multiply"] or "nn.dense" in lines[0]["operators"]
    none = collage.MockCostEstimator(costs, max_estimates=1)
    none.estimates = 1
    assert collage.keep_faster_partitions(model[0], "llvm", none, file)[1] == first
    with pytest.raises(tvm.TVMError, match="more than 1 estimates"):
        collage.keep_faster_partitions(model[0], "llvm -mcpu=haswell", none, file)
    file.write_text(file.read_text() + "{}\n")
    with pytest.raises(tvm.TVMError, match="line 3 is not a measurement of a partition"):
        collage.keep_faster_partitions(model[0], "llvm", none, file)


def test_a_measurement_runs_both_alternatives(model, monkeypatch):
    monkeypatch.setattr(collage.collage, "MEASURE_NUMBER", 2)
    monkeypatch.setattr(collage.collage, "MEASURE_REPEAT", 2)
    monkeypatch.setattr(collage.collage, "WARMUP_MIN_REPEAT_MS", 1)
    mod, choices = collage.keep_faster_partitions(model[0], "llvm")
    assert len(choices) == 2 and all(0 < s < 1 for c in choices for s in c[2:])
    assert len(summarize(mod).partitions) == sum(c.is_kept for c in choices)
    check(mod, model)


def test_a_function_estimates(model):
    name = "tests.collage.estimate"
    tvm.register_func(name, lambda mod, target: 1.0 if target.kind.name == "plainc" else 0.5, override=True)
    choices = collage.keep_faster_partitions(model[0], "llvm", collage.CustomCostEstimator(name))[1]
    assert [c[2:] for c in choices] == [(1.0, 0.5)] * 2


def test_random_values_of_types():
    tensor = relay.TensorType((2, 3), "int8")
    values = collage.arg_for(
        relay.TupleType([tensor, relay.TensorType((4,), "bool"), relay.TensorType((), "float64")]), tvm.cpu()
    )
    assert [(v.shape, v.dtype) for v in values] == [((2, 3), "int8"), ((4,), "bool"), ((), "float64")]
    with pytest.raises(tvm.TVMError, match="cannot be created"):
        collage.arg_for(relay.FuncType([], tensor), tvm.cpu())


def test_a_code_generator_without_a_host_target_is_refused(model):
    with pytest.raises(tvm.TVMError, match="needs a host target"):
        collage.estimate_seconds(model[0], tvm.target.Target("plainc"))
