"""Executor option link-params: weights are part of the library, and the graph has no parameters."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.backend import Executor

LINKED = Executor("graph", {"link-params": True})
rng = np.random.default_rng(3)


def build(body, params=None, **options):
    return relay.build(tvm.IRModule.from_expr(body), "llvm", params=params, executor=LINKED, **options)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64"])
def test_an_exported_library_runs_without_parameters(dtype, tmp_path):
    w = (rng.random((5, 7)) * 100).astype(dtype)
    x = relay.var("x", shape=(2, 5, 7), dtype=dtype)
    weight = relay.var("w", shape=(5, 7), dtype=dtype)
    lib = build(relay.Function([x, weight], x + weight), {"w": w})
    assert lib.params == {}
    assert [n["name"] for n in json.loads(lib.graph_json)["nodes"] if n["op"] == "null"] == ["x"]
    lib.lib.export_library(str(tmp_path / "lib.so"))
    run = graph_executor.create(lib.graph_json, tvm.runtime.load_module(str(tmp_path / "lib.so")), tvm.cpu())
    value = (rng.random((2, 5, 7)) * 100).astype(dtype)
    run.run(x=value)
    np.testing.assert_array_equal(run.get_output(0).numpy(), value + w)


def layers(weights):
    y = x = relay.var("x", shape=(3, 4))
    for w in weights:
        y = relay.nn.relu(relay.nn.dense(y, relay.const(w)))
    return relay.Function([x], y)


def test_layers_of_one_form_have_their_own_weights_and_equal_weights_share_code():
    a, b = (rng.standard_normal((4, 4)).astype("float32") for _ in range(2))
    with tvm.transform.PassContext(opt_level=2):
        lib = build(layers([a, b, a]))
    names = [n["attrs"]["func_name"] for n in json.loads(lib.graph_json)["nodes"] if n["op"] != "null"]
    assert len(names) == 3 and names[0] == names[2] != names[1]
    value = rng.standard_normal((3, 4)).astype("float32")
    want = value
    for w in (a, b, a):
        want = np.maximum(want @ w.T, 0)
    run = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    run.run(x=value)
    np.testing.assert_allclose(run.get_output(0).numpy(), want, rtol=1e-4, atol=1e-5)


def test_other_weights_are_not_taken_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TVM_NO_CACHE", raising=False)
    for seed in (1, 2):
        w = np.random.default_rng(seed).standard_normal((4, 4)).astype("float32")
        run = graph_executor.GraphModule(build(layers([w]))["default"](tvm.cpu()))
        run.run(x=np.eye(3, 4, dtype="float32"))
        np.testing.assert_allclose(run.get_output(0).numpy(), np.maximum(w.T[:3], 0), rtol=1e-6)


def test_a_constant_that_the_caller_sees_stays_a_parameter():
    x, w = relay.var("x", shape=(3,)), np.arange(3, dtype="float32")
    lib = build(relay.Function([x], relay.Tuple([x + relay.const(w), relay.const(w)])))
    assert [v.shape for v in lib.params.values()] == [(3,)]
    run = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    run.run(x=np.ones(3, "float32"))
    np.testing.assert_array_equal(run.get_output(0).numpy(), w + 1)
    np.testing.assert_array_equal(run.get_output(1).numpy(), w)


def test_weights_of_gpu_kernels_are_not_linked():
    w = rng.standard_normal((64, 64)).astype("float32")
    x = relay.var("x", shape=(2, 64))
    mod = tvm.IRModule.from_expr(relay.nn.dense(x, relay.const(w)))
    with pytest.raises(tvm.TVMError, match="option link-params of graph: .* weights can be linked into CPU code only"):
        relay.build(mod, "cuda -arch=sm_80", executor=LINKED)
