"""The benchmark of models: what it counts, compares and prints."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks import flops, models, ours, report, zoo
from benchmarks.workers import OURS, Worker, WorkerFailed, missing
from tvm import relay


def _row(ratio: float, spread: float = 0.01, name: str = "resnet50") -> dict:
    facts = {"p20": 0.03 * ratio, "median": 0.031, "peak_bytes": 2**28, "load_s": 0.5, "error": 1e-7}
    return {
        "case": {"name": name, "batch": 1, "height": 0, "width": 0, "layout": "NCHW"},
        "threads": 2,
        "target": "llvm",
        "gflop": 6.0,
        "peak_gflops": 300.0,
        "compile_s": 4.0,
        "compile_peak_bytes": 2**29,
        "package_bytes": 2**27,
        "peers": {OURS: facts, "onnxruntime": {**facts, "p20": 0.03}},
        "ratios": {"onnxruntime": [ratio, ratio - spread, ratio + spread]},
    }


def test_stems_tell_cases_apart():
    cases = [
        zoo.Case("resnet50"),
        zoo.Case("resnet50", 4),
        zoo.Case("resnet50", 1, 240, 320),
        zoo.Case("resnet50", layout="NHWC"),
        zoo.Case("resnet18"),
    ]
    assert len({case.stem for case in cases}) == len(cases)
    assert zoo.Case("resnet50", 4, 240, 320).shapes == {"data": (4, 3, 240, 320)}
    assert zoo.Case("resnet50", layout="NHWC").shapes == {"data": (1, 224, 224, 3)}


def test_every_worker_makes_the_same_sample():
    for name in ("resnet18", "bert_base_s128"):
        first, second = zoo.sample(zoo.Case(name)), zoo.sample(zoo.Case(name))
        for key, shape in zoo.Case(name).shapes.items():
            assert first[key].shape == shape
            np.testing.assert_array_equal(first[key], second[key])


def _typed(body, *params):
    import tvm

    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(list(params), body)))["main"]


def test_operations_are_those_of_the_direct_computation():
    x = relay.var("x", shape=(2, 8, 10, 12))
    w = relay.var("w", shape=(16, 4, 3, 3))
    grouped = relay.nn.conv2d(x, w, channels=16, kernel_size=(3, 3), padding=(1, 1), groups=2)
    assert flops.of_function(_typed(grouped, x, w)) == 2 * (2 * 16 * 10 * 12) * 4 * 9
    x, w = relay.var("x", shape=(1, 10, 12, 8)), relay.var("w", shape=(3, 3, 8, 16))
    last = relay.nn.conv2d(x, w, channels=16, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO")
    assert flops.of_function(_typed(last, x, w)) == 2 * (8 * 10 * 16) * 8 * 9
    a, b = relay.var("a", shape=(5, 7)), relay.var("b", shape=(3, 7))
    assert flops.of_function(_typed(relay.nn.relu(relay.nn.dense(a, b)), a, b)) == 2 * 5 * 7 * 3
    a, b = relay.var("a", shape=(4, 5, 7)), relay.var("b", shape=(4, 3, 7))
    assert flops.of_function(_typed(relay.nn.batch_matmul(a, b), a, b)) == 2 * 4 * 5 * 7 * 3


@pytest.mark.parametrize("channels, size", [(32, 7), (64, 56), (128, 28)])
def test_the_compiled_model_counts_as_the_direct_computation(channels: int, size: int):
    """Blocks of channels and Winograd's transforms do not change what is counted."""
    import tvm

    x = relay.var("x", shape=(1, channels, size, size))
    w = relay.const(np.ones((64, channels, 3, 3), "float32"))
    body = relay.nn.relu(relay.nn.conv2d(x, w, channels=64, kernel_size=(3, 3), padding=(1, 1)))
    factory = relay.build(tvm.IRModule.from_expr(relay.Function([x], body)), "llvm")
    rows = ours.describe(factory)
    assert sum(row["flop"] for row in rows) == 2 * 64 * size**2 * channels * 9
    heavy = max(rows, key=lambda row: row["flop"])
    assert heavy["what"].startswith("conv2d") and heavy["bytes"] >= 4 * (channels * size**2 + 64 * channels * 9)


def test_the_interval_of_a_ratio_holds_it():
    rng = np.random.default_rng(0)
    mine, theirs = (list(scale * (1 + 0.1 * rng.random(100))) for scale in (1.0, 2.0))
    low, high = models.bootstrap(models._ratio, [mine, theirs])
    assert low <= models._ratio(mine, theirs) <= high < 0.6 and low > 0.4


def test_an_error_is_relative_and_a_wrong_shape_is_never_right():
    want = np.full((3, 4), 2.0)
    assert models.frobenius(want * 1.5, want) == pytest.approx(0.5, abs=1e-12)
    assert models.frobenius(want[:2], want) == float("inf")


def test_tables_name_the_bars():
    text = report.tables({"resnet50 2t": _row(0.8), "resnet18 2t": _row(0.95, name="resnet18")})
    assert "0.80 [0.79, 0.81] ok 0.90" in text
    assert "0.95 [0.94, 0.96] over 0.85" in text
    assert f"{(0.8 * 0.95) ** 0.5:.3f}" in text


def test_only_clear_moves_are_named():
    old = {"a": _row(0.9), "b": _row(0.9), "c": _row(0.9), "gone": _row(0.9)}
    text = report.compare(old, {"a": _row(0.8), "b": _row(0.91), "c": _row(1.0)})
    assert "a: faster, 0.900 -> 0.800 of onnxruntime" in text
    assert "c: slower" in text and "b:" not in text and "gone" in text


def test_the_plot_is_xml():
    import xml.etree.ElementTree

    root = xml.etree.ElementTree.fromstring(report.plot({"resnet50 <2t>": _row(0.8)}))
    assert root.tag.endswith("svg")


def test_a_missing_peer_is_named():
    assert missing(OURS, sys.executable) == ""
    assert missing("torch", "no-such-python") == "no-such-python"


def test_a_worker_that_fails_says_why(tmp_path):
    spec = {"peer": "nobody", "case": {"name": "resnet18"}, "folder": str(tmp_path)}
    worker = Worker(spec, sys.executable)
    try:
        with pytest.raises(WorkerFailed, match="nobody"):
            worker.first()
    finally:
        worker.close()
