"""A ResNet-50-v2 as the ONNX model zoo had it: opset 7, input `data` of open batch, weights that are inputs too.

Weights are random. ``width`` divides the channels, and a smaller ``depth`` leaves out units that repeat the one before:
names, operators and shapes of the graph stay alike.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STAGES = ((3, 256), (4, 512), (6, 1024), (3, 2048))


class _Writer:
    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.nodes: list = []
        self.weights: dict[str, np.ndarray] = {}

    def node(self, kind: str, name: str, inputs: list[str], **attributes) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def weight(self, name: str, value) -> str:
        self.weights[name] = np.asarray(value, "float32")
        return name

    def conv(self, value: str, name: str, shape: tuple, stride: int = 1) -> str:
        fan_in = shape[1] * shape[2] * shape[3]
        weight = self.weight(name + "_weight", self.random.normal(0, (2 / fan_in) ** 0.5, shape))
        pad, kernel = shape[2] // 2, shape[2]
        return self.node(
            "Conv",
            name + "_fwd",
            [value, weight],
            dilations=[1, 1],
            group=1,
            kernel_shape=[kernel, kernel],
            pads=[pad] * 4,
            strides=[stride, stride],
        )

    def norm(self, value: str, name: str, channels: int) -> str:
        parts = {
            "gamma": self.random.uniform(0.5, 1, channels),
            "beta": self.random.normal(0, 0.1, channels),
            "running_mean": self.random.normal(0, 0.1, channels),
            "running_var": self.random.uniform(0.5, 1.5, channels),
        }
        inputs = [value, *(self.weight(f"{name}_{k}", v) for k, v in parts.items())]
        return self.node("BatchNormalization", name + "_fwd", inputs, epsilon=1e-5, momentum=0.9)

    def relu(self, value: str, name: str) -> str:
        return self.node("Relu", name + "_fwd", [value])


def _unit(out: _Writer, value: str, name: str, before: int, channels: int, stride: int, change: bool) -> str:
    first = out.relu(out.norm(value, f"{name}_batchnorm0", before), f"{name}_activation0")
    narrow = channels // 4
    deep = out.conv(first, f"{name}_conv0", (narrow, before, 1, 1))
    deep = out.relu(out.norm(deep, f"{name}_batchnorm1", narrow), f"{name}_activation1")
    deep = out.conv(deep, f"{name}_conv1", (narrow, narrow, 3, 3), stride)
    deep = out.relu(out.norm(deep, f"{name}_batchnorm2", narrow), f"{name}_activation2")
    deep = out.conv(deep, f"{name}_conv2", (channels, narrow, 1, 1))
    side = out.conv(first, f"{name}_conv3", (channels, before, 1, 1), stride) if change else value
    return out.node("Add", f"{name}__plus0", [deep, side])


def write(path: str, width: int = 1, depth: int = 6, seed: int = 0) -> None:
    """Write the model, with at most ``depth`` units in each stage."""
    out, prefix = _Writer(seed), "resnetv24"
    channels = 64 // width
    value = out.norm("data", f"{prefix}_batchnorm0", 3)
    value = out.conv(value, f"{prefix}_conv0", (channels, 3, 7, 7), 2)
    value = out.relu(out.norm(value, f"{prefix}_batchnorm1", channels), f"{prefix}_relu0")
    value = out.node("MaxPool", f"{prefix}_pool0_fwd", [value], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    for stage, (units, wide) in enumerate(STAGES, 1):
        for unit in range(min(units, depth)):
            stride = 2 if unit == 0 and stage > 1 else 1
            value = _unit(out, value, f"{prefix}_stage{stage}_{unit}", channels, wide // width, stride, unit == 0)
            channels = wide // width
    value = out.relu(out.norm(value, f"{prefix}_batchnorm2", channels), f"{prefix}_relu1")
    value = out.node("Flatten", "flatten_170", [out.node("GlobalAveragePool", f"{prefix}_pool1_fwd", [value])])
    dense = out.weight(f"{prefix}_dense0_weight", out.random.normal(0, channels**-0.5, (1000, channels)))
    bias = out.weight(f"{prefix}_dense0_bias", out.random.normal(0, 0.1, 1000))
    value = out.node("Gemm", f"{prefix}_dense0_fwd", [value, dense, bias], alpha=1.0, beta=1.0, transA=0, transB=1)
    _save(path, out, value)


def _save(path: str, out: _Writer, result: str) -> None:
    inputs = [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", 3, 224, 224])]
    inputs += [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in out.weights.items()]
    outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, ["N", 1000])]
    weights = [numpy_helper.from_array(v, k) for k, v in out.weights.items()]
    graph = helper.make_graph(out.nodes, "mxnet_converted_model", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=3)
    onnx.checker.check_model(model)
    onnx.save(model, path)
