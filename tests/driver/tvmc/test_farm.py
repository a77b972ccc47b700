"""What ``--farm`` refuses before any cluster is asked; ``python -m tools test ray`` has a cluster."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvm.driver.tvmc import farm
from tvm.driver.tvmc.frontends import OnnxFrontend
from tvm.driver.tvmc.main import _main
from tvm.driver.tvmc.model_files import models_of


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["compile", "{m}", "{m}"], "several models need a cluster"),
        (["compile", "--farm-address", "here:1", "{m}"], "need --farm ray"),
        (["tune", "-o", "{r}", "--farm-resource", "tvm", "{m}"], "need --farm ray"),
        (["tune", "-o", "{r}", "--farm", "ray", "--rpc-tracker", "a:1", "--rpc-key", "k", "{m}"], "exclude each other"),
        (["tune", "--build-only", "{r}", "--farm", "ray", "{m}"], "exclude each other"),
        (
            ["compile", "--farm", "ray", "-o", "{m}", "{m}"],
            "compiling several models requires a folder, but this is a file",
        ),
        (["compile", "--farm", "ray", "{m}"], "package ray"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, why, model_path, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    known = {"m": str(model_path), "r": str(tmp_path / "records.json")}
    assert _main([one.format(**known) for one in arguments]) == 4
    assert why in capsys.readouterr().err
    assert list(tmp_path.glob("*.tar")) == []


def test_two_models_of_one_name_are_refused(tmp_path):
    with pytest.raises(farm.TVMCException, match="two models have the same file name"):
        farm._packages(models_of(["a/m.onnx", "b/m.onnx"]), str(tmp_path))


def test_the_files_that_weights_lie_in_travel_with_the_model(tmp_path):
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3], np.arange(3, dtype="float32").tobytes(), raw=True)
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", value[:1], value[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    assert OnnxFrontend().companions(str(tmp_path / "m.onnx")) == {"w.bin": np.arange(3, dtype="float32").tobytes()}
