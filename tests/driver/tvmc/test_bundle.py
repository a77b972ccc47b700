"""``tvmc compile --output-format bundle``."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.driver import tvmc
from tvm.driver.tvmc import TVMCException
from tvm.driver.tvmc.main import _main


def model(rows: int | relay.Any = 2) -> tvmc.TVMCModel:
    x, w = relay.var("x", shape=(rows, 3)), relay.var("w", shape=(4, 3))
    weight = np.arange(12, dtype="float32").reshape(4, 3)
    return tvmc.TVMCModel(
        tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w))), {"w": tvm.nd.array(weight)}
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A model file with a dynamic batch."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", tensors[:1], tensors[1:])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.mark.slow("compiles the runtime")
def test_static_and_dynamic_models(tmp_path: Path):
    static = tvmc.compile(model(), "llvm", package_path=str(tmp_path / "a.so"), output_format="bundle")
    dynamic = tvmc.compile(
        model(relay.Any()), "llvm", package_path=str(tmp_path / "b.so"), output_format="bundle", mod_name="net",
        bundle_threads=False,
    )  # fmt: skip
    assert (static.is_vm, dynamic.is_vm) == (False, True)
    # Packed weights may be padded.
    assert static.sizes.weights >= 48 <= dynamic.sizes.weights
    assert static.sizes.total == (tmp_path / "a.so").stat().st_size
    assert "int tvm_bundle_net_run(tvm_bundle *bundle);" in (tmp_path / "b.h").read_text()
    assert ctypes.CDLL(str(tmp_path / "b.so")).tvm_bundle_net_run(None) == -1


@pytest.mark.slow("compiles a C file")
def test_command_line(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    out = tmp_path / "net.c"
    words = ["compile", "--target", "c", "--output-format", "bundle", "--output", str(out), "--bundle-threads", "off"]
    assert not _main([*words, "--input-shapes", "x:[2,3]", str(file)])
    printed = capsys.readouterr().out
    assert printed.startswith(f"{out}, ") and "(weights 0 bytes, source " in printed and "1 kernels" in printed
    assert "pthread_create" not in out.read_text()
    assert not _main([*words, str(file)])
    assert "runs on the virtual machine: input 'x' has the shape (N, 3)" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "message"), [
    ({"package_path": "a.tar"}, "ends with .so .shared library., .a .static library. or .c .C file."),
    ({"package_path": None}, "a bundle needs a path that ends with .so, .a or .c"),
    ({"executor": "graph"}, "a bundle contains no graph executor; use --executor aot or vm"),
    ({"package_path": "a.c"}, "a bundle in C needs --target c"),
    ({"target": "cuda -arch=sm_80"}, "a bundle runs on the CPU"),
    ({"cross": "no-such-gcc"}, "the compiler 'no-such-gcc' was not found"),
])  # fmt: skip
def test_options_that_bundles_do_not_support(options: dict, message: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"target": "llvm", "package_path": "a.so", **options}
    if given.get("executor"):
        given["executor"] = relay.backend.Executor(given["executor"])
    with pytest.raises(TVMCException, match=message):
        tvmc.compile(model(), output_format="bundle", **given)
    assert not list(tmp_path.iterdir())
