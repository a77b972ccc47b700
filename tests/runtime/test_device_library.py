"""Devices that a shared library brings: compiled here with the C compiler, loaded, and used as any other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.device_library import build_fake_device

# In a process of its own, because a device stays registered.
PROGRAM = """
import sys, ctypes, json
import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.contrib.debugger import debug_executor

path = sys.argv[1]
try:
    tvm.device("abacus")
except ValueError as error:
    assert "unknown device type 'abacus'" in str(error)
tvm.runtime.load_device_library(path)
device = tvm.device("abacus", 1)
assert str(device) == "abacus(1)" and device.exist and device.multi_processor_count == 11
assert device.warp_size is None and not tvm.device("abacus", 2).exist
try:
    tvm.runtime.load_device_library(path)
except tvm.TVMError as error:
    assert "type 12 already has a driver" in str(error)
else:
    raise AssertionError("registered twice")
a = tvm.nd.array(np.arange(6, dtype="float32"), device)
np.testing.assert_array_equal(a.copyto(tvm.cpu()).numpy(), np.arange(6))
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory) -> str:
    return build_fake_device(tmp_path_factory.mktemp("device"))


def run(program: str, plugin: str) -> None:
    done = subprocess.run([sys.executable, "-c", program, plugin], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow("builds a library of a device")
def test_a_library_of_devices_is_loaded_once_and_its_devices_hold_arrays(plugin):
    run(PROGRAM, plugin)


def test_what_brings_no_devices_is_refused(tmp_path):
    program = """
import sys, tvm
there = tvm.runtime.find_library()
for path, words in ((sys.argv[1], "cannot open the device library"),
                    (there, "it does not export TVMDeviceLibraryInit")):
    try:
        tvm.runtime.load_device_library(path)
    except tvm.TVMError as error:
        assert words in str(error), error
    else:
        raise AssertionError(path)
"""
    run(program, str(tmp_path / "nothing.so"))


@pytest.mark.slow("builds a library of a device")
def test_a_graph_runs_on_a_device_of_a_library(plugin):
    """Code for the host runs on it, because its memory is the host's: the target says whose memory it computes on."""
    program = (
        PROGRAM
        + """
x = relay.var("x", shape=(3, 5))
w = np.random.default_rng(1).standard_normal((4, 5)).astype("float32")
mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, relay.const(w)))))
lib = relay.build(mod, tvm.target.Target({"kind": "llvm", "target_device_type": device.device_type}))
assert set(json.loads(lib.get_graph_json())["attrs"]["device_index"][1]) == {90}
executor = graph_executor.GraphModule(lib["default"](device))
data = np.random.default_rng(2).standard_normal((3, 5)).astype("float32")
counts = ctypes.CDLL(path)
executor.set_input("x", data)
for _ in range(3):
    executor.run()
out = executor.get_output(0)
assert out.device == device and executor.get_num_copies() == 0
wanted = np.exp(data @ w.T)
np.testing.assert_allclose(out.numpy(), wanted / wanted.sum(-1, keepdims=True), rtol=1e-5)
try:
    lib["default"](tvm.cpu())
except tvm.TVMError as error:
    assert "was built for abacus and cannot run on cpu(0)" in str(error), error
else:
    raise AssertionError("ran on the CPU")
"""
    )
    run(program, plugin)
