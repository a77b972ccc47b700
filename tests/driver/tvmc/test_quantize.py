"""tvmc compile --quantize: samples, skip lists, the report, the accuracy, refusals."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm.driver import tvmc
from tvm.driver.tvmc.main import _main
from tvm.relay.quantize import Quantization


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small classifier and the samples it is calibrated on."""
    rng, where = np.random.default_rng(5), tmp_path_factory.mktemp("quantize")
    w = {"w1": rng.normal(size=(6, 3, 3, 3)) / 5, "b1": rng.normal(size=6) / 5, "w2": rng.normal(size=(6, 4)) / 2}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], "pool"),
        helper.make_node("Flatten", ["g"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "w2"], ["y"], "last"),
    ]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(a.astype("float32"), n) for n, a in w.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), where / "small.onnx")
    (where / "samples").mkdir()
    for i in range(4):
        np.savez(where / "samples" / f"{i}.npz", x=rng.normal(size=(1, 3, 8, 8)).astype("float32"))
    return where


def compile_(folder, *options, output="out.tar") -> int:
    return _main(["compile", str(folder / "small.onnx"), "--target", "llvm", "-o", str(folder / output), *options])


def test_a_quantized_package_gives_nearly_the_float_results(folder, capsys):
    assert compile_(folder, output="float.tar") == 0
    report = folder / "report.txt"
    assert compile_(folder, "--quantize", "int8", "--calibration", str(folder / "samples"), "--quantize-report",
                    str(report), output="int8.tar") == 0  # fmt: skip
    said = capsys.readouterr().out
    assert "quantized to int8: 2 of 2 layers, 4 samples (percentile)" in said and "signal to noise" in said
    assert [line.split()[1:] for line in report.read_text().splitlines()[1:]] == [["nn.conv2d", "first"],
                                                                                  ["nn.dense", "last"]]  # fmt: skip
    x = np.load(folder / "samples" / "0.npz")["x"]
    results = [tvmc.run(tvmc.TVMCPackage(str(folder / n)), "cpu", inputs={"x": x}) for n in ("float.tar", "int8.tar")]
    want, got = (r.get_output("output_0") for r in results)
    assert not np.array_equal(want, got)
    np.testing.assert_allclose(got, want, atol=0.05 * np.abs(want).max())


def test_layers_are_skipped_by_name_and_by_operator(folder, capsys):
    options = ["--quantize", "int8", "--calibration", str(folder / "samples"), "--quantize-skip"]
    assert compile_(folder, *options, "nn.dense") == 0
    assert "quantized to int8: 1 of 2 layers" in capsys.readouterr().out
    assert compile_(folder, *options, "first") == 0
    assert "quantized to int8: 1 of 2 layers" in capsys.readouterr().out


def test_the_accuracy_on_labelled_samples_is_told(folder, capsys):
    labels = folder / "labels.txt"
    x = {i: np.load(folder / "samples" / f"{i}.npz")["x"] for i in range(4)}
    assert compile_(folder, output="float.tar") == 0
    package = tvmc.TVMCPackage(str(folder / "float.tar"))
    best = {i: int(tvmc.run(package, "cpu", inputs={"x": x[i]}).get_output("output_0").argmax()) for i in x}
    labels.write_text("".join(f"{i}.npz {c if i else (c + 1) % 4}\n" for i, c in best.items()))
    capsys.readouterr()
    assert compile_(folder, "--quantize", "int8", "--calibration", str(folder / "samples"), "--calibration-labels",
                    str(labels)) == 0  # fmt: skip
    assert "accuracy on 4 labelled samples: float 3, int8 3" in capsys.readouterr().out


@pytest.mark.parametrize("how, error", [("weights-int8", 0.01), ("weights-int4", 0.15)])
def test_a_package_with_weights_of_few_bits_needs_no_samples(folder, capsys, how, error):
    assert compile_(folder, output="float.tar") == 0
    report = folder / "weights.txt"
    assert compile_(folder, "--quantize", how, "--quantize-report", str(report), output="few.tar") == 0
    said = capsys.readouterr().out
    assert f"weights in {how[-1]} bits" in said and "1 matrices of dense layers, 0 layers left" in said
    assert [line.split()[1:] for line in report.read_text().splitlines()[1:]] == [["nn.dense", "last"]]
    x = np.load(folder / "samples" / "0.npz")["x"]
    results = [tvmc.run(tvmc.TVMCPackage(str(folder / n)), "cpu", inputs={"x": x}) for n in ("float.tar", "few.tar")]
    want, got = (r.get_output("output_0") for r in results)
    assert 0 < np.abs(got - want).max() < error * np.abs(want).max()
    # With the layer skipped nothing is left to be done.
    assert compile_(folder, "--quantize", how, "--quantize-skip", "last") == 0
    assert "0 matrices of dense layers, 1 layers left" in capsys.readouterr().out


def test_tasks_of_the_quantized_model_are_tuned(folder, capsys):
    model, options = str(folder / "small.onnx"), ["--target", "llvm", "--tasks", "list", "--enable-autoscheduler"]
    int8 = ["--quantize", "int8", "--calibration", str(folder / "samples")]
    _main(["tune", model, *options, "--include-simple-tasks"])
    plain = capsys.readouterr().out
    _main(["tune", model, *options, "--include-simple-tasks", *int8])
    said = capsys.readouterr().out
    assert "quantized to int8: 2 of 2 layers" in said
    assert "Available Tasks for tuning" in said and said.split("Available")[1] != plain.split("Available")[1]


def test_a_wrong_name_of_a_layer_is_refused_before_the_samples_are_computed(folder, monkeypatch, refused):
    def computed(*args):
        raise AssertionError("the samples were computed first")

    # The module and a function in it have one name, so it is reached from its class.
    monkeypatch.setitem(Quantization.__init__.__globals__, "integers_of", computed)
    refused(4, "there is no layer 'fist'; did you mean 'first'", "compile", str(folder / "small.onnx"), "-o",
            str(folder / "none.tar"), "--quantize", "int8", "--calibration", str(folder / "samples"),
            "--quantize-skip", "fist")  # fmt: skip


def test_what_does_not_fit_is_refused(folder, tmp_path, refused):
    samples = str(folder / "samples")
    np.savez(tmp_path / "other.npz", x=np.zeros((1, 3, 9, 9), "float32"))
    (tmp_path / "empty").mkdir()
    lines = tmp_path / "labels.txt"
    lines.write_text("9.npz 1\n")
    int8 = ["--quantize", "int8", "--calibration"]
    cases = {
        "--quantize int8 needs --calibration FOLDER": ["--quantize", "int8"],
        "--calibration needs --quantize int8": ["--calibration", samples],
        "--quantize-skip needs --quantize": ["--quantize-skip", "first"],
        "there is no layer 'fist'; did you mean 'first'": [*int8, samples, "--quantize-skip", "nn.dense", "fist"],
        "there is no layer 'lst'; did you mean 'last'": ["--quantize", "weights-int8", "--quantize-skip", "lst"],
        "--calibration-mode needs --quantize int8": ["--quantize", "weights-int4", "--calibration-mode", "max"],
        "--quantize-group needs --quantize weights-int8": [*int8, samples, "--quantize-group", "32"],
        "even number of weights or 0, got 3": ["--quantize", "weights-int4", "--quantize-group", "3"],
        "contains no photos": [*int8, str(tmp_path / "empty")],
        "No such file": [*int8, str(tmp_path / "nowhere")],
        "but the model expects [1, 3, 8, 8] float32": [*int8, str(tmp_path)],
        "unknown sample '9.npz'": [*int8, samples, "--calibration-labels", str(lines)],
    }
    for words, options in cases.items():
        refused(4, words, "compile", str(folder / "small.onnx"), "-o", str(folder / "none.tar"), *options)
    assert not (folder / "none.tar").exists()
