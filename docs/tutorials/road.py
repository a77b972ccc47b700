# %% [markdown]
# # The road from Relay to a kernel
#
# One small model, and what it is at every station: a graph, a graph of kernels, loops, and machine code. The pictures
# are drawn from the objects themselves.

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
# ## Kernels
#
# Graph passes come first: layouts are chosen, constants folded, and operators fused. What is fused becomes one kernel:
# the convolution does the addition and the maximum as its epilogue.

# %%
with tvm.transform.PassContext(opt_level=3):
    fused = tvm.transform.Sequential([
        relay.transform.SimplifyInference(), relay.transform.FoldConstant(), relay.transform.FuseOps()
    ])(mod)
print(fused)

# %%
figure("The graph after fusion", fused._repr_html_())

# %% [markdown]
# ## Loops
#
# `relay.build` makes a computation and a schedule of every fused function and lowers it to loops over flat buffers. An
# instrument sees every module that passes work on, and keeps what it sees.

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
# The pool is the shorter of the two kernels. These are its loops after simplification, before the runtime's calling
# convention is put around them:

# %%
pool = next(name for name in stations if "pool" in name)
print(stations[pool]["tir.Simplify"])

# %% [markdown]
# ## Machine code
#
# The emitter writes text for LLVM, which optimizes it and makes an object; the library holds all kernels of the model.

# %%
lines = lib.get_lib().get_source("asm").splitlines()
instructions = [line.split()[0] for line in lines if line.startswith("\t") and not line.split()[0].startswith(".")]
print(f"{len(instructions)} instructions, of {len(set(instructions))} kinds")

# %% [markdown]
# ## The program
#
# What runs them is a graph of calls with places in memory, written as JSON, and executed by the runtime in C.

# %%
runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
data = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype("float32")
runner.run(x=data)
print([node["name"] for node in json.loads(lib.get_graph_json())["nodes"]])
print("result", runner.get_output(0).shape)
