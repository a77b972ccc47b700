# %% [markdown]
# # Debug an incorrect result
#
# This tutorial shows how to find the kernel that computes an incorrect value, for users whose model returns incorrect
# outputs. The procedure is always the same: find the first incorrect tensor, then inspect the kernel that writes it.

# %%
import json

import numpy as np

import tvm
from tvm import relay, te
from tvm.contrib.debugger import debug_executor

# %% [markdown]
# ## Find the first incorrect tensor
#
# The network below should compute `softmax(relu(x @ w.T) / 8)`, and returns NaN. The debug executor runs one node at
# a time and returns the output of each node.

# %%
x = relay.var("x", shape=(1, 4))
w = relay.const(np.array([[1, 2, 3, 4], [4, 3, 2, 1]], "float32"))
hidden = relay.nn.relu(relay.nn.dense(x, w))
scaled = hidden / relay.const(0.0)  # the error: it should be 8
mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(scaled)))

with tvm.transform.PassContext(opt_level=0):  # no fusion: every operator is a separate node
    library = relay.build(mod, target="llvm")
run = debug_executor.create(library.get_graph_json(), library.get_lib(), tvm.cpu())
for name, value in library.get_params().items():
    run.set_input(name, value)
data = np.ones((1, 4), "float32")
run.set_input("x", data)
run.run()
print("result:", run.get_output(0).numpy())

# %%
first = None
for node in json.loads(library.get_graph_json())["nodes"]:
    if node["op"] == "null":  # an input or a weight
        continue
    value = run.debug_get_output(node["name"]).numpy()
    print(f"{node['name']:40} {value.ravel()}")
    if first is None and not np.isfinite(value).all():
        first = node["name"]
print("the first tensor that is not finite is the output of", first)
assert "divide" in first

# %% [markdown]
# ## Compare with another implementation
#
# If the outputs are finite but incorrect, compare each node with the interpreter (`"debug"`), which compiles one
# operator at a time.

# %%
right = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(hidden / relay.const(8.0))))
interpreted = relay.create_executor("debug", mod=right, device=tvm.cpu(), target="llvm").evaluate()(data).numpy()
compiled = relay.create_executor("graph", mod=right, device=tvm.cpu(), target="llvm").evaluate()(data).numpy()
np.testing.assert_allclose(interpreted, compiled, rtol=1e-6)
print("interpreted and compiled agree:", compiled)

# %% [markdown]
# ## Find an access outside of a buffer
#
# A tensor program with an incorrect index reads other memory and may seem to work. With bound checks, the program
# stops at the first access outside of a buffer.

# %%
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i + 1], name="B")  # the last element reads A[n]
s = te.create_schedule(B.op)
with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
    shift = tvm.build(s, [A, B], "llvm", name="shift")
try:
    shift(tvm.nd.array(data[0]), tvm.nd.empty((4,)))
except tvm.TVMError as error:
    print(str(error).splitlines()[-1])

# %% [markdown]
# ## Find the pass
#
# If a graph is correct at `opt_level=0` and incorrect at 3, disable passes one at a time
# (`disabled_pass=["FuseOps"]`) until the result is correct. The environment variable `TVM_DUMP=folder` writes the
# module after every pass into numbered files, which you can compare.
