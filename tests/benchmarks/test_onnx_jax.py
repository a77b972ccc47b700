"""Models run by jax for comparison give what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper

from benchmarks import onnx_jax


@pytest.mark.slow("runs a benchmark from its start to its end")
@pytest.mark.parametrize(
    "operator, attributes",
    [
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 0, 0], "ceil_mode": 1}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 0, 0], "ceil_mode": 1}),
        ("Softmax", {"axis": -1}),
        ("HardSigmoid", {"alpha": 1 / 6}),
        ("HardSwish", {}),
    ],
)
def test_operators_agree(operator: str, attributes: dict, tmp_path):
    node = helper.make_node(operator, ["data"], ["out"], **attributes)
    shape = [1, 3, 11, 12]
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    data = np.random.default_rng(0).standard_normal(shape, dtype="float32")
    function, weights = onnx_jax.load(str(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"data": data})
    np.testing.assert_allclose(np.asarray(function(weights, {"data": data})), want, rtol=1e-5, atol=1e-6)
