# %% [markdown]
# # From Relay to a kernel
#
# This tutorial follows one small model through the compiler, for readers who want to know the stages: a graph, a
# graph of fused functions, loops, and machine code. The pictures are drawn from the objects.

# %%
import json

import numpy as np
from plot import figure

import tvm
from tvm import relay
from tvm.contrib import graph_executor

x = relay.var("x", shape=(1, 3, 16, 16))
weight = relay.const(np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype("float32"))
bias = relay.const(np.ones((8, 1, 1), "float32"))
body = relay.nn.relu(relay.nn.conv2d(x, weight, padding=(1, 1)) + bias)
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.nn.global_avg_pool2d(body))))
print(mod)

# %% [markdown]
# ## Fused functions
#
# Graph passes run first: they select layouts, fold constants and fuse operators. A fused function becomes one kernel:
# the addition and the ReLU are the epilogue of the convolution.

# %%
with tvm.transform.PassContext(opt_level=3):
    fused = tvm.transform.Sequential(
        [relay.transform.SimplifyInference(), relay.transform.FoldConstant(), relay.transform.FuseOps()]
    )(mod)
print(fused)

# %%
figure("The graph after fusion", fused._repr_html_())

# %% [markdown]
# ## Loops
#
# `relay.build` creates a computation and a schedule for every fused function, and lowers it to loops over flat
# buffers. A pass instrument receives the module after every pass; this one stores the functions.

# %%
stations = {}


@tvm.instrument.pass_instrument
class Keep:
    def run_after_pass(self, module, info):
        for name, function in module.functions.items():
            if isinstance(function, tvm.tir.PrimFunc):
                stations.setdefault(name.name_hint, {})[info.name] = function


with tvm.transform.PassContext(opt_level=3, instruments=[Keep()]):
    lib = relay.build(mod, target="llvm")

for name, passes in stations.items():
    print(f"{name}: {len(passes)} passes, from {next(iter(passes))} to {next(reversed(passes))}")

# %% [markdown]
# The pooling kernel is the shorter of the two. These are its loops after simplification, before the calling
# convention of the runtime is added:

# %%
pool = next(name for name in stations if "pool" in name)
print(stations[pool]["tir.Simplify"])

# %% [markdown]
# ## Machine code
#
# The code generator writes LLVM IR, and LLVM optimizes it and emits an object file. The library contains all kernels
# of the model.

# %%
lines = lib.get_lib().get_source("asm").splitlines()
instructions = [line.split()[0] for line in lines if line.startswith("\t") and not line.split()[0].startswith(".")]
print(f"{len(instructions)} instructions, of {len(set(instructions))} kinds")

# %% [markdown]
# ## The compiled program
#
# The compiled program is a list of kernel calls with their places in memory, written as JSON. The C runtime executes
# it.

# %%
runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
data = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype("float32")
runner.run(x=data)
print([node["name"] for node in json.loads(lib.get_graph_json())["nodes"]])
print("result", runner.get_output(0).shape)
