"""An outside package with an entry point provides a code generator, patterns, an option and a device to ``tvmc``.

The folder of the package is on the search path of the interpreter, as after an installation: it contains the package
and its ``.dist-info`` folder. The programs are separate processes, because registrations last as long as the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.plain_codegen import plainc

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a model and an input."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    made = tmp_path_factory.mktemp("plainc")
    rng = np.random.default_rng(5)
    w = rng.standard_normal((7, 5)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Exp", ["r"], ["e"]),
        helper.make_node("Clip", ["e", "low", "high"], ["y"]),
    ]
    given = {"w": w, "low": np.array(0.5, "float32"), "high": np.array(3, "float32")}
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
        [numpy_helper.from_array(value, name) for name, value in given.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, made / "net.onnx")
    value = rng.standard_normal((3, 7)).astype("float32")
    np.savez(made / "in.npz", x=value)
    np.save(made / "wanted.npy", np.clip(np.exp(np.maximum(value @ w, 0)), 0.5, 3))
    plainc().build_library(str(made))
    return made


def run(folder: Path, *command: str, installed: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), *([str(HERE)] if installed else [])])
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


def tvmc(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "tvm.driver.tvmc", *arguments, **options)


@pytest.mark.slow("starts the command line several times")
def test_tvmc_compiles_and_runs_with_an_installed_code_generator(folder):
    target = ["--target", "plainc, llvm", "--target-plainc-threads", "1"]
    done = tvmc(folder, "compile", *target, "-o", "net.tar", "--dump-offloads", "net.html", "net.onnx")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["partition", "back", "end", "operators", "names"]
    assert rows[0].split()[:3] == ["tvmgen_default_plainc_main_0", "plainc", "2"] and "nn.dense, nn.relu" in rows[0]
    assert rows[1].split()[1:3] == ["plainc", "1"] and rows[1].endswith("clip")
    assert rows[2].startswith("(rest of the model)") and "llvm" in rows[2]
    page = (folder / "net.html").read_text()
    assert "<svg" in page and "plainc: tvmgen_default_plainc_main_0" in page
    with tarfile.open(folder / "net.tar") as package:
        assert "mod.so" in package.getnames()
    # Running needs the kernels, but not the package: a variable names their library.
    library = str(folder / "plainc_kernels.so")
    arguments = ["run", "-i", "in.npz", "-o", "out.npz", "net.tar"]
    done = tvmc(folder, *arguments, installed=False, TVM_KERNEL_LIBRARIES=library)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(folder / "out.npz")["output_0"], np.load(folder / "wanted.npy"), rtol=1e-5)
    done = tvmc(folder, *arguments, installed=False)
    assert done.returncode and "kernel 'plainc." in done.stderr and "TVM_KERNEL_LIBRARIES" in done.stderr


@pytest.mark.slow("starts the command line several times")
def test_the_command_line_checks_names_and_options(folder):
    done = tvmc(folder, "compile", "--target", "plainc, llvm", "net.onnx", installed=False)
    assert done.returncode and "'plainc' is not a target" in done.stderr
    done = tvmc(folder, "compile", "--target", "plainc -thread=1, llvm", "net.onnx")
    assert done.returncode and "code generator 'plainc' has no option 'thread'" in done.stderr
    done = tvmc(folder, "compile", "--target", "plainc", "net.onnx")
    assert done.returncode and "'plainc' only compiles parts of a model" in done.stderr
    done = tvmc(folder, "tune", "--target", "plainc, llvm", "--tasks", "list", "-o", "records.json", "net.onnx")
    assert done.returncode == 0 and "dense" not in done.stdout, done.stderr
    done = tvmc(folder, "tune", "--target", "llvm", "--tasks", "list", "-o", "records.json", "net.onnx")
    assert done.returncode == 0 and "dense" in done.stdout, done.stderr
    done = tvmc(folder, "targets")
    assert "(--target 'NAME, llvm'): dnnl, plainc" in done.stdout, done.stderr
    assert "-threads=INT" in tvmc(folder, "targets", "plainc").stdout


@pytest.mark.slow("starts two interpreters")
def test_a_broken_package_is_reported_when_it_is_used(folder, tmp_path):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tvm.codegen]\nbroken = broken_codegen_module\nempty = json\n")
    program = """
import sys
sys.path.append(sys.argv[1])
from tvm.driver.tvmc.composite_target import get_codegen_names
from tvm.relay.op.contrib import load_codegens
print("plainc" in get_codegen_names(), "broken" in get_codegen_names())
for name in ("broken", "empty"):
    try:
        load_codegens(name)
    except Exception as error:
        print(error)
"""
    done = run(folder, "-c", program, str(tmp_path))
    assert done.returncode == 0, done.stderr
    first, broken, empty = done.stdout.splitlines()
    assert first == "True False"
    assert "code generator 'broken' is provided by an installed package" in broken
    assert "module 'json' does not register the code generator 'empty'" in empty


@pytest.mark.slow("starts an interpreter")
def test_the_package_registers_its_device(folder):
    program = "import plainc, tvm; print(tvm.device('plainbox').exist, tvm.device('plainbox').device_type)"
    done = run(folder, "-c", program, PLAINC_FOLDER=str(folder))
    assert done.stdout.split() == ["True", "93"], done.stderr
