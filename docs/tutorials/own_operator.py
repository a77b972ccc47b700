# %% [markdown]
# # Add an operator
#
# This tutorial adds a user-defined operator in Python, for users whose model needs an operator that does not exist.
# {doc}`../howto_operator` shows how to add another implementation of an existing operator.
#
# An operator consists of a name, a type relation and a computation as a tensor program. The compiler fuses, schedules
# and compiles it like any other operator. The example is `softsign`, x / (1 + |x|).

# %%
import json

import numpy as np

import tvm
from tvm import relay, te, topi
from tvm.relay import op as reg

# %% [markdown]
# ## Write the computation
#
# The computation is a function from tensors to a tensor. You can test it separately.


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
# ## Register the operator
#
# The output has the type of the input. The pattern allows the compiler to fuse the operator with its producer and its
# consumer.

# %%
NAME = "tutorial.softsign"
record = reg.register(NAME, "x / (1 + |x|), element by element.")
record.set_num_inputs(1)
record.add_type_rel("Identity")
reg.register_pattern(NAME, reg.OpPattern.ELEMWISE)
reg.register_compute(NAME, lambda attrs, inputs, out_type: [softsign(inputs[0])])
reg.register_broadcast_schedule(NAME)

# %% [markdown]
# ## Use the operator in a graph
#
# Type inference, passes and fusion handle calls of the operator. The addition before it and the multiplication after
# it are fused into one kernel.

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
