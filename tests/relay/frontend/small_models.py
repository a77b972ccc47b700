"""Writes small ONNX models and runs them beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.frontend import from_onnx

_CODES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "bool": 9}


def graph_model(nodes, inputs, outputs, weights=None, opset: int = 17, domains=()) -> onnx.ModelProto:
    """A model of nodes and declared values; ``weights`` are arrays by name, ``domains`` other operator sets it uses."""
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()]
    sets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), tensors)
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def onnxruntime_results(model, arrays: dict) -> list:
    """What onnxruntime computes; the test is left out where it is not installed."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(3)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, arrays)


class Model:
    """A graph under construction: ``m.Add(a, b)`` adds a node and gives the name of its result. Values are names;
    arrays become initializers, None an input left out."""

    def __init__(self, opset: int = 17, rng=None, weights_as_inputs: bool = False, seed: int = 0):
        self.opset, self.rng = opset, rng if rng is not None else np.random.default_rng(seed)
        self.nodes, self.inputs, self.initializers, self.count = [], [], [], 0
        self.weights_as_inputs = weights_as_inputs

    def input(self, name: str, shape, dtype: str = "float32") -> str:
        """``shape`` may hold words for unknown sizes."""
        self.inputs.append(helper.make_tensor_value_info(name, _CODES[dtype], shape))
        return name

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def initializer(self, array) -> str:
        name = self.name()
        array = np.asarray(array)
        self.initializers.append(numpy_helper.from_array(array, name))
        if self.weights_as_inputs:
            self.inputs.append(helper.make_tensor_value_info(name, _CODES[str(array.dtype)], array.shape))
        return name

    def constant(self, value, dtype: str = "int64") -> str:
        """A Constant node, as exporters write small numbers."""
        name = self.name()
        tensor = numpy_helper.from_array(np.array(value, dtype))
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def weight(self, *shape: int, scale: float | None = None) -> np.ndarray:
        fan = int(np.prod(shape[1:])) or 1
        return (self.rng.standard_normal(shape) * (scale or fan**-0.5)).astype("float32")

    def node(self, op: str, *inputs, outputs: int = 1, domain: str = "", **attributes):
        names = ["" if i is None else i if isinstance(i, str) else self.initializer(i) for i in inputs]
        made = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def __getattr__(self, op: str):
        if op.startswith("_"):
            raise AttributeError(op)
        return lambda *inputs, **attributes: self.node(op, *inputs, **attributes)

    def graph(self, name: str, outputs, inputs=()):
        """A graph for If, of the nodes made since; use on a Model of its own that shares the outer names."""
        infos = [helper.make_empty_tensor_value_info(o) for o in outputs]
        return helper.make_graph(self.nodes, name, list(inputs), infos, self.initializers)

    def finish(self, *outputs: str):
        graph = helper.make_graph(
            self.nodes, "g", self.inputs, [helper.make_empty_tensor_value_info(o) for o in outputs], self.initializers
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8 if self.opset > 6 else 3
        return model


def check(model, feed: dict, rtol: float = 1e-3, atol: float = 1e-4, same=None) -> None:
    """The model compiled by us and run by onnxruntime, with the shapes of the arrays. ``same`` is a model that computes
    the same, for onnxruntime, which knows no operator sets before 7."""
    runtime = pytest.importorskip("onnxruntime")
    module, params = from_onnx(model, shape={n: list(a.shape) for n, a in feed.items()})
    lib = relay.build(module, "llvm", params=params)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    for name, array in feed.items():
        executor.set_input(name, tvm.nd.array(array))
    executor.run()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession((same or model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    for i, want in enumerate(session.run(None, feed)):
        got = executor.get_output(i).numpy()
        assert got.dtype == want.dtype and got.shape == want.shape, (i, got.dtype, want.dtype, got.shape, want.shape)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=f"output {i}")


def infer(model):
    """The model with the shapes that onnx finds, as exporters store them."""
    return onnx.shape_inference.infer_shapes(model)
