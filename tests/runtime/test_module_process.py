"""A module of the package runs in a process of its own, whatever lies in the current folder."""

from __future__ import annotations

import os
import subprocess
import sys

from tvm.driver.tvmc.main import _main
from tvm.runtime.module_process import module_command


def with_traps(folder):
    """A folder in which the package and a library of Python seem to lie."""
    (folder / "tvm").mkdir()
    for name in ("tvm/__init__.py", "json.py", "benchmarks.py", "numpy.py"):
        (folder / name).write_text(f"raise ImportError('{name} of the current folder')\n")
    return folder


def test_nothing_is_imported_from_the_current_folder(tmp_path):
    command = module_command("tvm.driver.tvmc", "--version")
    done = subprocess.run(command, cwd=with_traps(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout, done.stderr


def test_the_package_is_the_one_that_asks_even_where_another_comes_first(tmp_path):
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("raise ImportError('another tvm')")
    command = module_command("tvm.driver.tvmc", "--version", python=sys.executable)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout, done.stderr


def test_programs_are_measured_in_a_folder_with_a_checkout(tmp_path, monkeypatch, capsys):
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )  # fmt: skip
    monkeypatch.chdir(with_traps(tmp_path))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "model.onnx")
    assert not _main(["bench", "--rounds", "1", "--number", "1", "--warm-up", "1", "model.onnx"])
    assert "per second" in capsys.readouterr().out
