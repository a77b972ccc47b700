# %% [markdown]
# # A pass of your own
#
# A pass takes a module and gives another. Here are two: one on graphs, one on loops. {doc}`../howto_pass` says how a
# pass becomes part of the project.

# %%
import numpy as np

import tvm
from tvm import relay, te, tir
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard

# %% [markdown]
# ## On a graph: a pattern and what replaces it
#
# `x * sigmoid(x)` is to be computed as `x / (1 + exp(-x))`. The pattern names its parts; the callback gets what they
# matched.


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
# The graph before and after must compute the same:

# %%
data = np.array([-2.0, 0.0, 0.5, 30.0], "float32")


def run(module):
    return relay.create_executor("graph", mod=module, device=tvm.cpu(), target="llvm").evaluate()(data).numpy()


np.testing.assert_allclose(run(mod), run(simplify_swish(mod)), rtol=1e-5)

# %% [markdown]
# ## On loops
#
# A pass on `PrimFunc`s visits statements. This one counts what is stored, then unrolls every serial loop of at most
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
# As part of the lowering pipeline it is given in the context: `(phase, pass)`, where phase 0 sees tensors, phase 1
# flat memory, and phases 2 and 3 come after the loops were changed.

# %%
with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, unroll_small_loops)]}):
    double = tvm.build(s, [A, B], "llvm", name="double")
values, out = np.random.rand(8, 4).astype("float32"), tvm.nd.empty((8, 4))
double(tvm.nd.array(values), out)
np.testing.assert_allclose(out.numpy(), values * 2)

# %% [markdown]
# ## Watching passes
#
# `PassTimingInstrument` says what passes cost; `PrintIR` among them shows the module at that point, and the variable
# `TVM_DUMP=folder` writes it after each.

# %%
timing = tvm.ir.instrument.PassTimingInstrument()
with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
    relay.build(mod, target="llvm")
    profile = timing.render()
print("\n".join(line.split(":")[0] for line in profile.splitlines()[:8]))
