"""The benchmark of models: what it counts, compares and prints."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

from benchmarks import models, ours, report, result_file, zoo
from benchmarks.workers import OURS, Worker, WorkerFailed, missing
from tvm import relay


def _row(ratio: float, spread: float = 0.01, name: str = "resnet50") -> dict:
    facts = {"version": "1.2", "p20": 0.03 * ratio, "median": 0.031, "peak_bytes": 2**28, "load_s": 0.5, "error": 1e-7}
    return {
        "case": {"name": name, "batch": 1, "height": 0, "width": 0, "layout": "NCHW"},
        "threads": 2,
        "target": "llvm",
        "gflop": 6.0,
        "peak_gflops": 300.0,
        "rounds": 100,
        "commit": "abc",
        "date": "2026-01-02 03:04",
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


def test_result_files_have_each_row_once(tmp_path, monkeypatch):
    failed = _row(0.7, name="vgg16")
    failed["peers"]["jax"] = {"problem": "jax: no"}
    rows = {"resnet50 2t": _row(0.8), "vgg16 2t": failed}
    rows["resnet50 batch 8 2t"] = {**_row(0.6), "case": {**_row(0.6)["case"], "batch": 8}}
    record = functools.partial(result_file.record, folder=tmp_path)
    monkeypatch.setattr(models.result_file, "record", record)
    models.publish(rows, "xeon")
    times, memory = (result_file.load(path) for path in sorted(tmp_path.glob("*.json")))
    assert (times["question"], memory["question"]) == ("cpu-float32", "peak-memory")
    assert [(r["name"], r.get("input")) for r in times["rows"]] == [
        ("ResNet-50", None), ("VGG-16", None), ("ResNet-50", "batch 8")]  # fmt: skip
    first = times["rows"][0]
    assert first["values"] == pytest.approx({"ours": 24.0, "onnxruntime": 30.0})
    assert first["ratios"] == {"onnxruntime": pytest.approx([0.8, 0.79, 0.81])}
    assert times["versions"] == {"onnxruntime": "1.2"} and "XLA" not in times["rows"][1]["values"]
    assert [r["values"] for r in memory["rows"]] == [{"ours": 256.0, "onnxruntime": 256.0}] * 2


def test_rounds_of_the_frameworks_are_spread():
    turns = [turn for turn in range(100) if models.takes_part(turn, 30, 100)]
    assert len(turns) == 30 and turns[0] == 0 and max(b - a for a, b in zip(turns, turns[1:])) <= 4
    assert all(models.takes_part(turn, 20, 20) for turn in range(20))


def test_a_table_has_every_model_and_the_variants_without_frameworks():
    options = models.parse(["--table", "xeon", "--threads", "2"])
    made = models.jobs(options)
    assert len(made) == len(set(made)) == len(zoo.NAMES) + 5 * len(zoo.WITH_VARIANTS)
    assert {job.case.name for job in made if "jax" in job.peers} == set(zoo.NAMES)
    variants = [job for job in made if "jax" not in job.peers]
    assert {job.case.batch for job in variants} == {1, 4, 8} and sum(job.threads == 1 for job in variants) == 2


def test_only_complete_rows_of_this_commit_are_kept():
    class Bench:
        commit, missing = "abc", {"openvino": "openvino"}
        options = models.parse(["--table", "xeon"])

    job = models.Job(zoo.Case("resnet50"), 2, ("onnxruntime", "openvino"))
    assert models.is_done(_row(0.8), job, Bench)
    assert not models.is_done(None, job, Bench)
    assert not models.is_done({**_row(0.8), "commit": "def"}, job, Bench)
    assert not models.is_done({**_row(0.8), "rounds": 20}, job, Bench)
    assert not models.is_done(_row(0.8), models.Job(job.case, 2, ("onnxruntime", "jax")), Bench)


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


def test_another_checkout_is_a_program_of_its_own(tmp_path, capsys):
    with pytest.raises(SystemExit):
        models.parse(["--before", str(tmp_path)])
    assert "not a checkout of this project" in capsys.readouterr().err
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "workers.py").write_text("")
    options = models.parse(["--before", str(tmp_path), "--peers", "none", "--zoo", "zoo"])
    assert options.peers == ["before"]
    bench = models.Bench(options, str(tmp_path))
    ours, before = (bench.spec(zoo.Case("resnet18"), peer) for peer in ("tvm", "before"))
    assert ours["peer"] == before["peer"] == "tvm" and (ours["tree"], before["tree"]) == ("", str(tmp_path))
    assert ours["package"] != before["package"] and ours["folder"] != before["folder"]
