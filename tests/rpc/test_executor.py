"""Whole models on a session: the graph executor and the debug executor, made there."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.contrib.debugger import debug_executor


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    x = relay.var("x", shape=(2, 6), dtype="float32")
    w = relay.var("w", shape=(5, 6), dtype="float32")
    weights = np.random.default_rng(2).standard_normal((5, 6)).astype("float32")
    module = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
    built = relay.build(module, target="llvm", params={"w": weights})
    path = str(tmp_path_factory.mktemp("model") / "model.so")
    built.export_library(path)
    return path, built, weights


def expected(data, weights):
    return np.maximum(data @ weights.T, 0)


def test_a_model_of_a_library_runs_on_a_session(remote, model):
    path, _, weights = model
    remote.upload(path)
    module = remote.load_module("model.so")
    executor = graph_executor.GraphModule(module["default"](remote.cpu()))
    data = np.random.default_rng(3).standard_normal((2, 6)).astype("float32")
    executor.set_input("x", data)
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(data, weights), rtol=1e-5, atol=1e-6)
    executor.run(x=tvm.nd.array(data * 2))
    np.testing.assert_allclose(
        executor.get_output(0, tvm.nd.empty((2, 5))).numpy(), expected(data * 2, weights), rtol=1e-5, atol=1e-6
    )
    executor.run(x=tvm.nd.array(data, remote.cpu()))
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(data, weights), rtol=1e-5, atol=1e-6)
    assert executor.benchmark(remote.cpu(), repeat=2, number=3).mean > 0
    assert executor.benchmark(remote.cpu(), repeat=2, number=3, end_to_end=True, x=data).mean > 0
    shapes, types = executor.get_input_info()
    assert tuple(shapes["x"]) == (2, 6) and types["x"] == "float32"


def test_an_executor_is_made_of_json_library_and_parameters(remote, model, tmp_path):
    _, built, weights = model
    path = str(tmp_path / "kernels.so")
    built.get_lib().export_library(path)
    remote.upload(path)
    library = remote.load_module("kernels.so")
    data = np.random.default_rng(4).standard_normal((2, 6)).astype("float32")
    executor = graph_executor.create(built.get_graph_json(), library, remote.cpu())
    executor.load_params(tvm.runtime.save_param_dict(built.get_params()))
    executor.run(x=data)
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(data, weights), rtol=1e-5, atol=1e-6)
    debug = debug_executor.create(built.get_graph_json(), library, remote.cpu(), dump_root=str(tmp_path / "dump"))
    debug.set_input(**built.get_params())
    debug.run(x=data)
    np.testing.assert_allclose(debug.get_output(0).numpy(), expected(data, weights), rtol=1e-5, atol=1e-6)
    report = debug.profile(rounds=2, x=data)
    assert len(report.calls) == 1 and "remote" in str(debug.device)
    assert len(debug.run_individual(2)) == debug.module["get_num_nodes"]()
