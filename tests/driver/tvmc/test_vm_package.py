"""``tvmc`` and models that need the virtual machine: open sizes stay open, and a package runs at any of them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvm.driver import tvmc
from tvm.driver.tvmc.main import _main


def reference(path: str, **inputs) -> list[np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)


def members(path: str) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {name: archive.extractfile(name).read() for name in archive.getnames()}


def pack(path: Path, files: dict[str, bytes]) -> str:
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return str(path)


def saved(path: Path, nodes: list, inputs: dict, outputs: list[str], initializers: tuple = ()) -> str:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [info(n, t, s) for n, (t, s) in inputs.items()],
        [info(n, TensorProto.FLOAT, None) for n in outputs],
        list(initializers),
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return str(path)


@pytest.fixture(scope="session")
def pair(tmp_path_factory) -> tuple[str, str]:
    """A model of two inputs that share an open size, with two outputs, and its package."""
    folder = tmp_path_factory.mktemp("pair")
    nodes = [helper.make_node("Mul", ["a", "b"], ["p"]), helper.make_node("Tanh", ["p"], ["t"])]
    inputs = {"a": (TensorProto.FLOAT, ["rows", "depth"]), "b": (TensorProto.FLOAT, ["depth"])}
    model = saved(folder / "pair.onnx", nodes, inputs, ["p", "t"])
    assert _main(["compile", "--output", str(folder / "pair.tar"), model]) == 0
    return model, str(folder / "pair.tar")


def test_open_sizes_stay_open_and_one_line_says_so(model_path, tmp_path, capsys):
    path = str(tmp_path / "net.tar")
    assert _main(["compile", "--output", path, model_path]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert said[0] == (
        "net.onnx runs on the virtual machine: input 'data' has the shape (N, 3, 9, 7); its dynamic "
        'dimensions stay dynamic (--input-shapes "data:[N,3,9,7]" with numbers fixes them)'
    )
    package = tvmc.TVMCPackage(path)
    assert (package.type, package.executor_type, package.lib_name) == ("vm", "vm", "lib.so")
    assert package.graph is None and package.params is None
    assert set(members(path)) == {"lib.so", "manifest.json"}


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_a_package_runs_at_any_size(open_package, model_path, tmp_path, batch, rng):
    data = rng.standard_normal((batch, 3, 9, 7)).astype("float32")
    np.savez(tmp_path / "in.npz", data=data)
    out = str(tmp_path / "out.npz")
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", out, open_package])
    np.testing.assert_allclose(np.load(out)["output_0"], reference(model_path, data=data)[0], rtol=1e-4, atol=1e-5)


def test_inputs_that_are_made_up_have_the_sizes_asked_for(open_package, pair, tmp_path, refused, capsys):
    out = str(tmp_path / "out.npz")
    assert not _main(["run", "--fill-mode", "ones", "--outputs", out, open_package])
    assert np.load(out)["output_0"].shape == (1, 4)
    assert "input 'data': ones, 1x3x9x7 float32" in capsys.readouterr().err
    assert not _main(["run", "--input-shapes", "data:[6,3,9,7]", "--outputs", out, open_package])
    assert np.load(out)["output_0"].shape == (6, 4)
    refused(4, "but the model expects [N, 3, 9, 7]", "run", "--input-shapes", "data:[6,3,9,8]", open_package)
    refused(4, "did you mean 'data'?", "run", "--input-shapes", "dta:[6,3,9,7]", open_package)
    refused(4, "must be positive", "run", "--input-shapes", "data:[0,3,9,7]", open_package)
    refused(4, "cannot create an input", "run", "--input-shapes", "data:[99999999999999999,3,9,7]", open_package)
    _, package = pair
    refused(
        4,
        "use --inputs FILE, or give sizes with equal numbers for equal names: --input-shapes "
        '"a:[rows,depth] b:[depth]"',
        "run",
        package,
    )
    assert not _main(["run", "--input-shapes", "a:[4,5]", "--outputs", out, package])
    assert {name: array.shape for name, array in np.load(out).items()} == {"output_0": (4, 5), "output_1": (4, 5)}
    refused(4, "the dynamic dimension 'depth' is 5", "run", "--input-shapes", "a:[4,5] b:[6]", package)


def test_sizes_of_one_name_follow_from_the_inputs_that_are_given(pair, rng):
    model, path = pair
    package = tvmc.TVMCPackage(path)
    a, b = rng.standard_normal((2, 7)).astype("float32"), rng.standard_normal(7).astype("float32")
    result = tvmc.run(package, "cpu", inputs={"a": a, "b": b})
    for name, want in zip(("output_0", "output_1"), reference(model, a=a, b=b)):
        np.testing.assert_allclose(result.get_output(name), want, rtol=1e-5, atol=1e-6)
    half = tvmc.run(package, "cpu", inputs={"b": b}, input_shapes={"a": [3, 7]}, fill_mode="zeros")
    np.testing.assert_array_equal(half.get_output("output_0"), np.zeros((3, 7), "float32"))
    with pytest.raises(tvmc.TVMCException, match="the dynamic dimension 'depth' is 6"):
        tvmc.run(package, "cpu", inputs={"a": a[:, :6], "b": b})


def test_times_and_kernels_of_a_run_are_shown(open_package, capsys):
    assert not _main(
        ["run", "--print-time", "--repeat", "2", "--profile", "--print-top", "1", "--end-to-end", open_package]
    )
    shown = capsys.readouterr().out
    assert "Execution time summary:" in shown and "Executor: VM" in shown and "conv2d" in shown


def test_info_says_what_is_inside(open_package, tmp_path, capsys):
    assert _main(["info", "--kernels", open_package]) == 0
    shown = capsys.readouterr().out
    for words in (
        "executor vm",
        "because  input 'data' has the shape (N, 3, 9, 7)",
        "data: Nx3x9x7 float32",
        "output_0: ?x4 float32",
        "2 arrays, 448 bytes",
        "lib.so",
        "conv2d",
    ):
        assert words in shown
    # What the classic API wrote has no manifest.
    bare = pack(tmp_path / "bare.tar", {"lib.so": members(open_package)["lib.so"]})
    assert _main(["info", bare]) == 0
    assert "data: size_0x3x9x7 float32" in capsys.readouterr().out
    assert tvmc.run(tvmc.TVMCPackage(bare), "cpu").get_output("output_0").shape == (1, 4)


def test_the_executor_can_be_chosen(model_path, open_package, tmp_path, refused, capsys):
    refused(
        4,
        "the graph executor cannot run the model: input 'data' has the shape (N, 3, 9, 7); use --executor vm",
        "compile",
        "--executor",
        "graph",
        "--output",
        str(tmp_path / "no.tar"),
        model_path,
    )
    assert not (tmp_path / "no.tar").exists()
    refused(
        4,
        "did not specify graph executor",
        "compile",
        "--executor",
        "vm",
        "--executor-graph-link-params",
        "0",
        model_path,
    )
    path = str(tmp_path / "forced.tar")
    assert _main(["compile", "--executor", "vm", "--input-shapes", "data:[1,3,9,7]", "--output", path, model_path]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    forced, data = tvmc.TVMCPackage(path), {"data": np.ones((1, 3, 9, 7), "float32")}
    assert forced.type == "vm" and forced.manifest["inputs"][0]["shape"] == [1, 3, 9, 7]
    packages = forced, tvmc.TVMCPackage(open_package)
    one, two = (tvmc.run(p, "cpu", inputs=data).get_output("output_0") for p in packages)
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [["--desired-layout", "NHWC"], ["--module-name", "other", "-O", "0"]], ids=" ".join)
def test_options_of_compile_hold_for_open_sizes(model_path, open_package, tmp_path, options):
    path = str(tmp_path / "net.tar")
    assert _main(["compile", *options, "--output", path, "--dump-code", "relay,tir,asm", model_path]) == 0
    data = {"data": np.random.default_rng(5).standard_normal((3, 3, 9, 7)).astype("float32")}
    got, want = (tvmc.run(tvmc.TVMCPackage(p), "cpu", inputs=data).get_output("output_0") for p in (path, open_package))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    kernels = tvmc.TVMCPackage(path).manifest["kernels"]
    assert all(name.startswith("tvmgen_other_" if "other" in options else "tvmgen_default_") for name in kernels)
    assert "T.prim_func" in Path(f"{path}.tir").read_text() and ".text" in Path(f"{path}.asm").read_text()


def test_branches_need_the_machine(tmp_path, capsys):
    def branch(kind: str):
        out = helper.make_tensor_value_info(kind, TensorProto.FLOAT, [3])
        return helper.make_graph([helper.make_node(kind, ["x"], [kind])], kind, [], [out])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))
    inputs = {"x": (TensorProto.FLOAT, [3]), "c": (TensorProto.BOOL, [])}
    model = saved(tmp_path / "if.onnx", [node], inputs, ["y"])
    path = str(tmp_path / "if.tar")
    assert _main(["compile", "--output", path, model]) == 0
    words = "if.onnx runs on the virtual machine: it contains a branch that depends on run-time values\n"
    assert words in capsys.readouterr().out
    x = np.array([1, -2, 3], "float32")
    for c in (True, False):
        got = tvmc.run(tvmc.TVMCPackage(path), "cpu", inputs={"x": x, "c": np.array(c)}).get_output("output_0")
        np.testing.assert_array_equal(got, -x if c else np.abs(x))


def test_records_of_tuning_are_for_a_batch_of_one(model_path, tmp_path, capsys):
    records = tmp_path / "records.json"
    records.write_text("")
    path = str(tmp_path / "net.tar")
    assert _main(["compile", "--tuning-records", str(records), "--output", path, model_path]) == 0
    assert (
        "input 'data' has no fixed batch; compiling for batch 1 (--input-shapes \"data:[1,3,9,7]\" sets another)"
        in capsys.readouterr().out
    )
    assert tvmc.TVMCPackage(path).type == "classic"


def test_a_package_runs_at_the_other_end_of_a_connection(open_package, model_path, rng):
    from tvm import rpc

    data = rng.standard_normal((2, 3, 9, 7)).astype("float32")
    server = rpc.Server("127.0.0.1", silent=True)
    try:
        result = tvmc.run(
            tvmc.TVMCPackage(open_package),
            "cpu",
            hostname="127.0.0.1",
            port=server.port,
            inputs={"data": data},
            benchmark=True,
            number=1,
            repeat=1,
            profile=True,
        )
    finally:
        server.terminate()
    np.testing.assert_allclose(result.get_output("output_0"), reference(model_path, data=data)[0], rtol=1e-4, atol=1e-5)
    assert result.times.mean > 0


def test_a_library_may_be_an_archive_of_objects(model_path, tmp_path):
    model = tvmc.load(model_path)
    made = tvmc.compile(model, "llvm", package_path=str(tmp_path / "net.tar"), output_format="tar", use_vm=True)
    assert made.type == "vm" and made.lib_name == "lib.tar"
    result = tvmc.run(made, "cpu", input_shapes={"data": [2, 3, 9, 7]})
    assert result.get_output("output_0").shape == (2, 4) and "output_0" in str(result)


def test_damaged_packages_are_refused_in_words(open_package, tmp_path, refused):
    files = members(open_package)
    library = files["lib.so"]
    middle = len(library) // 2
    for damaged in (b"", library[:middle], library[:middle] + bytes([library[middle] ^ 0xFF]) + library[middle + 1 :]):
        refused(4, "", "run", pack(tmp_path / "p.tar", {**files, "lib.so": damaged}))
    manifest = json.loads(files["manifest.json"])
    for change in ({"inputs": 3}, {"inputs": [{"name": "data"}]}, {"kernels": []}, {"weights": None},
                   {"inputs": [{"name": "data", "shape": [1.5], "dtype": "float32"}]},
                   {"inputs": [{"name": "data", "shape": [1, 3, 9, 7], "dtype": "float99"}]}):  # fmt: skip
        said = json.dumps({**manifest, **change}).encode()
        refused(4, "damaged", "run", pack(tmp_path / "p.tar", {**files, "manifest.json": said}))
    # A manifest that lies is found out by the machine, which knows the types of its inputs.
    for inputs, words in (
        ([{"name": "data", "shape": ["N", 3, 9, 8], "dtype": "float32"}], "the model expects 7"),
        ([], "takes 1 arguments"),
    ):
        lie = json.dumps({**manifest, "inputs": inputs}).encode()
        refused(4, words, "run", pack(tmp_path / "p.tar", {**files, "manifest.json": lie}))
