# %% [markdown]
# # An operator of your own
#
# An operator is a name, the type of its result, and its computation as a tensor program. From then on it is fused,
# scheduled and compiled like any other. This one is `softsign`, x / (1 + |x|). {doc}`../howto_operator` has the other
# half: another way to compute an operator that exists.

# %%
import json

import numpy as np

import tvm
from tvm import relay, te, topi
from tvm.relay import op as reg

# %% [markdown]
# ## The computation
#
# A function from tensors to a tensor. It can be tried by itself first.


# %%
def softsign(x):
    return te.compute(x.shape, lambda *i: x(*i) / (1.0 + te.abs(x(*i))), name="softsign", tag=topi.tag.ELEMWISE)


X = te.placeholder((5,), name="X")
Y = softsign(X)
function = tvm.build(te.create_schedule(Y.op), [X, Y], "llvm", name="softsign")
data = np.array([-3, -1, 0, 1, 3], "float32")
out = tvm.nd.empty((5,))
function(tvm.nd.array(data), out)
print(out.numpy())

# %% [markdown]
# ## The record
#
# The result has the type of the input; the pattern says that it may be fused with what stands before and after it.

# %%
NAME = "tutorial.softsign"
record = reg.register(NAME, "x / (1 + |x|), element by element.")
record.set_num_inputs(1)
record.add_type_rel("Identity")
reg.register_pattern(NAME, reg.OpPattern.ELEMWISE)
reg.register_compute(NAME, lambda attrs, inputs, out_type: [softsign(inputs[0])])
reg.register_broadcast_schedule(NAME)

# %% [markdown]
# ## In a graph
#
# Calls of it take part in type inference, passes and fusion: with the addition before it and the product after it,
# one kernel is made.

# %%
x = relay.var("x", shape=(5,))
body = relay.Call(relay.op.get(NAME), [x + relay.const(1.0)]) * relay.const(2.0)
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
print(mod)
with tvm.transform.PassContext(opt_level=3):
    library = relay.build(mod, target="llvm")
run = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
run.set_input("x", data)
run.run()
shifted = data + 1
np.testing.assert_allclose(run.get_output(0).numpy(), 2 * shifted / (1 + np.abs(shifted)), rtol=1e-6)
nodes = json.loads(library.get_graph_json())["nodes"]
print("kernels:", [node["name"] for node in nodes if node["op"] != "null"])
