"""``tvmc bench``: what it measures, compares and writes. Nothing here depends on how fast anything is."""

from __future__ import annotations

import html.parser
import json
import sys
import tarfile

import numpy as np
import pytest

from tvm.drawing.page import POLICY
from tvm.driver.tvmc import bench
from tvm.driver.tvmc.bench_page import page
from tvm.driver.tvmc.main import _main

FEW = ["--rounds", "3", "--warm-up", "1", "--number", "1", "--threads", "1"]


def test_a_model_is_measured_beside_onnxruntime(model_path, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    out, report = tmp_path / "b.json", tmp_path / "b.html"
    files = ["--json", str(out), "--report", str(report)]
    assert _main(["bench", "--compare", "onnxruntime", "--batch", "2", *FEW, *files, model_path]) == 0
    shown = capsys.readouterr().out
    result = json.loads(out.read_text())
    assert result["batch"] == 2 and result["threads"] == 1 and result["rounds"] == 3 and result["number"] == 1
    assert list(result["programs"]) == ["tvm", "onnxruntime"]
    for name, facts in result["programs"].items():
        assert f"{name} {facts['version']}" in shown
        assert len(facts["seconds"]) == 3 and all(one > 0 for one in facts["seconds"])
        assert facts["min"] <= facts["p5"] <= facts["median"] <= facts["p90"] <= facts["p99"] <= facts["max"]
        assert facts["median"] == pytest.approx(np.median(facts["seconds"]), rel=1e-9)
        assert facts["p90"] == pytest.approx(np.percentile(facts["seconds"], 90), rel=1e-9)
        assert facts["throughput"] == pytest.approx(2 / facts["median"], rel=1e-9)
        assert facts["load_s"] > 0 and facts["peak_bytes"] >= 0
    theirs = result["programs"]["onnxruntime"]
    assert theirs["difference"] < 1e-3 and "problem" not in theirs
    assert theirs["ratio"] == pytest.approx(theirs["median"] / result["programs"]["tvm"]["median"], rel=1e-9)
    assert "onnxruntime" in report.read_text() and "3 rounds of 1 runs on cpu, 1 threads, batch 2" in shown


@pytest.mark.slow("measures a model with several runtimes")
def test_a_package_is_measured_as_it_is_and_its_model_by_others(package, model_path, capsys):
    pytest.importorskip("onnxruntime")
    assert _main(["bench", *FEW, "--compare", "onnxruntime", package]) == 0
    assert "onnxruntime: runs models, not packages; --model FILE names the one" in capsys.readouterr().out
    assert _main(["bench", *FEW, "--compare", "onnxruntime", "--model", model_path, package]) == 0
    assert "onnxruntime: " not in capsys.readouterr().out


def test_a_peer_that_is_missing_is_named_with_how_to_install_it(model_path, package, capsys, monkeypatch):
    monkeypatch.setattr(bench.rounds, "missing", lambda modules, python=sys.executable: modules[0])
    assert _main(["bench", *FEW, "--compare", "openvino,torch,onnxruntime", model_path]) == 0
    shown = capsys.readouterr().out
    assert "openvino: is not installed; pip install openvino" in shown
    assert "onnxruntime: is not installed; pip install onnxruntime" in shown
    assert "torch: runs TorchScript, not ONNX; --torch-model FILE" in shown
    assert "1.00x" in shown


def test_a_peer_that_fails_says_why_and_the_others_count(package, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    assert _main(["bench", *FEW, "--compare", "onnxruntime", "--model", str(broken), package]) == 0
    shown = capsys.readouterr().out
    assert "onnxruntime: " in shown and "broken.onnx" in shown and "1.00x" in shown


def test_outputs_that_differ_are_said(model_path, package, tmp_path, capsys):
    """Another model of the same inputs runs, and what it computes is not ours."""
    pytest.importorskip("onnxruntime")
    import onnx
    from onnx import numpy_helper

    model = onnx.load(model_path)
    weight = next(w for w in model.graph.initializer if w.name == "w")
    weight.CopyFrom(numpy_helper.from_array(-3 * numpy_helper.to_array(weight), "w"))
    other = tmp_path / "other.onnx"
    onnx.save(model, other)
    assert _main(["bench", *FEW, "--compare", "onnxruntime", "--model", str(other), package]) == 0
    assert "its first output has a relative difference of" in capsys.readouterr().out


def test_bad_command_lines(refused, model_path, package, tmp_path):
    refused(2, "expected a positive integer, got '0'", "bench", "--rounds", "0", package)
    refused(2, "did you mean 'onnxruntime'?", "bench", "--compare", "onxruntime", package)
    refused(2, "invalid choice: 'npu'", "bench", "--device", "npu", package)
    refused(4, "doesn't exist", "bench", str(tmp_path / "none.onnx"))
    refused(4, "doesn't exist", "bench", "--model", str(tmp_path / "none.onnx"), package)
    refused(4, "is compiled for fixed shapes", "bench", "--batch", "2", package)
    refused(4, "is already compiled", "bench", "--target", "llvm", package)
    refused(4, "the directory", "bench", "--json", str(tmp_path / "no" / "b.json"), package)
    refused(4, "did you mean 'llvm'?", "bench", "--target", "lvm", model_path)
    refused(4, "does not exist", "bench", "--tuning-records", str(tmp_path / "none"), model_path)


def test_bad_files(refused, tmp_path, package):
    (tmp_path / "p.tar").write_bytes(b"no archive")
    refused(4, "Could not read model from archive", "bench", str(tmp_path / "p.tar"))
    (tmp_path / "m.onnx").write_bytes(b"no model")
    refused(4, "m.onnx", "bench", str(tmp_path / "m.onnx"))
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    refused(4, "Couldn't find exported library in the package.", "bench", str(tmp_path / "empty.tar"))
    np.savez(tmp_path / "in.npz", dta=np.zeros((1, 3, 9, 7), "float32"))
    refused(4, "did you mean 'data'?", "bench", "--inputs", str(tmp_path / "in.npz"), package)


def test_a_batch_is_that_of_inputs_that_leave_it_open(model_path, tmp_path, refused, capsys):
    import onnx

    model = onnx.load(model_path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    fixed = str(tmp_path / "fixed.onnx")
    onnx.save(model, fixed)
    assert _main(["bench", *FEW, "--batch", "4", fixed]) == 0
    assert "batch 4" in capsys.readouterr().out
    refused(4, "input 'data' has a fixed batch of 4", "bench", *FEW, "--batch", "2", fixed)


@pytest.mark.slow("measures a model with several runtimes")
def test_a_package_with_open_sizes_is_measured_at_those_given(open_package, model_path, tmp_path, refused, capsys):
    pytest.importorskip("onnxruntime")
    beside = ["--compare", "onnxruntime", "--model", model_path, "--json", str(tmp_path / "b.json")]
    assert _main(["bench", *FEW, *beside, "--input-shapes", "data:[3,3,9,7]", open_package]) == 0
    result = json.loads((tmp_path / "b.json").read_text())
    assert result["batch"] == 3 and result["inputs"] == ["data: 3x3x9x7 float32"]
    assert result["programs"]["onnxruntime"]["difference"] < 1e-3
    assert _main(["bench", *FEW, "--batch", "2", open_package]) == 0
    assert "batch 2" in capsys.readouterr().out
    refused(4, "but the model expects [N, 3, 9, 7]", "bench", *FEW, "--input-shapes", "data:[3,3,9,8]", open_package)


class Reader(html.parser.HTMLParser):
    """Collects what a browser would load, and checks that tags close."""

    def __init__(self):
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.loads += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        assert tag != "script"
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.loads += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_one_file_that_loads_nothing_and_escapes_names():
    program = {
        "version": "1",
        "precision": "as is",
        "load_s": 0.1,
        "peak_bytes": 0,
        "throughput": 10.0,
        **bench.figures([0.001, 0.002, 0.004]),
    }
    result = {
        "name": "<b>&.onnx",
        "machine": "m",
        "device": "cpu",
        "threads": 1,
        "batch": 1,
        "rounds": 3,
        "warm_up": 1,
        "number": 1,
        "tvm_version": "0",
        "date": "today",
        "programs": {"tvm": program, "a<b": {**program, "ratio": 1.0}, "gone": {"problem": "is <gone>"}},
    }
    head, rows = bench.table_of(result)
    assert [row[0] for row in rows] == ["tvm 1", "a<b 1"] and len(rows[0]) == len(head)
    text = page(result, head, rows, ["gone: is <gone>"])
    reader = Reader()
    reader.feed(text)
    assert not reader.open and reader.loads == ["data:,"] and POLICY in text
    assert text.count("<svg") == 2 and "<b>&" not in text and "is &lt;gone&gt;" in text and "2.000 ms" in text
