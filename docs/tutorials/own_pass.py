# %% [markdown]
# # Write a pass
#
# This tutorial writes a pass on graphs and a pass on loops, for users who transform programs. A pass takes a module
# and returns a module. {doc}`../howto_pass` shows how to add a pass to TVM Classic.

# %%
import numpy as np

import tvm
from tvm import relay, te, tir
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard

# %% [markdown]
# ## A graph pass: match a pattern and replace it
#
# This pass replaces `x * sigmoid(x)` by `x / (1 + exp(-x))`. The pattern names its parts, and the callback receives
# the expressions that match them.


# %%
class Swish(DFPatternCallback):
    def __init__(self):
        super().__init__()
        self.x = wildcard()
        self.pattern = is_op("multiply")(self.x, is_op("sigmoid")(self.x))

    def callback(self, pre, post, node_map):
        x = node_map[self.x][0]
        return x / (relay.const(1.0) + relay.exp(-x))


@relay.transform.function_pass(opt_level=1, name="SimplifySwish")
def simplify_swish(func, mod, ctx):
    return rewrite(Swish(), func)


x = relay.var("x", shape=(4,))
mod = tvm.IRModule.from_expr(relay.Function([x], x * relay.sigmoid(x) + relay.const(1.0)))
print(simplify_swish(mod))

# %% [markdown]
# Compare the outputs of the graph before and after the pass:

# %%
data = np.array([-2.0, 0.0, 0.5, 30.0], "float32")


def run(module):
    return relay.create_executor("graph", mod=module, device=tvm.cpu(), target="llvm").evaluate()(data).numpy()


np.testing.assert_allclose(run(mod), run(simplify_swish(mod)), rtol=1e-5)

# %% [markdown]
# ## A pass on loops
#
# A pass on a `PrimFunc` visits its statements. This pass counts the stores and unrolls every serial loop of at most
# four iterations.


# %%
@tir.transform.prim_func_pass(opt_level=0, name="UnrollSmallLoops")
def unroll_small_loops(func, mod, ctx):
    def mark(node):
        if node.kind == tir.ForKind.SERIAL and isinstance(node.extent, tir.IntImm) and node.extent.value <= 4:
            return tir.For(node.loop_var, node.min, node.extent, tir.ForKind.UNROLLED, node.body)
        return None

    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, mark, ["tir.For"]))


A = te.placeholder((8, 4), name="A")
B = te.compute((8, 4), lambda i, j: A[i, j] * 2.0, name="B")
s = te.create_schedule(B.op)
print(unroll_small_loops(tvm.lower(s, [A, B], simple_mode=True)))

# %% [markdown]
# The pass context adds the pass to the lowering pipeline as `(phase, pass)`. It runs after this phase: after phase 0
# buffers are multi-dimensional, after phase 1 they are flat, and after phase 2 loops are vectorized and memory is
# planned.

# %%
with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, unroll_small_loops)]}):
    double = tvm.build(s, [A, B], "llvm", name="double")
values, out = np.random.rand(8, 4).astype("float32"), tvm.nd.empty((8, 4))
double(tvm.nd.array(values), out)
np.testing.assert_allclose(out.numpy(), values * 2)

# %% [markdown]
# ## Inspect passes
#
# `PassTimingInstrument` measures the time of each pass. `PrintIR` in a sequence of passes prints the module at that
# point. The environment variable `TVM_DUMP=folder` writes the module after each pass.

# %%
timing = tvm.ir.instrument.PassTimingInstrument()
with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
    relay.build(mod, target="llvm")
    profile = timing.render()
print("\n".join(line.split(":")[0] for line in profile.splitlines()[:8]))
