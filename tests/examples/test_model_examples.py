"""The examples about whole models run to their ends."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.packages import needs_xgboost
from tests.programs import Programs

FOLDER = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A classifier of the demo's images into its classes, which is smaller than that of the demo."""
    rng = np.random.default_rng(7)
    shapes = {"w0": (16, 3, 4, 4), "w1": (16, 16, 3, 3), "w2": (1000, 16)}
    weights = {name: rng.normal(size=shape).astype("float32") / 4 for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["data", "w0"], ["a"], strides=[4, 4]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "w2"], ["output"], transB=1),
    ]
    inputs = [helper.make_tensor_value_info("data", 1, [1, 3, 224, 224])]
    outputs = [helper.make_tensor_value_info("output", 1, [1, 1000])]
    made = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "small", inputs, outputs, made)
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return str(path)


SLOW = pytest.mark.slow("compiles a whole network as a user does")
TUNE = ["--trials", "2", "--tasks", "0,1", "--time-budget", "2m"]


@pytest.mark.parametrize(
    "script, options, last",
    [
        pytest.param("relay_quick_start.py", ["32"], "the loaded package and the older interface return", marks=SLOW),
        pytest.param("tvmcpythonintro.py", ["MODEL"], "the loaded package returns the same output", marks=SLOW),
        pytest.param("autotvmintro.py", ["MODEL", "2"], "the predictions are the same", marks=[SLOW, needs_xgboost]),
        pytest.param("tune_model.py", ["MODEL", *TUNE], "the predictions are the same: ", marks=[SLOW, needs_xgboost]),
        ("preprocess.py", [], "imagenet_cat.npz contains data of shape (1, 3, 224, 224)"),
    ],
)
def test_example_runs(
    programs: Programs, script: str, options: list[str], last: str, tmp_path: Path, sharing_compiled_models, model: str
):
    options = [model if option == "MODEL" else option for option in options]
    done = programs.run([str(FOLDER / script), *options], tmp_path, sharing_compiled_models)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(last)


@pytest.mark.parametrize("script", ["tvmcpythonintro.py", "autotvmintro.py", "tune_model.py"])
def test_the_model_that_an_example_takes_by_default_is_in_the_demo(script: str):
    text = (FOLDER / script).read_text(encoding="utf-8")
    assert re.search(r'"demo"', text)
    (name,) = re.findall(r'"(\w+\.onnx)"', text)
    assert (FOLDER.parent / "demo" / name).is_file()
