"""The command line: compile and run packages, and refuse bad input in one line with an exit code."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tvm.driver import tvmc
from tvm.driver.tvmc.main import _main

DEMO = Path(__file__).resolve().parents[3] / "demo"


def reference(model_path: str, data):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model_path, providers=["CPUExecutionProvider"])
    return session.run(None, {"data": data})[0]


def test_compile_and_run_give_what_onnxruntime_gives(model_path, package, tmp_path, capsys):
    data = np.random.default_rng(1).standard_normal((1, 3, 9, 7)).astype("float32")
    np.savez(tmp_path / "in.npz", data=data)
    out = tmp_path / "predictions.npz"
    # Guides write --output for --outputs.
    assert not _main(
        ["run", "--inputs", str(tmp_path / "in.npz"), "--output", str(out), "--print-time", "--repeat", "3", package]
    )
    shown = capsys.readouterr().out
    assert "Execution time summary:" in shown and "median (ms)" in shown
    np.testing.assert_allclose(np.load(out)["output_0"], reference(model_path, data), rtol=1e-4, atol=1e-5)


def test_options_of_timing_say_that_nothing_is_timed(package, capsys):
    assert not _main(["run", "--fill-mode", "zeros", "--repeat", "3", "--end-to-end", package])
    shown = capsys.readouterr()
    assert "--print-time" in shown.err and "--repeat, --end-to-end" in shown.err and "summary" not in shown.out
    assert not _main(["run", "--fill-mode", "zeros", "--print-time", "--number", "2", package])
    assert "--print-time" not in capsys.readouterr().err


def test_the_package_holds_library_graph_and_parameters(package):
    with tarfile.open(package) as archive:
        assert {"mod.so", "mod.json", "mod.params", "manifest.json"} == set(archive.getnames())


def test_two_compiles_give_the_same_bytes(model_path, package, tmp_path):
    again = str(tmp_path / "again.tar")
    assert _main(["compile", "--output", again, "--input-shapes", "data:[1,3,9,7]", model_path]) == 0
    with tarfile.open(package) as a, tarfile.open(again) as b:
        for name in ("mod.json", "mod.params", "manifest.json"):
            assert a.extractfile(name).read() == b.extractfile(name).read()


def test_python_interface_of_the_guides(model_path, tmp_path):
    model = tvmc.load(model_path, shape_dict={"data": [1, 3, 9, 7]})
    made = tvmc.compile(model, target="llvm", package_path=str(tmp_path / "some_value"))
    assert made.type == "classic"
    again = tvmc.TVMCPackage(package_path=str(tmp_path / "some_value"))
    result = tvmc.run(again, device="cpu")
    assert np.asarray(result).shape == (1, 4) and "output_0" in str(result)
    result.save(tmp_path / "result")
    assert np.load(tmp_path / "result.npz").files == ["output_0"]
    assert os.path.exists(model.lib_path)
    tvmc.compile(model, target="llvm", package_path=str(tmp_path / "dumped"), dump_code="relay")
    assert (tmp_path / "dumped.relay").exists()
    saved = str(tmp_path / "model.tar")
    model.save(saved)
    back = tvmc.TVMCModel(model_path=saved)
    data = {"data": np.ones((1, 3, 9, 7), "float32")}
    one = tvmc.run(tvmc.compile(back, target="llvm"), device="cpu", inputs=data)
    two = tvmc.run(made, device="cpu", inputs=data)
    np.testing.assert_allclose(one.get_output("output_0"), two.get_output("output_0"), rtol=1e-6, atol=1e-6)


@pytest.mark.slow("compiles and runs a whole network")
@pytest.mark.skipif(not DEMO.exists(), reason="the demo's model is not in this tree")
def test_a_photo_is_named(tmp_path, capsys, monkeypatch, sharing_compiled_models):
    monkeypatch.setenv("TVM_CACHE_DIR", sharing_compiled_models["TVM_CACHE_DIR"])
    monkeypatch.delenv("TVM_NO_CACHE", raising=False)
    path = str(tmp_path / "m.tar")
    shapes = ["--input-shapes", "data:[1,3,224,224]"]
    assert _main(["compile", "--output", path, *shapes, str(DEMO / "mobilenet_v2.onnx")]) == 0
    capsys.readouterr()
    assert not _main(["run", "--inputs", str(DEMO / "chelsea.png"), "--labels", str(DEMO / "labels.txt"), path])
    assert "Egyptian cat" in capsys.readouterr().out.splitlines()[0]


def test_bad_arguments_are_refused_in_one_line(model_path, package, tmp_path, refused):
    refused(
        4,
        "Error: Input file 'no.onnx' doesn't exist, is a broken symbolic link, or a directory.\n",
        "compile",
        "no.onnx",
    )
    refused(4, f"File {tmp_path} must be an archive, not a directory.", "run", str(tmp_path))
    refused(4, "does not exist.", "run", str(tmp_path / "none.tar"))
    refused(4, "'foo' is not a target", "compile", "--target", "foo", model_path)
    refused(4, "did not specify c target", "compile", "--target", "llvm", "--target-c-mcpu", "x", model_path)
    refused(2, "unknown pass NoSuchPass", "compile", "--disabled-pass", "NoSuchPass", model_path)
    refused(
        4,
        "unknown pass option 'no.such'; the options are relay.FuseOps.link_params, ",
        "compile",
        "--pass-config",
        "no.such=1",
        model_path,
    )
    refused(
        4,
        'Need unpacked-api == false (got: 0) and interface-api == "packed" (got: c)',
        "compile",
        "--executor",
        "aot",
        "--executor-aot-interface-api",
        "c",
        model_path,
    )
    refused(
        4,
        "runtime crt requires Model Library Format; use --output-format mlf",
        "compile",
        "--executor",
        "aot",
        "--runtime",
        "crt",
        model_path,
    )
    for layout in ("NHCW", "NXYZ", "nhwc", "OIHW:NHWC"):
        words = f"{layout}: '{layout.partition(':')[0]}' is not a layout of nn.conv2d; valid layouts are"
        refused(4, words, "compile", model_path, "--desired-layout", layout)
    for shapes in ("data=1", "data:[1,3,9,7] mask:[n,7]", "data:[1,3,9,7"):
        refused(2, "is not a list of shapes", "compile", "--input-shapes", shapes, model_path)
    refused(
        2, "contains two shapes for 'data'", "compile", "--input-shapes", "data:[1,3,9,7] data:[2,3,9,7]", model_path
    )
    refused(4, "the model has no input 'x'", "compile", "--input-shapes", "x:[1,2]", model_path)
    refused(4, "cannot write", "compile", "--output", str(tmp_path / "no" / "dir" / "m.tar"), model_path)
    refused(
        4,
        "Specifying the MLF output and a cross compiler is not supported.",
        "compile",
        "-f",
        "mlf",
        "--cross-compiler",
        "gcc",
        model_path,
    )
    refused(4, 'Executor "nope" is not defined', "compile", "--executor", "nope", model_path)
    refused(
        1,
        "tvmc run",
    )


def test_bad_models_and_packages_are_refused(model_path, package, tmp_path, refused):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(Path(model_path).read_bytes()[:200])
    refused(4, "Error:", "compile", str(broken))
    garbage = tmp_path / "garbage.onnx"
    garbage.write_bytes(b"\x00\x01this is no model" * 10)
    refused(4, "Error:", "compile", str(garbage))
    text = tmp_path / "text.tar"
    text.write_text("not an archive")
    refused(4, "Could not read model from archive", "run", str(text))
    refused(4, f"compile it first: tvmc compile --target llvm --output module.tar {model_path}", "run", model_path)
    evil = tmp_path / "evil.tar"
    with tarfile.open(evil, "w") as archive:
        entry = tarfile.TarInfo("../mod.so")
        archive.addfile(entry, io.BytesIO(b""))
    refused(4, "outside the folder", "run", str(evil))
    assert not os.path.exists(tmp_path.parent / "mod.so")
    np.savez(tmp_path / "wrong.npz", nothing=np.zeros(3, "float32"))
    refused(4, "the input tensor 'nothing' is not in the graph", "run", "-i", str(tmp_path / "wrong.npz"), package)
    np.savez(tmp_path / "shape.npz", data=np.zeros((1, 3, 3, 3), "float32"))
    refused(
        4,
        "input 'data' has shape [1, 3, 3, 3], but the model expects [1, 3, 9, 7]",
        "run",
        "-i",
        str(tmp_path / "shape.npz"),
        package,
    )


def test_a_size_of_zero_is_a_dynamic_dimension_and_reported(capsys):
    from tvm.driver.tvmc.shape_parser import parse_model_shapes

    assert not isinstance(parse_model_shapes("x:[-1,4]")["x"][0], int)
    assert capsys.readouterr().err == ""
    assert not isinstance(parse_model_shapes("x:[0,4]")["x"][0], int)
    assert capsys.readouterr().err == "--input-shapes: the size 0 of 'x' means a dynamic dimension\n"


def test_shapes_top_results_and_trackers():
    from tvm.driver.tvmc.result_utils import get_top_results
    from tvm.driver.tvmc.shape_parser import parse_shape_string
    from tvm.driver.tvmc.tracker import tracker_host_port_from_cli

    assert parse_shape_string("input:[10, 10,10] gpu_0/data_0:[3]") == {"input": [10, 10, 10], "gpu_0/data_0": [3]}
    assert parse_shape_string("a/b/c-0:1:[2], d: [ 3 ]") == {"a/b/c-0:1": [2], "d": [3]}
    result = tvmc.TVMCResult({"output_0": np.array([[1, 2, 3, 4], [5, 6, 7, 8]])}, [])
    np.testing.assert_array_equal(get_top_results(result, 2), [[3, 2], [4, 3]])
    assert tracker_host_port_from_cli("1.2.3.4:90") == ("1.2.3.4", 90)
    assert tracker_host_port_from_cli("host") == ("host", 9090) and tracker_host_port_from_cli(None) == (None, None)
