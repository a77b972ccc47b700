# %% [markdown]
# # Debugging a wrong result
#
# A model gives wrong numbers. Where do they begin? The way is always the same: find the first value that is wrong,
# then look at the one kernel that made it.

# %%
import json

import numpy as np

import tvm
from tvm import relay, te
from tvm.contrib.debugger import debug_executor

# %% [markdown]
# ## The first value that is wrong
#
# The network below should be `softmax(relu(x . w) / 8)`, and gives NaN. The debug executor runs node by node, and
# each node's value can be read.

# %%
x = relay.var("x", shape=(1, 4))
w = relay.const(np.array([[1, 2, 3, 4], [4, 3, 2, 1]], "float32"))
hidden = relay.nn.relu(relay.nn.dense(x, w))
scaled = hidden / relay.const(0.0)  # the mistake: it should be 8
mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(scaled)))

with tvm.transform.PassContext(opt_level=0):  # no fusion: every operator is a node of its own
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
print("the first value that is not finite is made by", first)
assert "divide" in first

# %% [markdown]
# ## Against another implementation
#
# Where numbers are wrong but finite, each node is compared with what the interpreter, which compiles one operator at
# a time, gives for the same graph.

# %%
right = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(hidden / relay.const(8.0))))
interpreted = relay.create_executor("debug", mod=right, device=tvm.cpu(), target="llvm").evaluate()(data).numpy()
compiled = relay.create_executor("graph", mod=right, device=tvm.cpu(), target="llvm").evaluate()(data).numpy()
np.testing.assert_allclose(interpreted, compiled, rtol=1e-6)
print("interpreted and compiled agree:", compiled)

# %% [markdown]
# ## A program that reads outside
#
# A tensor program with a wrong index reads other memory, and may seem to work. With bound checks on, every access is
# looked at, and the first one outside stops the program.

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
# ## Which pass?
#
# If a graph is right at `opt_level=0` and wrong at 3, leave passes out one at a time (`disabled_pass=["FuseOps"]`)
# until it is right again. `TVM_DUMP=folder` in the environment writes the module after every pass, numbered, so that
# two of them can be compared.
