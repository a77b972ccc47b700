# %% [markdown]
# # A model from ONNX to a package
#
# This tutorial compiles an ONNX model to a package and runs it, for users of `tvmc` and of the Python API. A package
# is one file with kernels, graph and weights. It runs without the compiler.
#
# The program below writes a small ONNX model, so that you need no download.

# %%
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(0)


def weight(name, *shape):
    return numpy_helper.from_array((rng.random(shape, "float32") - 0.5) * 0.2, name)


graph = helper.make_graph(
    [
        helper.make_node("Conv", ["data", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("GlobalAveragePool", ["r1"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["scores"], transB=1),
    ],
    "small",
    [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 32, 32])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
    [weight("w1", 16, 3, 3, 3), weight("b1", 16), weight("w2", 10, 16), weight("b2", 10)],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "small.onnx")

# %% [markdown]
# ## Use `tvmc`
#
# `tvmc.load` reads the file, `tvmc.compile` writes the package, and `tvmc.run` runs it. The command line has the same
# functions: `tvmc compile --target llvm --output small.tar small.onnx` and `tvmc run small.tar`.

# %%
from tvm.driver import tvmc

model = tvmc.load("small.onnx")
model.summary()

# %%
package = tvmc.compile(model, target="llvm", package_path="small.tar")
image = rng.random((1, 3, 32, 32), "float32")
result = tvmc.run(package, device="cpu", inputs={"data": image})
scores = result.get_output("output_0")
print(scores.round(3))

# %% [markdown]
# ## Use the Python API
#
# These are the functions behind `tvmc`: the importer returns a module and its weights, `relay.build` compiles the
# module, and an executor runs it.

# %%
import tvm
from tvm import relay
from tvm.contrib import graph_executor

mod, params = relay.frontend.from_onnx(onnx.load("small.onnx"))
with tvm.transform.PassContext(opt_level=3):
    library = relay.build(mod, target="llvm", params=params)
run = graph_executor.GraphModule(library["default"](tvm.cpu()))
run.set_input("data", image)
run.run()
np.testing.assert_allclose(run.get_output(0).numpy(), scores, rtol=1e-4, atol=1e-5)

# %% [markdown]
# Compare the output with the same formulas in NumPy:

# %%
weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
padded = np.pad(image[0], ((0, 0), (1, 1), (1, 1)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
maps = np.einsum("chwij,ocij->ohw", windows, weights["w1"]) + weights["b1"][:, None, None]
expected = np.maximum(maps, 0).mean(axis=(1, 2)) @ weights["w2"].T + weights["b2"]
np.testing.assert_allclose(scores[0], expected, rtol=1e-3, atol=1e-4)
print("equal to NumPy")

# %% [markdown]
# ## Load the package on another machine
#
# `export_library` writes one file. The machine that runs it needs only the runtime ({doc}`../deploy_runtime`).

# %%
library.export_library("small.so")
loaded = graph_executor.GraphModule(tvm.runtime.load_module("small.so")["default"](tvm.cpu()))
loaded.set_input("data", image)
loaded.run()
np.testing.assert_array_equal(loaded.get_output(0).numpy(), run.get_output(0).numpy())
print("the loaded package returns the same output")
