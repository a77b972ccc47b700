"""A small model for microcontrollers, its reference, and its archive."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tvm
from tvm import micro, relay
from tvm.contrib import graph_executor
from tvm.relay.backend import Executor, Runtime

C_INTERFACE = {"interface-api": "c", "unpacked-api": True}


class Model(NamedTuple):
    """A model, inputs, and the outputs of the graph executor."""

    module: tvm.IRModule
    inputs: dict[str, np.ndarray]
    outputs: list[np.ndarray]


def two_outputs(seed: int) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """An int8 model with two inputs of odd sizes, the second with a name that is not an identifier, and two outputs."""
    rng = np.random.default_rng(seed)
    x, y = relay.var("x", shape=(3, 7), dtype="int8"), relay.var("in:put", shape=(3, 5), dtype="int32")
    weight = relay.const(rng.integers(-9, 9, (5, 7)).astype("int8"))
    dense = relay.nn.dense(x, weight, out_dtype="int32")
    outputs = relay.Tuple([relay.add(dense, y), relay.nn.softmax(relay.cast(dense, "float32") * relay.const(0.01))])
    inputs = {"x": rng.integers(-99, 99, (3, 7)).astype("int8"), "in:put": rng.integers(-99, 99, (3, 5), dtype="int32")}
    return tvm.IRModule.from_expr(relay.Function([x, y], outputs)), inputs


def build(module: tvm.IRModule, target: str = "c", name: str = "default", **options: Any):
    """The model for programs without the runtime."""
    executor = Executor("aot", {**C_INTERFACE, **options})
    return relay.build(module, target, executor=executor, runtime=Runtime("crt"), mod_name=name)


@pytest.fixture(scope="session")
def model(seed) -> Model:
    module, inputs = two_outputs(seed)
    runner = graph_executor.GraphModule(relay.build(module, "llvm")["default"](tvm.cpu()))
    runner.run(**inputs)
    return Model(module, inputs, [runner.get_output(i).numpy() for i in range(2)])


@pytest.fixture(scope="session")
def factory(model):
    return build(model.module)


@pytest.fixture(scope="session")
def archive(factory, tmp_path_factory) -> str:
    return str(micro.export_model_library_format(factory, tmp_path_factory.mktemp("mlf") / "model.tar", timestamp=0))
