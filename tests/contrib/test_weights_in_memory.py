"""A running model has its weights in memory once, however it was loaded."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.driver.tvmc.model import TVMCModel

SIZE = 6144  # weights of 151 MB
WEIGHTS = SIZE * SIZE * 4

COMMON = f"""
import sys
import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.driver import tvmc

def kilobytes(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))

def finish(executor):
    executor.run(x=np.ones((1, {SIZE}), "float32"))
    result = executor.get_output(0).numpy()
    return result

data = np.ones((1, {SIZE}), "float32")
# A small model first: what libraries load at their first use is no weight.
x = relay.var("x", shape=(1, 64))
dense = relay.nn.dense(x, relay.const(np.ones((64, 64), "float32")))
small = relay.build(tvm.IRModule.from_expr(relay.Function([x], dense)), "llvm")
graph_executor.GraphModule(small["default"](tvm.cpu())).run()
before = kilobytes("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
"""

WAYS = {
    "library": """
lib = tvm.runtime.load_module(sys.argv[1] + "/model.so")
result = finish(graph_executor.GraphModule(lib["default"](tvm.cpu())))
""",
    "two executors of a library": """
lib = tvm.runtime.load_module(sys.argv[1] + "/model.so")
first, second = (graph_executor.GraphModule(lib["default"](tvm.cpu())) for _ in range(2))
finish(first)
result = finish(second)
""",
    "package": """
result = tvmc.run(tvmc.TVMCPackage(sys.argv[1] + "/model.tar"), "cpu", inputs={"x": data}).outputs["output_0"]
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("weights")
    x, w = relay.var("x", shape=(1, SIZE)), relay.var("w", shape=(SIZE, SIZE))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    weights = np.arange(SIZE, dtype="float32")[:, None] * np.ones((1, SIZE), "float32") / SIZE
    lib = relay.build(mod, "llvm", params={"w": weights})
    lib.export_library(str(made / "model.so"))
    TVMCModel(mod, {}).export_package(lib, str(made / "model.tar"))
    return made


@pytest.mark.slow("starts processes that load large weights")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the peak of memory")
@pytest.mark.parametrize("way", WAYS)
def test_loading_and_running_takes_the_memory_of_the_weights_once(folder, way):
    program = COMMON + WAYS[way] + "print((kilobytes('VmHWM') - before) * 1024, float(result[0, 1]))"
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak, value = done.stdout.split()
    np.testing.assert_allclose(float(value), 1.0, rtol=1e-4)
    assert int(peak) <= 1.25 * WEIGHTS


EXPORTS = """
import sys
import numpy as np
import tvm
from tvm import relay
from tvm.driver.tvmc.model import TVMCModel

def kilobytes(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))

x, w = relay.var("x", shape=(1, 2048)), relay.var("w", shape=(6144, 2048))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
weights = {"w": np.ones((6144, 2048), "float32")}
lib, machine = (build(mod, "llvm", params=weights) for build in (relay.build, relay.vm.compile))
ways = {
    "library": lambda: lib.export_library(sys.argv[1] + "/peak.so"),
    "archive": lambda: lib.export_library(sys.argv[1] + "/peak.tar"),
    "executable": lambda: machine.export_library(sys.argv[1] + "/machine.so"),
    "package": lambda: TVMCModel(mod, {}).export_package(lib, sys.argv[1] + "/package.tar"),
    "parameters": lambda: tvm.runtime.save_param_dict_to_file(lib.get_params(), sys.argv[1] + "/peak.params"),
}
for name, export in ways.items():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = kilobytes("VmRSS")
    export()
    print(name, (kilobytes("VmHWM") - before) * 1024)
"""


@pytest.mark.slow("compiles and writes a model with large weights in a process of its own")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc contains the peak of memory")
def test_an_export_copies_no_weights(tmp_path):
    command = [sys.executable, "-c", EXPORTS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peaks = {name: int(size) for name, size in (line.split() for line in done.stdout.splitlines())}
    assert len(peaks) == 5
    assert {name: size for name, size in peaks.items() if size > 0.25 * 6144 * 2048 * 4} == {}


def test_executors_share_the_weights_of_their_factory_until_one_is_set(rng):
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(2, 3))
    weights, data = rng.random((2, 3), dtype="float32"), rng.random((2, 3), dtype="float32")
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x, w], x * w)), "llvm", params={"w": weights})
    (name,) = lib.get_params()
    first, second = (tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu())) for _ in range(2))
    first.set_input(name, weights + 1)
    first.run(x=data)
    second.run(x=data)
    np.testing.assert_allclose(first.get_output(0).numpy(), data * (weights + 1), rtol=1e-6)
    np.testing.assert_allclose(second.get_output(0).numpy(), data * weights, rtol=1e-6)
    # What get_input gives is what kernels read.
    second.get_input(name).copyfrom(weights + 2)
    second.run()
    np.testing.assert_allclose(second.get_output(0).numpy(), data * (weights + 2), rtol=1e-6)
    third = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    third.run(x=data)
    np.testing.assert_allclose(third.get_output(0).numpy(), data * weights, rtol=1e-6)
    np.testing.assert_array_equal(lib.module["get_graph_params"]()[name].numpy(), weights)
    assert lib.module["remove_params"]()["get_graph_params"]() == {}


def test_arrays_in_an_exported_library_are_aligned_whatever_their_sizes(rng, tmp_path):
    values = [rng.random(n, dtype="float32") for n in (1, 3, 17, 64)]
    xs = [relay.var(f"x{i}", shape=v.shape) for i, v in enumerate(values)]
    outs = relay.Tuple([x + relay.const(v) for x, v in zip(xs, values)])
    with tvm.transform.PassContext(opt_level=0):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function(xs, outs)), "llvm")
    lib.export_library(str(tmp_path / "m.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "m.so"))
    executor = tvm.contrib.graph_executor.GraphModule(loaded["default"](tvm.cpu()))
    del loaded, lib
    executor.run(**{f"x{i}": v for i, v in enumerate(values)})
    for i, value in enumerate(values):
        np.testing.assert_allclose(executor.get_output(i).numpy(), 2 * value, rtol=1e-6)
