# %% [markdown]
# # A first tensor program
#
# This tutorial adds two vectors, for users who are new to tensor expressions. You will print the loops of the
# program, change them with a schedule, and call the compiled function.
#
# A tensor program defines *what* is computed: a formula for each element of the output. A schedule defines *how*: the
# loops that compute it.

# %%
import numpy as np

import tvm
from tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")

# %% [markdown]
# `n` is a variable: the program is compiled once and accepts vectors of every length. `te.compute` takes the shape of
# the output and a function from an index to an element. Nothing is computed yet.
#
# The initial schedule of `C` is one loop for each axis. `tvm.lower` returns the loops.

# %%
s = te.create_schedule(C.op)
print(tvm.lower(s, [A, B, C], simple_mode=True))

# %% [markdown]
# ## Change the loops
#
# `split` divides the loop into blocks of 64 elements, `parallel` distributes the blocks over threads, and `vectorize`
# uses vector instructions inside a block. `n` may not be a multiple of 64, so that a condition guards every element.
# A guarded loop is not vectorized.

# %%
outer, inner = s[C].split(C.op.axis[0], factor=64)
s[C].parallel(outer)
s[C].vectorize(inner)
print(tvm.lower(s, [A, B, C], simple_mode=True))

# %% [markdown]
# If 64 divides the length, no guard is needed, and the inner loop becomes one operation on 64 lanes.


# %%
def added(length):
    """A schedule of the sum of two vectors of this length, and its tensors."""
    A = te.placeholder((length,), name="A")
    B = te.placeholder((length,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=64)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    return s, [A, B, C]


print(tvm.lower(*added(1024), simple_mode=True))

# %% [markdown]
# ## Build and call the function
#
# `tvm.build` generates machine code. The target `llvm` is the host CPU.

# %%
add = tvm.build(s, [A, B, C], target="llvm", name="add")
a = tvm.nd.array(np.random.rand(1000).astype("float32"))
b = tvm.nd.array(np.random.rand(1000).astype("float32"))
c = tvm.nd.empty((1000,))
add(a, b, c)
np.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
print(c.numpy()[:4], "=", a.numpy()[:4], "+", b.numpy()[:4])

# %% [markdown]
# The compiled function checks its arguments and reports errors.

# %%
try:
    add(a, b, tvm.nd.empty((999,)))
except tvm.TVMError as error:
    print(error)

# %% [markdown]
# ## Save the function
#
# A saved module can be loaded from Python or C, on a machine that has only the runtime.

# %%
add.export_library("add.so")
again = tvm.runtime.load_module("add.so")
again["add"](a, b, c)
np.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
print("the loaded module returns the same output")
