"""Behaviours of Apache TVM's tests of ahead-of-time models for the runtime."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tests.relay.aot.test_crt import two_convolutions
from tvm import relay
from tvm.relay.backend import Executor
from tvm.testing.aot import generate_ref_data

AOT = Executor("aot", {"interface-api": "packed"})


def plus_one() -> tvm.IRModule:
    x = relay.var("x", shape=(1,))
    return tvm.IRModule.from_expr(relay.Function([x], x + relay.const(np.array([1], "float32"))))


def test_the_c_interface_is_rejected():
    words = 'Need unpacked-api == false (got: 0) and interface-api == "packed" (got: c) when targeting c++ runtime'
    with pytest.raises(tvm.TVMError, match=re.escape(words)):
        relay.build(plus_one(), "llvm", executor=Executor("aot", {"interface-api": "c"}))


@pytest.mark.parametrize("enable_usmp", [True, False])
@pytest.mark.parametrize("target", ["c", "llvm"])
def test_an_exported_network(target, enable_usmp, tmp_path):
    mod, inputs, params = two_convolutions(np.ones((3, 3, 5, 5), "int8"))
    (wanted,) = generate_ref_data(mod, inputs, params).values()
    config = {"tir.disable_vectorize": True, "tir.usmp.enable": enable_usmp}
    with tvm.transform.PassContext(opt_level=3, config=config):
        lib = relay.build(mod, target, params=params, executor=AOT)
    lib.export_library(tmp_path / "net.so", cc="gcc", options=["-std=c11"])
    loaded = tvm.runtime.load_module(tmp_path / "net.so")
    runner = tvm.runtime.executor.AotModule(loaded["default"](tvm.cpu(0)))
    runner.set_input(**inputs)
    runner.run()
    np.testing.assert_array_equal(runner.get_output(0).numpy(), wanted)


def test_the_names_of_models_and_the_devices(tmp_path):
    lib = relay.build(plus_one(), "c", executor=AOT, mod_name="unusual_module_name_fred")
    lib.export_library(tmp_path / "m.so")
    loaded = tvm.runtime.load_module(tmp_path / "m.so")
    assert loaded.get_function("list_module_names")() == ["unusual_module_name_fred"]
    with pytest.raises(tvm.TVMError, match="an executor takes one device per type; two devices of type cpu were given"):
        loaded["unusual_module_name_fred"](tvm.cpu(0), tvm.cpu(0))


def test_create_executor():
    found = relay.create_executor("aot", mod=plus_one(), target="c").evaluate()(np.array([2], "float32"))
    np.testing.assert_array_equal(found.numpy(), [3])
