"""``tvmc compile --executor aot``, and running and describing such a package."""

from __future__ import annotations

import numpy as np
import pytest

from tvm.driver import tvmc
from tvm.driver.tvmc.info import facts_of
from tvm.driver.tvmc.main import _main

SHAPES = ("--input-shapes", "data:[1,3,9,7]")


@pytest.fixture(scope="module")
def aot_package(model_path, tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("aot") / "net.tar")
    options = ("--executor", "aot", "--executor-aot-workspace-byte-alignment", "128")
    assert _main(["compile", "--target", "llvm", *options, "--output", path, *SHAPES, model_path]) == 0
    return path


def test_a_package_gives_the_outputs_of_the_graph_executor(aot_package, package, tmp_path):
    data = np.random.default_rng(0).normal(size=(1, 3, 9, 7)).astype("float32")
    np.savez(tmp_path / "in.npz", data=data)
    found = []
    for number, path in enumerate((aot_package, package)):
        out = tmp_path / f"{number}.npz"
        assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", str(out), path])
        found.append(np.load(out)["output_0"])
    np.testing.assert_array_equal(*found)


def test_facts_of_a_package(aot_package, package, capsys):
    made, other = tvmc.TVMCPackage(aot_package), tvmc.TVMCPackage(package)
    assert made.executor_type == "aot" and other.executor_type == "graph"
    facts, wanted = facts_of(made), facts_of(other)
    assert (facts.inputs, facts.outputs, facts.params) == (wanted.inputs, wanted.outputs, wanted.params)
    assert facts.kernels == wanted.kernels and 0 < facts.workspace <= 3 * wanted.workspace
    assert _main(["info", aot_package]) == 0
    assert "executor aot" in capsys.readouterr().out


def test_dynamic_shapes_are_rejected(model_path, refused):
    refused(4, "the ahead-of-time executor cannot run the model", "compile", "--executor", "aot", model_path)
